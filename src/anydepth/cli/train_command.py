"""`anydepth train`."""

import json as json_text
import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer
from rich.markup import escape

from anydepth.cli.heap import keep_freed_memory
from anydepth.cli.output import Data, Json, bold, console, print_json
from anydepth.cli.training_bar import scores, training_bar
from anydepth.json_values import JsonObject

if TYPE_CHECKING:
    from anydepth.runs.config import RunConfig


def register(app: typer.Typer) -> None:
    app.command("train")(train)


class Short(NamedTuple):
    """Settings that have an option of their own."""

    epochs: int | None
    lr: float | None
    batch: int | None

    def applied(self, config: "RunConfig") -> "RunConfig":
        from anydepth.runs.override import override
        from anydepth.train.shorten import with_epochs

        names = {"optimizer.lr": self.lr, "training.batch": self.batch}
        config = override(config, [f"{name}={value}" for name, value in names.items() if value is not None])
        return config if self.epochs is None else with_epochs(config, self.epochs)


def _recipes(incomplete: str) -> list[str]:
    from anydepth.recipes import RECIPES

    return [name for name in RECIPES if name.startswith(incomplete)]


def train(
    recipe: Annotated[
        str,
        typer.Argument(
            metavar="RECIPE|FOLDER|FILE",
            help="A recipe's name (see: anydepth list recipes), a config as .json, or data of your own: a folder with "
            "a folder of images for every class, a table (.csv, .tsv) or arrays (.npz).",
            autocompletion=_recipes,
        ),
    ],
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="a.b=VALUE", help="Change a setting of the recipe; may be given many times."),
    ] = None,
    epochs: Annotated[
        int | None, typer.Option(min=1, help="Number of epochs; refinements and schedule milestones scale with it.")
    ] = None,
    lr: Annotated[float | None, typer.Option(help="Peak learning rate.")] = None,
    batch: Annotated[int | None, typer.Option(min=1, help="Examples per training step (batch size).")] = None,
    data: Data = None,
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="Folder of the run; default: runs/RECIPE.")] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Resume a stopped run, or start one if there is none.")
    ] = False,
    show: Annotated[bool, typer.Option("--show-config", help="Print the effective config as JSON and stop.")] = False,
    json: Json = False,
) -> None:
    """Train a model as a recipe says; the run folder holds the model, its metrics and what made it.

    \b
    Examples:
      anydepth train digits
      anydepth train ./photos --epochs 30          # ./photos/cat/*.jpg, ./photos/dog/*.png, ...
      anydepth train ./table.csv --set data.options.target=price
      anydepth train mnist --data ~/data --out runs/mnist
      anydepth train digits --set optimizer.lr=0.05 --set refine.at=[3,6] --set model.options.basis=constant
      anydepth train mnist --out runs/mnist --resume
      torchrun --nproc-per-node=2 -m anydepth train mnist --out runs/mnist
      anydepth train digits --show-config > mine.json; anydepth train mine.json
    """
    from anydepth.runs.lock import refuse_if_locked

    config = _config(recipe, settings or [], Short(epochs, lr, batch))
    if show:
        print_json(config.plain())
        return
    named = Path(os.path.abspath(recipe))
    folder = out or Path("runs") / (named.name if named.is_dir() else named.stem)
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


def _config(recipe: str, settings: list[str], short: Short) -> "RunConfig":
    from anydepth.data.source import SOURCES
    from anydepth.errors import ConfigError
    from anydepth.recipes import RECIPES
    from anydepth.recipes.own import advice_for, fixed_places, looks_like_data, recipe_for
    from anydepth.runs.config import read_config
    from anydepth.runs.override import override

    if recipe in RECIPES:
        config = RECIPES[recipe]()
    elif recipe.endswith(".json"):
        config = read_config(_read(recipe), recipe)
    elif looks_like_data(recipe):
        config = recipe_for(Path(recipe))
    elif recipe in SOURCES:
        raise ConfigError(advice_for(recipe))
    else:
        config = RECIPES[recipe]()
    return fixed_places(override(short.applied(config), settings))


def _read(path: str) -> object:
    from anydepth.errors import ConfigError

    try:
        return json_text.loads(Path(path).read_text(encoding="utf-8-sig"))
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigError(f"{path} cannot be read as a config: {error}") from None


def _last(lines: "list[JsonObject]", kind: str) -> "JsonObject | None":
    return next((line for line in reversed(lines) if line["kind"] == kind), None)


def _show(folder: Path, lines: "list[JsonObject]", result: "JsonObject") -> None:
    last, test = result["last"], result["test"]
    if last:
        form = f"{last['weights']}, {last['solver']}, {last['parameters']:,} parameters"
        console.print(f"trained in {last['seconds']:.0f} s: {form}")
    for line in (last, test):
        if line:
            console.print(f"  {scores(line)}")
    place = shlex.quote(str(folder))
    console.print(f"run {bold(folder)}; next: {escape(f'anydepth report {place}, anydepth check {place}')}")
