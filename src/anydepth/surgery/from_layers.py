"""A trained stack of layers as one block: the layers are what Euler's method makes of it."""

from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from anydepth.block.block import ContinuousBlock
from anydepth.block.branch import Branch, Origin
from anydepth.block.roles import roles_of, tensors_of
from anydepth.depth.grids import GridLike
from anydepth.errors import ConfigError
from anydepth.surgery.alike import varying
from anydepth.surgery.lists import Piece, find_lists, named_layers, pieces_of, refill, switch_off
from anydepth.surgery.resize import compress
from anydepth.surgery.same import check_same
from anydepth.surgery.stack import Stack

Make = Callable[[Piece], ContinuousBlock]
Copied = TypeVar("Copied")


def from_layers(
    layers: nn.Module | Sequence[nn.Module],
    basis: str = "constant",
    size: int | None = None,
    *,
    where: str | Iterable[str] | None = None,
    branches: bool = False,
    ignore: str | Iterable[str] = (),
    scheme: str = "euler",
    steps: GridLike | None = None,
    example: object = None,
    **settings: Any,
) -> Any:
    """One block made of L layers that are alike: x_n+1 = layer_n(x_n) is Euler's method for dx/dt = L (layer(x) - x).

    With the basis "constant" and as many steps as layers, results and gradients are those of the layers. Layers unlike
    their neighbours (the first of a ResNet's stage, which changes the shape) stay as they are, beside the block in an
    `nn.Sequential`. The layers given are copied and left alone. `to_layers` is the way back.

    Args:
        layers: a Sequential, a ModuleList or a list of modules; or a whole model that has such lists inside.
        basis, size: the functions of depth that the weights are projected on; by default one constant per layer.
        where: names or patterns of the lists to replace in a copy of a whole model: "encoder.layer", "layer*".
        branches: the layers are branches f, of which the caller makes x + f(x).
        ignore: settings in which the layers of a block may differ ("drop_prob"); the block has those of the first.
        scheme, steps: another solver, as for `ContinuousBlock`.
        example: arguments of one call (a tensor, a tuple, or a dict of keywords) on which results are compared.
        settings: further arguments of `ContinuousBlock`.
    """
    fixed = sorted({"scale", "time", "weights", "init"} & settings.keys())
    if fixed:
        raise ConfigError(f"from_layers takes {fixed[0]} from the layers; leave it out")
    ignored = (ignore,) if isinstance(ignore, str) else tuple(ignore)

    def make(piece: Piece) -> ContinuousBlock:
        block = _block_of(piece, branches, ignored, settings)
        if basis != "constant" or size not in (None, block.size):
            block = compress(block, basis=basis, size=size or len(piece.layers))
        block.set_solver(scheme=scheme, steps=steps)
        return block

    is_plain = not isinstance(layers, nn.Sequential) or type(layers).forward is nn.Sequential.forward
    is_list = where is None and is_plain and isinstance(layers, (nn.Sequential, nn.ModuleList, list, tuple))
    result = _from_list(layers, ignored, branches, make) if is_list else _inside(layers, where, ignored, make)
    if example is not None:
        check_same(layers, result, example, branches)
    return result


def _from_list(layers: object, ignored: Sequence[str], branches: bool, make: Make) -> nn.Module:
    pieces = pieces_of(named_layers(layers), ignored)
    if branches and len(pieces) > 1:
        raise ConfigError("branches must all be alike: what is between them is not known; give one group at a time")
    parts = [make(piece) if piece.is_block else piece.layers[0] for piece in _copied(pieces, pieces)]
    return parts[0] if len(parts) == 1 else nn.Sequential(*parts)


def _inside(model: Any, where: str | Iterable[str] | None, ignored: Sequence[str], make: Make) -> nn.Module:
    """A copy of a model with blocks in the place of layers."""
    found = find_lists(model, where, ignored)
    _check_own(model, [layer for pieces in found.values() for p in pieces if p.is_block for layer in p.layers])
    copy, found = _copied((model, found), [piece for pieces in found.values() for piece in pieces])
    for path, pieces in found.items():
        container = copy.get_submodule(path)
        is_looped = isinstance(container, nn.ModuleList)
        blocks = [make(piece) if piece.is_block else None for piece in pieces]
        stacks = [Stack(block) if block is not None and is_looped else block for block in blocks]
        refill(container, [(p.names[0], s or p.layers[0]) for p, s in zip(pieces, stacks, strict=True)])
        before = switch_off(copy, path)
        for stack in stacks:
            if isinstance(stack, Stack):
                stack.before = before
    return copy


def _check_own(model: nn.Module, layers: Sequence[nn.Module]) -> None:
    """Refuse layers that share a tensor with the rest of the model: one of them is to become a function of depth."""
    inside = {id(module) for layer in layers for module in layer.modules()}
    theirs = {id(tensor) for layer in layers for tensor in _tensors(layer)}
    for path, module in model.named_modules():
        for key, tensor in (*module._parameters.items(), *module._buffers.items()):
            if id(module) not in inside and id(tensor) in theirs:
                name = f"{path}.{key}".lstrip(".")
                raise ConfigError(f"the layers share the tensor {name!r} with the rest of the model; untie it first")


def _copied(value: Copied, pieces: Sequence[Piece]) -> Copied:
    """A copy in which layers that become blocks have the tensors that they had: these will be copied into blocks."""
    kept = [tensor for piece in pieces if piece.is_block for layer in piece.layers for tensor in _tensors(layer)]
    return deepcopy(value, {id(tensor): tensor for tensor in kept})


def _tensors(layer: nn.Module) -> list[Tensor]:
    return [*layer.parameters(), *layer.buffers()]


def _block_of(piece: Piece, branches: bool, ignored: Sequence[str], settings: dict[str, Any]) -> ContinuousBlock:
    """A block whose weights are those of the layers, constant from layer to layer."""
    count, tables = len(piece.layers), [tensors_of(Branch(layer)) for layer in piece.layers]
    unit = Branch(piece.layers[0], branches)
    unit.origin = Origin(piece.names, varying(piece.layers, ignored))
    lifted = roles_of(unit, settings.get("state", ()), settings.get("positive", ())).lifted
    sizes = {name: _distinct([table[name] for table in tables]) for name in lifted}
    weights = {name: ("constant", size) for name, size in sizes.items()}
    options = {"scheme": "euler", "steps": count, "scale": count, "init": "shared", "weights": weights or None}
    block = ContinuousBlock(lambda: unit, **options, **settings)
    with torch.no_grad():
        for name, part in block.lifted.items():
            values = [part.kind.encode(table[name].detach()) for table in tables[:: count // sizes[name]]]
            block.stored(name).copy_(torch.stack(values))
    return block.train(piece.layers[0].training)


def _distinct(tensors: Sequence[Tensor]) -> int:
    """How many constants a tensor needs: layers that share it one after another, in groups of one length, need one."""
    count = len(tensors)
    for size in range(1, count):
        each = count // size
        if size * each == count and all(tensors[i] is tensors[i - i % each] for i in range(count)):
            return size
    return count
