"""What the leading axis of a block's tensors hides from optimisers and initialisers: each tensor's own shape."""

from collections.abc import Callable, Iterable
from fnmatch import fnmatchcase
from typing import TypeVar

import torch
from torch import Tensor, nn

from anydepth.block.block import ContinuousBlock
from anydepth.block.passes import Lifted
from anydepth.block.roles import private, replace, tensors_of
from anydepth.errors import ConfigError, choices
from anydepth.weights.expansion import Expansion

Model = TypeVar("Model", bound=nn.Module)


def ranks_of(model: nn.Module) -> dict[nn.Parameter, int]:
    """The number of axes that each parameter has in its layer; what evolutions have counts as a scalar."""
    blocks = [module for module in model.modules() if isinstance(module, ContinuousBlock)]
    evolving = {parameter for block in blocks for parameter in block.evolutions.parameters()}
    lifted = {parameter for block in blocks for parameter in block.unit.parameters()}
    return {p: 0 if p in evolving else p.dim() - (p in lifted) for p in model.parameters()}


def param_groups(
    model: nn.Module, weight_decay: float, spared: str | Iterable[str] = (), **settings: object
) -> list[dict[str, object]]:
    """Two groups for an optimiser: weights, which decay, and biases, norms and scalars, which do not.

    What counts is the number of axes of a tensor in its layer, without a block's leading axis: two or more decay.

    Args:
        spared: names or patterns of further parameters that do not decay: "*embedding*".
        settings: of both groups, such as lr.
    """
    patterns = (spared,) if isinstance(spared, str) else tuple(spared)
    names = {parameter: name for name, parameter in model.named_parameters()}
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in names.values()):
            raise ConfigError(f"no parameter fits {pattern!r}; {choices(pattern, names.values())}")
    groups: dict[bool, list[nn.Parameter]] = {True: [], False: []}
    for parameter, rank in ranks_of(model).items():
        if parameter.requires_grad:
            is_spared = any(fnmatchcase(names[parameter], pattern) for pattern in patterns)
            groups[rank > 1 and not is_spared].append(parameter)
    found = [{"params": groups[decays], "weight_decay": weight_decay if decays else 0.0} for decays in (True, False)]
    return [{**settings, **group} for group in found if group["params"]]


@torch.no_grad()
def init_(model: Model, fn: Callable[[nn.Module], None]) -> Model:
    """`model.apply(fn)`, where fn sees units of blocks with the tensors of one depth, once for every basis function.

    The function of depth takes the values that fn leaves at the depths that determine it. Tensors that fn does not
    touch stay as they are.
    """
    _apply_outside(model, fn)
    for block in {id(m): m for m in model.modules() if isinstance(m, ContinuousBlock)}.values():
        _init_block(block, fn)
    return model


def _apply_outside(module: nn.Module, fn: Callable[[nn.Module], None]) -> None:
    if isinstance(module, ContinuousBlock):
        return
    for child in module.children():
        _apply_outside(child, fn)
    fn(module)


def _init_block(block: ContinuousBlock, fn: Callable[[nn.Module], None]) -> None:
    samples = {name: _samples(block, name, part) for name, part in block.lifted.items()}
    touched: set[str] = set()
    after: dict[str, Tensor] = {}
    for k in range(block.size):
        unit = private(block.unit)
        mine = {name: rows[min(k, len(rows) - 1)].clone() for name, rows in samples.items()}
        for name, value in mine.items():
            replace(unit, name, value.clone())
        unit.apply(fn)
        after = tensors_of(unit)
        for name, rows in samples.items():
            if after[name].shape != rows[0].shape:
                raise ConfigError(f"init_ must keep shapes, got {tuple(after[name].shape)} for {name!r}")
            if k < len(rows) and not torch.equal(after[name], mine[name]):
                rows[k] = after[name].detach()
                touched.add(name)
    for name in block.roles.counters:
        block.stored(name).copy_(after[name])
    for name in touched:
        part = block.lifted[name]
        block.stored(name).copy_(part.function.from_samples(part.kind.encode(torch.stack(samples[name]))))


def _samples(block: ContinuousBlock, name: str, part: Lifted) -> list[Tensor]:
    """A tensor at the depths whose values determine it."""
    if not isinstance(part.function, Expansion):
        return [part.kind.decode(row) for row in block.stored(name)]
    reading = part.function.reading(part.function.basis.control_points)
    rows = reading.rows(*block.held(name))
    return [part.kind.decode(rows[i]).clone() for i in reading.index]
