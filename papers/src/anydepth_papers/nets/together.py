"""Several nets of one shape run at once: stacked weights, one program."""

from collections.abc import Sequence
from copy import deepcopy
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.func import functional_call

from anydepth.block.block import ContinuousBlock
from anydepth.block.form import forms_of
from anydepth.errors import ConfigError
from anydepth.fast.several import program_for, solve_several
from anydepth.zoo.models.flow import Flow


class Together(nn.Module):
    """Flows of one config on inputs (nets, examples, features), each net with its own weights and its own inputs.

    Their schemes must have fixed steps. What one net computes, and its gradient, is what it would compute alone:
    nothing mixes nets, so one that leaves the finite numbers does not spoil the others. Fields that the native path
    knows run all at once; others, and all where numba is not installed, one after another.
    """

    def __init__(self, models: Sequence[nn.Module]):
        super().__init__()
        first = models[0]
        block = cast(ContinuousBlock, first.block) if type(first) is Flow else None
        is_vector = block is not None and getattr(block.unit, "input_rank", 2) == 2
        if block is None or block.plan is None or len(block.evolutions) or not is_vector:
            raise ConfigError("nets run together must be flows whose field is a chain of linear maps, with fixed steps")
        if any(type(model) is not Flow or model.config != first.config for model in models):
            raise ConfigError("nets run together must be made of one config")
        self._models, self._block = tuple(models), (block,)
        self._lifted = {f"block.unit.{name}": name for name in block.lifted}
        self._names = [name for name, _ in first.named_parameters()]
        self._programs: dict[tuple, Any] = {}
        parts = [dict(model.named_parameters()) for model in models]
        self.stacked = nn.ParameterList(torch.stack([part[name].detach() for part in parts]) for name in self._names)

    def forward(self, x: Tensor) -> Tensor:
        """Outputs (nets, examples, classes)."""
        named = dict(zip(self._names, self.stacked, strict=True))
        y = self._states({self._lifted[name]: t for name, t in named.items() if name in self._lifted}, x)
        if "classifier.weight" not in named:
            return y
        return torch.baddbmm(named["classifier.bias"].unsqueeze(1), y, named["classifier.weight"].mT)

    def _states(self, stored: dict[str, Tensor], x: Tensor) -> Tensor:
        """The states at depth 1."""
        (block,) = self._block
        key = (x.shape, x.dtype)
        if key not in self._programs:
            self._programs[key] = program_for(block, x[0])
        program = self._programs[key]
        if isinstance(program, str):
            each = [{f"unit.{name}": tensor[i] for name, tensor in stored.items()} for i in range(len(x))]
            return torch.stack([functional_call(block, own, (one,)) for own, one in zip(each, x, strict=True)])
        return solve_several(block, program, stored, x)

    def apart(self) -> list[nn.Module]:
        """The nets as models of their own, with their present weights."""
        found = []
        for i, model in enumerate(self._models):
            alone = deepcopy(model)
            values = {name: tensor.detach()[i].clone() for name, tensor in zip(self._names, self.stacked, strict=True)}
            alone.load_state_dict({**values, **forms_of(alone)})
            found.append(alone)
        return found
