"""Predictions read off outputs: what counts, what is right, what changes from one solver or form to another."""

from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from math import isfinite

import torch
from torch import Tensor, nn

from anydepth.data.table import IGNORED, Batch, Keywords
from anydepth.errors import ConfigError, DataError, ShapeError
from anydepth.measure.agreement import wilson
from anydepth.measure.answers import margins, scores, shifts
from anydepth.measure.distance import relative_distance
from anydepth.solve.adaptive import Stats
from anydepth.surgery.blocks import blocks_of

LABELS = ("labels", "label", "targets")
"""What labels are called in batches by keyword."""
POINTS = 21
"""Of a distribution that is kept: its smallest value, every twentieth part, its largest."""


@dataclass(frozen=True)
class Share:
    """So many of so many."""

    successes: int
    count: int

    @property
    def percent(self) -> float:
        return 100 * self.successes / self.count

    @property
    def interval(self) -> tuple[float, float]:
        """Wilson's, of 95 %, in per cent."""
        low, high = wilson(self.successes, self.count)
        return 100 * low, 100 * high


@dataclass(frozen=True)
class Margin:
    """Margins of the predictions against the solver's error in the scores they rest on."""

    safe: float
    """Per cent of predictions whose margin exceeds the error, or that have no error: these cannot change."""
    margins: tuple[float, ...]
    """Quantiles, from the smallest to the largest, of the two highest scores' difference."""
    errors: tuple[float, ...]
    """Quantiles of the most that the difference of any two scores of one prediction is off."""


@dataclass(frozen=True)
class Reader:
    """Reads predictions off outputs, where the examples count."""

    examples: Sequence[Batch]
    classes: bool

    def same(self, before: Sequence[Tensor], after: Sequence[Tensor]) -> Share | None:
        """Predictions that are the same; None without classes, or where no position counts."""
        if not self.classes:
            return None
        equal = [_chosen(a) == _chosen(b) for a, b in zip(before, after, strict=True)]
        return _share([part[real] for part, real in zip(equal, self._real(before), strict=True)])

    def accuracy(self, outputs: Sequence[Tensor]) -> float | None:
        """Per cent right; None without labels."""
        if not self.classes or not self.has_labels:
            return None
        right = [_chosen(a) == _fit(b.targets, a) for a, b in zip(outputs, self.examples, strict=True)]
        share = _share([part[real] for part, real in zip(right, self._real(outputs), strict=True)])
        return None if share is None else share.percent

    def changed(self, before: Sequence[Tensor], after: Sequence[Tensor]) -> tuple[Share, Share] | None:
        """Predictions right before and wrong after, and the other way round; without labels `before` is right."""
        if not self.classes:
            return None
        truth = [
            _fit(b.targets, a) if self.has_labels else _chosen(a) for a, b in zip(before, self.examples, strict=True)
        ]
        was, now = ([_chosen(a) == t for a, t in zip(each, truth, strict=True)] for each in (before, after))
        kinds = ([w & ~n for w, n in zip(was, now, strict=True)], [n & ~w for w, n in zip(was, now, strict=True)])
        lost, gained = (_share([p[r] for p, r in zip(kind, self._real(before), strict=True)]) for kind in kinds)
        return None if lost is None or gained is None else (lost, gained)

    def margin(self, before: Sequence[Tensor], after: Sequence[Tensor]) -> Margin | None:
        """Margins of `before`, and how much of them the change to `after` takes."""
        if not self.classes:
            return None
        real = self._real(before)
        ahead = torch.cat([margins(a)[r] for a, r in zip(before, real, strict=True)])
        moved = torch.cat([shifts(a, b)[r] for a, b, r in zip(before, after, real, strict=True)])
        if not len(ahead):
            return None
        safe = (moved < ahead) | (moved == 0)
        return Margin(float(100 * safe.double().mean()), _quantiles(ahead), _quantiles(moved))

    def count(self, outputs: Sequence[Tensor]) -> int:
        """Predictions that count; numbers, if there are no classes."""
        if not self.classes:
            return sum(out.numel() for out in outputs)
        return sum(int(real.sum()) for real in self._real(outputs))

    def voices(self, outputs: Sequence[Tensor]) -> int:
        """Examples that have a prediction that counts."""
        return sum(int(real.reshape(len(real), -1).any(-1).sum()) for real in self._real(outputs))

    def kinds(self, outputs: Sequence[Tensor]) -> int:
        """How many different classes are predicted."""
        return len(torch.cat([_chosen(a)[r] for a, r in zip(outputs, self._real(outputs), strict=True)]).unique())

    @property
    def has_labels(self) -> bool:
        return all(example.targets.numel() for example in self.examples)

    def _real(self, outputs: Sequence[Tensor]) -> list[Tensor]:
        """Which predictions count: all but those whose label says that they do not."""
        if not self.has_labels:
            return [torch.ones_like(_chosen(out), dtype=torch.bool) for out in outputs]
        return [_fit(batch.targets, out) != IGNORED for batch, out in zip(self.examples, outputs, strict=True)]


def is_finite(outputs: Sequence[Tensor]) -> bool:
    return all(bool(out.isfinite().all()) for out in outputs)


def gap(before: Sequence[Tensor], after: Sequence[Tensor]) -> float | None:
    """The relative distance; None where it is not finite."""
    found = relative_distance(before, after)
    return found if isfinite(found) else None


def _chosen(outputs: Tensor) -> Tensor:
    return scores(outputs).argmax(-1)


def _fit(labels: Tensor, outputs: Tensor) -> Tensor:
    """Labels in the shape of the predictions."""
    shape = scores(outputs).shape[:-1]
    if labels.numel() != shape.numel():
        raise ShapeError(
            f"labels of shape {list(labels.shape)} do not fit outputs of shape {list(outputs.shape)}, whose last axis "
            f"is the classes: expected labels of shape {list(shape)}; if outputs are no classes, give classes=False"
        )
    return labels.reshape(shape).cpu()


def _share(parts: Sequence[Tensor]) -> Share | None:
    count = sum(part.numel() for part in parts)
    return Share(sum(int(part.sum()) for part in parts), count) if count else None


def _quantiles(values: Tensor) -> tuple[float, ...]:
    ordered = values.double().sort().values
    places = torch.linspace(0, len(ordered) - 1, POINTS).round().long()
    return tuple(ordered[places].tolist())


# Examples, and a model without its blocks


def examples_of(batches: Iterable[object]) -> list[Batch]:
    """All batches that hold anything."""
    if isinstance(batches, (tuple, list)) and _is_pair(batches):
        raise ConfigError(
            "batches must be a list of batches, got a pair of tensors; "
            "if they are inputs and labels, wrap the pair: [(x, labels)]; two batches of inputs: [x1, x2]"
        )
    given = [example_of(batch) for batch in ([batches] if isinstance(batches, (Tensor, Mapping)) else batches)]
    examples = [example for example in given if any(part.numel() for part in example.inputs)]
    if not examples:
        raise DataError(f"no batches {'but empty ones ' if given else ''}were given; a verdict needs some inputs")
    return examples


def _is_pair(given: tuple | list) -> bool:
    """Whether two tensors look like inputs and labels: a tuple, or of different kinds."""
    if len(given) != 2 or not all(isinstance(part, Tensor) for part in given):
        return False
    a, b = given
    return isinstance(given, tuple) or a.dim() != b.dim() or a.is_floating_point() != b.is_floating_point()


def example_of(batch: object) -> Batch:
    if isinstance(batch, Batch):
        return batch
    if isinstance(batch, Tensor):
        return Batch((batch,), torch.empty(0))
    if isinstance(batch, Mapping):
        return _by_keyword(batch)
    if isinstance(batch, (tuple, list)) and len(batch) in (1, 2):
        inputs, labels = batch if len(batch) == 2 else (batch[0], None)
        inputs = tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)
        labels = torch.empty(0) if labels is None else labels
        if isinstance(labels, Tensor) and all(isinstance(part, Tensor) for part in inputs):
            return Batch(inputs, labels)
    raise ConfigError(
        "a batch must be inputs, a pair of inputs and labels, or a dict of them by keyword, all tensors, "
        f"got {type(batch).__name__}"
    )


def _by_keyword(batch: Mapping[str, object]) -> Batch:
    """Inputs by keyword, and labels if there are any."""
    given = {name: value for name, value in batch.items() if value is not None}
    tensors = {name: value for name, value in given.items() if isinstance(value, Tensor)}
    wrong = next((name for name in given if name not in tensors), None)
    if wrong is not None:
        got = type(given[wrong]).__name__
        raise ConfigError(f"a batch must hold tensors, got {got} for {wrong!r}; leave it out or make it a tensor")
    labels = next((tensors.pop(name) for name in LABELS if name in tensors), torch.empty(0))
    if not tensors:
        raise ConfigError("a batch by keyword holds labels and no inputs")
    return Batch(Keywords.of(tensors), labels)


def without_blocks(model: nn.Module) -> nn.Module:
    """A copy in which every block hands on what it gets, to see whether the blocks do the work."""
    bare = deepcopy(model)
    for block in blocks_of(bare).values():
        block.forward = _hand_on  # pyright: ignore[reportAttributeAccessIssue]
        block.stats = Stats()
    return bare


def _hand_on(x: object, *args: object, **kwargs: object) -> object:
    return x
