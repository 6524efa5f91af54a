"""`anydepth demo`."""

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from anydepth.cli.output import Json, console, print_json, progress

_SHOWN = (("rk4", 16), ("rk4", 4), ("rk4_38", 3), ("midpoint", 8), ("euler", 16), ("euler", 8), ("euler", 4))


def register(app: typer.Typer) -> None:
    app.command("demo")(demo)


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the figure, the numbers and the two models.")] = Path(
        "demo-output"
    ),
    seed: Annotated[int, typer.Option(min=0, max=2**31, help="Seed of weights and batches.")] = 0,
    json: Json = False,
) -> None:
    """Train two small nets on bundled digits; run the same weights at other depths and solvers, and compressed.

    Takes under a minute on two cores. Example: anydepth demo --out demo-output
    """
    from anydepth import artifact, save
    from anydepth.demo.experiment import run
    from anydepth.demo.figure import draw

    artifact.make_folder(out)
    with progress() as report:
        results, models = run(seed, report)
    for name, model in models.items():
        save(model, out / name)
    artifact.write_json(out / "demo.json", results)
    draw(results, out / "demo.png")
    if json:
        print_json(results)
    else:
        _show(results)
        console.print(
            f"\nfigure [bold]{out / 'demo.png'}[/], numbers {out / 'demo.json'}, models {out}/continuous, {out}/resnet"
        )


def _show(results: dict[str, Any]) -> None:
    models = results["models"]
    table = Table(
        title=f"Test accuracy (%) on {results['test_images']} digits, seed {results['seed']}",
        title_justify="left",
    )
    table.add_column("the same trained weights, run as")
    for model in models.values():
        table.add_column(model["title"].replace(": ", "\n"), justify="right")
    for title, values in _rows(models):
        table.add_row(title, *values, end_section=title.endswith("trained"))
    console.print(table)


def _rows(models: dict[str, Any]) -> list[tuple[str, list[str]]]:
    rows = [("as trained", [f"[bold]{m['accuracy']:.1f}[/]" for m in models.values()])]
    for scheme, steps in _SHOWN:
        rows.append((f"{scheme}, {steps} steps", [f"{m['solvers'][scheme][str(steps)]:.1f}" for m in models.values()]))
    halves = [m["compressed"][str(m["half"]["size"])] for m in models.values()]
    kept = [f"{h['accuracy']:.1f}" for h in halves]
    rows.append(("half the basis functions", kept))
    rows.append(("half the basis functions and steps", [f"{m['half']['accuracy']:.1f}" for m in models.values()]))
    rows.append(("block replaced by the identity", [f"{m['identity']:.1f}" for m in models.values()]))
    rows.append(
        (
            "parameters, then at half",
            [f"{m['parameters']:,} -> {h['parameters']:,}" for m, h in zip(models.values(), halves, strict=True)],
        )
    )
    rows.append(("training time", [f"{m['seconds']:.0f} s" for m in models.values()]))
    return rows
