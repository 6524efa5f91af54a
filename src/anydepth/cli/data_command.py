"""`anydepth data`."""

import os
import sys
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from anydepth.cli.output import Data, Json, bold, console, print_json, progress
from anydepth.errors import printable

_group = typer.Typer(
    help="Datasets: where they are, fetching and checking them.", no_args_is_help=True, rich_markup_mode=None
)


def register(app: typer.Typer) -> None:
    app.add_typer(_group, name="data")


def _datasets(incomplete: str) -> list[str]:
    from anydepth.data.source import SOURCES

    return [name for name in SOURCES if name.startswith(incomplete)]


Name = Annotated[
    str, typer.Argument(metavar="NAME", help="A dataset's name; see: anydepth list.", autocompletion=_datasets)
]


@_group.command("path")
def path(data: Data = None, json: Json = False) -> None:
    """Print the data directory that commands look in.

    \b
    Example:
      anydepth data path
    """
    from anydepth.data.source import data_directory

    found = data_directory(data)
    if json:
        print_json({"path": str(found), "exists": found.is_dir()})
    else:
        typer.echo(printable(str(found)) if sys.stdout.isatty() else os.fsencode(found))


@_group.command("fetch")
def fetch(name: Name, data: Data = None, json: Json = False) -> None:
    """Download a dataset from its public source; an interrupted download resumes.

    \b
    Examples:
      anydepth data fetch mnist
      anydepth data fetch cifar10 --data ~/data
    """
    from anydepth.data.fetch import fetch as download
    from anydepth.data.source import data_directory

    root = data_directory(data)
    with progress() as report:
        fetched = download(name, root, report)
    if json:
        print_json({"dataset": name, "path": str(root), "fetched": fetched})
    else:
        console.print(escape("\n".join(fetched)) if fetched else f"{name}: nothing to fetch")
        console.print(f"data directory {bold(root)}")


@_group.command("verify")
def verify(name: Name, data: Data = None, json: Json = False) -> None:
    """Compare a dataset's files with their published checksums. Exit 1: a file is missing or differs.

    \b
    Example:
      anydepth data verify mnist
    """
    from anydepth.data.fetch import verify as compare
    from anydepth.data.source import data_directory

    rows = compare(name, data_directory(data))
    if json:
        print_json({"dataset": name, "files": rows})
    else:
        table = Table(show_header=True)
        for title in rows[0] if rows else ("file",):
            table.add_column(title)
        for row in rows:
            table.add_row(*(escape(str(value)) for value in row.values()))
        console.print(table)
    is_fine = all(row.get("present") and row.get("md5") != "differs" for row in rows)
    raise typer.Exit(0 if is_fine else 1)
