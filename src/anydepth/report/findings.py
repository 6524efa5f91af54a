"""Everything a report says of one run, found before a word of it is written."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import get_args

import torch
from torch import nn

from anydepth.data.source import Part
from anydepth.data.table import Table
from anydepth.deploy.sweeps.result import Sweep
from anydepth.deploy.sweeps.sweep_file import sweep_of
from anydepth.errors import ConfigError, DataError, ModelFileError, NumericalError, StorageError
from anydepth.json_values import JsonObject
from anydepth.measure.evaluation import METRIC, Score, evaluate
from anydepth.measure.form_curves import CompressionCurve, SolverGrid, compression_curve, solver_grid
from anydepth.measure.predictions import without_blocks
from anydepth.report.curves import logged
from anydepth.report.weight_lines import WeightLines, weight_lines
from anydepth.report.yardstick import Yardstick
from anydepth.reporting import Report
from anydepth.runs.device import precision_of
from anydepth.runs.folder import Run
from anydepth.surgery.change import Change, history
from anydepth.surgery.summary import Summary, summary


@dataclass(frozen=True)
class Model:
    """What can be said of a model without data."""

    summary: Summary
    history: dict[str, tuple[Change, ...]]
    lines: tuple[WeightLines, ...]


@dataclass(frozen=True)
class Measured:
    """What the model does on one part of the data."""

    examples: int
    score: Score | None
    """Of the model as it is; None where its outputs are not finite."""
    grid: SolverGrid
    curve: CompressionCurve
    bare: float | None
    """The metric without the blocks; None where the outputs are not finite."""

    def describe(self) -> dict[str, object]:
        return {
            "examples": self.examples,
            "value": None if self.score is None else self.score.value,
            "solvers": self.grid.describe(),
            "compression": self.curve.describe(),
            "without_blocks": self.bare,
        }


@dataclass(frozen=True)
class Findings:
    """One run: its log, its model, and what was measured; `unmeasured` says why something was not."""

    run: Run
    split: str
    metrics: list[JsonObject]
    counts: dict[str, int] = field(default_factory=dict)
    """Examples of each part that was read."""
    model: Model | None = None
    measured: Measured | None = None
    choosing: Measured | None = None
    """The same on validation data, which chooses; None where there is none, or where that is shown anyway."""
    unmeasured: str = ""
    sweep: Sweep | None = None
    """The one that is kept in the run's folder."""
    unswept: str = ""
    """Why the one that is there cannot be shown."""

    @property
    def yardstick(self) -> Yardstick:
        base = "as trained" if self.run.record.parent is None else "as made"
        return Yardstick(METRIC[self.run.facts.task], base)

    @property
    def reference(self) -> float | None:
        """The metric of the model as it is."""
        return self.measured.score.value if self.measured and self.measured.score else None


def find(run: Run, root: Path | None, split: str, examples: int | None, report: Report | None) -> Findings:
    """Read and measure a run; where its data cannot be read, the rest is found all the same."""
    if split not in get_args(Part):
        raise ConfigError(f"unknown part {split!r}; expected one of {', '.join(get_args(Part))}")
    if examples is not None and examples < 1:
        raise ConfigError(f"a report needs at least 1 example, got {examples}; give a larger number, or none for all")
    found = Findings(run, split, logged(run))
    if not run.is_finished:
        return replace(found, unmeasured="this run holds no trained model yet")
    found = replace(found, **swept_in(run, split))
    network = run.model().to("cuda" if torch.cuda.is_available() and run.config.device != "cpu" else "cpu")
    try:
        tables = _tables(run, root, split)
    except (DataError, StorageError, ConfigError, ModelFileError) as error:
        return replace(found, model=_read(network), unmeasured=str(error).rstrip("."))
    found = replace(found, counts={part: len(table) for part, table in tables.items()})
    if not len(tables[split]):
        return replace(found, model=_read(network), unmeasured=f"the {split} part of the data is empty")
    choosing = None
    if split != "validation" and len(tables["validation"]):
        choosing = measure(network, tables["validation"].some(examples), run, _between(report, 0.0, 0.5))
        report = _between(report, 0.5, 1.0)
    measured = measure(network, tables[split].some(examples), run, report)
    return replace(found, model=_read(network), measured=measured, choosing=choosing)


def _between(report: Report | None, start: float, end: float) -> Report | None:
    """Progress as a part of a longer one."""
    return None if report is None else lambda what, share: report(what, start + (end - start) * share)


def _tables(run: Run, root: Path | None, split: str) -> dict[str, Table]:
    """The parts to count and to measure on; the test part is not read for another."""
    dataset = run.dataset(root)
    return {part: dataset.part(part) for part in get_args(Part) if part in ("train", "validation", split)}


def swept_in(run: Run, split: str) -> JsonObject:
    """The finished sweep on this part of the data, else on the part that chooses."""
    try:
        return {"sweep": sweep_of(run, split) or sweep_of(run)}
    except (ModelFileError, StorageError) as error:
        return {"unswept": str(error)}


def _read(network: nn.Module) -> Model:
    """After measuring, so that the evaluations of adaptive schemes are known."""
    return Model(summary(network), history(network), weight_lines(network))


def measure(network: nn.Module, table: Table, run: Run, report: Report | None) -> Measured:
    """The model as it is, with other solvers, compressed, and without its blocks."""
    config, device = run.config, next(network.parameters()).device

    def judge(model: nn.Module) -> Score:
        return evaluate(model, table, run.facts, config.evaluation.batch, precision_of(config.training, device))

    bare = _judged(without_blocks(network), judge)
    grid = solver_grid(network, judge, report=_between(report, 0.02, 0.6))
    curve = compression_curve(network, judge, report=_between(report, 0.6, 0.98))
    score = _judged(network, judge)
    if report is not None:
        report("writing", 0.98)
    return Measured(len(table), score, grid, curve, None if bare is None else bare.value)


def _judged(model: nn.Module, judge: Callable[[nn.Module], Score]) -> Score | None:
    try:
        return judge(model)
    except NumericalError:
        return None
