"""`anydepth report`."""

from pathlib import Path
from typing import Annotated

import typer

from anydepth.cli.output import Data, Json, Split, bold, console, print_json, progress, run_folder


def register(app: typer.Typer) -> None:
    app.command("report")(report)


def report(
    folder: Annotated[
        Path, typer.Argument(metavar="RUN|DIR", help="Folder of a run, or of several runs.", callback=run_folder)
    ],
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Where to write the report; default: report.html in the folder.")
    ] = None,
    split: Split = "test",
    examples: Annotated[int, typer.Option(min=1, help="Evaluate on at most this many examples of each part.")] = 2000,
    data: Data = None,
    json: Json = False,
) -> None:
    """One HTML file about a run: curves, accuracy over solvers and sizes, weights over depth, config, lineage.

    Recommendations are chosen on validation data; their figures are those of the part shown.

    \b
    Examples:
      anydepth report runs/digits
      anydepth report runs/mnist --data ~/data --examples 2000
      anydepth report runs                     # compares all runs in the folder
    """
    from anydepth.report.overview import write_overview
    from anydepth.report.page import write_report
    from anydepth.runs.folder import RECORD, open_run

    if not (folder / RECORD).exists() and any(folder.glob(f"*/{RECORD}")):
        path = write_overview(folder, out)
        found = {"report": str(path)}
    else:
        with progress(logs=not json) as bar:
            result = write_report(open_run(folder), data, out, split, examples, bar)
        path = result.path
        found = {"report": str(path), **result.describe()}
    if json:
        print_json(found)
    else:
        console.print(f"report {bold(path)}")
