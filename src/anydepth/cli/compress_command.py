"""`anydepth compress`."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from anydepth.cli.output import Json, RunFolder, bold, console, print_json

if TYPE_CHECKING:
    from anydepth.surgery.summary import Summary


def register(app: typer.Typer) -> None:
    app.command("compress")(compress)


def compress(
    run: RunFolder,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder of the new run.")],
    basis: Annotated[str | None, typer.Option(help="Another basis for the weights.")] = None,
    size: Annotated[int | None, typer.Option(help="Another number of basis functions.")] = None,
    steps: Annotated[int | None, typer.Option(help="Another number of steps.")] = None,
    scheme: Annotated[str | None, typer.Option(help="Another scheme.")] = None,
    method: Annotated[str, typer.Option(help="project or interpolate.")] = "project",
    json: Json = False,
) -> None:
    """Move a trained model to fewer basis functions, another basis or fewer steps: no data, no retraining.

    \b
    Examples:
      anydepth compress runs/digits --size 4 --out runs/digits-4
      anydepth compress runs/digits --basis constant --size 4 --steps 4 --out runs/digits-short
    """
    from anydepth.errors import ConfigError
    from anydepth.surgery.change import history
    from anydepth.surgery.resize import compress as compressed
    from anydepth.surgery.summary import summary
    from anydepth.train.runs import open_run, save_derived

    wanted = {"basis": basis, "size": size, "steps": steps, "scheme": scheme}
    if all(value is None for value in wanted.values()):
        raise ConfigError("nothing to do; give --size, --basis, --steps or --scheme")
    parent = open_run(run)
    model = parent.model()
    small = compressed(model, **wanted, method=method)  # pyright: ignore[reportArgumentType]
    save_derived(parent, out, small, {"operation": "compress", **wanted, "method": method})
    before, after = summary(model), summary(small)
    largest = max(changes[-1].largest_error for changes in history(small).values())
    found = {
        "run": str(out),
        "parent": str(run),
        "parameters": {"from": before.parameters, "to": after.parameters},
        "nfe": {"from": _nfe(before), "to": _nfe(after)},
        "largest_relative_change": largest,
    }
    if json:
        print_json(found)
        return
    kept = f"[bold]{after.parameters:,}[/] ({100 * after.parameters / before.parameters:.0f} %)"
    console.print(
        f"parameters {before.parameters:,} -> {kept}, NFE {_nfe(before) or 'adaptive'} -> {_nfe(after) or 'adaptive'}"
    )
    console.print(f"largest relative change of a weight over depth {largest:.2g}")
    console.print(f"run {bold(out)}; next: {escape(f'anydepth evaluate {shlex.quote(str(out))}')}")


def _nfe(found: "Summary") -> int | None:
    """Evaluations a pass; None where the solver decides while it runs."""
    return None if any("rtol" in row.form.solver for row in found.rows) else found.nfe
