"""A net that answers as soon as it is sure: a coarse form first, finer ones only for the examples that need them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf

import torch
from torch import Tensor, nn

from anydepth.data.table import IGNORED, Batch, Keywords, like_inputs
from anydepth.deploy.anytime.policy import CONFIDENCE, Calibration, calibrated, check_bound
from anydepth.deploy.anytime.rungs import FormLike, evaluations_of, in_way, ways_of
from anydepth.deploy.anytime.stem import split_stem
from anydepth.deploy.sweeps.sweep_inputs import plain_form
from anydepth.errors import ConfigError, DataError, NumericalError, ShapeError
from anydepth.measure.answers import answer, outputs_of, scores
from anydepth.measure.evaluation import evaluating, fitting, nfe_of
from anydepth.measure.predictions import examples_of
from anydepth.printing import text_table
from anydepth.surgery.blocks import blocks_in


@dataclass
class Spent:
    """What the last call took."""

    evaluations: Tensor = field(default_factory=lambda: torch.zeros(0, dtype=torch.int64))
    """For every example, those of all its passes."""
    stops: Tensor = field(default_factory=lambda: torch.zeros(0, dtype=torch.int64))
    """For every example, the form that answered it, by its place."""


class Anytime(nn.Module):
    """The model's answers at a fraction of its evaluations, with a bound on what that costs.

    A coarse form of the same weights is asked first. Where the risk that the model's own form (the finest) would have
    answered better is small enough, its answer is taken; the other examples go on to the next form, as a smaller batch.
    What "small enough" is, is found on calibration examples so that the drop is at most `max_drop` points with a given
    confidence: `guarantee` says exactly what is kept. An example's answer does not depend on the others in its batch.

    Args:
        model: any classifier with continuous blocks; it is copied.
        batches: calibration examples that neither trained the model nor will judge it: pairs of inputs and labels.
            Without labels the bound is on answers other than the finest form's.
        max_drop: points of accuracy.
        forms: coarse forms in turn, such as ["euler x 1", "midpoint x 2"]; by default at most two, chosen.
        confidence: in the bound, over the draw of the calibration examples.
        statistics: batches of training inputs from which the running statistics of every coarse form are estimated
            afresh, since a coarse form makes other activations than the model was trained on.
        seed: of the split into examples that fit and examples that test.
    """

    def __init__(
        self,
        model: nn.Module,
        batches: Iterable[object],
        max_drop: float = 0.5,
        forms: Sequence[FormLike] | None = None,
        *,
        confidence: float = CONFIDENCE,
        statistics: Iterable[object] | None = None,
        seed: int = 0,
    ):
        super().__init__()
        check_bound(max_drop, confidence)
        if batches is None:
            raise DataError("an anytime net needs batches to calibrate on, with examples that did not train the model")
        examples, given = examples_of(batches), None if statistics is None else list(statistics)
        nets = all_forms(model, forms, given)
        outputs = [outputs_on(net, examples) for net in nets.values()]
        if not bool(outputs[-1].isfinite().all()):
            raise NumericalError("the model's outputs are not finite; run it with a finer or a more stable solver")
        costs = [cost_of(net) for net in nets.values()]
        found = calibrated(
            outputs, costs, labels_of(examples, outputs), max_drop, confidence, forms is not None, seed=seed
        )
        self._settle(list(nets.items()), costs, found, examples[0].inputs)

    @classmethod
    def of(
        cls,
        forms: Mapping[str, nn.Module],
        calibration: Calibration,
        inputs: tuple[Tensor, ...],
        costs: Sequence[float] | None = None,
    ) -> "Anytime":
        """From forms that are at hand, the finest last, and what was found for them before.

        Args:
            costs: evaluations of every form; by default what their blocks take.
        """
        made = cls.__new__(cls)
        nn.Module.__init__(made)
        told = [cost_of(net) for net in forms.values()] if costs is None else list(costs)
        made._settle(list(forms.items()), told, calibration, inputs)
        return made

    def _settle(
        self, forms: list[tuple[str, nn.Module]], costs: list[float], found: Calibration, inputs: tuple[Tensor, ...]
    ) -> None:
        """Keep the forms that the policy uses, as plain networks where there are any."""
        self.calibration, self.policy, self.spent = found, found.policy, Spent()
        chosen = [forms[place] for place in found.policy.forms]
        self.names = tuple(name for name, _ in chosen)
        self.costs = tuple(int(costs[place]) for place in found.policy.forms)
        self.sources = dict(chosen)
        self._is_fixed = tuple(evaluations_of(net) is not None for _, net in chosen)
        self._arguments = len(inputs)
        self._take(nn.ModuleList(plain_form(net, inputs)[0] for _, net in chosen), inputs)
        self.eval()

    def _take(self, forms: nn.ModuleList, inputs: tuple[Tensor, ...]) -> None:
        """What all forms compute alike goes into a stem, which is run once."""
        split = split_stem(list(forms), inputs)
        self.stem = None if split is None else split[0]
        self.forms = forms if split is None else nn.ModuleList(split[1])

    def train(self, mode: bool = True) -> "Anytime":
        """An anytime net is for answers alone, and stays in eval mode."""
        return super().train(False)

    @property
    def guarantee(self) -> str:
        """What is promised, in words."""
        return self.calibration.guarantee

    @torch.no_grad()
    def forward(self, *inputs: Tensor, **named: Tensor) -> Tensor:
        """Scores (examples, classes); `spent` then holds the evaluations of every example."""
        if inputs and named:
            raise ShapeError("give an anytime net all its inputs in order, or all by keyword")
        given = Keywords.of(named) if named else inputs
        if len(given) != self._arguments:
            raise ShapeError(f"this anytime net was calibrated with {self._arguments} inputs, got {len(given)}")
        count = len(given[0])
        spent = torch.zeros(count, dtype=torch.int64)
        stops = torch.full((count,), len(self.forms) - 1)
        places, before, answers = torch.arange(count), None, None
        first = len(self.forms) - 1 if self.policy.threshold == -inf or not count else 0
        given = given if self.stem is None else outputs_of(self.stem, given)
        for place in range(first, len(self.forms)):
            now = answer(self.forms[place], given)
            if now.dim() not in (1, 2) or len(now) != len(places):
                raise ShapeError(f"an anytime net needs scores (examples, classes), got {tuple(now.shape)}")
            answers = now.new_empty(count, *now.shape[1:]) if answers is None else answers
            spent[places] += self._evaluations(place, len(places))
            if place == len(self.forms) - 1:
                answers[places.to(now.device)] = now
                break
            sure = self.policy.sure(place, now.cpu(), None if before is None else before.cpu())
            answers[places[sure].to(now.device)] = now[sure.to(now.device)]
            stops[places[sure]] = place
            left = (~sure).nonzero().squeeze(1)
            if not len(left):
                break
            places, there = places[left], left.to(now.device)
            given, before = like_inputs(given, [part[there] for part in given]), now[there]
        self.spent = Spent(spent, stops)
        assert answers is not None
        return answers

    def _evaluations(self, place: int, count: int) -> int | Tensor:
        """Of a pass that was just made; adaptive schemes choose their steps anew every time, some for each example."""
        if self._is_fixed[place]:
            return self.costs[place]
        blocks = blocks_in(self.forms[place]).values()
        each = [None if block.stats.examples is None else block.stats.examples.evaluations for block in blocks]
        if any(part is not None and len(part) != count for part in each):
            return nfe_of(self.forms[place])
        return sum(
            (block.nfe if part is None else part for block, part in zip(blocks, each, strict=True)),
            start=torch.zeros(count, dtype=torch.int64),
        )

    def describe(self) -> dict[str, object]:
        """JSON values."""
        found = self.calibration
        return {
            "forms": [{"form": n, "evaluations": c} for n, c in zip(self.names, self.costs, strict=True)],
            "threshold": None if self.policy.threshold == -inf else self.policy.threshold,
            "max_drop": found.max_drop,
            "confidence": found.confidence,
            "tested": found.tested,
            "lost": found.lost,
            "guarantee": self.guarantee,
        }

    def __str__(self) -> str:
        if self.policy.threshold == -inf:
            return f"only the model's own form answers, since no threshold keeps the bound; {self.guarantee}"
        rows = list(zip(self.names, map(str, self.costs), strict=True))
        return f"{text_table(('form', 'evaluations'), rows)}\n{self.guarantee}"

    __repr__ = __str__


def all_forms(
    model: nn.Module, forms: Sequence[FormLike] | None, statistics: Sequence[object] | None
) -> dict[str, nn.Module]:
    """Coarse forms by name, in turn, then the model itself, which is not copied."""
    found = {str(way): in_way(model, way, statistics) for way in ways_of(model, forms)}
    own = "as trained"
    if not found:
        raise ConfigError(
            "no coarse form takes clearly fewer evaluations than this model; it has too few steps for an anytime net"
        )
    order = found.items() if forms is not None else sorted(found.items(), key=lambda pair: cost_of(pair[1]))
    return {**dict(order), own: model}


def outputs_on(net: nn.Module, examples: Sequence[Batch]) -> Tensor:
    """The scores of all examples, on the CPU."""
    with evaluating(net):
        parts = [answer(net, fitting(net, example).inputs).cpu() for example in examples]
    if any(part.dim() not in (1, 2) for part in parts):
        raise ConfigError(
            f"an anytime net needs one prediction for each example, scores (examples, classes), got "
            f"{tuple(parts[0].shape)}; words of sentences and numbers have no single answer to stop at"
        )
    return torch.cat(parts)


def labels_of(examples: Sequence[Batch], outputs: Sequence[Tensor]) -> Tensor | None:
    """One for every example; None where there are none."""
    if not all(example.targets.numel() for example in examples):
        return None
    found = torch.cat([example.targets.reshape(-1) for example in examples]).cpu()
    if found.is_floating_point():
        raise ConfigError("an anytime net needs classes as labels, whole numbers; numbers have no answer to be sure of")
    if len(found) != len(outputs[0]):
        raise ShapeError(
            f"{len(found)} labels do not fit {len(outputs[0])} predictions; give one label for each example"
        )
    if bool((found == IGNORED).any()):
        raise DataError("some calibration examples have no label; leave them out")
    classes = scores(outputs[0]).shape[-1]
    if int(found.min()) < 0 or int(found.max()) >= classes:
        raise ConfigError(f"labels are {int(found.min())} to {int(found.max())}, but there are {classes} classes")
    return found


def cost_of(net: nn.Module) -> float:
    """Evaluations of a pass; of adaptive schemes, those of the last one."""
    told = evaluations_of(net)
    return float(nfe_of(net) if told is None else told)
