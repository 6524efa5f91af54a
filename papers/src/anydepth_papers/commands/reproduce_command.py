"""`anydepth reproduce`."""

import shlex
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from anydepth.cli.output import Data, Json, bold, console, print_json, progress
from anydepth_papers.campaign import NETS


def register(app: typer.Typer) -> None:
    app.command("reproduce")(reproduce)


def _experiments(incomplete: str) -> list[str]:
    from anydepth_papers.experiments import EXPERIMENTS

    return [name for name in EXPERIMENTS if name.startswith(incomplete)]


def reproduce(
    name: Annotated[str, typer.Argument(metavar="NAME", help="See: anydepth list.", autocompletion=_experiments)],
    scale: Annotated[str, typer.Option(help="smoke, cpu or paper.")] = "cpu",
    seeds: Annotated[
        int | None, typer.Option(min=1, max=100, help="How many seeds; by default its own number.")
    ] = None,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder for results and trained nets.")] = Path(
        "reproductions"
    ),
    evidence: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Folder of evidence: parts done there are not run again; the result is kept."),
    ] = None,
    nets: Annotated[Path, typer.Option(metavar="DIR", help="Folder of the campaign's nets.")] = NETS,
    data: Data = None,
    json: Json = False,
) -> None:
    """Run a paper's experiment and judge its claims. Stopped at any time, it resumes.

    \b
    Examples:
      anydepth reproduce pendulum
      anydepth reproduce mnist --scale smoke --seeds 1
    """
    from anydepth.errors import ConfigError, choices
    from anydepth_papers.experiments import EXPERIMENTS
    from anydepth_papers.judge.experiment import SCALES
    from anydepth_papers.judge.study import Study
    from anydepth_papers.pages.publish import publish

    experiment = EXPERIMENTS[name]
    if scale not in SCALES:
        raise ConfigError(f"unknown scale {scale!r}; {choices(scale, SCALES)}")
    numbers = tuple(range(seeds if seeds is not None else experiment.seeds))
    folder = out / (name if scale == "cpu" else f"{name}-{scale}")
    command = shlex.join(["anydepth", "reproduce", name, "--scale", scale, "--seeds", str(len(numbers))])
    with progress() as report:
        study = Study(name, scale, experiment.settings[scale], numbers, folder, data, nets, report)
        study.evidence = evidence / name if evidence is not None else None
        try:
            findings = experiment.run(study)
        except BaseException:
            study.publish_unfinished()
            raise
        result = publish(experiment, study, findings, command)
    if json:
        print_json(result | {"folder": str(folder)})
    else:
        _show(result, folder)


def _show(result: dict[str, Any], folder: Path) -> None:
    table = Table(title=result["title"], title_justify="left", show_lines=True)
    for column in ("claim", "paper", "ours", "verdict"):
        table.add_column(column)
    for verdict in result["verdicts"]:
        colour = {"holds": "green", "does not hold": "red"}.get(verdict["verdict"], "yellow")
        cells = (escape(verdict[key]) for key in ("claim", "paper", "ours"))
        table.add_row(*cells, f"[{colour}]{verdict['verdict']}[/]")
    console.print(table)
    console.print(f"table, figure and numbers in {bold(folder)}, {result['seconds'] / 60:.1f} minutes of work")
