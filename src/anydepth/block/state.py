"""Committing what a pass left: state is fitted onto its functions and stored wholly, or not at all."""

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor

from anydepth.block.passes import Outcome, Pass, Samples
from anydepth.depth.times import Instant
from anydepth.solve.tensors import in_precision, is_transformed
from anydepth.weights.protocol import Reading, WeightFunction


def commit(given: Pass, outcome: Outcome, stored: Callable[[str], Tensor]) -> None:
    """Store what fits the samples of accepted steps; counters advance once.

    State that no evaluation changed (a frozen normalisation layer) is left as it is, to the bit.
    """
    if not outcome.samples and not outcome.counters:
        return
    with torch.no_grad(), in_precision(given.device):
        changed = {n: s for n, s in outcome.samples.items() if not is_transformed() or not _is_same(s)}
        new = {name: _fitted(given, name, stored(name), samples) for name, samples in changed.items()}
        counters = {n: t for n, t in outcome.counters.items() if not is_transformed() or t != stored(n)}
        _write({**new, **counters}, stored)


def _fitted(given: Pass, name: str, stored: Tensor, samples: Samples) -> Tensor:
    """What to store for a state, worked out in at least float32."""
    part, wide = given.lifted[name], torch.promote_types(stored.dtype, torch.float32)
    reading = _reading(given, samples.instants, part.function)
    encoded = part.kind.encode(samples.after.to(stored.dtype).to(wide))
    fitted = reading.fit(stored.to(wide), encoded)
    return torch.where((samples.before == samples.after).all(), stored, fitted.to(stored.dtype))


def _is_same(samples: Samples) -> bool:
    """Asked under a transform only, where nothing may be stored, not even what is there already."""
    return bool((samples.before == samples.after).all())


def _reading(given: Pass, instants: Sequence[Instant], function: WeightFunction) -> Reading:
    plan = given.plan
    is_whole = plan is not None and len(instants) == plan.evaluations
    return plan.reading(function) if plan is not None and is_whole else function.reading(instants)


def _write(new: Mapping[str, Tensor], stored: Callable[[str], Tensor]) -> None:
    """One call of PyTorch for all tensors: an interrupt comes before it or after it."""
    targets = [stored(name) for name in new]
    if torch.compiler.is_compiling():
        for target, value in zip(targets, new.values(), strict=True):
            target.copy_(value)
    elif targets:
        torch._foreach_copy_(targets, list(new.values()))  # pyright: ignore[reportPrivateImportUsage]
