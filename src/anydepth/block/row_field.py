"""The vector field of a pass in which every example has its own steps, so that each may be at another depth.

Between two breakpoints constant weights are the same for all examples, and the unit is called once for all. Weights
that vary there are another set for every example: the unit is then mapped over the examples by `torch.func.vmap`, each
with its own.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.func import vmap
from torch.utils._pytree import tree_flatten, tree_unflatten

from anydepth.block.field import UnitField, UnitStages
from anydepth.block.passes import Pass
from anydepth.depth.times import Instant
from anydepth.errors import ConfigError, UnitError
from anydepth.solve.tensors import State, checked_slope
from anydepth.solve.walkers import Span, picked
from anydepth.weights.expansion import Expansion
from anydepth.weights.protocol import WeightFunction


class UnitRows:
    """R(x_i, theta(t_i)) for some of the examples of a pass, each at its own time."""

    def __init__(self, given: Pass, field: UnitField, y: State):
        refuse_norms(given)
        self.given, self.field, self.count = given, field, len(y[0]) if y[0].dim() else 0
        self.breakpoints, self.scale = field.breakpoints, field.scale
        self.is_shared = not given.has_time and all(map(is_flat, given.functions.values()))
        self._stages: tuple[Span, UnitStages] | None = None
        self._picked: tuple[Tensor, tuple, dict[str, object]] | None = None

    def slopes(self, span: Span, times: Tensor, y: State, rows: Tensor) -> State:
        args, kwargs = self._extra(rows)
        if not self.is_shared:
            return self._mapped(span.instants(times), y, args, kwargs)
        self.field.args, self.field.kwargs = args, kwargs
        return self._shared(span)(0, y)

    def _extra(self, rows: Tensor) -> tuple[tuple, dict[str, object]]:
        """The extra arguments of these examples."""
        if self._picked is None or self._picked[0] is not rows:
            args, kwargs = picked((self.given.args, dict(self.given.kwargs)), rows, self.count)
            self._picked = rows, args, kwargs
        return self._picked[1:]

    def _shared(self, span: Span) -> UnitStages:
        """The unit with the weights of a span."""
        if self._stages is None or self._stages[0] != span:
            self._stages = span, self.field.stages((Instant((span.start + span.end) / 2),))
        return self._stages[1]

    def _mapped(self, instants: list[Instant], y: State, args: tuple, kwargs: dict[str, object]) -> State:
        """The unit on a batch of one, as often as there are examples, at once."""
        given, field = self.given, self.field
        stages = field.stages(instants)
        tensors = [torch.stack(column) for column in zip(*stages.rows, strict=True)]
        held = tensors[: len(given.lifted)]
        shared = list(field.shared.values())
        state = tuple(p if field.dtypes is None else p.to(d) for p, d in zip(y, given.dtypes, strict=True))
        leaves, shape = tree_flatten((args, kwargs))
        has_rows = [isinstance(leaf, Tensor) and leaf.dim() > 0 and len(leaf) == len(instants) for leaf in leaves]
        batched = [leaf.unsqueeze(1) for leaf, has in zip(leaves, has_rows, strict=True) if has]
        times = [torch.stack(list(stages.times))] if given.has_time else []

        def one(held: list[Tensor], state: State, times: list[Tensor], batched: list[Tensor]) -> Any:
            rows = iter(batched)
            mine = [next(rows) if has else leaf for leaf, has in zip(leaves, has_rows, strict=True)]
            args, kwargs = tree_unflatten(mine, shape)
            x = state if given.is_tuple else state[0]
            return field.call((*held, *shared), (*times, x, *args), kwargs, ())[0]

        try:
            out = vmap(one)(held, tuple(part.unsqueeze(1) for part in state), times, batched)
        except (torch.OutOfMemoryError, UnitError):
            raise
        except (RuntimeError, ValueError, TypeError, IndexError) as error:
            raise self._explained(error) from error
        slope = tuple(part.squeeze(1) for part in out) if isinstance(out, tuple) else out.squeeze(1)
        return checked_slope(slope, y, given.is_tuple, f"unit {field.name}", "x")

    def _explained(self, error: Exception) -> UnitError:
        cause = str(error).strip().split("\n")[0]
        return UnitError(
            f"unit {self.field.name} cannot be mapped over examples with weights of their own, which per_example needs "
            f"for weights that vary within a cell: {cause}; use basis 'constant', or per_example=False"
        )


def is_flat(function: WeightFunction) -> bool:
    """Whether weights stay the same between two breakpoints."""
    return function.is_constant or (isinstance(function, Expansion) and function.basis.degree == 0)


def refuse_norms(given: Pass) -> None:
    """Batch statistics would tie the examples together."""
    for name, module in given.unit.named_modules():
        is_norm = isinstance(module, nn.modules.batchnorm._BatchNorm)
        if is_norm and (module.training or module.running_mean is None):
            raise ConfigError(
                f"{given.label} has batch norm ({name}) that works with the statistics of a batch, which ties its "
                "examples together; per_example needs eval mode, another norm, or per_example=False in training"
            )
    if given.is_training and given.state_names and any(module.training for module in given.unit.modules()):
        updates = [n for n in given.state_names if not n.endswith(("running_mean", "running_var"))]
        if updates:
            raise ConfigError(
                f"{given.label} has state that training updates ({updates[0]}) from evaluations of the whole batch, "
                "which per_example never makes; use per_example=False in training"
            )
