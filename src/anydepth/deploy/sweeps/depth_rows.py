"""Forms of a sweep whose depth is another for every example: anytime nets, each measured on what did not calibrate it.

The examples of the sweep are cut into two halves. A net that was calibrated on one half answers the other, so that
every example is answered once, and by a net that does not know it.
"""

from collections.abc import Callable, Sequence
from functools import cached_property
from statistics import median

import torch
from torch import Tensor, nn

from anydepth.data.table import Batch, like_inputs
from anydepth.deploy.anytime.anytime import Anytime, all_forms, cost_of, labels_of, outputs_on
from anydepth.deploy.anytime.policy import CONFIDENCE, Calibration, Policy, calibrated, check_bound, least_examples
from anydepth.deploy.sweeps.result import DepthRow, FormRow
from anydepth.errors import ConfigError, DataError
from anydepth.measure.answers import answer
from anydepth.measure.cost import interleaved
from anydepth.measure.evaluation import evaluating, fitting
from anydepth.measure.form_meter import FormMeter

TIMED = 16
"""Batches that are timed, since how long one takes depends on its examples."""
_SEED = 0
"""Of the cut into halves."""


class DepthRows:
    """Anytime nets of a meter's model, one for every drop that is allowed.

    Args:
        statistics: gives batches of training inputs for the running statistics of coarse forms; None: they keep those
            of the model.
    """

    def __init__(self, meter: FormMeter, statistics: Callable[[], Sequence[object]] | None):
        self.meter, self.statistics = meter, statistics

    def check(self, max_drop: float) -> None:
        """Refuse what cannot be measured."""
        check_bound(max_drop, CONFIDENCE)
        outputs = self.meter.source_outputs
        if self.meter.examples is None:
            raise DataError("a depth for every example is calibrated on data; sweep with data")
        if not self.meter.classes or any(out.dim() not in (1, 2) for out in outputs):
            raise ConfigError("a depth for every example needs a model that answers one class for each of them")
        count, least = sum(map(len, outputs)), 2 * least_examples(max_drop, CONFIDENCE)
        if count < least:
            raise DataError(
                f"one half of {count:,} examples cannot show a drop of at most {max_drop:g} points with confidence "
                f"{CONFIDENCE:g}; give at least {least:,} examples or a larger drop"
            )

    @cached_property
    def nets(self) -> dict[str, nn.Module]:
        return all_forms(self.meter.model, None, self.statistics() if self.statistics else None)

    @cached_property
    def examples(self) -> Sequence[Batch]:
        return self.meter.examples or ()

    @cached_property
    def outputs(self) -> list[Tensor]:
        """All forms' scores of all examples."""
        with self.meter.precision():
            return [outputs_on(net, self.examples) for net in self.nets.values()]

    @cached_property
    def halves(self) -> tuple[Tensor, Tensor]:
        order = torch.randperm(len(self.outputs[0]), generator=torch.Generator().manual_seed(_SEED))
        middle = len(order) // 2
        return order[:middle], order[middle:]

    @cached_property
    def costs(self) -> list[float]:
        return [cost_of(net) for net, _ in zip(self.nets.values(), self.outputs, strict=True)]

    def row(self, max_drop: float, source: FormRow) -> DepthRow:
        """With a drop of so many points."""
        check_bound(max_drop, CONFIDENCE)
        found = [self.calibrated(half, max_drop) for half in self.halves]
        answers, evaluations, stops = self.judged([calibration.policy for calibration in found])
        given, ratio = self._split(answers), self._ratio(found[0], self.halves[1])
        return DepthRow(
            basis=source.basis,
            size=source.size,
            max_drop=max_drop,
            confidence=CONFIDENCE,
            stops=stops,
            parameters=source.parameters,
            evaluations=evaluations,
            latency_ms=ratio * source.latency_ms,
            latency_ratio=ratio,
            value=self.meter.value(given),
            agreement=self.meter.agreement(given),
            paired=self.meter.paired(given),
        )

    def calibrated(self, half: Tensor, max_drop: float) -> Calibration:
        labels = labels_of(self.examples, self.outputs)
        outputs = [out[half] for out in self.outputs]
        return calibrated(outputs, self.costs, None if labels is None else labels[half], max_drop)

    def judged(self, policies: Sequence[Policy]) -> tuple[Tensor, float, dict[str, float]]:
        """The answer to every example, evaluations for one, and per cent of the examples that each form answered."""
        answers, spent = torch.empty_like(self.outputs[-1]), torch.empty(len(self.outputs[0]), dtype=torch.float64)
        places = torch.empty(len(answers), dtype=torch.int64)
        for policy, half in zip(policies, reversed(self.halves), strict=True):
            outputs = [out[half] for out in self.outputs]
            answers[half], spent[half] = policy.answers(outputs), policy.evaluations(outputs, self.costs)
            places[half] = torch.tensor(policy.forms)[policy.stops(outputs)]
        shares = (100 * places.bincount(minlength=len(self.nets)).double() / len(places)).tolist()
        stops = {name: share for name, share in zip(self.nets, shares, strict=True) if share}
        return answers, float(spent.mean()), stops

    def _split(self, answers: Tensor) -> list[Tensor]:
        """As the examples come in batches."""
        return list(answers.split([len(example.inputs[0]) for example in self.examples]))

    def _ratio(self, calibration: Calibration, half: Tensor) -> float:
        """Of the times of an anytime net and the source, in turns on the same batches of examples it does not know."""
        meter = self.meter
        size = len(meter.inputs[0])
        given = [fitting(meter.model, batch).inputs for batch in _batches(self.examples, half, size)]
        net = Anytime.of(self.nets, calibration, given[0], self.costs)
        plain = meter.plain(meter.model, given[0])[0]
        runs = {"net": _over(net, given), "source": _over(plain, given)}
        with evaluating(nn.ModuleList([net, plain])), meter.precision():
            seconds = interleaved(runs, meter.rounds)
        return median(mine / its for mine, its in zip(seconds["net"], seconds["source"], strict=True))


def _batches(examples: Sequence[Batch], places: Tensor, size: int) -> list[Batch]:
    """A few batches of some examples, each from one batch as it was read, so that shapes agree."""
    starts = torch.tensor([0, *(len(example.inputs[0]) for example in examples)]).cumsum(0)
    found: list[Batch] = []
    for example, start, end in zip(examples, starts[:-1].tolist(), starts[1:].tolist(), strict=True):
        mine = places[(places >= start) & (places < end)] - start
        for cut in mine.split(size):
            if len(cut) == size and len(found) < TIMED:
                found.append(Batch(like_inputs(example.inputs, [part[cut] for part in example.inputs]), torch.empty(0)))
    if found:
        return found
    first = examples[0]
    cut = torch.arange(size) % len(first.inputs[0])
    return [Batch(like_inputs(first.inputs, [part[cut] for part in first.inputs]), torch.empty(0))]


def _over(net: nn.Module, batches: Sequence[tuple[Tensor, ...]]) -> Callable[[], None]:
    def run() -> None:
        for inputs in batches:
            answer(net, inputs)

    return run
