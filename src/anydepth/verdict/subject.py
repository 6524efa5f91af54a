"""What can be judged: something that turns inputs into outputs with any solvers it is given."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import torch
from torch import Tensor, nn

from anydepth.block.block import ContinuousBlock
from anydepth.data.table import Batch
from anydepth.depth.grids import Grid
from anydepth.depth.schemes import Scheme
from anydepth.depth.times import TimeLike, exact
from anydepth.errors import ShapeError
from anydepth.measure.answers import answer, outputs_of
from anydepth.measure.evaluation import evaluating, nfe_of
from anydepth.solve.adaptive import Stats
from anydepth.solve.odeint import odeint
from anydepth.solve.solver import Solver
from anydepth.surgery.blocks import blocks_of
from anydepth.verdict.swap import Solvers

PIECES = 128
"""Straight pieces that the path of a curved step is drawn with, at least, over all of depth."""


@dataclass(frozen=True)
class Outputs:
    """What came out, batch by batch, and the evaluations that one batch took."""

    batches: list[Tensor]
    nfe: int


class Subject(ABC):
    """A copy of what was given; the original is left alone."""

    model: nn.Module
    solvers: Solvers
    """As it was trained."""
    duration: float = 1.0
    """What one unit of depth is in the field's own time."""

    def outputs(self, solvers: Solvers, examples: Sequence[Batch]) -> Outputs:
        self.use(solvers)
        with resting(self.model):
            found = [_tensor(answer(self.model, placed(self.model, example).inputs)).cpu() for example in examples]
        return Outputs(found, self.nfe)

    @abstractmethod
    def use(self, solvers: Solvers) -> None:
        """Run with these from now on."""

    @property
    @abstractmethod
    def nfe(self) -> int:
        """Evaluations in the last pass."""

    @abstractmethod
    def paths(self, example: Batch) -> Tensor | None:
        """[time, points, 2] of a planar autonomous state, as trained; None where the state is not that.

        None also where the solver chooses its steps: they cannot be seen, and times to draw would make them smaller.
        """


class Model(Subject):
    """A module with continuous blocks."""

    def __init__(self, model: nn.Module):
        blocks_of(model)
        self.model = deepcopy(model)
        self.blocks = list(blocks_of(self.model).values())
        self.solvers = tuple(block.solver for block in self.blocks)

    def use(self, solvers: Solvers) -> None:
        for block, solver in zip(self.blocks, solvers, strict=True):
            block.set_solver(**solver.describe())
            block.stats = Stats()

    @property
    def nfe(self) -> int:
        return nfe_of(self.model)

    def paths(self, example: Batch) -> Tensor | None:
        self.use(self.solvers)
        seen: list[tuple[ContinuousBlock, Tensor, Grid]] = []

        def look(block: nn.Module, args: tuple, kwargs: dict[str, object]) -> None:
            assert isinstance(block, ContinuousBlock)
            if not kwargs and len(args) == 1 and _is_planar(args[0]) and block.grid is not None:
                seen.append((block, args[0], block.grid))

        able = [block for block in self.blocks if _is_autonomous(block) and block.grid is not None]
        handles = [block.register_forward_pre_hook(look, with_kwargs=True) for block in able]
        with resting(self.model):
            if able:
                outputs_of(self.model, placed(self.model, example).inputs)
            for handle in handles:
                handle.remove()
            if not seen:
                return None
            block, start, grid = seen[0]
            return _flat(block.trajectory(start, _fine_times(block.solver.scheme, grid)))


class Field(Subject):
    """A plain vector field f(t, y), a solver, and what reads the outputs off the last state."""

    def __init__(self, field: Callable, solver: Solver, head: Callable | None, span: tuple[TimeLike, TimeLike]):
        self.flow = _Flow(deepcopy(field), solver, deepcopy(head), (exact(span[0]), exact(span[1])))
        self.model, self.solvers = self.flow, (solver,)
        self.duration = abs(float(self.flow.span[1] - self.flow.span[0]))

    def use(self, solvers: Solvers) -> None:
        self.flow.solver = solvers[0]

    @property
    def nfe(self) -> int:
        return self.flow.evaluations

    def paths(self, example: Batch) -> Tensor | None:
        start, grid = placed(self.model, example).inputs, self.solvers[0].grid
        self.use(self.solvers)
        with resting(self.model):
            if grid is None or len(start) != 1 or not _is_planar(start[0]) or not self.flow.is_autonomous(start[0]):
                return None
            return _flat(self.flow.along(start[0], grid, _fine_times(self.flow.solver.scheme, grid)))


class _Flow(nn.Module):
    """The last state of a field, or what a head makes of it."""

    def __init__(self, field: Callable, solver: Solver, head: Callable | None, span: tuple[Fraction, Fraction]):
        super().__init__()
        self.field, self.head, self.solver, self.span, self.evaluations = field, head, solver, span, 0

    def forward(self, *y: Tensor) -> Tensor:
        self.evaluations = 0
        end = self._end(y[0] if len(y) == 1 else y)
        if self.head is not None:
            return self.head(end)
        return end if isinstance(end, Tensor) else torch.cat([part.flatten(1) for part in end], 1)

    def _end(self, y: Tensor | tuple[Tensor, ...]) -> Tensor | tuple[Tensor, ...]:
        grid = self.solver.grid
        if grid is None or grid.is_uniform:
            states = self._solved(y, self.span, None if grid is None else grid.steps)
        else:
            states = self._solved(y, [self._time(time) for time in grid.times])
        return states[-1] if isinstance(states, Tensor) else tuple(part[-1] for part in states)

    def along(self, y: Tensor, grid: Grid, times: Sequence[Fraction]) -> Tensor:
        """The states at shares of the span: at grid points those of the pass, between them by a step from the last."""
        states = self._solved(y, [self._time(time) for time in grid.times])
        points = dict(zip(grid.times, states, strict=True))
        for time in times:
            if time not in points:
                start = max(point for point in grid.times if point < time)
                points[time] = self._solved(points[start], [self._time(start), self._time(time)])[-1]
        return torch.stack([points[time] for time in times])

    def is_autonomous(self, y: Tensor) -> bool:
        """Whether the slopes at y are the same at the start, in the middle, and at the end."""
        slopes = [self._slope(torch.tensor(float(self._time(t)), dtype=y.dtype), y) for t in (0, Fraction(1, 2), 1)]
        return all(torch.equal(slope, slopes[0]) for slope in slopes)

    def _solved(self, y: Any, times: Sequence[Fraction], steps: int | None = None) -> Any:
        method, limits = self.solver.scheme.name, self.solver.tolerance
        if limits is None:
            return odeint(self._slope, y, times, method=method, steps=steps)
        rtol, atol, most = limits.rtol, limits.atol, limits.max_steps
        return odeint(self._slope, y, times, method=method, rtol=rtol, atol=atol, max_steps=most)

    def _time(self, share: Fraction | int) -> Fraction:
        return self.span[0] + share * (self.span[1] - self.span[0])

    def _slope(self, t: Tensor, y: Any) -> Any:
        self.evaluations += 1
        return self.field(t, y)


@contextmanager
def resting(model: nn.Module) -> Iterator[None]:
    """Eval mode without gradients; fields that differentiate something themselves can still do so."""
    with evaluating(model), torch.inference_mode(False), torch.no_grad():
        yield


def placed(model: nn.Module, example: Batch) -> Batch:
    """A batch on the device and in the precision of the model, if it has any parameters."""
    first = next((p for p in model.parameters() if p.is_floating_point()), None)
    return example if first is None else example.to(first.device, first.dtype, channels_last=True)


def _tensor(outputs: object) -> Tensor:
    if not isinstance(outputs, Tensor):
        raise ShapeError(
            f"outputs must be one tensor, got {type(outputs).__name__}; "
            "wrap the model so that it returns the tensor to judge"
        )
    if not outputs.is_floating_point():
        raise ShapeError(
            f"outputs must be floating-point numbers, got {str(outputs.dtype).removeprefix('torch.')}; "
            "return the scores themselves, not the classes that they choose"
        )
    return outputs.detach()


def _is_autonomous(block: ContinuousBlock) -> bool:
    return not block.time and all(f.is_constant for f in block.functions.values())


def _is_planar(x: object) -> bool:
    return isinstance(x, Tensor) and x.dim() > 1 and x[:1].numel() == 2


def _fine_times(scheme: Scheme, grid: Grid) -> list[Fraction]:
    """The grid of a scheme with straight steps; else times that are close enough to draw its curves."""
    factor = 1 if scheme.stages == 1 else -(-PIECES // grid.steps)
    return list(grid.refined(factor).times)


def _flat(states: Any) -> Tensor:
    return states.flatten(2)
