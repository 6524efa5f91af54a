"""Blocks as stacks of layers again: one layer for every step of Euler's method."""

from copy import deepcopy
from typing import Any

from torch import nn

from anydepth.block.block import ContinuousBlock
from anydepth.block.branch import Branch
from anydepth.errors import ConfigError
from anydepth.surgery.blocks import Where, blocks_of
from anydepth.surgery.lists import refill, switch_on
from anydepth.surgery.stack import EulerLayer, Layers, Stack
from anydepth.surgery.unrolled import units_of


def to_layers(model: nn.Module, where: Where = None) -> object:
    """The layers of a block with Euler's method, weights and all; or a copy of a model with layers for its blocks.

    A block of `from_layers` whose steps are as wide as they were gives back plain layers; otherwise a layer is
    x + h unit(x). The result can be looped over and called. Steps that read the same weights share a layer.
    """
    if isinstance(model, Stack):
        model = model.block
    if isinstance(model, ContinuousBlock):
        return _layers_of("", model)
    tensors = [t for block in blocks_of(model, where).values() for t in (*block.parameters(), *block.buffers())]
    copy = deepcopy(model, {id(tensor): tensor for tensor in tensors})
    layers = {id(block): _layers_of(name, block) for name, block in blocks_of(copy, where).items()}
    for path, module in list(copy.named_modules()):
        stacks = {name: part for name, part in module._modules.items() if _block_in(part, layers) is not None}
        if isinstance(module, (nn.ModuleList, nn.Sequential)) and not isinstance(module, Layers):
            _splice(module, layers)
            for stack in stacks.values():
                switch_on(copy, path, stack.before if isinstance(stack, Stack) else {})
        else:
            module._modules.update({name: layers[id(_block_in(part, layers))] for name, part in stacks.items()})
    return copy


def _block_in(part: nn.Module | None, layers: dict[int, Layers]) -> ContinuousBlock | None:
    """The block that a module is or stands for, if it is to be replaced."""
    block = part.block if isinstance(part, Stack) else part
    return block if isinstance(block, ContinuousBlock) and id(block) in layers else None


def _splice(container: nn.Module, layers: dict[int, Layers]) -> None:
    """Layers in the place of blocks in a list."""
    parts: list[tuple[str, nn.Module]] = []
    for name, part in container._modules.items():
        block = _block_in(part, layers)
        if block is None:
            parts += [] if part is None else [(name, part)]
        elif isinstance(container, nn.Sequential) and layers[id(block)].is_bare:
            parts += [(name, layers[id(block)])]
        else:
            listed = [
                Stack(layer) if isinstance(part, Stack) and isinstance(layer, EulerLayer) else layer
                for layer in layers[id(block)]
            ]
            parts += zip(_names(name, block, len(listed)), listed, strict=True)
    refill(container, parts)


def _names(name: str, block: ContinuousBlock, count: int) -> list[str]:
    origin = block.unit.origin if isinstance(block.unit, Branch) else None
    if origin is not None and len(origin.names) == count:
        return list(origin.names)
    return [f"{name}_{i}" for i in range(count)]


def _layers_of(name: str, block: ContinuousBlock) -> Layers:
    if block.plan is None or block.scheme.name != "euler":
        raise ConfigError(
            f"block {name!r} has the scheme {block.scheme.name!r}; layers are steps of Euler's method: "
            "set_solver(model, scheme='euler', steps=...), or freeze the model as it is"
        )
    places, units = units_of(block, block.plan)
    widths = [step.result[0][1] if step.result else 0.0 for step in block.plan.steps]
    is_plain = isinstance(block.unit, Branch) and all(width == 1 for width in widths)
    times = [float(instant.time) if block.time else None for instant in block.plan.instants]
    keys = list(zip(places, widths, times, strict=True))
    made: dict[object, nn.Module] = {}
    for key in dict.fromkeys(keys):
        unit: Any = units[key[0]]
        made[key] = unit.layer if is_plain else EulerLayer(unit, *key[1:])
    result = Layers([made[key] for key in keys])
    if is_plain and isinstance(block.unit, Branch):
        result.is_bare = block.unit.is_bare
        _restore(result, block.unit)
    return result.train(block.training)


def _restore(layers: Layers, unit: Branch) -> None:
    """What the layers differed in besides their weights."""
    origin = unit.origin
    if origin is None:
        return
    for name, values in origin.varying.items():
        path, _, key = name.rpartition(".")
        for layer, value in zip(layers, _spread(values, len(layers)), strict=True):
            setattr(layer.get_submodule(path), key, value)


def _spread(values: tuple[Any, ...], count: int) -> list[Any]:
    """The values of so many layers: their own, or counted on, or those of the first."""
    if len(values) == count:
        return list(values)
    is_count = all(isinstance(value, int) and value == values[0] + i for i, value in enumerate(values))
    return [values[0] + i for i in range(count)] if is_count else [values[0]] * count
