"""`anydepth evaluate`."""

from typing import Annotated

import typer

from anydepth.cli.output import Data, Json, RunFolder, Split, console, print_json, progress, shown


def register(app: typer.Typer) -> None:
    app.command("evaluate")(evaluate)


def evaluate(
    run: RunFolder,
    scheme: Annotated[str | None, typer.Option(help="Run the same weights with another scheme.")] = None,
    steps: Annotated[int | None, typer.Option(help="Run them with another number of steps.")] = None,
    rtol: Annotated[float | None, typer.Option(help="Relative tolerance of an adaptive scheme.")] = None,
    atol: Annotated[float | None, typer.Option(help="Absolute tolerance of an adaptive scheme.")] = None,
    split: Split = "test",
    data: Data = None,
    json: Json = False,
) -> None:
    """Loss and accuracy of a trained run on a part of its data, with any solver. Changes nothing in the run.

    \b
    Examples:
      anydepth evaluate runs/digits
      anydepth evaluate runs/digits --scheme euler --steps 6
      anydepth evaluate runs/digits --scheme dopri54 --rtol 1e-3 --atol 1e-5
    """
    from anydepth.measure.evaluation import evaluate as score_of
    from anydepth.runs.device import precision_of
    from anydepth.runs.folder import open_run
    from anydepth.surgery.resize import set_solver
    from anydepth.surgery.summary import summary

    opened = open_run(run)
    model = opened.model()
    set_solver(model, scheme=scheme, steps=steps, rtol=rtol, atol=atol)
    part = opened.dataset(data).part(split)  # pyright: ignore[reportArgumentType]
    with progress() as report:
        precision = precision_of(opened.config.training, next(model.parameters()).device)
        score = score_of(model, part, opened.facts, opened.config.evaluation.batch, precision, report)
    rows = summary(model).rows
    solver, weights = (
        ", ".join(dict.fromkeys(values))
        for values in zip(*((r.form.solver, r.form.weights) for r in rows), strict=True)
    )
    found = {
        "run": str(run),
        "split": split,
        "examples": score.examples,
        "solver": solver,
        "weights": weights,
        **score.named(split),
        "nfe": score.nfe,
        "seconds": round(score.seconds, 3),
    }
    if json:
        print_json(found)
        return
    value = f"[bold]{shown(score.metric, score.value)}[/]"
    console.print(f"{split} {score.metric} {value}, loss {score.loss:.4f}, on {score.examples:,} examples")
    console.print(f"run as {solver} ({weights}), {score.nfe} evaluations a pass, {score.seconds:.1f} s")
