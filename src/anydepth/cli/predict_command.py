"""`anydepth predict`."""

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from anydepth.cli.output import Json, RunFolder, console, print_json

_SHOWN = 20


def register(app: typer.Typer) -> None:
    app.command("predict")(predict)


def predict(
    run: RunFolder,
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE...", help="Arrays (.npy), images or text; - reads text.")
    ],
    json: Json = False,
) -> None:
    """What a trained model says about your files.

    Arrays hold raw values, as the dataset does (pixels 0 to 255, not normalised): shape (count, channels,
    height, width) for images, (count, features) for vectors. Text is cut into sentences and words; a treebank
    (.conllu) has them already.

    \b
    Examples:
      anydepth predict runs/mnist seven.png
      anydepth predict runs/mnist batch.npy --json
      echo "Time flies like an arrow." | anydepth predict runs/gum -
    """
    from anydepth.deploy.predict import predict as predictions
    from anydepth.train.runs import open_run

    opened = open_run(run)
    found = {str(file): predictions(opened, file) for file in files}
    if json:
        print_json({"run": str(run), "predictions": found})
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
            line.append(f"{_printable(w['word'])}{'' if w['known'] else '*'}").append(f"/{w['label']} ", style="cyan")
        console.print(line)
    more = "" if len(sentences) <= _SHOWN else f"; and {len(sentences) - _SHOWN:,} sentences more: --json gives all"
    console.print(f"word/tag; * not seen in training{more}", style="dim")


def _printable(text: str) -> str:
    """Without what would steer the terminal."""
    return "".join(c if c.isprintable() else "\ufffd" for c in text)


def _cell(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(f"{x:.4g}" for x in value[:8]) + (", ..." if len(value) > 8 else "")
    return f"{value:.4f}" if isinstance(value, float) else str(value)
