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

_SHOWN = (("rk4", 16), ("rk4", 4), ("rk4_38", 3), ("midpoint", 8), ("euler", 16), ("euler", 8), ("euler", 4))

_SHORTENED = {"both": "the same", "steps": "half the steps", "skipped": "every other layer left out"}
"""Ways to halve a net whose batch statistics are then estimated anew."""


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


def _table(results: "JsonObject") -> Table:
    models = results["models"]
    table = Table(
        title=f"Test accuracy (%) on {results['test_images']} digits, seed {results['seed']}",
        title_justify="left",
    )
    table.add_column("the same trained weights, run as")
    for model in models.values():
        table.add_column(model["title"].replace(": ", "\n"), justify="right")
    for title, values in (
        *_rows(models),
        ("ResNet of 4 layers, from scratch", ["", f"{results['shallow_resnet']:.1f}"]),
    ):
        table.add_row(title, *values, end_section=title.endswith("trained"))
    return table


def _rows(models: "JsonObject") -> list[tuple[str, list[str]]]:
    rows = [("as trained", [f"[bold]{m['accuracy']:.1f}[/]" for m in models.values()])]
    for scheme, steps in _SHOWN:
        rows.append((f"{scheme}, {steps} steps", [f"{m['solvers'][scheme][str(steps)]:.1f}" for m in models.values()]))
    halves = [m["compressed"][str(m["half"]["size"])] for m in models.values()]
    rows.append(("half the basis functions", [f"{h['accuracy']:.1f}" for h in halves]))
    rows.append(("half the basis functions and steps", [f"{m['half']['accuracy']:.1f}" for m in models.values()]))
    for way, title in _SHORTENED.items():
        rows.append((f"{title}, recalibrated", [_shortened(m, way) for m in models.values()]))
    work = [f"{m['evaluations']} -> {m['shortened']['steps']['evaluations']}" for m in models.values()]
    rows.append(("evaluations, then at half the steps", work))
    rows.append(("block replaced by the identity", [f"{m['identity']:.1f}" for m in models.values()]))
    kept = [f"{m['parameters']:,} -> {h['parameters']:,}" for m, h in zip(models.values(), halves, strict=True)]
    rows.append(("parameters, then at half", kept))
    rows.append(("training time", [f"{m['seconds']:.0f} s" for m in models.values()]))
    return rows


def _shortened(model: "JsonObject", way: str) -> str:
    found = model["shortened"].get(way)
    return "" if found is None else f"{found['recalibrated']:.1f}"
