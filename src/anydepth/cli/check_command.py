"""`anydepth check`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.table import Table

from anydepth.cli.output import Data, Json, RunFolder, Split, bold, console, print_json, progress, shown

if TYPE_CHECKING:
    from anydepth.verdict.check import Verdict


def register(app: typer.Typer) -> None:
    app.command("check")(check)


def check(
    run: RunFolder,
    split: Split = "test",
    examples: Annotated[int, typer.Option(min=1, help="Judge on at most this many examples.")] = 2000,
    figure: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw errors over steps, and margins: .png, .svg or .pdf.")
    ] = None,
    data: Data = None,
    json: Json = False,
) -> None:
    """Is the trained model an ODE, or tied to its solver? Exit 0: proper; exit 1: not.

    Runs the same weights with more steps, a higher order or a tighter tolerance, and compares the predictions.

    \b
    Examples:
      anydepth check runs/digits
      anydepth check runs/digits --figure verdict.png
    """
    import numpy as np

    from anydepth.measure.evaluation import batches_of
    from anydepth.report.verdict_figure import draw_verdict, kind_of
    from anydepth.runs.folder import open_run
    from anydepth.verdict.check import check as judge

    if figure is not None:
        kind_of(figure)
    opened = open_run(run)
    model, facts = opened.model(), opened.facts
    part = opened.dataset(data).part(split)  # pyright: ignore[reportArgumentType]
    part = part.take(np.arange(min(examples, len(part))))
    batches = list(batches_of(part, facts, opened.config.evaluation.batch))
    with progress() as report:
        verdict = judge(model, batches, classes=facts.task != "regress", report=report)
    if figure is not None:
        draw_verdict(verdict, figure)
    if json:
        drawn = {} if figure is None else {"figure": str(figure)}
        print_json({"run": str(run), "split": split, "examples": len(part), **drawn, **verdict.describe()})
    else:
        _show(verdict, f"{escape(str(run))} on {len(part):,} {split} examples")
        if figure is not None:
            console.print(f"figure {bold(figure)}")
    raise typer.Exit(0 if verdict.proper else 1)


def _show(verdict: "Verdict", title: str) -> None:
    console.print(_table(verdict, title))
    for line in _facts(verdict):
        console.print(f"  {line}")
    word = "[bold green]proper[/]" if verdict.proper else "[bold red]not proper[/]"
    console.print(f"{word}: {verdict.reason}")


def _table(verdict: "Verdict", title: str) -> Table:
    table = Table(title=title, caption="* of larger error: not counted", title_justify="left", caption_justify="left")
    for name in ("solver", "NFE", "same (95 % interval)", "accuracy", "change", "error"):
        table.add_column(name, justify="left" if name == "solver" else "right")
    rows = [*verdict.table, *verdict.coarser]
    for i, row in enumerate(rows):
        same = "-"
        if row.agreement is not None:
            same = f"{row.agreement:.1f} % ({row.agreement_low:.1f}-{row.agreement_high:.1f})"
        cells = (
            same,
            shown("accuracy", row.accuracy),
            "not finite" if row.distance is None else f"{row.distance:.1e}",
            "-" if row.error is None else f"{row.error:.1e}",
        )
        name = escape(row.solver) + ("" if row.counts else " *")
        table.add_row(name, str(row.nfe), *cells, end_section=i in (0, len(verdict.table) - 1))
    return table


def _facts(verdict: "Verdict") -> list[str]:
    """Lines below the table, of what could be measured."""
    found = [
        f"finest solver: {verdict.reference}; the outputs {'have' if verdict.settled else 'have not'} settled there"
    ]
    if verdict.order is not None:
        found.append(f"order of convergence: {verdict.order:.2f}, the scheme's is {verdict.scheme_order}")
    if verdict.step is not None:
        critical = "none that was tried" if verdict.critical_step is None else f"{verdict.critical_step:.4g}"
        found.append(f"critical step: {critical}; trained with {verdict.step:.4g}")
    if verdict.margin is not None:
        found.append(f"safe by their margins: {verdict.margin.safe:.1f} % of the predictions")
    if verdict.crossing_rate is not None:
        found.append(f"pairs of trajectories that cross: {100 * verdict.crossing_rate:.2f} %")
    return found
