"""The cheap path for images: units that are chains of convolutions, batch norms and ReLUs.

For such a unit every step of the solver is one autograd function (`nn/layered_step.py`). It calls no module, builds no
graph inside, and adds up gradients in place. Results are those of the general path, to the bit for Euler's method with
scale = steps; gradients of gradients are autograd's. On CPUs only, where it was measured.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from anydepth.nn.call import lock_of
from anydepth.nn.chain import is_plain_call, is_unwatched
from anydepth.nn.field import store_fitted
from anydepth.nn.functions import Expansion, WeightFunction
from anydepth.nn.layered_step import Conv, Layers, Norm, Places, Relu, StepProgram, StepSolve, format_of
from anydepth.nn.plan import Plan
from anydepth.nn.roles import Kind

if TYPE_CHECKING:
    from anydepth.nn.block import ContinuousBlock

Named = tuple[tuple[str, nn.Module], ...]
LAYERED: dict[type[nn.Module], Callable[[Any], Named]] = {}
"""Units known to be chains of layers, by their exact class: how each lists its layers, in order, by their names."""
Held = Mapping[str, tuple[Tensor, ...]]
"""What is stored for every tensor, and what its function has besides."""
RELU = ("", nn.ReLU())
"""A ReLU that a unit calls as a function."""


def layers_of(unit: nn.Module) -> Layers | None:
    """The unit as a chain of layers, if it is one, keeps the image's size, and nobody watches its modules.

    It begins with a layer whose gradient needs the layer's input: then keeping the state costs nothing.
    """
    if type(unit) not in LAYERED and type(unit) is not nn.Sequential:
        return None
    named = LAYERED[type(unit)](unit) if type(unit) in LAYERED else tuple(unit._modules.items())
    found = [_layer(name, module) for name, module in named if type(module) is not nn.Identity]
    known = tuple(layer for layer in found if layer is not None)
    is_image = any(isinstance(layer, Conv) for layer in known) and isinstance(known[0], Conv | Norm)
    return known if is_image and len(known) == len(found) and is_unwatched(unit) else None


def _layer(name: str, module: Any) -> Conv | Norm | Relu | None:
    if type(module) is nn.ReLU:
        return Relu()
    if type(module) is nn.BatchNorm2d:
        is_usual = module.affine and module.track_running_stats and module.momentum is not None
        return Norm(name, module.momentum or 0.0, module.eps, module.training) if is_usual else None
    if type(module) is nn.Conv2d and module.padding_mode == "zeros" and isinstance(module.padding, tuple):
        sizes = zip(module.padding, module.dilation, module.kernel_size, module.stride, strict=True)
        keeps = all(stride == 1 and 2 * pad == dilation * (width - 1) for pad, dilation, width, stride in sizes)
        has_bias = module.bias is not None
        return Conv(name, has_bias, tuple(module.padding), tuple(module.dilation), module.groups) if keeps else None
    return None


@dataclass(frozen=True)
class Reads:
    """The rows that a plan reads of each trained tensor, and of every step, which of them all."""

    rows: dict[str, tuple[tuple[int, ...], tuple[float, ...]]]
    """By name: places among the tensor's rows, and a factor on each."""
    steps: list[tuple[list[int], list[list[Places]]]]
    """Which rows of all tensors a step is given, and by stage and layer which of these are the layer's."""


def solve_layered(block: "ContinuousBlock", plan: Plan, y: Tensor, dtype: torch.dtype) -> Tensor | None:
    """The state at the end of the plan, if the block is simple enough for this path; state is fitted as ever."""
    is_image = y.dim() == 4 and y.numel() > 0 and y.dtype == dtype and y.device.type == "cpu"
    if not is_image or not is_plain_call(block, y):
        return None
    layers = layers_of(block.unit)
    if layers is None or block.roles.constants or plan.steps[0].links is None:
        return None
    with lock_of(block.unit):
        held = {name: block.held(name) for name in block.lifted}
    if not _fits(block, layers, y, {name: tensors[0] for name, tensors in held.items()}):
        return None
    last = layers[-1]
    is_worth = isinstance(last, Conv) and y.numel() >= held[last.names[0]][0][0].numel()
    reads = _reads(block, plan, layers, last.names if is_worth else ())
    rows = _rows(block, plan, reads, held, format_of(y))
    before, after = _states(block, plan, layers, held)
    running = list(zip(*(tensor.unbind(0) for tensor in after.values()), strict=True)) or [()] * plan.evaluations
    has_gradient = torch.is_grad_enabled()
    start, spare = 0, None if has_gradient else torch.empty_like(y)
    for step, (picks, places) in zip(plan.steps, reads.steps, strict=True):
        among = running[start : start + len(places)]
        program = StepProgram(layers, step.links or (), places, among, not is_worth, spare)
        start, mine = start + len(places), [rows[i] for i in picks]
        y = StepSolve.apply(program, y, *mine) if has_gradient else program.run(y, mine)  # pyright: ignore
    if block.training:
        _commit(block, plan, layers, before, after)
    return y


def _reads(block: "ContinuousBlock", plan: Plan, layers: Layers, scaled: tuple[str, ...]) -> Reads:
    """Worked out once for a plan: it depends on the weight functions, not on the weights."""
    names = tuple(name for layer in layers for name in layer.names)
    functions = tuple(block.lifted[name].function for name in names)
    key = (tuple(layer.names for layer in layers), functions, scaled)
    if key not in plan.kept:
        plan.kept[key] = _make_reads(plan, layers, names, functions, scaled)
    return plan.kept[key]


def _make_reads(
    plan: Plan, layers: Layers, names: tuple[str, ...], functions: tuple[Any, ...], scaled: tuple[str, ...]
) -> Reads:
    factors = [link.factor for step in plan.steps for link in step.links or ()]
    rows: dict[str, tuple[tuple[int, ...], tuple[float, ...]]] = {}
    order: dict[str, list[int]] = {}
    total = 0
    for name, function in zip(names, functions, strict=True):
        index = plan.reading(function).index
        pairs = [(i, factor if name in scaled else 1.0) for i, factor in zip(index, factors, strict=True)]
        distinct = sorted(set(pairs))
        rows[name] = tuple(i for i, _ in distinct), tuple(factor for _, factor in distinct)
        order[name] = [total + distinct.index(pair) for pair in pairs]
        total += len(distinct)
    steps, start = [], 0
    for step in plan.steps:
        among = range(start, start + len(step.stages))
        start = among.stop
        picks = list(dict.fromkeys(order[name][at] for at in among for name in names))
        where = {row: place for place, row in enumerate(picks)}
        places = [[tuple(where[order[name][at]] for name in layer.names) for layer in layers] for at in among]
        steps.append((picks, places))
    return Reads(rows, steps)


def _rows(block: "ContinuousBlock", plan: Plan, reads: Reads, held: Held, form: torch.memory_format) -> list[Tensor]:
    """All rows that the plan reads, kernels in the image's format."""
    found: list[Tensor] = []
    for name, (places, factors) in reads.rows.items():
        rows = _in_format(block.lifted[name].function, plan, held[name], form)
        found += [rows[i] if factor == 1 else rows[i] * factor for i, factor in zip(places, factors, strict=True)]
    return found


def _in_format(
    function: WeightFunction, plan: Plan, held: tuple[Tensor, ...], form: torch.memory_format
) -> Sequence[Tensor]:
    reading = plan.reading(function)
    if held[0].dim() != 5 or form is not torch.channels_last:
        return reading.rows(*held)
    if isinstance(function, Expansion):  # works on any axes: change all of them at once
        return [row.movedim(-1, 1) for row in reading.rows(held[0].movedim(2, -1).contiguous())]
    return [row.contiguous(memory_format=form) for row in reading.rows(*held)]


def _states(
    block: "ContinuousBlock", plan: Plan, layers: Layers, held: Held
) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Running statistics before a pass, and those it may change: rows of its own for every evaluation."""
    before: dict[str, Tensor] = {}
    for name in (name for layer in layers if isinstance(layer, Norm) for name in layer.state):
        part = block.lifted[name]
        reading = plan.reading(part.function)
        with torch.no_grad():
            rows = part.kind.decode(torch.stack(list(reading.rows(*held[name]))))
            before[name] = rows[list(reading.index)]
    return before, {name: rows.clone() for name, rows in before.items()} if block.training else before


def _commit(
    block: "ContinuousBlock", plan: Plan, layers: Layers, before: dict[str, Tensor], after: dict[str, Tensor]
) -> None:
    """Fit the statistics back onto the block's functions; counters advance once."""
    for name, rows in after.items():
        store_fitted(block, name, plan.reading(block.lifted[name].function), before[name], rows)
    with torch.no_grad():
        for layer in layers:
            if isinstance(layer, Norm):
                block.stored(layer.counter).add_(1)


def _fits(block: "ContinuousBlock", layers: Layers, y: Tensor, stored: Mapping[str, Tensor]) -> bool:
    """Whether every tensor of the unit is in the chain, once, in the image's precision, and channels go together."""
    norms = [layer for layer in layers if isinstance(layer, Norm)]
    trained, state = [n for layer in layers for n in layer.names], [n for norm in norms for n in norm.state]
    kinds = {name: part.kind is Kind.PARAMETER for name, part in block.lifted.items()}
    if len(trained) + len(state) != len(kinds) or kinds != dict.fromkeys(trained, True) | dict.fromkeys(state, False):
        return False
    if {norm.counter for norm in norms} != set(block.roles.counters):
        return False
    is_training = {norm.training for norm in norms}
    if is_training - {block.training} or (True in is_training and y.shape[0] * y.shape[2] * y.shape[3] == 1):
        return False
    alike = all(tensor.dtype == y.dtype and tensor.device == y.device for tensor in stored.values())
    return alike and _goes_together(layers, y.shape[1], stored)


def _goes_together(layers: Layers, channels: int, stored: Mapping[str, Tensor]) -> bool:
    """Whether each layer takes the channels that the one before it gives, and the last gives the image's."""
    widths = [(channels, channels)]
    for layer in layers:
        if isinstance(layer, Conv):
            _, out, inputs, *_ = stored[layer.names[0]].shape
            widths.append((inputs * layer.groups, out))
        elif isinstance(layer, Norm):
            width = stored[layer.names[0]].shape[1]
            widths.append((width, width))
    return all(before[1] == after[0] for before, after in pairwise([*widths, widths[0]]))
