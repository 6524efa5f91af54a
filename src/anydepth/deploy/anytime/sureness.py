"""How likely the finest form would have answered better, read off the scores of a coarser form.

A logistic regression on what a coarse pass tells: how far its first choice is ahead of its second, how even its
probabilities are, and, from the second form on, how far scores moved since the form before and whether the first choice
changed. The guarantee does not rest on this model being right; only the savings do.
"""

from dataclasses import dataclass
from math import inf

import torch
from torch import Tensor

from anydepth.measure.answers import margins, scores, shifts

_RIDGE = 1e-2
"""Penalty on the squared weights of standardised signs, per example of one: keeps separable data finite."""
_ROUNDS = 25
"""Of Newton's method."""
_TINY = 1e-6


def signs(now: Tensor, before: Tensor | None = None) -> Tensor:
    """What the scores of a form, and of the form before it, tell about each example: (examples, signs), float64."""
    given = scores(now).double()
    logs = given.log_softmax(-1)
    ahead = margins(given)
    entropy = -(logs.exp() * logs).sum(-1)
    found = [ahead, torch.log(entropy + _TINY), torch.log(-logs.amax(-1) + _TINY)]
    if before is not None:
        earlier = scores(before).double()
        moved = shifts(earlier, given)
        changed = (earlier.argmax(-1) != given.argmax(-1)).double()
        found += [
            torch.log(moved + _TINY),
            torch.log(moved + _TINY) - torch.log(ahead + _TINY),
            changed,
            margins(earlier),
        ]
    return torch.stack(found, -1)


@dataclass(frozen=True)
class Sureness:
    """The risk of stopping at one form: sigmoid(bias + weights . (signs - mean) / spread)."""

    mean: tuple[float, ...]
    spread: tuple[float, ...]
    weights: tuple[float, ...]
    bias: float

    def risk(self, now: Tensor, before: Tensor | None = None) -> Tensor:
        """For every example, from 0 (sure) to 1, in float64; infinite where scores are not finite."""
        found = signs(now, before)
        mean, spread, weights = (found.new_tensor(part) for part in (self.mean, self.spread, self.weights))
        return torch.sigmoid(((found - mean) / spread) @ weights + self.bias).nan_to_num(nan=inf)


@dataclass(frozen=True)
class Largest:
    """The plain rule: one minus the largest probability."""

    def risk(self, now: Tensor, before: Tensor | None = None) -> Tensor:
        return (1 - scores(now).double().softmax(-1).amax(-1)).nan_to_num(nan=inf)


Score = Sureness | Largest


def fitted(now: Tensor, before: Tensor | None, worse: Tensor) -> Sureness:
    """From examples, and whether stopping at this form would be worse for each."""
    found = signs(now, before)
    finite = found.isfinite().all(-1)
    found, worse = found[finite], worse[finite]
    if len(found) < 2:
        return Sureness((0.0,) * found.shape[1], (1.0,) * found.shape[1], (0.0,) * found.shape[1], 0.0)
    mean, spread = found.mean(0), found.std(0).clamp_min(_TINY)
    design = torch.cat([torch.ones(len(found), 1, dtype=torch.float64), (found - mean) / spread], 1)
    weights = _newton(design, worse.double())
    kept = [tuple(part.tolist()) for part in (mean, spread, weights[1:])]
    return Sureness(kept[0], kept[1], kept[2], float(weights[0]))


def _newton(design: Tensor, target: Tensor) -> Tensor:
    """Weights of the penalised logistic regression; the bias is not penalised.

    One example of each kind is added, with all signs at their means, so that the bias stays finite.
    """
    middle = torch.zeros(2, design.shape[1], dtype=torch.float64)
    middle[:, 0] = 1
    design, target = torch.cat([design, middle]), torch.cat([target, target.new_tensor([0.0, 1.0])])
    penalty = torch.full((design.shape[1],), _RIDGE * len(design), dtype=torch.float64)
    penalty[0] = 0
    share = float(target.mean())
    weights = torch.zeros(design.shape[1], dtype=torch.float64)
    weights[0] = torch.logit(torch.tensor(share, dtype=torch.float64))
    scale = max(share * (1 - share), _TINY)
    for _ in range(_ROUNDS):
        chance = torch.sigmoid(design @ weights)
        slope = design.T @ (chance - target) + scale * penalty * weights
        bend = (design.T * (chance * (1 - chance))) @ design + scale * torch.diag(penalty)
        step = torch.linalg.solve(bend + 1e-9 * torch.eye(len(bend), dtype=torch.float64), slope)
        weights = weights - step * min(1.0, 4.0 / max(float(step.abs().max()), 1e-12))
    return weights
