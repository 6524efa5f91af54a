"""What the same weights do in other forms: with other solvers, fewer parameters, and without their blocks."""

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import asdict, dataclass

from torch import nn

from anydepth.depth.schemes import SCHEMES
from anydepth.errors import ConfigError, NumericalError
from anydepth.json_values import JsonObject
from anydepth.measure.evaluation import Score
from anydepth.reporting import Report
from anydepth.solve.solver import Solver, SolverSettings
from anydepth.surgery.blocks import blocks_of
from anydepth.surgery.forms import MIXED, own_basis, sizes_up_to
from anydepth.surgery.resize import compress, set_solver
from anydepth.surgery.summary import summary

EvaluateFn = Callable[[nn.Module], Score]

USUAL_SCHEMES = ("euler", "midpoint", "rk4", "rk4_38")
USUAL_STEPS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
STEPS_WITHOUT_GRID = 8
"""Stands for the trained number of steps where an adaptive scheme chose its own."""
TOLERANCE_FACTORS = (1000.0, 100.0, 10.0, 1.0, 0.1)
SHARES = (1 / 16, 1 / 8, 1 / 4, 3 / 8, 1 / 2, 5 / 8, 3 / 4, 7 / 8, 1)
"""Sizes to compress to when there are too many to try all."""


@dataclass(frozen=True)
class SolverPoint:
    """The metric with one solver; None where the outputs are not finite."""

    scheme: str
    steps: int
    """Taken steps, where an adaptive scheme chose them."""
    nfe: int
    value: float | None
    rtol: float | None = None
    """Of an adaptive scheme."""
    is_trained: bool = False

    @property
    def label(self) -> str:
        return f"{self.scheme} x {self.steps}" if self.rtol is None else f"{self.scheme} rtol {self.rtol:.0e}"


@dataclass(frozen=True)
class SolverGrid:
    """The metric for every (scheme, steps), and for a few tolerances where the model is solved adaptively."""

    points: tuple[SolverPoint, ...]

    @property
    def fixed(self) -> tuple[SolverPoint, ...]:
        return tuple(point for point in self.points if point.rtol is None)

    @property
    def adaptive(self) -> tuple[SolverPoint, ...]:
        return tuple(point for point in self.points if point.rtol is not None)

    def by_scheme(self) -> dict[str, list[SolverPoint]]:
        """Fixed schemes with their points, fewest steps first."""
        schemes = dict.fromkeys(point.scheme for point in self.fixed)
        return {s: sorted((p for p in self.fixed if p.scheme == s), key=lambda p: p.steps) for s in schemes}

    def describe(self) -> list[dict[str, object]]:
        return [asdict(point) for point in self.points]


@dataclass(frozen=True)
class Compressed:
    """The model projected onto another basis or size."""

    basis: str
    size: int
    steps: int | None
    """The largest number of steps of any block; None where all are adaptive."""
    is_shortened: bool
    """Whether the steps were cut down to the size."""
    parameters: int
    nfe: int
    value: float | None

    @property
    def label(self) -> str:
        steps = "1 step" if self.steps == 1 else f"{self.steps} steps"
        return f"{self.basis}:{self.size}" + (f" with {steps}" if self.is_shortened else "")


@dataclass(frozen=True)
class CompressionCurve:
    """The metric over target bases and sizes; `refused` says why something could not be done."""

    points: tuple[Compressed, ...]
    parameters: int
    """Of the model as it is."""
    refused: str | None = None

    def describe(self) -> JsonObject:
        return asdict(self) | {"points": [asdict(point) for point in self.points]}


def solver_grid(
    model: nn.Module,
    evaluate_fn: EvaluateFn,
    schemes: Sequence[str] | None = None,
    steps: Sequence[int] | None = None,
    report: Report | None = None,
) -> SolverGrid:
    """Run the same weights with every scheme and number of steps (ContinuousNet eq 27)."""
    schemes, steps = schemes or usual_schemes(model), steps or usual_steps(model)
    own, trial = common_solver(model), deepcopy(model)
    plans = [*_looser_and_tighter(own), *((scheme, {"steps": count}) for scheme in schemes for count in steps)]
    points = []
    for place, (scheme, settings) in enumerate(plans):
        _tell(report, f"running with {scheme}", place / len(plans))
        set_solver(trial, scheme=scheme, **settings)
        value = _value(trial, evaluate_fn)
        taken = settings.get("steps") or max(block.stats.accepted for block in blocks_of(trial).values())
        is_own = common_solver(trial) == own
        points.append(SolverPoint(scheme, taken, summary(trial).nfe, value, settings.get("rtol"), is_own))
    return SolverGrid(tuple(points))


def _looser_and_tighter(own: Solver | None) -> list[tuple[str, SolverSettings]]:
    """An adaptive solver's scheme with other tolerances."""
    if own is None or own.tolerance is None:
        return []
    rtol, atol = own.tolerance.rtol, own.tolerance.atol
    return [(own.scheme.name, {"rtol": rtol * factor, "atol": atol * factor}) for factor in TOLERANCE_FACTORS]


def common_solver(model: nn.Module) -> Solver | None:
    """The solver that all blocks share, if they do."""
    first, *others = (block.solver for block in blocks_of(model).values())
    return first if all(solver == first for solver in others) else None


def usual_schemes(model: nn.Module) -> tuple[str, ...]:
    """The usual schemes, and the fixed ones that the model has."""
    own = (block.scheme.name for block in blocks_of(model).values())
    return tuple(dict.fromkeys((*USUAL_SCHEMES, *(name for name in own if not SCHEMES[name].is_adaptive))))


def usual_steps(model: nn.Module) -> tuple[int, ...]:
    """The usual numbers of steps up to twice the trained one, and that one."""
    trained = [block.steps for block in blocks_of(model).values() if block.steps is not None]
    limit = max(4, 2 * max(trained, default=STEPS_WITHOUT_GRID))
    return tuple(sorted({*(n for n in USUAL_STEPS if n <= limit), *trained}))


def compression_curve(
    model: nn.Module,
    evaluate_fn: EvaluateFn,
    bases: Sequence[str] | None = None,
    sizes: Sequence[int] | None = None,
    report: Report | None = None,
) -> CompressionCurve:
    """Project the weights onto smaller bases: with the steps as they are, then with as many steps as functions."""
    blocks = blocks_of(model)
    own, sizes = own_basis(model), sizes or usual_sizes(max(block.size for block in blocks.values()))
    bases = bases or tuple(dict.fromkeys((own, "constant", "linear")))
    plans = [(b, k, cut) for cut in (False, True) for b in bases for k in sizes if not cut or _shortened(model, k)]
    points, refused = [], None
    for place, (basis, size, is_cut) in enumerate(plans):
        _tell(report, f"compressing to {basis}", place / len(plans))
        try:
            small = _compressed(model, None if basis == MIXED else basis, size, is_cut)
        except ConfigError as error:
            refused = refused or f"{basis}:{size}: {error}"
            continue
        value, found = _value(small, evaluate_fn), summary(small)
        steps = max((b.steps for b in blocks_of(small).values() if b.steps is not None), default=None)
        points.append(Compressed(basis, size, steps, is_cut, found.parameters, found.nfe, value))
    return CompressionCurve(tuple(points), summary(model).parameters, refused)


def usual_sizes(size: int) -> tuple[int, ...]:
    """From 1 to the size, at most ten of them."""
    return tuple(range(1, size + 1)) if size <= 10 else tuple(sorted({1, *(round(size * s) for s in SHARES)}))


def _compressed(model: nn.Module, basis: str | None, size: int, is_cut: bool) -> nn.Module:
    """No tensor grows by it: those that are smaller than the size stay as large as they are."""
    sizes = sizes_up_to(model, size)
    return compress(model, basis=basis, size=sizes, steps=_shortened(model, size) if is_cut else None)


def _shortened(model: nn.Module, size: int) -> dict[str, int]:
    """Blocks with more steps than `size`, and that as their number of steps."""
    return {name: size for name, block in blocks_of(model).items() if block.steps is not None and block.steps > size}


def _value(model: nn.Module, evaluate_fn: EvaluateFn) -> float | None:
    """The metric, or None where the outputs are not finite."""
    try:
        return evaluate_fn(model).value
    except NumericalError:
        return None


def _tell(report: Report | None, what: str, share: float) -> None:
    if report is not None:
        report(what, share)
