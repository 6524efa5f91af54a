"""What people and programs see: tables and progress on standard error, JSON on standard output."""

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from errno import EPIPE
from pathlib import Path
from time import monotonic
from typing import Annotated

import typer
from rich.console import Console, ConsoleOptions, RenderableType
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.segment import Segment

from anydepth.reporting import Report

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on standard output, and nothing else there.")]


def run_folder(path: Path) -> Path:
    """The folder of a run, also from the name of a net that a package brings."""
    if path.exists():
        return path
    from anydepth.runs.shipped import located

    return located(path)


RunFolder = Annotated[
    Path,
    typer.Argument(metavar="RUN", help="Folder of a run, or a net's name (anydepth list nets).", callback=run_folder),
]
Data = Annotated[
    Path | None,
    typer.Option(
        "--data", metavar="DIR", help="Data directory; default: $ANYDEPTH_DATA, else a folder in the user's cache."
    ),
]
Split = Annotated[str, typer.Option("--split", metavar="PART", help="train, validation or test.")]

LOG_SECONDS = 10.0
"""Between lines of a log file."""


class PlainConsole(Console):
    """A console on which text cannot steer the terminal: labels, names of files and runs may come from anybody."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            is_plain = segment.control or segment.text.isprintable() or segment.text == "\n"
            yield segment if is_plain else segment._replace(text=harmless(segment.text))

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError(EPIPE, "the reader of the output has closed it")


def harmless(text: str) -> str:
    """Of the same width: characters that are no text become a replacement character."""
    return "".join(c if c.isprintable() or c == "\n" else "\ufffd" for c in text)


console = PlainConsole(stderr=True, highlight=False, soft_wrap=True)


def print_json(value: object) -> None:
    typer.echo(json.dumps(value, indent=2, allow_nan=False))


@contextmanager
def progress(logs: bool = False) -> Iterator[Report]:
    """A bar; yields report(what, share done). With `logs`, where there is no terminal, a line now and then."""
    columns = (TextColumn("{task.description:38}"), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("starting", total=1.0)
        told = monotonic()

        def report(what: str, share: float) -> None:
            nonlocal told
            bar.update(task, description=what, completed=share)
            if logs and not console.is_terminal and monotonic() - told >= LOG_SECONDS:
                told = monotonic()
                console.print(f"{escape(what)}, {100 * share:.0f} % done")

        yield report


def bold(value: object) -> str:
    """A value in bold, whatever brackets are in it."""
    return f"[bold]{escape(str(value))}[/]"


def shown(metric: str, value: float | None) -> str:
    """A metric as people read it."""
    if value is None:
        return "-"
    return f"{value:.2f} %" if metric.endswith(("accuracy", "agreement")) else f"{value:.4g}"
