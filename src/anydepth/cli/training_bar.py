"""Watching a training: a bar in a terminal, a line for every epoch in a log file."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from anydepth.cli.output import console, shown
from anydepth.json_values import JsonObject

if TYPE_CHECKING:
    from anydepth.runs.config import RunConfig
    from anydepth.runs.progress import Watch

_COLUMNS = (
    "epoch {task.fields[epoch]}",
    "loss {task.fields[loss]:.3f}",
    "{task.fields[metric]}",
    "NFE {task.fields[nfe]}",
    "{task.fields[depth]}",
    "{task.fields[parameters]:,} parameters",
)


@contextmanager
def training_bar(config: "RunConfig", quiet: bool = False) -> "Iterator[Watch]":
    """Yields what a training is to be watched by."""
    from anydepth.runs.progress import Status, Watch

    first, *rest = (TextColumn(column) for column in _COLUMNS)
    columns = (first, BarColumn(bar_width=20), TimeRemainingColumn(), *rest)
    with Progress(*columns, console=console, transient=True, disable=quiet or not console.is_terminal) as bar:
        start = {"epoch": "-", "loss": 0.0, "metric": "", "nfe": 0, "depth": "", "parameters": 0}
        task = bar.add_task("training", total=None, **start)

        class Bar(Watch):
            about = ""

            def begin(self, about: str) -> None:
                self.about = about  # told with the first step, when nothing can be refused any more

            def step(self, status: Status) -> None:
                if self.about and not quiet:
                    console.print(escape(self.about))
                self.about = ""
                epochs = config.training.epochs
                bar.update(
                    task,
                    total=status.total,
                    completed=status.step,
                    epoch=f"{status.epoch + 1}/{epochs}" if epochs else f"{status.epoch + 1}",
                    loss=status.loss,
                    metric=f"{status.metric} {shown(status.metric, status.value)}",
                    nfe=status.nfe,
                    depth=status.depth,
                    parameters=status.parameters,
                )

            def event(self, line: "JsonObject") -> None:
                text = told(line)
                if text and not quiet and (line["kind"] in ("refine", "control") or not console.is_terminal):
                    console.print(text)

        yield Bar()


def told(line: "JsonObject") -> str:
    """A line of metrics as a sentence; "" for those that only curves need."""
    if line["kind"] == "epoch":
        return f"epoch {line['epoch']:>3}  {line['seconds']:7.1f} s  {scores(line)}  NFE {line['nfe']}"
    if line["kind"] == "refine":
        names = ("weights", "solver", "parameters")
        changes = ", ".join(f"{_plain(line[n]['from'])} -> {_plain(line[n]['to'])}" for n in names)
        before, after = (line.get(f"validation_{when}_loss") for when in ("before", "after"))
        loss = "" if before is None or after is None else f"; validation loss {before:.4f} -> {after:.4f}"
        return f"grown at step {line['step']}: {changes}{loss}"
    if line["kind"] == "control" and line["event"] in ("start", "shrink"):
        why = "" if line["event"] == "start" else ": a more accurate solver disagrees"
        return f"step control at step {line['step']}: {line['solver']}{why}"
    return ""


def _plain(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)


def scores(line: "JsonObject") -> str:
    """The losses and metrics in a line."""
    found = [(name, value) for name, value in line.items() if name.split("_")[0] in ("train", "validation", "test")]
    return ", ".join(f"{name.replace('_', ' ')} {shown(name, value)}" for name, value in found)
