"""`anydepth list`."""

from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from anydepth import plugins
from anydepth.cli.output import Json, console, print_json
from anydepth.registry import Registry

if TYPE_CHECKING:
    from anydepth.depth.schemes import Scheme


def register(app: typer.Typer) -> None:
    app.command("list")(list_parts)


def list_parts(
    kind: Annotated[
        str | None, typer.Argument(metavar="KIND", help="One kind only, such as datasets or recipes.")
    ] = None,
    json: Json = False,
) -> None:
    """Show the schemes, bases, evolutions, units, models, datasets, recipes, rules, controllers, nets, plugins.

    \b
    Examples:
      anydepth list
      anydepth list datasets
      anydepth list --json
    """
    parts = _chosen(_parts(), kind)
    if json:
        print_json(parts)
        return
    for title, entries in parts.items():
        table = Table(title=title, title_justify="left", show_header=False)
        for name, about in entries.items():
            table.add_row(f"[bold]{name}[/]", about)
        console.print(table)


def _chosen(parts: dict[str, dict[str, str]], kind: str | None) -> dict[str, dict[str, str]]:
    """All kinds, or the one that is named, also in the singular."""
    from anydepth.errors import ConfigError, choices

    if kind is None:
        return parts
    for name in (kind, f"{kind}s", kind.replace("-", " ").replace("_", " "), f"refinement {kind}"):
        if name in parts:
            return {name: parts[name]}
    raise ConfigError(f"no kind {kind!r} to list; {choices(kind, parts)}")


def _parts() -> dict[str, dict[str, str]]:
    from anydepth.data.source import SOURCES
    from anydepth.depth.bases import BASES
    from anydepth.depth.schemes import SCHEMES
    from anydepth.recipes import RECIPES
    from anydepth.runs.shipped import NETS
    from anydepth.train.control.controller import CONTROLLERS
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
        "controllers": CONTROLLERS,
        "nets": NETS,
        **plugins.lists(),
    }
    schemes = {name: _scheme(SCHEMES[name]) for name in SCHEMES}
    return {"schemes": schemes} | {kind: {n: _first_line(parts[n]) for n in parts} for kind, parts in kinds.items()}


def _scheme(scheme: "Scheme") -> str:
    kind = f"adaptive, order {scheme.order}({scheme.low_order})" if scheme.is_adaptive else f"order {scheme.order}"
    return f"{kind}, {scheme.stages} evaluation{'s' if scheme.stages > 1 else ''} a step"


def _first_line(part: object) -> str:
    return (part.__doc__ or "").strip().split("\n")[0]
