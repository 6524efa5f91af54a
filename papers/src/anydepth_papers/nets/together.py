"""Several nets of one shape run at once: stacked weights, batched products."""

from collections.abc import Sequence
from copy import deepcopy
from typing import cast

import torch
from torch import Tensor, nn

from anydepth.block.block import ContinuousBlock
from anydepth.block.form import forms_of
from anydepth.errors import ConfigError
from anydepth.fast.layouts import Columns
from anydepth.fast.linear import chain_of, solve_together
from anydepth.zoo.models.flow import Flow


class Together(nn.Module):
    """Flows of one config on inputs (nets, examples, features), each net with its own weights and its own inputs.

    Their fields must be chains of linear maps on a fixed grid. What one net computes, and its gradient, is what
    it would compute alone: nothing mixes nets, so one that leaves the finite numbers does not spoil the others.
    Activations are kept in the same memory in every pass: a backward pass must come before the next forward pass
    with gradients, which PyTorch checks.
    """

    def __init__(self, models: Sequence[nn.Module]):
        super().__init__()
        first = models[0]
        block = cast(ContinuousBlock, first.block) if type(first) is Flow else None
        chain = None if block is None or block.plan is None else chain_of(block.unit)
        if block is None or chain is None or len(block.evolutions):
            raise ConfigError("nets run together must be flows whose field is a chain of linear maps, with fixed steps")
        if any(type(model) is not Flow or model.config != first.config for model in models):
            raise ConfigError("nets run together must be made of one config")
        self._models, self._block, self._chain, self._layout = tuple(models), (block,), chain, Columns()
        self._lifted = {f"block.unit.{name}": name for name in block.lifted}
        self._names = [name for name, _ in first.named_parameters()]
        parts = [dict(model.named_parameters()) for model in models]
        self.stacked = nn.ParameterList(
            torch.stack([part[name].detach() for part in parts], dim=self._axis(name)) for name in self._names
        )

    def _axis(self, name: str) -> int:
        """Where the nets are: behind the axis of basis functions, which tensors of the field have in front."""
        return 1 if name in self._lifted else 0

    def forward(self, x: Tensor) -> Tensor:
        """Outputs (nets, examples, classes)."""
        named = dict(zip(self._names, self.stacked, strict=True))
        stored = {self._lifted[name]: tensor for name, tensor in named.items() if name in self._lifted}
        block = self._block[0]
        assert block.plan is not None
        y = solve_together(block.plan, block.functions, self._chain, stored, x.mT.contiguous(), self._layout)
        if "classifier.weight" not in named:
            return y.mT
        return torch.baddbmm(named["classifier.bias"].unsqueeze(-1), named["classifier.weight"], y).mT

    def apart(self) -> list[nn.Module]:
        """The nets as models of their own, with their present weights."""
        found = []
        for i, model in enumerate(self._models):
            alone = deepcopy(model)
            values = {
                name: tensor.detach().select(self._axis(name), i).clone()
                for name, tensor in zip(self._names, self.stacked, strict=True)
            }
            alone.load_state_dict({**values, **forms_of(alone)})
            found.append(alone)
        return found
