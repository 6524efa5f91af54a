"""A size and a number of steps for every block, by what its own compression does to the outputs."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from torch import nn

from anydepth.deploy.sweeps.budget import Budget
from anydepth.deploy.sweeps.result import RIVALS
from anydepth.deploy.sweeps.sweep_inputs import SweepInputs, inputs_of_run
from anydepth.depth.bases import ladder
from anydepth.errors import BudgetError, ConfigError
from anydepth.json_values import JsonObject
from anydepth.measure.distance import relative_distance
from anydepth.measure.form_meter import FormMeter
from anydepth.measure.paired import drop_of
from anydepth.reporting import Report
from anydepth.runs.folder import Run
from anydepth.surgery.blocks import blocks_of
from anydepth.surgery.forms import MIXED, own_basis
from anydepth.surgery.resize import compress
from anydepth.surgery.summary import summary

LEAST_GAIN = 1e-9
"""A change of the outputs below this counts as this, so that free steps down are taken by what they save."""


@dataclass(frozen=True, order=True)
class Shape:
    """What one block is made: no tensor of it gets larger than `size`."""

    size: int
    steps: int | None


Shapes = Mapping[str, Shape]


@dataclass(frozen=True)
class BlockFit:
    """A model with a shape for every block, and how it does."""

    model: nn.Module
    shapes: Shapes
    indicators: Mapping[str, Mapping[Shape, float]]
    """Of every block and shape, the relative change of the outputs when this block alone is made so."""
    metric: str
    value: float
    drop: float
    most_drop: float
    """The drop that other examples of the same kind keep, with the budget's confidence."""
    parameters: int
    inputs: SweepInputs

    def describe(self) -> JsonObject:
        """JSON values."""
        told = {name: {"size": shape.size, "steps": shape.steps} for name, shape in self.shapes.items()}
        names = ("metric", "value", "drop", "most_drop", "parameters")
        return {"blocks": told} | {name: getattr(self, name) for name in names}


def shaped(model: nn.Module, shapes: Shapes) -> nn.Module:
    """A new model with a shape for every block named; tensors that are smaller stay as they are."""
    blocks = blocks_of(model)
    sizes = {n: {t: min(s.size, f.size) for t, f in blocks[n].functions.items()} for n, s in shapes.items()}
    steps = {n: s.steps for n, s in shapes.items() if s.steps is not None and s.steps != blocks[n].steps}
    return compress(model, size=sizes, steps=steps or None)


def fit_blocks(run: Run, budget: Budget, data: Path | None = None, report: Report | None = None) -> BlockFit:
    """Sizes and steps for every block of a run's model, judged on its validation part."""
    if budget.max_latency_ms is not None:
        raise ConfigError("--per-block does not support --max-latency-ms; give --max-params or --max-drop")
    return fit_blocks_on(inputs_of_run(run, data, "validation", None, 1, 1), budget, report)


def fit_blocks_on(given: SweepInputs, budget: Budget, report: Report | None = None) -> BlockFit:
    """The same on inputs that are at hand.

    From the model as it is, one block after the other is made smaller: always the one that changes the outputs
    least for the parameters and evaluations that it saves. With a limit on parameters the first model below it is
    taken; with one on the drop, the smallest that keeps it.
    """
    meter = given.meter
    if own_basis(meter.model) == MIXED:
        raise ConfigError("--per-block needs weights of one basis; this model mixes several")
    indicators = indicators_of(meter, report)
    path = _path(meter.model, indicators)
    fits = [shapes for shapes in path if budget.affords(_parameters(meter.model, shapes), 0.0)]
    if not fits:
        least = _parameters(meter.model, path[-1])
        raise BudgetError(f"no shapes of the blocks meet {budget}; the fewest parameters are {least:,}")
    tried = reversed(fits) if budget.is_drop_alone else fits
    best: BlockFit | None = None
    for shapes in tried:
        found = _judged(given, shapes, indicators, budget)
        if found is not None and budget.tolerates(found.most_drop):
            return found
        if found is not None and (best is None or found.most_drop < best.most_drop):
            best = found
    told = "" if best is None else f"; the smallest drop found is {best.drop:.3g}, at most {best.most_drop:.3g}"
    raise BudgetError(f"no shapes of the blocks meet {budget}{told}")


def indicators_of(meter: FormMeter, report: Report | None = None) -> dict[str, dict[Shape, float]]:
    """Of every block and every smaller shape, how far the outputs move when this block alone is made so."""
    plans = [(name, shape) for name, shapes in _shapes(meter.model).items() for shape in shapes]
    found: dict[str, dict[Shape, float]] = {name: {} for name in blocks_of(meter.model)}
    for place, (name, shape) in enumerate(plans):
        if report is not None:
            report(f"{name}: size {shape.size}, steps {shape.steps}", place / len(plans))
        outputs = meter.outputs(shaped(meter.model, {name: shape}))
        found[name][shape] = float("inf") if outputs is None else relative_distance(meter.source_outputs, outputs)
    return found


def _shapes(model: nn.Module) -> dict[str, list[Shape]]:
    """Of every block: its sizes down the ladder, each with its own steps and with as many steps as functions."""
    basis, found = own_basis(model), {}
    for name, block in blocks_of(model).items():
        own = Shape(block.size, block.steps)
        sizes = ladder(basis, block.size)
        cut = [None if block.steps is None else min(block.steps, size) for size in sizes]
        every = [Shape(size, steps) for size, few in zip(sizes, cut, strict=True) for steps in {block.steps, few}]
        found[name] = sorted({shape for shape in every if shape != own}, key=lambda s: (-s.size, -(s.steps or 0)))
    return found


def _path(model: nn.Module, indicators: Mapping[str, Mapping[Shape, float]]) -> list[dict[str, Shape]]:
    """From the model as it is down to its smallest shapes, one block at a time."""
    blocks = blocks_of(model)
    now = {name: Shape(block.size, block.steps) for name, block in blocks.items()}
    error, path = dict.fromkeys(blocks, 0.0), [dict(now)]
    cost = {name: sum(block.counts()) / max(1, block.size) for name, block in blocks.items()}
    whole = sum(_cost(cost[name], shape) for name, shape in now.items())
    while True:
        moves = [
            (max(LEAST_GAIN, added - error[name]) / saved, name, shape, added)
            for name, options in indicators.items()
            for shape, added in options.items()
            if (saved := (_cost(cost[name], now[name]) - _cost(cost[name], shape)) / whole) > 0
        ]
        if not moves:
            return path
        _, name, shape, added = min(moves, key=lambda move: (move[0], move[1], move[2]))
        now[name], error[name] = shape, added
        path.append(dict(now))


def _cost(each: float, shape: Shape) -> float:
    """Parameters; steps only break ties."""
    return each * (shape.size + 1e-3 * (shape.steps or 0))


def _parameters(model: nn.Module, shapes: Shapes) -> int:
    return summary(shaped(model, shapes)).parameters


def _judged(
    given: SweepInputs, shapes: Shapes, indicators: Mapping[str, Mapping[Shape, float]], budget: Budget
) -> BlockFit | None:
    """None where the outputs are not finite."""
    meter = given.meter
    model = shaped(meter.model, shapes)
    outputs = meter.outputs(model)
    if outputs is None:
        return None
    value = meter.value(outputs)
    drop = drop_of(meter.metric, value, meter.value(meter.source_outputs))
    paired = meter.paired(outputs)
    is_own = all(Shape(block.size, block.steps) == shapes[n] for n, block in blocks_of(meter.model).items())
    is_sure = is_own or paired is None or not budget.confidence
    most = drop if is_sure or paired is None else max(drop, paired.upper(1 - (1 - budget.confidence) / RIVALS))
    return BlockFit(model, shapes, indicators, meter.metric, value, drop, most, summary(model).parameters, given)
