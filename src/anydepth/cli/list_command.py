"""`anydepth list`."""

from typing import Any

import typer
from rich.table import Table

from anydepth.cli.output import Json, console, print_json


def register(app: typer.Typer) -> None:
    app.command("list")(list_parts)


def list_parts(json: Json = False) -> None:
    """Show the schemes, bases, units and models that can be named.

    Example: anydepth list --json
    """
    parts = _parts()
    if json:
        print_json(parts)
        return
    for kind, entries in parts.items():
        table = Table(title=kind, title_justify="left", show_header=False)
        for name, about in entries.items():
            table.add_row(f"[bold]{name}[/]", about)
        console.print(table)


def _parts() -> dict[str, dict[str, str]]:
    from anydepth.depth.bases import BASES
    from anydepth.depth.schemes import SCHEMES
    from anydepth.nn.parts import MODELS, UNITS

    return {
        "schemes": {name: _scheme(SCHEMES[name]) for name in SCHEMES},
        "bases": {name: _first_line(BASES[name]) for name in BASES},
        "units": {name: _first_line(UNITS[name]) for name in UNITS},
        "models": {name: _first_line(MODELS[name]) for name in MODELS},
    }


def _scheme(scheme: Any) -> str:
    kind = f"adaptive, order {scheme.order}({scheme.low_order})" if scheme.is_adaptive else f"order {scheme.order}"
    return f"{kind}, {scheme.stages} evaluation{'s' if scheme.stages > 1 else ''} a step"


def _first_line(part: type) -> str:
    return (part.__doc__ or "").strip().split("\n")[0]
