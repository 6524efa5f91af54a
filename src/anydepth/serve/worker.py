"""The one thread that runs passes: the controller says which requests share one, and at what depth."""

import threading
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from time import monotonic
from typing import Any, NamedTuple

import torch
from torch import Tensor

from anydepth.deploy.depth_controller import Batch, DepthController
from anydepth.deploy.predict import Entries, entries_of
from anydepth.deploy.predictor import Predictor
from anydepth.deploy.tags import tag
from anydepth.errors import NumericalError
from anydepth.serve.bodies import Asked, RequestError
from anydepth.serve.gauges import Gauges
from anydepth.serve.served_forms import Served, ServedForm


class Answer(NamedTuple):
    """Predictions, and who made them."""

    entries: Entries
    form: ServedForm


class RefusedError(Exception):
    """Even the cheapest form would be late, or the server is about to stop."""

    def __init__(self, seconds: float):
        super().__init__()
        self.seconds = seconds


@dataclass(eq=False)
class _Request:
    asked: Asked
    top: int
    answer: Future[Answer] = field(default_factory=Future)


class Worker:
    """Requests go in from any thread; answers come as futures.

    Args:
        batch_seconds: how long a request may wait for others to share its pass.
    """

    def __init__(self, served: Served, p99_ms: float, max_batch: int, batch_seconds: float, gauges: Gauges):
        self.forms = {form.name: form for form in served.forms}
        self.controller = DepthController([form.rung for form in served.forms], p99_ms, max_batch)
        self.gauges, self.batch_seconds = gauges, batch_seconds
        self._condition, self._is_stopping = threading.Condition(), False
        self._thread = threading.Thread(target=self._work, name="passes", daemon=True)
        self._thread.start()

    def submit(self, asked: Asked, form: str | None, top: int = 1) -> Future[Answer]:
        """A request; RefusedError if it would be late."""
        request = _Request(asked, top)
        with self._condition:
            now = monotonic()
            wait = 1.0 if self._is_stopping else self.controller.arrived(now, request, len(asked), form)
            if wait is not None:
                raise RefusedError(wait)
            self._condition.notify()
        request.answer.add_done_callback(lambda answer: self._forget(request) if answer.cancelled() else None)
        return request.answer

    def stop(self) -> None:
        """Answer what was accepted, then end."""
        with self._condition:
            self._is_stopping = True
            self._condition.notify()
        self._thread.join()

    def is_running(self) -> bool:
        """Whether requests are taken and passes are run."""
        return self._thread.is_alive() and not self._is_stopping

    def load(self) -> dict[str, float]:
        """What the controller sees."""
        with self._condition:
            controller = self.controller
            return {
                "level": controller.level,
                "waiting": controller.waiting,
                "changes": controller.changes,
                "rate": controller.rate(monotonic()),
            }

    def _forget(self, request: _Request) -> None:
        with self._condition:
            self.controller.forget(request)

    def _work(self) -> None:
        while (batch := self._next()) is not None:
            requests: list[Any] = [ticket for ticket in batch.tickets if ticket.answer.set_running_or_notify_cancel()]  # pyright: ignore[reportAttributeAccessIssue]
            form, began = self.forms[batch.form], monotonic()
            try:
                answers = answers_of(form.predictor, requests) if requests else []
            except Exception as error:
                answers = [error] * len(requests)
            with self._condition:
                ended = monotonic()
                self.controller.finished(ended, batch)
            self.gauges.passed(batch.form, batch.examples, ended - began)
            for request, found in zip(requests, answers, strict=True):
                if isinstance(found, Exception):
                    request.answer.set_exception(found)
                else:
                    request.answer.set_result(Answer(found, form))

    def _next(self) -> Batch | None:
        """The next batch, when it is full or its oldest request has waited long enough; None: it is over."""
        with self._condition:
            while True:
                oldest = self.controller.oldest
                if oldest is None:
                    if self._is_stopping:
                        return None
                    self._condition.wait()
                    continue
                left = oldest + self.batch_seconds - monotonic()
                if left <= 0 or self._is_stopping or self.controller.is_full():
                    return self.controller.next_batch(monotonic())
                self._condition.wait(left)


def answers_of(predictor: Predictor, requests: Sequence[_Request]) -> list[Entries | Exception]:
    """One pass for all requests; outputs that are not finite are the fault of their own request."""
    if predictor.facts.kind == "sentences":
        return _tagged(predictor, requests)
    outputs = predictor((torch.cat([_tensor(request.asked) for request in requests]),))
    parts = outputs.split([len(request.asked) for request in requests])
    return [_entries(part, predictor, request.top) for part, request in zip(parts, requests, strict=True)]


def _entries(outputs: Tensor, predictor: Predictor, top: int) -> Entries | Exception:
    if not torch.isfinite(outputs).all():
        return RequestError(422, "the model's outputs for these inputs are not finite; are the inputs as in training?")
    return entries_of(outputs, predictor.facts.labels, top)


def _tagged(predictor: Predictor, requests: Sequence[_Request]) -> list[Entries | Exception]:
    try:
        found = iter(tag(predictor, [sentence for request in requests for sentence in _texts(request.asked)]))
    except NumericalError as error:
        return [RequestError(422, str(error))] * len(requests)
    return [[next(found) for _ in request.asked] for request in requests]


def _tensor(asked: Asked) -> Tensor:
    assert isinstance(asked, Tensor)
    return asked


def _texts(asked: Asked) -> list[tuple[str, ...]]:
    assert isinstance(asked, list)
    return asked
