"""What a server counts, in the text format of Prometheus."""

import threading
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping

BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Gauges:
    """Counts of requests by status, of passes by form, and a histogram of the time from request to answer."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._codes: Counter[int] = Counter()
        self._examples: Counter[str] = Counter()
        self._passes: Counter[str] = Counter()
        self._pass_seconds: Counter[str] = Counter()
        self._buckets = [0] * (len(BUCKETS) + 1)
        self._seconds = 0.0

    def answered(self, code: int, seconds: float) -> None:
        """A request of POST /predict; times are of those that got predictions."""
        with self._lock:
            self._codes[code] += 1
            if code == 200:
                self._buckets[bisect_left(BUCKETS, seconds)] += 1
                self._seconds += seconds

    def passed(self, form: str, examples: int, seconds: float) -> None:
        with self._lock:
            self._passes[form] += 1
            self._examples[form] += examples
            self._pass_seconds[form] += seconds  # pyright: ignore[reportArgumentType]

    def text(self, load: Mapping[str, float], form: str) -> str:
        """All of it, with what the controller sees."""
        with self._lock:
            return "\n".join(self._lines(load, form)) + "\n"

    def _lines(self, load: Mapping[str, float], form: str) -> Iterator[str]:
        yield from _metric("requests_total", "counter", "Requests by status.", self._codes, "code")
        yield from _metric("examples_total", "counter", "Examples answered by form.", self._examples, "form")
        yield from _metric("passes_total", "counter", "Passes by form.", self._passes, "form")
        yield from _metric("pass_seconds_total", "counter", "Time in passes by form.", self._pass_seconds, "form")
        yield from _metric("form", "gauge", "The form that answers now.", {form: 1}, "name")
        yield from _single("form_level", "gauge", "Its place on the ladder, 0: the deepest.", load["level"])
        yield from _single("form_changes_total", "counter", "Changes of the form.", load["changes"])
        yield from _single("waiting_requests", "gauge", "Requests that wait for a pass.", load["waiting"])
        yield from _single(
            "arrival_rate", "gauge", "Examples per second that arrived recently.", round(load["rate"], 3)
        )
        yield "# HELP anydepth_request_seconds Time from request to predictions."
        yield "# TYPE anydepth_request_seconds histogram"
        total = 0
        for end, count in zip((*BUCKETS, "+Inf"), self._buckets, strict=True):
            total += count
            yield f'anydepth_request_seconds_bucket{{le="{end}"}} {total}'
        yield f"anydepth_request_seconds_sum {self._seconds:.6f}"
        yield f"anydepth_request_seconds_count {total}"


def _metric(name: str, kind: str, told: str, values: Mapping[str, float] | Mapping[int, float], label: str):
    yield f"# HELP anydepth_{name} {told}"
    yield f"# TYPE anydepth_{name} {kind}"
    for key, value in sorted(values.items()):
        yield f'anydepth_{name}{{{label}="{key}"}} {round(value, 6)}'


def _single(name: str, kind: str, told: str, value: float) -> Iterator[str]:
    yield f"# HELP anydepth_{name} {told}"
    yield f"# TYPE anydepth_{name} {kind}"
    yield f"anydepth_{name} {value}"
