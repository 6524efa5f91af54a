"""`anydepth list`."""

from typing import Any

import typer
from rich.table import Table

from anydepth import plugins
from anydepth.cli.output import Json, console, print_json
from anydepth.registry import Registry


def register(app: typer.Typer) -> None:
    app.command("list")(list_parts)


def list_parts(json: Json = False) -> None:
    """Show the schemes, bases, evolutions, units, models, datasets, recipes, rules, and what plugins add, by name.

    \b
    Example:
      anydepth list --json
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
    from anydepth.data.source import SOURCES
    from anydepth.depth.bases import BASES
    from anydepth.depth.schemes import SCHEMES
    from anydepth.recipes import RECIPES
    from anydepth.train.growth import RULES
    from anydepth.weights.evolutions import EVOLUTIONS
    from anydepth.zoo.parts import MODELS, UNITS

    kinds: dict[str, Registry] = {
        "bases": BASES,
        "evolutions": EVOLUTIONS,
        "units": UNITS,
        "models": MODELS,
        "datasets": SOURCES,
        "recipes": RECIPES,
        "refinement rules": RULES,
        **plugins.lists(),
    }
    schemes = {name: _scheme(SCHEMES[name]) for name in SCHEMES}
    return {"schemes": schemes} | {kind: {n: _first_line(parts[n]) for n in parts} for kind, parts in kinds.items()}


def _scheme(scheme: Any) -> str:
    kind = f"adaptive, order {scheme.order}({scheme.low_order})" if scheme.is_adaptive else f"order {scheme.order}"
    return f"{kind}, {scheme.stages} evaluation{'s' if scheme.stages > 1 else ''} a step"


def _first_line(part: object) -> str:
    return (part.__doc__ or "").strip().split("\n")[0]
