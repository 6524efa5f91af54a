"""Hidden units of neighbouring layers brought into the same order: no output changes, differences over depth shrink."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor, nn

from anydepth.block.block import ContinuousBlock
from anydepth.block.branch import Whole
from anydepth.block.paths import listed
from anydepth.depth.bases.families.constant import Constant
from anydepth.errors import ConfigError, choices
from anydepth.surgery.blocks import Where, blocks_of
from anydepth.weights.expansion import Expansion
from anydepth.zoo.units.encoder import Encoder

Model = TypeVar("Model", bound=nn.Module)
Group = Mapping[str, int]
"""Tensors of a unit, by name, and the axis of each that runs over the same hidden units."""

HIDDEN: dict[type[nn.Module], Callable[[nn.Module], list[Group]]] = {
    Encoder: lambda unit: [{"inner.weight": 0, "inner.bias": 0, "out.weight": 1}],
    nn.TransformerEncoderLayer: lambda unit: [
        _biased(unit, {"linear1.weight": 0, "linear1.bias": 0, "linear2.weight": 1})
    ],
}
"""Hidden units of layers that are no plain chains, by exact class."""

_POINTWISE = (nn.ReLU, nn.GELU, nn.SiLU, nn.Tanh, nn.Sigmoid, nn.ELU, nn.LeakyReLU, nn.Identity, nn.Dropout)
_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d)
_ENDS = (nn.Linear, nn.Conv1d, nn.Conv2d)


def align(model: Model, hidden: Iterable[Group] | None = None, where: Where = None) -> Model:
    """Reorder the hidden units of every layer of imported stacks to match those of the layer before, in place.

    A layer's output does not depend on the order of its hidden units, so every form that reads one layer at a time is
    exactly what it was. Forms that mix layers, of fewer functions or steps, find neighbours that are more alike. The
    order is the one with the largest inner product with the layer before (an assignment problem, solved exactly).

    Args:
        hidden: which axes of which tensors of the unit run over the same hidden units, such as
            [{"fc1.weight": 0, "fc1.bias": 0, "fc2.weight": 1}]; by default found in chains of layers and in
            transformer layers that are known.
        where: blocks to align; those whose functions are not constants, one per layer, are left alone.
    """
    for block in blocks_of(model, where).values():
        groups = [*hidden] if hidden is not None else hidden_of(block.unit)
        for group in groups:
            _check(block, group)
            if _is_stack(block, group):
                _align(block, group)
    return model


def hidden_of(unit: nn.Module) -> list[Group]:
    """The groups of hidden units of a unit that is known; none else."""
    if isinstance(unit, Whole):
        return [{f"layer.{name}": axis for name, axis in group.items()} for group in hidden_of(unit.layer)]
    if type(unit) in HIDDEN:
        return HIDDEN[type(unit)](unit)
    chain = listed(unit)
    return [] if chain is None else _in_chain(chain)


def _in_chain(chain: Sequence[tuple[str, nn.Module]]) -> list[Group]:
    """Between two layers with weights: what comes out of the first and goes into the second, and norms between."""
    found, group = [], None
    for name, module in chain:
        if isinstance(module, _ENDS):
            if group is not None and _is_dense(module):
                found.append({**group, f"{name}.weight": 1})
            group = _tensors(name, module) if _is_dense(module) else None
        elif isinstance(module, _NORMS) and group is not None:
            group |= _tensors(name, module)
        elif not isinstance(module, _POINTWISE):
            group = None
    return found


def _is_dense(module: nn.Module) -> bool:
    """Whether every output sees every input."""
    return isinstance(module, nn.Linear) or getattr(module, "groups", 1) == 1


def _tensors(name: str, module: nn.Module) -> dict[str, int]:
    tensors = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    return {f"{name}.{key}": 0 for key, tensor in tensors.items() if tensor.dim() > 0}


def _biased(unit: nn.Module, group: dict[str, int]) -> Group:
    known = dict(unit.named_parameters())
    return {name: axis for name, axis in group.items() if name in known}


def _check(block: ContinuousBlock, group: Group) -> None:
    for name, axis in group.items():
        if name not in block.lifted:
            raise ConfigError(f"{block.label} has no tensor {name!r}; {choices(name, block.lifted)}")
        if not 0 <= axis < len(block.lifted[name].shape):
            raise ConfigError(f"{name!r} has shape {block.lifted[name].shape} and no axis {axis}; count from 0")
    counts = {block.lifted[name].shape[axis] for name, axis in group.items()}
    if len(counts) != 1:
        raise ConfigError(f"hidden units of one group must be as many in every tensor, got {sorted(counts)}")


def _is_stack(block: ContinuousBlock, group: Group) -> bool:
    """Whether there is one constant per layer of every tensor, so that layers can be reordered one by one."""
    functions = {block.lifted[name].function for name in group}
    function = functions.pop()
    return not functions and isinstance(function, Expansion) and isinstance(function.basis, Constant)


@torch.no_grad()
def _align(block: ContinuousBlock, group: Group) -> None:
    # K layers, H hidden units, F numbers that belong to one of them
    tensors = {name: block.stored(name) for name in group}
    features_KHF = torch.cat([_by_unit(tensors[name], axis) for name, axis in group.items()], -1)
    for layer in range(1, len(features_KHF)):
        before_HF, here_HF = features_KHF[layer - 1], features_KHF[layer]
        gain_HH = (before_HF @ here_HF.T).double().cpu().numpy()
        order = torch.as_tensor(linear_sum_assignment(gain_HH, maximize=True)[1], device=here_HF.device)
        features_KHF[layer] = here_HF[order]
        for name, axis in group.items():
            row = tensors[name][layer]
            row.copy_(row.index_select(axis, order))


def _by_unit(stored: Tensor, axis: int) -> Tensor:
    """(K, H, F) in float64, every tensor with the same weight in the whole."""
    moved = stored.detach().double().movedim(axis + 1, 1).flatten(2) if stored.dim() > 2 else stored.double()[..., None]
    return moved / moved.norm().clamp_min(1e-30)
