"""`anydepth gradients`."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from anydepth.cli.output import Data, Json, RunFolder, console, print_json

if TYPE_CHECKING:
    from torch import Tensor, nn

    from anydepth.measure.gradients import Compared


def register(app: typer.Typer) -> None:
    app.command("gradients")(gradients)


def gradients(
    run: RunFolder,
    batch: Annotated[int, typer.Option(min=1, max=100_000, help="Training examples that the loss is taken on.")] = 32,
    modes: Annotated[str, typer.Option(help="Gradient modes, with commas.")] = "backprop,checkpoint,kkt,adjoint",
    finer: Annotated[str, typer.Option(help="Factors on the number of steps, with commas.")] = "1,2,4",
    data: Data = None,
    json: Json = False,
) -> None:
    """Compare the gradients of every mode with autograd's, on a trained run, in double precision. Changes nothing.

    \b
    Examples:
      anydepth gradients runs/digits
      anydepth gradients runs/digits --modes kkt,adjoint --finer 1,2,4,8
    """
    import numpy as np

    from anydepth.errors import ConfigError
    from anydepth.measure.evaluation import fitting, loss_of
    from anydepth.measure.gradients import compare_gradients
    from anydepth.runs.folder import open_run

    try:
        factors = [int(factor) for factor in finer.split(",")]
    except ValueError:
        factors = [0]
    if min(factors) < 1 or max(factors) > 64:
        raise ConfigError(f"--finer is {finer!r}, expected whole numbers from 1 to 64 with commas")
    opened = open_run(run)
    model, part = opened.model().train(), opened.dataset(data).part("train")
    taken = part.batch(np.arange(min(batch, len(part))), opened.facts)

    def loss(net: "nn.Module") -> "Tensor":
        inputs, targets = fitting(net, taken)
        return loss_of(opened.facts.task, net(*inputs), targets)

    rows = compare_gradients(model, loss, modes.split(","), factors)
    if json:
        print_json({"run": str(run), "examples": len(taken.targets), "rows": [asdict(row) for row in rows]})
        return
    console.print(_table(rows))


def _table(rows: "list[Compared]") -> Table:
    evolves = any(row.evolution_error is not None for row in rows)
    heads = ["mode", "solver", "relative error", *(["of w(0)", "of p"] if evolves else []), "kept (MB)", "seconds"]
    table = Table(*heads, title="Gradients against autograd's")
    for row in rows:
        parts = [row.initial_error, row.evolution_error] if evolves else []
        errors = ["-" if error is None else f"{error:.1e}" for error in (row.error, *parts)]
        table.add_row(row.mode, row.steps, *errors, f"{row.kept_bytes / 1e6:.2f}", f"{row.seconds:.2f}")
    return table
