"""What people and programs see: tables and progress on standard error, JSON on standard output."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on standard output, and nothing else there.")]

console = Console(stderr=True, highlight=False)


def print_json(value: Any) -> None:
    typer.echo(json.dumps(value, indent=2, allow_nan=False))


@contextmanager
def progress() -> Iterator[Any]:
    """A bar; yields report(what, share done)."""
    columns = (TextColumn("{task.description:38}"), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("starting", total=1.0)

        def report(what: str, share: float) -> None:
            bar.update(task, description=what, completed=share)

        yield report
