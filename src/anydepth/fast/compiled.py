"""The path of `ad.compile`: one stage of the solver and its gradient compiled once, called for every step.

Whatever the unit is, its stage x + factor * unit(x) is traced with all tensors as inputs (`stage_graphs.py`). The
integration around it is one autograd function. With gradient="checkpoint" it keeps the states alone, and calls the
forward graph again. Gradients of gradients are autograd's, through the unit itself.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any
from warnings import warn
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.autograd.function import FunctionCtx
from torch.utils._pytree import tree_flatten, tree_unflatten

from anydepth.block.field import UnitField
from anydepth.block.passes import Outcome, Pass, Ready
from anydepth.block.paths import PATHS, are_unwatched, stats_of
from anydepth.block.roles import Kind
from anydepth.errors import AnydepthWarning
from anydepth.executor.executor import Executor, Image
from anydepth.fast.native.guard import Guard
from anydepth.fast.stage_graphs import StageGraphs, UntraceableError, compile_stage
from anydepth.solve.checkpoint import set_random_state
from anydepth.solve.plan import Link, Plan
from anydepth.solve.tensors import State, gradients_of, is_batched, random_state

Places = tuple[int, ...]


@PATHS.register("compiled")
def attempt(given: Pass, y: State) -> Ready | str:
    """The whole integration by compiled stages, if `ad.compile` was asked for and the unit can be traced."""
    if not given.is_compiled:
        return "ad.compile(model) was not called"
    reason = _refusal(given, y)
    found = reason or _prepared(given, y[0])
    if isinstance(found, str):
        _tell(given, found)
        return found
    return partial(_solved, given, found, y[0])


attempt.gradients = ("backprop", "checkpoint")  # pyright: ignore[reportFunctionMemberAccess]


def _refusal(given: Pass, y: State) -> str | None:
    """Why a pass cannot be compiled, whatever the unit does."""
    if given.is_tuple or y[0].dtype != given.dtype or y[0].numel() == 0:
        return "the state is a tuple, empty, or narrower than float32"
    if given.plan is None or any(step.links is None for step in given.plan.steps):
        return "the scheme chooses its own steps, or a stage of it does not use the one before it"
    has_state = any(part.kind is not Kind.PARAMETER for part in given.lifted.values())
    if given.roles.counters or given.roles.constants or has_state:
        return "the unit has state, counters or constants"
    if given.image is None or not given.image.is_plain:
        return "attributes of the unit lead to other modules"
    return None


_TOLD: "WeakKeyDictionary[nn.Module, set[str]]" = WeakKeyDictionary()


def _tell(given: Pass, reason: str) -> None:
    """One line for whoever asked for a compiled unit and does not get it."""
    told = _TOLD.setdefault(given.unit, set())
    if reason not in told:
        told.add(reason)
        warn(f"{given.label} runs without the compiler: {reason}", AnydepthWarning, stacklevel=2)


@dataclass(frozen=True)
class _Look:
    """The graphs of a unit, or why there are none, and what they depend on."""

    guard: Guard
    found: StageGraphs | str


_MOST_LOOKS = 16


@dataclass
class Solve:
    """One pass, ready to be stepped through."""

    given: Pass
    plan: Plan
    graphs: StageGraphs
    tensors: list[Tensor]
    """All rows of the weights that are read, and the tensors among the extra arguments."""
    places: list[Places]
    """By evaluation: where among them its tensors are."""
    times: Sequence[Tensor]
    factors: list[Tensor]

    @property
    def count(self) -> int:
        return len(self.plan.stages[0])

    def others(self, evaluation: int, tensors: Sequence[Tensor]) -> list[Tensor]:
        """What a stage is given besides x."""
        time = [self.times[evaluation]] if self.given.has_time else []
        return [self.factors[evaluation], *time, *[tensors[i] for i in self.places[evaluation]]]


def _prepared(given: Pass, y: Tensor) -> Solve | str:
    assert given.plan is not None
    plan, field = given.plan, UnitField(given)
    try:
        rows, times = field.rows(plan), field.times(plan.instants)
    finally:
        field.close()
    tensors, places = _joined(rows, given.context())
    solve = Solve(given, plan, _NO_GRAPHS, tensors, places, times, _factors(plan, y))
    found = _graphs(given, solve, y)
    return found if isinstance(found, str) else replace(solve, graphs=found)


_NO_GRAPHS = StageGraphs(lambda _: (), None, True)


def _joined(rows: Sequence[list[Tensor]], context: list[Tensor]) -> tuple[list[Tensor], list[Places]]:
    """All tensors that stages read, once each, and where among them each evaluation finds its own."""
    known: dict[int, int] = {}
    tensors: list[Tensor] = []
    made: dict[int, Places] = {}
    for row in rows:
        if id(row) not in made:
            for tensor in (*row, *context):
                if id(tensor) not in known:
                    known[id(tensor)] = len(tensors)
                    tensors.append(tensor)
            made[id(row)] = tuple([known[id(tensor)] for tensor in (*row, *context)])
    return tensors, [made[id(row)] for row in rows]


def _factors(plan: Plan, y: Tensor) -> list[Tensor]:
    key = ("factors", y.dtype, y.device)
    if key not in plan.kept:
        with torch.inference_mode(False):
            flat = [link.factor for step in plan.steps for link in step.links or ()]
            plan.kept[key] = list(torch.tensor(flat, dtype=y.dtype, device=y.device).unbind())
    return plan.kept[key]


def _graphs(given: Pass, solve: Solve, y: Tensor) -> StageGraphs | str:
    """Kept as long as the unit does not change; one for every shape, precision and choice of what is trained."""
    is_trained = torch.is_grad_enabled() and any(t.requires_grad for t in (y, *solve.tensors))
    inputs = [y, *solve.others(0, solve.tensors)]
    needs = [is_trained and (i == 0 or tensor.requires_grad) for i, tensor in enumerate(inputs)]
    leaves, spec = tree_flatten((given.args, dict(given.kwargs)))
    fixed = tuple((type(leaf), leaf) for leaf in leaves if not isinstance(leaf, Tensor))
    sizes = tuple((tuple(t.shape), t.stride(), t.dtype, t.device) for t in inputs)
    key = (sizes, tuple(needs), fixed, str(spec), given.unit.training, torch.get_num_threads())
    kept: dict[object, _Look] = {} if given.image is None else given.image.memory.setdefault("compiled", {})
    try:
        look = kept.get(key)
    except TypeError:
        return "an extra argument cannot be compared with that of another pass"
    if not are_unwatched(given.unit.modules() if look is None else look.guard.modules):
        return "hooks or a compiler watch the unit's modules"
    if look is None or look.guard.modules[0] is not given.unit or not look.guard.holds():
        look = _Look(Guard(given.unit), _found(given, inputs, needs))
        if len(kept) >= _MOST_LOOKS:
            kept.clear()
        kept[key] = look
    return look.found


def _found(given: Pass, inputs: list[Tensor], needs: list[bool]) -> StageGraphs | str:
    if not Guard(given.unit).is_closed:
        return "the unit's code reads something that may change without notice (a list, a dictionary, an object)"
    call = Executor(Image(given.unit), tuple(given.lifted), given.aliases)
    stage = _stage(given, call)
    try:
        reason = _oddity(call, stage, inputs, given)
        return reason or compile_stage(stage, inputs, needs, given.unit_name)
    except UntraceableError as error:
        return f"the unit cannot be compiled: {error}"
    finally:
        call.close()


def _oddity(call: Executor, stage: Callable[..., Tensor], inputs: list[Tensor], given: Pass) -> str | None:
    """What the unit does besides computing its result, found by one call."""
    with torch.inference_mode(False), torch.no_grad():
        given_to = [tensor.detach().clone() for tensor in inputs]
        before, versions = random_state(given.device), [tensor._version for tensor in given_to]
        try:
            out = stage(*given_to)
        except Exception as error:  # the general path explains it
            return f"the unit failed: {type(error).__name__}"
        drew = not torch.equal(before, random_state(given.device))
        set_random_state(given.device, before)
    if drew:
        return "the unit draws random numbers"
    if versions != [tensor._version for tensor in given_to] or call.written():
        return "the unit writes to its input, its weights or its attributes"
    if type(out) is not Tensor or out.shape != inputs[0].shape or out.dtype != inputs[0].dtype:
        return "the unit's result has another shape or precision than x"
    return None


def _stage(given: Pass, call: Executor) -> Callable[..., Tensor]:
    """x + factor * unit(x) as a function of all tensors."""
    leaves, spec = tree_flatten((given.args, dict(given.kwargs)))
    has_time, count = int(given.has_time), len(given.lifted)

    def stage(x: Tensor, factor: Tensor, *others: Tensor) -> Tensor:
        time, rows, extra = others[:has_time], others[has_time : has_time + count], iter(others[has_time + count :])
        filled = [next(extra) if isinstance(leaf, Tensor) else leaf for leaf in leaves]
        args, kwargs = tree_unflatten(filled, spec)
        slope, _ = call(rows, (*time, x, *args), kwargs, ())
        return x + factor * slope

    return stage


def _solved(given: Pass, solve: Solve, y: Tensor) -> Outcome:
    if solve.graphs.back is not None:
        out: Any = CompiledSolve.apply(solve, y, *solve.tensors)
    else:
        out = _forward(solve, y, solve.tensors)
    return Outcome((out,), stats_of(solve.plan))


def _laid(tensor: Tensor, like: Tensor) -> Tensor:
    """A tensor with the strides that the graphs were compiled for."""
    if tensor.stride() == like.stride():
        return tensor
    return torch.empty_strided(like.shape, like.stride(), dtype=like.dtype, device=like.device).copy_(tensor)


def _others(link: Link, stage: int) -> Iterator[tuple[int, float]]:
    """Factors on differences to the stage's own state: these add up to nothing, whatever is rounded."""
    return ((j, factor) for j, factor in link.states if j != stage)


def _forward(
    solve: Solve, y: Tensor, tensors: Sequence[Tensor], steps: range | None = None, kept: list | None = None
) -> Tensor:
    """The state after some steps; `kept` collects what each stage's gradient needs."""
    like = y
    for n in range(len(solve.plan.steps)) if steps is None else steps:
        states = [y]
        for i, link in enumerate(solve.plan.steps[n].links or ()):
            here = _laid(states[i], like)
            out, *values = solve.graphs.forward([here, *solve.others(n * solve.count + i, tensors)])
            for j, factor in _others(link, i):
                out.add_(states[j] - here, alpha=factor)
            states.append(out)
            if kept is not None:
                kept.append(values)
        y = states[-1]
    return y


class Kept(FunctionCtx):
    """What the steps keep for their gradient."""

    solve: Solve
    segments: list[range]
    again: bool
    sizes: list[int]
    count: int
    saved_tensors: tuple[Tensor, ...]
    needs_input_grad: tuple[bool, ...]


class CompiledSolve(torch.autograd.Function):
    """All steps, with their gradient."""

    @staticmethod
    def forward(ctx: Kept, solve: Solve, y: Tensor, *tensors: Tensor) -> Tensor:
        ctx.solve, count = solve, len(solve.plan.steps)
        length = solve.given.segment if solve.given.gradient == "checkpoint" else count
        ctx.segments = [range(start, min(start + length, count)) for start in range(0, count, length)]
        ctx.again = solve.given.gradient == "checkpoint"
        starts, kept, now = [], [], y
        for segment in ctx.segments:
            starts.append(now)
            now = _forward(solve, now, tensors, segment, None if ctx.again else kept)
        ctx.sizes, ctx.count = [len(values) for values in kept], len(tensors)
        ctx.save_for_backward(*tensors, *starts, *(value for values in kept for value in values))
        return now

    @staticmethod
    def backward(ctx: Kept, grad: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        solve, needs = ctx.solve, ctx.needs_input_grad[1:]
        tensors = ctx.saved_tensors[: ctx.count]
        starts, flat = ctx.saved_tensors[ctx.count :][: len(ctx.segments)], iter(())
        if torch.is_grad_enabled() or is_batched(grad):
            return (None, *_by_autograd(solve, starts[0], tensors, needs, grad))
        flat = iter(ctx.saved_tensors[ctx.count + len(starts) :])
        kept = [[next(flat) for _ in range(size)] for size in ctx.sizes]
        found: list[Tensor | None] = [None] * len(tensors)
        with torch.no_grad():
            for segment, start in zip(reversed(ctx.segments), reversed(starts), strict=True):
                if ctx.again:
                    kept = []
                    _forward(solve, start, tensors, segment, kept)
                for n in reversed(segment):
                    grad = _step_back(solve, n, _laid(grad, start), kept, found)
        return (None, grad if needs[0] else None, *[g if n else None for g, n in zip(found, needs[1:], strict=True)])


def _step_back(solve: Solve, n: int, grad: Tensor, kept: list[list[Tensor]], found: list[Tensor | None]) -> Tensor:
    """The gradient of a step's first state; those of the tensors are added to what was found."""
    assert solve.graphs.back is not None
    links = solve.plan.steps[n].links or ()
    later: dict[int, Tensor] = {len(links): grad}
    for i in reversed(range(len(links))):
        after = _laid(later[i + 1], grad)
        inner, *others = solve.graphs.back([*kept.pop(), after])
        for j, factor in _others(links[i], i):
            inner = inner.sub(after, alpha=factor)
            later[j] = later[j].add(after, alpha=factor) if j in later else after * factor
        later[i] = inner.add(later[i]) if i in later else inner
        _collect(solve, solve.places[n * solve.count + i], others[1 + solve.given.has_time :], found)
    return later[0]


def _collect(solve: Solve, places: Places, grads: Sequence[Tensor | None], found: list[Tensor | None]) -> None:
    into: list[Tensor] = []
    more: list[Tensor] = []
    for place, grad in zip(places, grads, strict=True):
        if grad is None:
            continue
        before = found[place]
        if before is None:
            found[place] = grad if solve.graphs.is_apart else grad.clone()
        else:
            into.append(before)
            more.append(grad)
    if into:
        torch._foreach_add_(into, more)  # pyright: ignore[reportPrivateImportUsage]


def _by_autograd(
    solve: Solve, y: Tensor, tensors: Sequence[Tensor], needs: Sequence[bool], grad: Tensor
) -> list[Tensor | None]:
    """Gradients that can be differentiated again, or many at once, through the unit itself."""
    given = solve.given
    assert given.image is not None
    call = Executor(given.image, tuple(given.lifted), given.aliases)
    stage = _stage(given, call)
    try:
        with torch.enable_grad():
            start, *rest = (tensor.view_as(tensor) for tensor in (y, *tensors))
            out = start
            for n, step in enumerate(solve.plan.steps):
                states = [out]
                for i, link in enumerate(step.links or ()):
                    found = stage(states[i], *solve.others(n * solve.count + i, rest))
                    for j, factor in _others(link, i):
                        found = found.add(states[j] - states[i], alpha=factor)
                    states.append(found)
                out = states[-1]
        return gradients_of(out, (start, *rest), needs, grad)
    finally:
        call.close()
