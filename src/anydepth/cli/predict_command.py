"""`anydepth predict`."""

import csv
import io
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from anydepth.cli.output import Data, Json, console, harmless, print_json, run_folder
from anydepth.json_values import JsonObject

_SHOWN = 40


def register(app: typer.Typer) -> None:
    app.command("predict")(predict)


def predict(
    model: Annotated[
        Path,
        typer.Argument(
            metavar="MODEL", help="A run, a net's name, or a file that anydepth export wrote.", callback=run_folder
        ),
    ],
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE...", help="Images, tables, arrays (.npy), text, or folders; - reads text."),
    ],
    frozen: Annotated[bool, typer.Option("--frozen", help="Freeze the run's model first.")] = False,
    steps: Annotated[
        int | None, typer.Option(help="Run it with this number of steps: a run, or an elastic file.")
    ] = None,
    anytime: Annotated[
        bool,
        typer.Option(
            "--anytime", help="Ask a coarse form first; only examples where it is unsure go on to finer ones."
        ),
    ] = False,
    max_drop: Annotated[
        float, typer.Option(metavar="POINTS", help="With --anytime: the largest drop in percentage points.")
    ] = 0.5,
    data: Data = None,
    top: Annotated[int, typer.Option(min=1, help="Show the N most likely classes.")] = 1,
    resize: Annotated[
        bool, typer.Option("--resize", help="Resize and crop images of any size to the model's.")
    ] = False,
    table: Annotated[
        Path | None, typer.Option("--csv", metavar="FILE", help="Write a table, a row for every example; - prints it.")
    ] = None,
    json: Json = False,
) -> None:
    """Predict with a trained model on your files. Exit 3: some files could not be read; the others have predictions.

    Arrays hold raw values, as the dataset does (pixels 0 to 255, not normalised): shape (count, channels,
    height, width) for images, (count, features) for vectors. A table has the columns that the model was trained on.
    Text is cut into sentences and words; a treebank (.conllu) has them already. Of a folder and its folders, all files
    are taken that the model can read. Images are fitted to the model's size if those of the training were, or with
    --resize. An exported file needs the .json beside it, and should come from someone you trust.

    \b
    Examples:
      anydepth predict runs/photos holiday/ --top 3 --csv holiday.csv
      anydepth predict runs/mnist a.png b.png scans/ --resize
      anydepth predict mnist.onnx batch.npy --json
      anydepth predict runs/mnist batch.npy --anytime --max-drop 0.3
      echo "Time flies like an arrow." | anydepth predict runs/gum -
    """
    from anydepth.deploy.anytime.anytime_run import AnytimePredictor, open_anytime
    from anydepth.deploy.input_files import found_in
    from anydepth.deploy.predict import predict as predictions
    from anydepth.deploy.predictor import open_predictor
    from anydepth.errors import ConfigError

    if anytime:
        if frozen or steps is not None:
            raise ConfigError("--anytime chooses forms itself; leave out --frozen and --steps")
        if Path(model).is_file():
            raise ConfigError(f"--anytime needs a run, whose forms can be changed; {model} is an exported file")
        predictor = open_anytime(model, data, max_drop)
    else:
        predictor = open_predictor(model, frozen, steps)
    found, failed = predictions(predictor, found_in(files, predictor.facts), resize, top)
    told = predictor.told(found) if isinstance(predictor, AnytimePredictor) else {}
    if table is not None:
        _write_table(table, found)
    if json:
        print_json({"model": str(model), "predictions": found, "failed": failed, **told})
    elif table is None or str(table) != "-":
        _show(found)
    if told:
        console.print(f"{told['anytime']['evaluations']:.2f} of {told['anytime']['finest']} evaluations on average")
        console.print(escape(told["anytime"]["guarantee"]), style="dim")
    for reason in failed.values():
        console.print(f"left out: {escape(reason)}", style="yellow")
    raise typer.Exit(3 if failed else 0)


def _show(found: "dict[str, list[JsonObject]]") -> None:
    for file, entries in found.items():
        if "words" in entries[0]:
            _print_tagged(file, entries)
    rows = [(file, str(place), entry) for file, entries in found.items() for place, entry in enumerate(entries)]
    rows = [row for row in rows if "words" not in row[2]]
    if not rows:
        return
    has_places = len(rows) > len(found)
    table = Table()
    for name in ("file", *(["example"] if has_places else []), *_heads(rows[0][2])):
        table.add_column(name, justify="left" if name.startswith(("file", "label")) else "right", overflow="fold")
    for file, place, entry in rows[:_SHOWN]:
        table.add_row(escape(file), *([place] if has_places else []), *(escape(cell) for cell in _cells(entry)))
    console.print(table)
    if len(rows) > _SHOWN:
        console.print(f"and {len(rows) - _SHOWN:,} more; --csv or --json gives all")


def _columns(entry: "JsonObject") -> list[str]:
    if "label" not in entry:
        return list(entry)
    count = len(entry.get("top", [0]))
    return [name + ("" if i == 0 else f" {i + 1}") for i in range(count) for name in ("label", "probability")]


def _heads(entry: "JsonObject") -> list[str]:
    """Of several classes, each shares a column with its probability, which leaves room for the names of files."""
    names = _columns(entry)
    return names[::2] if "top" in entry else names


def _cells(entry: "JsonObject") -> list[str]:
    if "top" in entry:
        return [" ".join(map(_cell, ranked.values())) for ranked in entry["top"]]
    return [_cell(value) for value in entry.values()]


def _write_table(path: Path, found: "dict[str, list[JsonObject]]") -> None:
    """A row for every example; of tagged text, for every word."""
    from anydepth import artifact

    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    rows = [(file, place, entry) for file, entries in found.items() for place, entry in enumerate(entries)]
    first = next(iter(_lines(rows[0][2])))
    writer.writerow(["file", "example", *(name.replace(" ", "_") for name in first)])
    for file, place, entry in rows:
        for line in _lines(entry):
            writer.writerow([file, place, *line.values()])
    if str(path) == "-":
        told = harmless(text.getvalue()) if sys.stdout.isatty() else text.getvalue()
        typer.echo(told.encode("utf-8", "surrogateescape"), nl=False)
    else:
        artifact.write_bytes(path, text.getvalue().encode("utf-8", "surrogateescape"))


def _lines(entry: "JsonObject") -> "Iterator[JsonObject]":
    if "words" in entry:
        yield from entry["words"]
    elif "output" in entry:
        yield {"output" if len(entry["output"]) == 1 else f"output {i}": x for i, x in enumerate(entry["output"])}
    else:
        ranked = entry.get("top", [entry])
        yield dict(zip(_columns(entry), (value for one in ranked for value in one.values()), strict=True))


def _print_tagged(file: str, sentences: "list[JsonObject]") -> None:
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
        return ", ".join(f"{x:,.6g}" for x in value[:8]) + (", ..." if len(value) > 8 else "")
    return f"{value:.4f}" if isinstance(value, float) else str(value)
