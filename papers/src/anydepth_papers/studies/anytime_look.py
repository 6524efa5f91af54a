"""What the study of anytime nets sees of one net: all forms' scores once, then policies on them, and times."""

from collections.abc import Callable, Mapping, Sequence
from functools import cache, cached_property
from statistics import median
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from anydepth.data.source import Part
from anydepth.data.table import Batch
from anydepth.deploy.anytime.anytime import Anytime, all_forms, labels_of, outputs_on
from anydepth.deploy.anytime.policy import Calibration, calibrated, lost_of
from anydepth.deploy.recalibrate import training_batches
from anydepth.deploy.sweeps.sweep import threads_set_to
from anydepth.deploy.sweeps.sweep_inputs import plain_form
from anydepth.measure.cost import interleaved
from anydepth.measure.evaluation import batches_of, evaluating, fitting
from anydepth.runs.folder import Run
from anydepth.surgery.summary import summary
from anydepth.zoo.units.preact_conv import PreactConv
from anydepth_papers.judge.study import Study

RULES = {"risk": False, "largest probability": True}
"""How sure a form is: by fitted risks, or by the largest probability."""


class Scored:
    """All forms' scores on one part of the data, and its labels."""

    def __init__(self, nets: Mapping[str, nn.Module], batches: Sequence[Batch]):
        self.outputs = [outputs_on(net, batches) for net in nets.values()]
        self.labels = labels_of(batches, self.outputs)


class Seen:
    """The forms of a net, the finest last, with their scores on the validation and the test part."""

    def __init__(self, study: Study, run: Run, nets: Mapping[str, nn.Module], costs: Sequence[int]):
        self.run, self.data, self.settings = run, run.dataset(study.data), study.settings
        self.nets, self.costs = dict(nets), list(costs)

    @cached_property
    def validation(self) -> Scored:
        return self._scored("validation", 0)

    @cached_property
    def test(self) -> Scored:
        return self._scored("test", 1)

    def _scored(self, part: Part, place: int) -> Scored:
        count = self.settings["images"][self.run.config.data.name][place]
        return Scored(self.nets, list(batches_of(self.data.part(part).some(count), self.run.facts, 500)))

    @property
    def timed(self) -> list[Batch]:
        """The first batches of the test part."""
        table = self.data.part("test")
        return [table.batch(np.arange(i, i + n), self.run.facts) for i, n in _cuts(len(table), self.settings)]

    def calibrated(self, plain: bool) -> Calibration:
        """On the validation part."""
        return self.calibration(self.validation.outputs, self.validation.labels, 0, plain)

    def calibration(self, outputs: Sequence[Tensor], labels: Tensor | None, seed: int, plain: bool) -> Calibration:
        bound = self.settings["max_drop"], self.settings["confidence"]
        return calibrated(outputs, self.costs, labels, *bound, is_given=len(self.costs) == 2, plain=plain, seed=seed)


def _cuts(count: int, settings: Mapping[str, Any]) -> list[tuple[int, int]]:
    size = settings["batch"]
    return [(i * size, size) for i in range(min(settings["timed"], count // size))]


def seen_forms(study: Study, run: Run) -> Seen:
    """A continuous net: coarse forms with running statistics of their own."""
    model = run.model()
    batches = training_batches(run, study.data)[: study.settings["statistics"]]
    nets = all_forms(model, None, batches)
    return Seen(study, run, nets, [summary(net).nfe for net in nets.values()])


def seen_cascade(study: Study, small: Run, large: Run) -> Seen:
    """Two separate nets; a residual unit counts as one evaluation."""
    nets = {"small": small.model(), "large": large.model()}
    units = [sum(isinstance(part, PreactConv) for part in net.modules()) for net in nets.values()]
    return Seen(study, large, nets, units)


def looked_at(study: Study, name: str, look: Callable[[], Seen]) -> dict[str, Any]:
    """Two pieces: what answers and evaluations tell, and, since that wants a quiet machine, times."""
    seen = cache(look)
    found = study.piece(name, lambda: _figures(seen()))
    return found | {"time": study.piece(f"{name}-time", lambda: _timed(seen()))}


def _figures(seen: Seen) -> dict[str, Any]:
    """Validation calibrates and test judges; then random halves of the test images do both."""
    found: dict[str, Any] = {"forms": _forms(seen)}
    for rule, plain in RULES.items():
        calibration = seen.calibrated(plain)
        found[rule] = _judged(seen, calibration, seen.test.outputs, seen.test.labels)
        found[rule]["guarantee"] = calibration.guarantee
    return found | {"halves": _halves(seen)}


def _forms(seen: Seen) -> list[dict[str, Any]]:
    """Every form alone."""
    parts = {"validation": seen.validation, "test": seen.test}
    return [
        {"form": name, "evaluations": cost}
        | {f"{part}_accuracy": _accuracy(scored.outputs[i], scored.labels) for part, scored in parts.items()}
        for i, (name, cost) in enumerate(zip(seen.nets, seen.costs, strict=True))
    ]


def _accuracy(outputs: Tensor, labels: Tensor | None) -> float:
    assert labels is not None
    return 100 * float((outputs.argmax(-1) == labels).double().mean())


def _judged(seen: Seen, calibration: Calibration, outputs: Sequence[Tensor], labels: Tensor | None) -> dict[str, Any]:
    """A policy on examples that did not calibrate it."""
    policy = calibration.policy
    answers = policy.answers(outputs)
    evaluations = float(policy.evaluations(outputs, seen.costs).mean())
    stops = policy.stops(outputs).bincount(minlength=len(policy.forms)).double() / len(answers)
    names = list(seen.nets)
    return {
        "forms": [names[form] for form in policy.forms],
        "stops": stops.tolist(),
        "accuracy": _accuracy(answers, labels),
        "drop": _accuracy(outputs[-1], labels) - _accuracy(answers, labels),
        "lost": 100 * float(lost_of(answers, outputs[-1], labels).double().mean()),
        "evaluations": evaluations,
        "share": evaluations / seen.costs[-1],
    }


def _halves(seen: Seen) -> list[dict[str, Any]]:
    """Of many random cuts of the test images into two halves: one calibrates, the other judges."""
    labels, found = seen.test.labels, []
    assert labels is not None
    for seed in range(seen.settings["halves"]):
        order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(seed))
        mine, its = order[: len(order) // 2], order[len(order) // 2 :]
        outputs = [[out[part] for out in seen.test.outputs] for part in (mine, its)]
        row: dict[str, Any] = {}
        for rule, plain in RULES.items():
            calibration = seen.calibration(outputs[0], labels[mine], seed, plain)
            row[rule] = _judged(seen, calibration, outputs[1], labels[its])
        row["fixed"] = _fixed(seen, outputs, (labels[mine], labels[its]), row["risk"]["evaluations"])
        found.append(row)
    return found


def _fixed(
    seen: Seen, outputs: Sequence[Sequence[Tensor]], labels: tuple[Tensor, Tensor], budget: float
) -> dict[str, Any] | None:
    """The form within a number of evaluations that is best on one half, on the other half."""
    places = [i for i, cost in enumerate(seen.costs) if cost <= budget]
    if not places:
        return None
    best = max(places, key=lambda i: _accuracy(outputs[0][i], labels[0]))
    return {"form": list(seen.nets)[best], "accuracy": _accuracy(outputs[1][best], labels[1])}


def _timed(seen: Seen) -> dict[str, float]:
    """Seconds for batches of test images by the fitted risks, in turns with the finest form, both frozen."""
    batches = seen.timed
    net = Anytime.of(seen.nets, seen.calibrated(plain=False), batches[0].inputs, seen.costs)
    finest = plain_form(list(seen.nets.values())[-1], batches[0].inputs)[0]
    given = [fitting(net, batch) for batch in batches]
    with threads_set_to(1), evaluating(net), evaluating(finest):
        runs = {name: _over(module, given) for name, module in (("anytime", net), ("finest", finest))}
        seconds = interleaved(runs, seen.settings["rounds"])
    ratios = [mine / its for mine, its in zip(seconds["anytime"], seconds["finest"], strict=True)]
    images = sum(len(batch.inputs[0]) for batch in given)
    per_image = {name: 1e3 * min(found) / images for name, found in seconds.items()}
    return {"ratio": median(ratios), "of_minima": per_image["anytime"] / per_image["finest"], **per_image}


def _over(module: nn.Module, batches: Sequence[Batch]) -> Callable[[], None]:
    def run() -> None:
        for batch in batches:
            module(*batch.inputs)

    return run
