"""`anydepth predict`."""

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from anydepth.cli.output import Json, console, print_json

_SHOWN = 20


def register(app: typer.Typer) -> None:
    app.command("predict")(predict)


def predict(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A run, or a file that anydepth export wrote.")],
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE...", help="Arrays (.npy), images, text, or folders; - reads text.")
    ],
    frozen: Annotated[bool, typer.Option("--frozen", help="Freeze the run's model first.")] = False,
    json: Json = False,
) -> None:
    """What a trained model says about your files.

    Arrays hold raw values, as the dataset does (pixels 0 to 255, not normalised): shape (count, channels,
    height, width) for images, (count, features) for vectors. Text is cut into sentences and words; a treebank
    (.conllu) has them already. Of a folder, all files are taken that the model can read. An exported file needs the
    .json beside it, and should come from someone you trust.

    \b
    Examples:
      anydepth predict runs/mnist seven.png
      anydepth predict runs/mnist a.png b.png scans/
      anydepth predict mnist.onnx batch.npy --json
      echo "Time flies like an arrow." | anydepth predict runs/gum -
    """
    from anydepth.deploy.inputs import found_in
    from anydepth.deploy.predict import predict as predictions
    from anydepth.deploy.predictor import open_predictor

    predictor = open_predictor(model, frozen)
    found = predictions(predictor, found_in(files, predictor.facts))
    if json:
        print_json({"model": str(model), "predictions": found})
        return
    for file, entries in found.items():
        if "words" in entries[0]:
            _print_tagged(file, entries)
            continue
        table = Table(title=escape(file), title_justify="left")
        for name in ("example", *entries[0]):
            table.add_column(name, justify="right")
        for index, entry in enumerate(entries[:_SHOWN]):
            table.add_row(str(index), *(escape(_cell(value)) for value in entry.values()))
        console.print(table)
        if len(entries) > _SHOWN:
            console.print(f"and {len(entries) - _SHOWN:,} more; --json gives all")


def _print_tagged(file: str, sentences: list[dict[str, Any]]) -> None:
    """Words with their tags, a sentence a line; those that were not seen in training are starred."""
    console.print(escape(file), style="italic")
    for sentence in sentences[:_SHOWN]:
        line = Text()
        for w in sentence["words"]:
            line.append(f"{w['word']}{'' if w['known'] else '*'}").append(f"/{w['label']} ", style="cyan")
        console.print(line)
    more = "" if len(sentences) <= _SHOWN else f"; and {len(sentences) - _SHOWN:,} sentences more: --json gives all"
    console.print(f"word/tag; * not seen in training{more}", style="dim")


def _cell(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(f"{x:.4g}" for x in value[:8]) + (", ..." if len(value) > 8 else "")
    return f"{value:.4f}" if isinstance(value, float) else str(value)
