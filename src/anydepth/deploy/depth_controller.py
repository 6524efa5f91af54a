"""Depth that follows the load: which form of a model answers the next batch, so that latency keeps a target."""

from collections import Counter, deque
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from math import ceil, exp, inf, isfinite, log
from typing import NamedTuple

from anydepth.errors import ConfigError

SAFE, LAST = 0.75, 0.9
"""Shares of the target: that a form may plan with, the rest is for what no plan foresees; and beyond which requests are
refused."""
PASS_SHARE = 0.4
"""Share of the target that one pass may take, since a request may wait for a whole pass before its own."""
BUSY, CALM = 0.9, 0.78
"""Shares of the time in passes: above the first a form is given up, below the second a deeper one may be taken."""
RATE_SECONDS = 2.0
"""Time over which arrivals are averaged."""
HOLD_SECONDS, LONGEST_HOLD, FORGIVEN_SECONDS = 0.5, 30.0, 60.0
"""How long there must be room for a deeper form before it is taken; doubled whenever that was a mistake, halved after a
minute without changes."""
TRIED = 500
"""One request in so many may be answered a level deeper, to learn how long that takes by now."""
_RATE, _SHARED, _MOST = 0.2, 0.8, 2.0
"""Of learning: how fast, how much of it other forms share, and the largest surprise (a logarithm)."""


@dataclass(frozen=True)
class Rung:
    """A form of a model: how good it is, and how long a pass takes: pass_ms + example_ms * examples, or least_ms."""

    name: str
    value: float
    """Accuracy on validation data, or whatever the forms are told apart by."""
    example_ms: float
    pass_ms: float = 0.0
    least_ms: float = 0.0
    """No pass is shorter; one example often takes as long as two."""

    def milliseconds(self, examples: int) -> float:
        return max(self.least_ms, self.pass_ms + self.example_ms * examples)


class Batch(NamedTuple):
    """Requests to be answered in one pass by one form."""

    form: str
    tickets: list[Hashable]
    examples: int


class _Waiting(NamedTuple):
    ticket: Hashable
    examples: int
    form: str | None
    since: float


class _Learnt:
    """What was measured: for every form the logarithm of measured to expected time.

    Most of what changes is the machine, so forms that were not measured follow the one that was by a share.
    """

    def __init__(self, forms: Iterable[str]):
        self.logs, self.spread = dict.fromkeys(forms, 0.0), 0.0

    def add(self, form: str, ratio: float) -> None:
        """`ratio` is of a measured time to the ladder's."""
        surprise = min(max(log(ratio) - self.logs[form], -_MOST), _MOST)
        self.spread += _RATE * (abs(surprise) - self.spread)
        for other in self.logs:
            self.logs[other] += _RATE * surprise * (1.0 if other == form else _SHARED)

    def mean(self, form: str) -> float:
        return exp(self.logs[form])

    def high(self, form: str) -> float:
        """With a margin for what varies."""
        return exp(self.logs[form] + self.spread)


class DepthController:
    """Holds what waits, and picks the form and the requests of the next pass.

    It knows neither clocks nor threads nor models: every call says what time it is, in seconds. One pass at a time.

        controller.arrived(now, ticket)      None, or after how many seconds to come back
        controller.next_batch(now)           form and tickets of the next pass, which begins now; None: nothing waits
        controller.finished(now, batch)      the pass is over

    The level follows the rate of arrivals. A form is given up when its passes would fill more than BUSY of the time;
    the deepest that can is taken. A deeper one comes back after there was room for it without a break; the time it
    takes doubles whenever it had to be given up soon. A clump of requests that the form of the level could not answer
    in time gets the deepest that can, for as long as it lasts, and the level stays. Since a form that seems too slow is
    not measured any more, one request in TRIED that finds the controller at rest tries the next deeper form. A request
    is refused only where even the cheapest form would be late, and never while nothing else is at work.

    Args:
        ladder: the forms; the order does not matter. Measured times correct theirs.
        p99_ms: what 99 of 100 requests should be answered within.
        max_batch: examples in one pass.
    """

    def __init__(self, ladder: Sequence[Rung], p99_ms: float, max_batch: int = 64):
        if not ladder or len({rung.name for rung in ladder}) < len(ladder):
            raise ConfigError(
                f"a ladder needs at least one form, and no name twice, got {[rung.name for rung in ladder]}"
            )
        for rung in ladder:
            is_finite = isfinite(rung.example_ms + rung.pass_ms + rung.least_ms)
            if not (is_finite and rung.example_ms > 0 and rung.pass_ms >= 0 and rung.least_ms >= 0):
                raise ConfigError(f"form {rung.name!r} needs finite times above 0, got {rung.example_ms} ms an example")
        if not (isfinite(p99_ms) and p99_ms > 0) or max_batch < 1:
            raise ConfigError(f"p99_ms and max_batch must be above 0, got {p99_ms} and {max_batch}")
        self.ladder = tuple(sorted(ladder, key=lambda rung: -rung.milliseconds(max_batch)))
        self.target, self.max_batch = p99_ms / 1000, max_batch
        self.level = 0
        """Place of the present form on the ladder, 0: the deepest."""
        self.changes = 0
        self._waiting: deque[_Waiting] = deque()
        self._examples: Counter[str | None] = Counter()
        self._running: tuple[float, Batch] | None = None
        self._learnt = _Learnt(rung.name for rung in self.ladder)
        self._places = {rung.name: place for place, rung in enumerate(self.ladder)}
        self._rate, self._rate_at = 0.0, 0.0
        self._holds = [HOLD_SECONDS] * len(self.ladder)
        self._room_since: float | None = None
        self._deeper_at = self._quiet_since = float("-inf")
        self._untried = 0

    @property
    def form(self) -> str:
        """What answers requests that do not name a form, but for clumps."""
        return self.ladder[self.level].name

    @property
    def waiting(self) -> int:
        """Requests that wait."""
        return len(self._waiting)

    @property
    def oldest(self) -> float | None:
        """When the request came that has waited longest."""
        return self._waiting[0].since if self._waiting else None

    def arrived(self, now: float, ticket: Hashable, examples: int = 1, form: str | None = None) -> float | None:
        """A request: None if it is taken, else after how many seconds it may come again; `form`: one it asks for."""
        if form is not None and form not in self._places:
            raise ConfigError(f"unknown form {form!r}; expected one of {', '.join(self._places)}")
        self._count(now, examples)
        self._untried += 1
        new = _Waiting(ticket, examples, form, now)
        if self._waiting or self._running:
            late = self._ahead(now) + self._end(len(self.ladder) - 1, new) - LAST * self.target
            if late > 0:
                return late
        self._waiting.append(new)
        self._examples[form] += examples
        return None

    def forget(self, ticket: Hashable) -> None:
        """A request that waits and need not be answered any more."""
        for each in self._waiting:
            if each.ticket == ticket:
                self._waiting.remove(each)
                self._examples[each.form] -= each.examples
                return

    def next_batch(self, now: float) -> Batch | None:
        """The oldest request and those that may share its pass, in the order they came."""
        if not self._waiting:
            return None
        self._move(now)
        asked = self._waiting[0].form
        place = self._in_time(now) if asked is None else self._places[asked]
        most, examples = self._capacity(place), 0
        taken: list[Hashable] = []
        left: deque[_Waiting] = deque()
        is_full = False
        for each in self._waiting:
            is_full = is_full or (each.form == asked and bool(taken) and examples + each.examples > most)
            if each.form == asked and not is_full:
                taken.append(each.ticket)
                examples += each.examples
            else:
                left.append(each)
        self._waiting = left
        self._examples[asked] -= examples
        batch = Batch(self.ladder[place].name, taken, examples)
        self._running = now, batch
        return batch

    def is_full(self) -> bool:
        """Whether as much waits as the next pass can take, so that there is nothing to wait for."""
        return self._examples.total() >= self._capacity(self.level)

    def finished(self, now: float, batch: Batch) -> None:
        """The pass that `next_batch` began is over."""
        assert self._running is not None
        began, self._running = self._running[0], None
        taken, place = max(now - began, 1e-9), self._places[batch.form]
        if place < self.level and taken < 0.7 * self.seconds(batch.form, batch.examples):
            self._untried = TRIED  # much faster than it seemed: again
        self._learnt.add(batch.form, 1000 * taken / self.ladder[place].milliseconds(batch.examples))

    def seconds(self, form: str, examples: int) -> float:
        """How long a pass is expected to take, with what was learnt and a margin."""
        rung = self.ladder[self._places[form]]
        return rung.milliseconds(examples) / 1000 * self._learnt.high(form)

    def rate(self, now: float) -> float:
        """Examples a second that came of late, refused ones too."""
        return self._rate * exp(-max(0.0, now - self._rate_at) / RATE_SECONDS)

    def _count(self, now: float, examples: int) -> None:
        self._rate, self._rate_at = self.rate(now) + examples / RATE_SECONDS, now

    def _capacity(self, place: int) -> int:
        """Examples of one pass."""
        rung = self.ladder[place]
        room = PASS_SHARE * self.target * 1000 / self._learnt.high(rung.name) - rung.pass_ms
        return max(1, min(self.max_batch, int(room / rung.example_ms)))

    def _busy(self, now: float, place: int) -> float:
        """The share of the time that passes of this form would take; infinite if a single one is late."""
        if self.seconds(self.ladder[place].name, 1) > SAFE * self.target:
            return inf
        most = self._capacity(place)
        mean = self.ladder[place].milliseconds(most) / 1000 * self._learnt.mean(self.ladder[place].name)
        return self.rate(now) * mean / most

    def _ahead(self, now: float) -> float:
        """What is left of the pass that runs."""
        if self._running is None:
            return 0.0
        began, batch = self._running
        return max(0.0, self.seconds(batch.form, batch.examples) - (now - began))

    def _end(self, place: int, new: _Waiting) -> float:
        """How long it takes to answer all that waits and a new request if this form answers what may choose."""
        free = self._examples[None] + (new.examples if new.form is None else 0)
        return self._asked(new) + self._passes(place, free)

    def _asked(self, new: _Waiting | None = None) -> float:
        """How long it takes to answer the requests that ask for forms."""
        asked = self._examples + Counter({} if new is None else {new.form: new.examples})
        return sum(self._passes(self._places[form], total) for form, total in asked.items() if form is not None)

    def _longest(self, now: float, place: int) -> float:
        """The longest time from arrival to answer of all that waits if this form answers what may choose."""
        longest = end = self._asked()
        if end:
            longest += now - self._waiting[0].since
        most, examples, first = self._capacity(place), 0, now
        for each in self._waiting:
            if each.form is not None:
                continue
            if examples and examples + each.examples > most:
                end += self.seconds(self.ladder[place].name, examples)
                longest, examples = max(longest, end + now - first), 0
            first = each.since if not examples else first
            examples += each.examples
        if examples:
            longest = max(longest, end + self.seconds(self.ladder[place].name, examples) + now - first)
        return longest

    def _passes(self, place: int, examples: int) -> float:
        most = self._capacity(place)
        return ceil(examples / most) * self.seconds(self.ladder[place].name, min(most, examples))

    def _in_time(self, now: float) -> int:
        """The deepest form, from the level on, with which all that waits is in time; else the cheapest."""
        if self.level and self._may_try(now, self.level - 1):
            self._untried = 0
            return self.level - 1
        last = len(self.ladder) - 1
        places = range(self.level, last)
        return next((place for place in places if self._longest(now, place) <= SAFE * self.target), last)

    def _may_try(self, now: float, place: int) -> bool:
        """Whether it is this request's turn, and hardly another would be late for it."""
        late = self.seconds(self.ladder[place].name, 1) - SAFE * self.target
        return self._untried >= TRIED and len(self._waiting) == 1 and self.rate(now) * late < 0.5

    def _move(self, now: float) -> None:
        """Down to the deepest form that can bear the load, or up to forms for which there was room long enough."""
        last = len(self.ladder) - 1
        bearing = next((place for place in range(self.level, last) if self._busy(now, place) <= BUSY), last)
        if bearing > self.level:
            if now - self._deeper_at < 10 * self._holds[self.level]:
                self._holds[self.level] = min(2 * self._holds[self.level], LONGEST_HOLD)
            self._take(now, bearing)
            self._room_since = None
        elif not (self.level and self._busy(now, self.level - 1) <= CALM):
            self._room_since = None
        elif self._room_since is None:
            self._room_since = now
        while self._room_since is not None and self._may_rise(now, self._room_since):
            self._room_since += self._holds[self.level - 1]
            self._take(now, self.level - 1)
            self._deeper_at = now
        if now - self._quiet_since > FORGIVEN_SECONDS:
            self._holds = [max(hold / 2, HOLD_SECONDS) for hold in self._holds]
            self._quiet_since = now

    def _may_rise(self, now: float, since: float) -> bool:
        """Whether there was room for the next deeper form since then, and that is long enough."""
        above = self.level - 1
        return above >= 0 and now - since >= self._holds[above] and self._busy(now, above) <= CALM

    def _take(self, now: float, level: int) -> None:
        self.level, self._quiet_since = level, now
        self.changes += 1
