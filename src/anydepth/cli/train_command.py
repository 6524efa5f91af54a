"""`anydepth train`."""

import json as json_text
import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from anydepth.cli.heap import keep_freed_memory
from anydepth.cli.output import Data, Json, bold, console, print_json
from anydepth.cli.training_bar import scores, training_bar

if TYPE_CHECKING:
    from anydepth.runs.config import RunConfig


def register(app: typer.Typer) -> None:
    app.command("train")(train)


def _recipes(incomplete: str) -> list[str]:
    from anydepth.recipes import RECIPES

    return [name for name in RECIPES if name.startswith(incomplete)]


def train(
    recipe: Annotated[
        str,
        typer.Argument(
            metavar="RECIPE",
            help="A recipe's name (see: anydepth list), or a config as .json.",
            autocompletion=_recipes,
        ),
    ],
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="a.b=VALUE", help="Change a setting of the recipe; may be given many times."),
    ] = None,
    data: Data = None,
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="Folder of the run; by default runs/RECIPE.")] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with a run that was stopped; start it if there is none.")
    ] = False,
    show: Annotated[bool, typer.Option("--show-config", help="Print the effective config as JSON and stop.")] = False,
    json: Json = False,
) -> None:
    """Train a model as a recipe says; the run folder holds the model, its metrics and what made it.

    \b
    Examples:
      anydepth train digits
      anydepth train mnist --data ~/data --out runs/mnist
      anydepth train digits --set optimizer.lr=0.05 --set refine.at=[3,6] --set model.options.basis=constant
      anydepth train mnist --out runs/mnist --resume
      torchrun --nproc-per-node=2 -m anydepth train mnist --out runs/mnist
      anydepth train digits --show-config > mine.json; anydepth train mine.json
    """
    from anydepth.runs.lock import refuse_if_locked

    config = _config(recipe, settings or [])
    if show:
        print_json(config.plain())
        return
    folder = out or Path("runs") / Path(recipe).stem
    is_first = os.environ.get("RANK", "0") == "0"
    if is_first:
        refuse_if_locked(folder)
    keep_freed_memory()
    from anydepth.train.training import train as run_training

    with training_bar(config, quiet=json or not is_first) as watch:
        run = run_training(config, folder, data, watch, resume)
    if not is_first:
        return
    lines = run.metrics()
    result = {"run": str(folder), "last": _last(lines, "epoch"), "test": _last(lines, "test")}
    if json:
        print_json(result)
    else:
        _show(folder, lines, result)


def _config(recipe: str, settings: list[str]) -> "RunConfig":
    from anydepth.errors import ConfigError
    from anydepth.recipes import RECIPES
    from anydepth.runs.config import read_config
    from anydepth.runs.override import override

    if not recipe.endswith(".json"):
        return override(RECIPES[recipe](), settings)
    try:
        values = json_text.loads(Path(recipe).read_text(encoding="utf-8-sig"))
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigError(f"{recipe} cannot be read as a config: {error}") from None
    return override(read_config(values, recipe), settings)


def _last(lines: list[dict[str, Any]], kind: str) -> dict[str, Any] | None:
    return next((line for line in reversed(lines) if line["kind"] == kind), None)


def _show(folder: Path, lines: list[dict[str, Any]], result: dict[str, Any]) -> None:
    last, test = result["last"], result["test"]
    if last:
        form = f"{last['weights']}, {last['solver']}, {last['parameters']:,} parameters"
        console.print(f"trained in {last['seconds']:.0f} s: {form}")
    for line in (last, test):
        if line:
            console.print(f"  {scores(line)}")
    place = shlex.quote(str(folder))
    console.print(f"run {bold(folder)}; next: {escape(f'anydepth report {place}, anydepth check {place}')}")
