"""A program with steps of a scheme's own choosing: every trial step is one call of the kernels."""

from collections.abc import Sequence
from copy import copy
from fractions import Fraction
from functools import partial

from torch import Tensor

from anydepth.block.passes import Outcome, Pass
from anydepth.depth.schemes import Scheme
from anydepth.depth.times import Instant
from anydepth.fast.native.bound import Bound
from anydepth.fast.native.fixed_steps import DTYPES, bind, names_of, slot_values
from anydepth.fast.native.program import Program
from anydepth.fast.native.reference import evaluate
from anydepth.fast.native.slots import Rows
from anydepth.fast.native.solve_native import solve as solve_bound
from anydepth.solve.adaptive import Adaptive
from anydepth.solve.fixed import Run
from anydepth.solve.plan import Stages, Step, make_step
from anydepth.solve.solver import Tolerance
from anydepth.solve.tensors import State
from anydepth.weights.expansion import Expansion
from anydepth.weights.protocol import Reading, WeightFunction


def solve(given: Pass, program: Program, y: Tensor) -> Outcome:
    """The state at depth 1."""
    field = NativeField(given, program, y)
    across = given.across if given.is_training else None
    tolerance = given.solver.tolerance or Tolerance()
    run = Adaptive(field, given.solver.scheme, tolerance, given.label, field.step, across=across)
    flat = y.reshape(-1, y.shape[-1])
    *_, (result,) = run.states((flat,), (Fraction(0), Fraction(1)))
    return Outcome((result.reshape(y.shape),), run.stats)


class NativeField:
    """The vector field of a pass, as `Adaptive` wants it."""

    def __init__(self, given: Pass, program: Program, y: Tensor):
        self.given, self.program, self.y = given, program, y
        self.scheme: Scheme = given.solver.scheme
        self.unit_step = make_step(self.scheme, Fraction(1))
        functions = [given.lifted[name].function for name in names_of(program.slots)]
        self._constant = {function: Everywhere() for function in functions if _is_constant(function)}
        self._bound: dict[object, Bound] = {}

    @property
    def scale(self) -> Fraction:
        return self.given.scale

    @property
    def breakpoints(self) -> Sequence[Fraction]:
        return sorted({b for function in self.given.functions.values() for b in function.breakpoints})

    def stages(self, instants: Sequence[Instant]) -> "NativeStages":
        def reading(function: WeightFunction) -> Reading:
            found = self._constant.get(function)
            return function.reading(instants) if found is None else found.at(instants)

        times = [float(instant.time) for instant in instants]
        return NativeStages(self, slot_values(self.given, self.program, reading, times, self.y))

    def bound(self, values: Sequence[Rows]) -> Bound:
        """The program for one step of unit width."""
        key = tuple((value.index, value.tensor.shape[0]) for value in values)
        if key not in self._bound:
            made = self._bound[key] = bind(self.program, (self.unit_step,), values, DTYPES[self.y.dtype])
            _ = (made.tables, made.indices, made.exact, made.stages, made.unit)  # worked out once for all widths
        return self._bound[key]

    def step(self, run: Run, stages: Sequence[Stages], inputs: State) -> State:
        """A piece of the integration: a trial step is the kernels', the slope at a point PyTorch's."""
        (at,) = stages
        if len(inputs) == 1 or not isinstance(run, partial) or not isinstance(at, NativeStages):
            return run(stages, inputs)
        step, is_fsal = run.args[0], run.args[1]
        y, first = inputs
        out, last, error = solve_bound(at.wide(step), y, first, [value.tensor for value in at.values])
        return (out, error, last) if is_fsal else (out, error)


class NativeStages:
    """The stages of one step."""

    def __init__(self, field: NativeField, values: list[Rows]):
        self.field, self.values = field, values

    def __call__(self, stage: int, y: State) -> State:
        tensors, index = [value.tensor for value in self.values], [value.index for value in self.values]
        return (evaluate(self.field.program, index, stage, y[0], tensors),)

    def wide(self, step: Step) -> Bound:
        """The program for a step of another width."""
        found = copy(self.field.bound(self.values))
        unit = next(((j, factor) for j, factor in self.field.unit_step.result if factor), (0, 1.0))
        width = dict(step.result)[unit[0]] / unit[1]
        found.coefficients = (found.exact * width).astype(found.dtype)
        found.steps = (step,)
        return found

    def accept(self) -> None:
        """There is no state."""


class Everywhere:
    """A reading of a function that is one stored tensor at all depths."""

    def __init__(self) -> None:
        self.index: tuple[int, ...] = ()

    def at(self, instants: Sequence[Instant]) -> Reading:
        self.index = (0,) * len(instants)
        return self  # pyright: ignore[reportReturnType]

    def stacked(self, stored_KX: Tensor) -> tuple[Tensor, tuple[int, ...]]:
        return stored_KX, self.index


def _is_constant(function: WeightFunction) -> bool:
    """Whether what is stored is theta at every depth."""
    if not isinstance(function, Expansion) or function.size != 1:
        return False
    times = (Fraction(0), Fraction(1, 3), Fraction(1))
    return bool((function.reading([Instant(time) for time in times]).design_UK == 1).all())
