"""`anydepth demo`."""

from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from anydepth.cli.output import Json, bold, console, print_json, progress
from anydepth.cli.training_bar import training_bar
from anydepth.json_values import JsonObject


def register(app: typer.Typer) -> None:
    app.command("demo")(demo)


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the runs, the figure, the numbers and the reports.")] = Path(
        "demo-output"
    ),
    seed: Annotated[int, typer.Option(min=0, max=2**31, help="Seed of weights and batches.")] = 0,
    json: Json = False,
) -> None:
    """Train on bundled digits; run the same weights at other depths and solvers, compress them, judge, report.

    Takes about a minute on two cores.

    \b
    Example:
      anydepth demo --out demo-output
    """
    from anydepth import artifact
    from anydepth.demo import demo as experiment
    from anydepth.demo.figure import draw
    from anydepth.report.page import write_report

    say = partial(console.print, soft_wrap=True) if not json else _silent
    artifact.make_folder(out)
    say(
        "[bold]1. Train once.[/] A net whose depth is continuous, grown while it trains, and a ResNet of the same unit."
    )
    runs = experiment.train_both(out, seed, partial(training_bar, quiet=True))
    shallow = experiment.train_shallow(out / "resnet-of-4", seed, partial(training_bar, quiet=True))
    results: JsonObject = experiment.facts_of(seed, runs) | {"shallow_resnet": shallow, "models": {}}
    say("[bold]2. Run at any depth.[/] The same weights with other solvers, other step counts, fewer parameters.\n")
    with progress() as report:
        for name, run in runs.items():
            results["models"][name] = experiment.examine(run, experiment.TITLES[name], report)
    say(_table(results))
    say("\n[bold]3. Judge.[/] Is the trained net an ODE, or tied to the solver it was trained with?")
    for name, model in results["models"].items():
        verdict = model["verdict"]
        word = "[green]proper[/]" if verdict["proper"] else "[red]not proper[/]"
        say(f"   {name}: {word}: {verdict['reason']}")
    half = experiment.compress_half(runs["continuous"], out / "continuous-half")
    small, whole = results["models"]["continuous"]["half"], results["models"]["continuous"]
    place = escape(str(half.folder))
    say("\n[bold]4. Compress.[/] No data, no retraining: half of the basis functions and half of the steps")
    say(f"   keep {small['accuracy']:.1f} % of {whole['accuracy']:.1f} %; the small net is in {place}")
    artifact.write_json(out / "demo.json", results)
    draw(results, out / "demo.png")
    with progress() as report:
        page = write_report(runs["continuous"], report=report).path
    if json:
        print_json(results | {"report": str(page)})
        return
    say(escape(f"\nfigure {out / 'demo.png'}, numbers {out / 'demo.json'}"))
    say(
        escape(
            f"next: anydepth list, anydepth train mnist, anydepth evaluate {out}/continuous --scheme euler --steps 5"
        )
    )
    say(f"open the report: {bold(page)}")


def _silent(*_: object) -> None:
    """Say nothing, for programs."""


_LEGEND = (
    "For each net: per cent as it is, per cent recalibrated (batch statistics estimated anew on training images), "
    "evaluations of the unit, milliseconds of the processor for an image."
)


def _table(results: JsonObject) -> Table:
    models = results["models"]
    table = Table(
        title=f"Test accuracy (%) on {results['test_images']} digits, seed {results['seed']}",
        title_justify="left",
        caption=_LEGEND,
        caption_justify="left",
    )
    table.add_column("the same trained weights", no_wrap=True)
    for model in models.values():
        table.add_column(model["title"].replace(": ", "\n").replace(", ", ",\n"), justify="right", no_wrap=True)
    forms = dict.fromkeys(name for model in models.values() for name in model["forms"])
    for name in forms:
        cells = (_cell(model["forms"].get(name)) for model in models.values())
        table.add_row(name, *cells, end_section=name == "as trained")
    table.add_row("4 layers, from scratch", "", _cell(results["shallow_resnet"]), end_section=True)
    for title, values in _facts(models):
        table.add_row(title, *values)
    return table


def _cell(form: JsonObject | None) -> str:
    """As it is, recalibrated, evaluations, milliseconds."""
    if form is None:
        return ""
    return "{accuracy:.1f} {recalibrated:5.1f} {evaluations:3d} {milliseconds:5.2f}".format(**form)


def _facts(models: JsonObject) -> list[tuple[str, list[str]]]:
    halves = [model["compressed"][str(model["half"]["size"])] for model in models.values()]
    kept = [f"{m['parameters']:,} -> {h['parameters']:,}" for m, h in zip(models.values(), halves, strict=True)]
    return [
        ("no block at all", [f"{m['identity']:.1f}" for m in models.values()]),
        ("parameters, then at half", kept),
        ("training time", [f"{m['seconds']:.0f} s" for m in models.values()]),
    ]
