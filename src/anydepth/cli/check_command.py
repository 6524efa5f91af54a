"""`anydepth check`."""

from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from anydepth.cli.output import Data, Json, RunFolder, Split, console, print_json, progress, shown


def register(app: typer.Typer) -> None:
    app.command("check")(check)


def check(
    run: RunFolder,
    split: Split = "test",
    examples: Annotated[int, typer.Option(min=1, help="How many examples to look at, at most.")] = 2000,
    data: Data = None,
    json: Json = False,
) -> None:
    """Is the trained model an ODE, or tied to its solver? Exit 0: proper; exit 1: not.

    Runs the same weights with more steps, a higher order or a tighter tolerance, and compares the predictions.

    \b
    Example:
      anydepth check runs/digits
    """
    import numpy as np

    from anydepth.train.evaluate import batches_of
    from anydepth.train.runs import open_run
    from anydepth.verdict.check import check as judge

    opened = open_run(run)
    model, facts = opened.model(), opened.facts
    part = opened.dataset(data).part(split)  # pyright: ignore[reportArgumentType]
    part = part.take(np.arange(min(examples, len(part))))
    batches = list(batches_of(part, facts, opened.config.evaluation.batch))
    with progress() as report:
        verdict = judge(model, batches, classes=facts.task != "regress", report=report)
    if json:
        print_json({"run": str(run), "split": split, "examples": len(part), **verdict.describe()})
    else:
        table = Table(title=f"{escape(str(run))} on {len(part):,} {split} examples", title_justify="left")
        for title in ("solver", "NFE", "same predictions", "accuracy", "change of outputs"):
            table.add_column(title, justify="left" if title == "solver" else "right")
        for row in verdict.table:
            cells = (
                shown("agreement", row.agreement),
                shown("accuracy", row.accuracy),
                "not finite" if row.distance is None else f"{row.distance:.2e}",
            )
            table.add_row(row.solver, str(row.nfe), *cells)
        console.print(table)
        word = "[bold green]proper[/]" if verdict.proper else "[bold red]not proper[/]"
        console.print(f"{word}: {verdict.reason}")
    raise typer.Exit(0 if verdict.proper else 1)
