"""The path for images: units that are chains of convolutions, batch norms and ReLUs.

For such a unit every step of the solver is one autograd function (`fast/image_step.py`). It calls no module, builds no
graph inside, and adds up gradients in place. Results are those of the general path, to the bit for Euler's method with
scale = steps; gradients of gradients are autograd's. On CPUs only, where it was measured.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from anydepth.block.passes import Kind, Outcome, Pass, Ready, Samples
from anydepth.block.paths import PATHS, UnitRefusal, is_unwatched, listed, stats_of
from anydepth.fast.freed_memory import keep_freed_blocks
from anydepth.fast.image_step import Conv, Layers, Norm, Places, Relu, StepProgram, StepSolve, format_of
from anydepth.fast.kept_weights import kept_weights
from anydepth.solve.plan import Plan, Readable, rounded
from anydepth.solve.tensors import State
from anydepth.weights.protocol import WeightFunction

_NO_CHAIN = "the unit is not a plain chain of convolutions, batch norms and ReLUs that keeps the image's size"


@PATHS.register("image")
def attempt(given: Pass, y: State) -> Ready | str:
    """Every step as one function, if the unit is a chain of layers for images."""
    if given.takes_more:
        return "the unit takes more than one tensor"
    layers = _chain(given)
    if layers is None:
        return UnitRefusal(_NO_CHAIN)
    (start,) = y
    if start.dim() != 4 or start.numel() == 0 or start.dtype != given.dtype or start.device.type != "cpu":
        return "x is not an image in at least float32 on a CPU"
    if not is_unwatched(given.unit):
        return "hooks or a compiler watch the unit's modules"
    if given.plan is None:
        return "the scheme chooses its own steps"
    if given.gradient == "checkpoint" and given.segment > 1:
        return "a segment has more than one step"
    if given.roles.constants or given.plan.steps[0].links is None:
        return "the unit has constants, or a stage of the scheme does not use the one before it"
    if not _fits(given, layers, start):
        return "precisions, modes or channels differ, or weights are shared"
    return partial(_solved, given, given.plan, layers, start)


attempt.gradients = ("backprop", "checkpoint")  # pyright: ignore[reportFunctionMemberAccess]


def _chain(given: Pass) -> Layers | None:
    """What `chain_of` says, kept as long as the unit looks the same."""
    if given.image is None:
        return chain_of(given.unit)
    known = given.image.chains
    if "image" not in known:
        known["image"] = chain_of(given.unit)
    return known["image"]


def chain_of(unit: nn.Module) -> Layers | None:
    """The unit as a chain of layers, if it is one and keeps the image's size.

    It begins with a layer whose gradient needs the layer's input: then keeping the state costs nothing. A ReLU after a
    ReLU does nothing, and is left out.
    """
    named = listed(unit)
    if named is None:
        return None
    found = [_layer(name, module) for name, module in named if type(module) is not nn.Identity]
    known = tuple(layer for layer in found if layer is not None)
    is_image = any(isinstance(layer, Conv) for layer in known) and isinstance(known[0], Conv | Norm)
    if not is_image or len(known) < len(found):
        return None
    return (known[0], *(b for a, b in pairwise(known) if not (isinstance(a, Relu) and isinstance(b, Relu))))


def _layer(name: str, module: object) -> Conv | Norm | Relu | None:
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


def _solved(given: Pass, plan: Plan, layers: Layers, y: Tensor) -> Outcome:
    """The state at the end of the plan, and what the norms left."""
    keep_freed_blocks()
    last = layers[-1]
    is_worth = isinstance(last, Conv) and y.numel() >= given.held[last.names[0]][0][0].numel()
    reads = _reads(given, plan, layers, last.names if is_worth else ())
    key = (plan, tuple(layer.names for layer in layers), last.names if is_worth else (), format_of(y))
    rows, before, after = kept_weights(
        given, key, lambda: (_rows(given, plan, reads, format_of(y)), *_states(given, plan, layers))
    )
    running = list(zip(*(tensor.unbind(0) for tensor in after.values()), strict=True)) or [()] * plan.evaluations
    has_gradient = torch.is_grad_enabled()
    start, spare, is_forgotten = 0, None if has_gradient else torch.empty_like(y), given.gradient == "checkpoint"
    for step, (picks, places) in zip(plan.steps, reads.steps, strict=True):
        among = running[start : start + len(places)]
        links = rounded(step.links or (), y.dtype)
        program = StepProgram(layers, links, places, among, not is_worth, spare, is_forgotten)
        start, mine = start + len(places), [rows[i] for i in picks]
        y = StepSolve.apply(program, y, *mine) if has_gradient else program.run(y, mine)  # pyright: ignore
    return Outcome((y,), stats_of(plan), *_left(given, plan, layers, before, after))


def _reads(given: Pass, plan: Plan, layers: Layers, scaled: tuple[str, ...]) -> Reads:
    """Worked out once for a plan: it depends on the weight functions, not on the weights."""
    names = tuple(name for layer in layers for name in layer.names)
    functions = tuple(given.lifted[name].function for name in names)
    key = (tuple(layer.names for layer in layers), functions, scaled)
    if key not in plan.kept:
        plan.kept[key] = _make_reads(plan, layers, names, functions, scaled)
    return plan.kept[key]


def _make_reads(
    plan: Plan, layers: Layers, names: tuple[str, ...], functions: tuple[Readable[Any], ...], scaled: tuple[str, ...]
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


def _rows(given: Pass, plan: Plan, reads: Reads, form: torch.memory_format) -> list[Tensor]:
    """All rows that the plan reads, kernels in the image's format."""
    found: list[Tensor] = []
    for name, (places, factors) in reads.rows.items():
        rows = _in_format(given.lifted[name].function, plan, given.held[name], form)
        found += [rows[i] if factor == 1 else rows[i] * factor for i, factor in zip(places, factors, strict=True)]
    return found


def _in_format(
    function: WeightFunction, plan: Plan, held: tuple[Tensor, ...], form: torch.memory_format
) -> Sequence[Tensor]:
    reading = plan.reading(function)
    if held[0].dim() != 5 or form is not torch.channels_last:
        return reading.rows(*held)
    if function.is_linear:  # works on any axes: change all of them at once
        return [row.movedim(-1, 1) for row in reading.rows(held[0].movedim(2, -1).contiguous())]
    return [row.contiguous(memory_format=form) for row in reading.rows(*held)]


def _states(given: Pass, plan: Plan, layers: Layers) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Running statistics before a pass, and those it may change: rows of its own for every evaluation."""
    before: dict[str, Tensor] = {}
    for name in (name for layer in layers if isinstance(layer, Norm) for name in layer.state):
        part = given.lifted[name]
        reading = plan.reading(part.function)
        with torch.no_grad():
            rows = part.kind.decode(torch.stack(list(reading.rows(*given.held[name]))))
            before[name] = rows[list(reading.index)]
    return before, {name: rows.clone() for name, rows in before.items()} if given.is_training else before


def _left(
    given: Pass, plan: Plan, layers: Layers, before: Mapping[str, Tensor], after: Mapping[str, Tensor]
) -> tuple[dict[str, Samples], dict[str, Tensor]]:
    """Samples of the statistics, and the counters one further; nothing in evaluation."""
    if not given.is_training:
        return {}, {}
    counters = [layer.counter for layer in layers if isinstance(layer, Norm)]
    samples = {name: Samples(plan.instants, before[name], rows) for name, rows in after.items()}
    return samples, {name: given.shared[name] + 1 for name in counters}


def _fits(given: Pass, layers: Layers, y: Tensor) -> bool:
    """Whether every tensor of the unit is in the chain, once, in the image's precision, and channels go together."""
    stored = {name: tensors[0] for name, tensors in given.held.items()}
    norms = [layer for layer in layers if isinstance(layer, Norm)]
    trained, state = [n for layer in layers for n in layer.names], [n for norm in norms for n in norm.state]
    kinds = {name: part.kind is Kind.PARAMETER for name, part in given.lifted.items()}
    if len(trained) + len(state) != len(kinds) or kinds != dict.fromkeys(trained, True) | dict.fromkeys(state, False):
        return False
    if {norm.counter for norm in norms} != set(given.roles.counters):
        return False
    modes = {norm.training for norm in norms}
    if modes - {given.is_training} or (True in modes and y.shape[0] * y.shape[2] * y.shape[3] == 1):
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
