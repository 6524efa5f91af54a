"""`anydepth sweep`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.box import SIMPLE
from rich.markup import escape
from rich.table import Table

from anydepth.cli.output import Data, Json, RunFolder, bold, console, print_json, progress

if TYPE_CHECKING:
    from anydepth.deploy.sweeps.result import Sweep

NoData = Annotated[bool, typer.Option("--no-data", help="Use no data: rank forms by estimated errors.")]


def register(app: typer.Typer) -> None:
    app.command("sweep")(sweep)


def sweep(
    run: RunFolder,
    bases: Annotated[str | None, typer.Option(metavar="A,B,...", help="Bases to try; default: the run's own.")] = None,
    sizes: Annotated[
        str | None, typer.Option(metavar="N,...", help="Sizes to try; default: nested sizes from the run's down to 1.")
    ] = None,
    steps: Annotated[
        str | None, typer.Option(metavar="N,...", help="Step counts to try; default: the run's, halved down to 1.")
    ] = None,
    schemes: Annotated[
        str | None,
        typer.Option(metavar="A,B,...", help="Schemes to try; default: the run's and one of every lower order."),
    ] = None,
    anytime: Annotated[
        str | None,
        typer.Option(metavar="POINTS,...", help="Also a depth for every example, with at most these drops."),
    ] = None,
    split: Annotated[str, typer.Option(metavar="PART", help="train, validation or test.")] = "validation",
    no_data: NoData = False,
    examples: Annotated[int | None, typer.Option(min=1, help="Measure on at most this many examples.")] = None,
    batch: Annotated[int, typer.Option(min=1, help="Batch size of a timed pass.")] = 1,
    rounds: Annotated[
        int, typer.Option(min=1, help="How often each form is timed, alternating with the run's own form.")
    ] = 11,
    threads: Annotated[int | None, typer.Option(min=1, help="Threads of PyTorch while measuring.")] = None,
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="Folder of the results; default: RUN.")] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Measure everything again and ignore stored results.")] = False,
    data: Data = None,
    json: Json = False,
) -> None:
    """Every (basis, size, steps, scheme) of a trained run: accuracy, parameters, latency, memory; the Pareto front.

    No retraining. The frozen network is what is timed. A killed sweep resumes.

    \b
    Examples:
      anydepth sweep runs/digits
      anydepth sweep runs/mnist --anytime 0.5,2
      anydepth sweep runs/digits --sizes 1,2,4 --steps 1,2,4,8 --schemes euler,rk4 --bases linear,constant
    """
    from anydepth.deploy.sweeps.sweep import sweep as swept
    from anydepth.deploy.sweeps.sweep_file import file_name
    from anydepth.report.sweep_figure import draw_sweep

    grid = {"bases": _words(bases), "sizes": _numbers("--sizes", sizes), "steps": _numbers("--steps", steps)}
    part = None if no_data else split
    with progress(logs=not json) as report:
        found = swept(
            run,
            **grid,
            schemes=_words(schemes),
            anytime=_drops(anytime),
            split=part,
            data=data,
            examples=examples,
            batch=batch,
            rounds=rounds,
            threads=threads,
            out=out,
            fresh=fresh,
            report=report,
        )
    kept = (run if out is None else out) / file_name(part)
    figure = kept.with_suffix(".png")
    draw_sweep(found, figure)
    if json:
        print_json({"run": str(run), "sweep": str(kept), "figure": str(figure), **found.describe()})
        return
    _show(found)
    console.print(f"sweep {bold(kept)}, figure {bold(figure)}")


def _words(text: str | None) -> list[str] | None:
    return None if text is None else [word.strip() for word in text.split(",") if word.strip()]


def _numbers(option: str, text: str | None) -> list[int] | None:
    from anydepth.errors import ConfigError

    try:
        return None if text is None else [int(word) for word in _words(text) or ()]
    except ValueError:
        raise ConfigError(
            f"{option} takes whole numbers with commas between them, such as 1,2,4, got {text!r}"
        ) from None


def _drops(text: str | None) -> list[float]:
    from anydepth.errors import ConfigError

    try:
        return [float(word) for word in _words(text) or ()]
    except ValueError:
        raise ConfigError(f"--anytime takes points with commas between them, such as 0.5,2, got {text!r}") from None


def _show(found: "Sweep") -> None:
    settings = found.settings
    of = "random inputs" if found.split is None else f"{settings['examples']:,} {found.split} examples"
    console.print(
        f"{len(found.rows)} forms on {escape(of)}; {_timed(found)} passes of {settings['batch']} on "
        f"{settings['threads']} thread(s), median of {settings['rounds']} rounds in turns with the source"
    )
    if found.note:
        console.print(escape(found.note))
    console.print(_table(found))
    for row in found.anytime:
        console.print(escape(f"{row.name}: {_stops(row.stops)}"))
    if found.refused:
        name, why = next(iter(found.refused.items()))
        console.print(f"left out: {len(found.refused)}, such as {escape(f'{name}: {why}')}")


def _timed(found: "Sweep") -> str:
    frozen = sum(row.is_frozen for row in found.rows)
    return "frozen" if frozen == len(found.rows) else f"{frozen} frozen, {len(found.rows) - frozen} unfrozen"


def _stops(stops: dict[str, float]) -> str:
    told = ", ".join(f"{share:.0f} % by {form}" for form, share in stops.items())
    return f"answered {told}; calibrated on one half of the examples and measured on the other, both ways"


def _table(found: "Sweep") -> Table:
    """The front, best first; then the source where it is not on it."""
    table = Table(
        caption="* as trained",
        caption_justify="left",
        title="Pareto front: forms that no other form beats in every respect",
        title_justify="left",
        box=SIMPLE,
        pad_edge=False,
        padding=(0, 0, 0, 1),  # so that all columns fit into 80 characters
    )
    for name in found.head:
        table.add_column(name, justify="left" if name == "form" else "right", no_wrap=True)
    body = found.body()
    ends = (len(found.front) - 1, len(body) - len(found.anytime) - 1)
    for place, cells in enumerate(body):
        table.add_row(*map(escape, cells), end_section=place in ends)
    return table
