"""Grow, compress, or run differently: the same functions of depth in another form."""

from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from fnmatch import fnmatchcase
from typing import TypeVar
from warnings import warn

from torch import nn
from torch.optim import Optimizer

from anydepth.block.block import ContinuousBlock
from anydepth.block.retired import watch_retired
from anydepth.depth.grids import Grid, GridLike, unit_grid
from anydepth.depth.transfer import METHODS
from anydepth.errors import AnydepthWarning, ConfigError, choices
from anydepth.solve.solver import Solver
from anydepth.surgery.blocks import Where, blocks_of, per_block
from anydepth.surgery.change import Change, Form, relative_error
from anydepth.surgery.ema import teach_averaged_model
from anydepth.surgery.optimizer import Replaced, as_optimizers, carry_over
from anydepth.weights.protocol import WeightFunction

Model = TypeVar("Model", bound=nn.Module)
Functions = dict[str, WeightFunction]

EXACT = 1e-6
"""Relative change of a tensor above which growing is reported as inexact."""


def refine(
    model: Model,
    size: int | Mapping[str, object] | None = None,
    steps: GridLike | Mapping[str, GridLike] | None = None,
    optimizer: Optimizer | Iterable[Optimizer] | None = None,
    method: str = "interpolate",
    where: Where = None,
) -> Model:
    """Grow the blocks of a model in place: by default to the next nested size, with twice the steps.

    A mapping of sizes or steps by block name changes the blocks it names. On a nested size the
    functions stay what they were. The optimisers given keep their groups, and
    their moments are carried over; without them, an optimiser that still steps the old parameters
    is pointed out by a warning.
    """
    named = {name for given in (size, steps) if isinstance(given, Mapping) for name in given}
    blocks = _resizable(model, where)
    plans = _planned(blocks, size, steps, lambda block: {n: f.refined() for n, f in block.functions.items()})
    _check_method(method)
    optimizers = None if optimizer is None else as_optimizers(optimizer)
    replaced: Replaced = {}
    chosen = {name: block for name, block in blocks.items() if not named or name in named}
    solvers = {n: block.solver.changed(steps=plans[n][1] or _finer(block)) for n, block in chosen.items()}
    for name, block in chosen.items():
        change = _apply(block, "refine", plans[name][0], solvers[name], method, replaced)
        if change.largest_error > EXACT:
            warn(f"block {name!r} was moved to a size that is not nested: {change}", AnydepthWarning, stacklevel=2)
    teach_averaged_model()
    if optimizers is None:
        watch_retired(list(replaced))
    else:
        carry_over(optimizers, replaced)
    return model


def compress(
    model: Model,
    basis: str | None = None,
    size: int | Mapping[str, object] | None = None,
    steps: GridLike | Mapping[str, GridLike] | None = None,
    scheme: str | None = None,
    method: str = "project",
    where: Where = None,
) -> Model:
    """A new model with its weights moved to another basis, size or solver, without data or retraining.

    Args:
        basis, size: the new functions of depth; by default those that the model has. A mapping of sizes by block name
            changes the blocks it names.
        steps, scheme: the new solver; by default the one that the model has.
        method: "project", which changes the functions least over all depths, or "interpolate", which keeps their values
            at the control points of the new basis.
        where: blocks to change: a name, a pattern, several of them, or a predicate; by default all.
    """
    small = deepcopy(model)
    blocks = _resizable(small, where)
    _check_method(method)
    plans = _planned(blocks, size, steps, lambda block: block.functions, basis)
    for name, block in blocks.items():
        solver = block.solver.changed(scheme=scheme, steps=plans[name][1])
        _apply(block, f"compress ({method})", plans[name][0], solver, method, {})
    return small


def set_solver(
    model: Model,
    scheme: str | None = None,
    steps: GridLike | Mapping[str, GridLike] | None = None,
    rtol: float | None = None,
    atol: float | None = None,
    max_steps: int | None = None,
    where: Where = None,
    per_example: bool | None = None,
) -> Model:
    """Run the same weights with another scheme, number of steps or tolerance, in place.

    Args:
        scheme, steps: a Runge-Kutta scheme, and how many steps it takes if it has fixed ones.
        rtol, atol, max_steps: tolerances and the largest number of steps of adaptive schemes.
        where: blocks to change: a name, a pattern, several of them, or a predicate; by default all.
        per_example: whether an adaptive scheme chooses the steps of every example of a batch by itself.
    """
    blocks = blocks_of(model, where)
    grids = _grids(steps, blocks)
    limits = {"rtol": rtol, "atol": atol, "max_steps": max_steps, "per_example": per_example}
    chosen = {n: b.solver.changed(scheme=scheme, steps=grids[n], **limits) for n, b in blocks.items()}
    for name, block in blocks.items():
        block.set_solver(**chosen[name].describe())
    return model


def set_gradient(model: Model, mode: str, segment: int = 1, where: Where = None) -> Model:
    """Choose the gradient mode, in place: "backprop", "checkpoint" (every `segment` steps), "adjoint" or "kkt"."""
    for block in blocks_of(model, where).values():
        block.set_gradient(mode, segment)
    return model


def _resizable(model: nn.Module, where: Where) -> dict[str, ContinuousBlock]:
    """The chosen blocks, refused when one shares a parameter with another part of the model."""
    blocks = blocks_of(model, where)
    inside = {id(p): name for name, block in blocks.items() for p in block.parameters()}
    for name, module in model.named_modules():
        for key, parameter in module._parameters.items():
            home = inside.get(id(parameter))
            if home is not None and not any(part is module for part in blocks[home].modules()):
                raise ConfigError(
                    f"block {home!r} shares a parameter with {f'{name}.{key}'!r}, and resizing it would untie them; "
                    "untie them first, or use one block twice"
                )
    return blocks


def _apply(
    block: ContinuousBlock,
    operation: str,
    functions: Functions,
    solver: Solver,
    method: str,
    replaced: Replaced,
) -> Change:
    """Change one block, and note which parameter took the place of which."""
    before = Form.of(block)
    moving = {n: f for n, f in functions.items() if f != block.lifted[n].function}
    errors = {n: relative_error(block, n, block.lifted[n].function.move(f, method)) for n, f in moving.items()}
    old = {name: block.stored(name) for name in moving}
    block.set_solver(**solver.describe())
    for name, move in block.move(moving, method).items():
        if isinstance(old[name], nn.Parameter):
            replaced[old[name]] = (block.stored(name), move)  # pyright: ignore[reportArgumentType]
    change = Change(operation, before, Form.of(block), errors)
    block.history = (*block.history, change)
    return change


def _planned(
    blocks: Mapping[str, ContinuousBlock],
    size: object,
    steps: object,
    default: Callable[[ContinuousBlock], Functions],
    basis: str | None = None,
) -> dict[str, tuple[Functions, Grid | None]]:
    """The functions and grid that every block is to have; everything is checked before any block changes."""
    sizes, grids = per_block(size, blocks), _grids(steps, blocks)
    return {n: (_functions(n, block, sizes[n], basis, default), grids[n]) for n, block in blocks.items()}


def _finer(block: ContinuousBlock) -> Grid | None:
    """Twice the steps, where there are steps."""
    return None if block.grid is None else block.grid.refined()


def _grids(steps: object, blocks: Mapping[str, ContinuousBlock]) -> dict[str, Grid | None]:
    return {name: None if given is None else unit_grid(given) for name, given in per_block(steps, blocks).items()}


def _functions(
    name: str,
    block: ContinuousBlock,
    size: int | Mapping[str, int] | None,
    basis: str | None,
    default: Callable[[ContinuousBlock], Functions],
) -> Functions:
    if isinstance(size, Mapping):
        return _by_pattern(name, block, size, basis)
    if size is None and basis is None:
        return default(block)
    if size is not None and basis is None and len(set(block.functions.values())) > 1:
        raise ConfigError(
            f"block {name!r} mixes weight functions, so one size does not fit all; "
            f"give size={{{name!r}: {{'pattern': size}}}} by tensor name, or name a basis for all"
        )
    if size is None and any(not function.is_linear for function in block.functions.values()):
        raise ConfigError(f"block {name!r} has evolved weights, which have no size; give a size with the basis")
    return {n: f.resized(f.size if size is None else size, basis) for n, f in block.functions.items()}


def _by_pattern(name: str, block: ContinuousBlock, sizes: Mapping[str, int], basis: str | None) -> Functions:
    for pattern in sizes:
        if not any(fnmatchcase(tensor, pattern) for tensor in block.functions):
            raise ConfigError(f"no tensor of block {name!r} fits {pattern!r}; {choices(pattern, block.functions)}")
    chosen = {}
    for tensor, function in block.functions.items():
        size = next((k for pattern, k in sizes.items() if fnmatchcase(tensor, pattern)), function.size)
        chosen[tensor] = function.resized(size, basis)
    return chosen


def _check_method(method: str) -> None:
    if method not in METHODS:
        raise ConfigError(f"unknown transfer method {method!r}; {choices(method, METHODS)}")
