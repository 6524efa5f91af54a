"""`anydepth export`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from anydepth.cli.output import Json, RunFolder, bold, console, print_json, progress

if TYPE_CHECKING:
    from anydepth.deploy.export.sheet import Elastic, Sheet


def register(app: typer.Typer) -> None:
    app.command("export")(export)


def export(
    run: RunFolder,
    to: Annotated[Path, typer.Option(metavar="FILE", help="FILE.pt2 for torch.export, FILE.onnx for ONNX.")],
    scheme: Annotated[str | None, typer.Option(help="Run the same weights with another scheme.")] = None,
    steps: Annotated[int | None, typer.Option(help="Run them with another number of steps.")] = None,
    elastic: Annotated[
        bool, typer.Option("--elastic", help="One ONNX file for 1 to 64 steps, which become an input of it.")
    ] = False,
    check: Annotated[bool, typer.Option("--check/--no-check", help="Compare the file with the run's model.")] = True,
    json: Json = False,
) -> None:
    """Write a trained model as one file that runs without anydepth. Exit 1: the file's outputs differ from the model's.

    The network of the run's scheme and steps is frozen; the batch, and for taggers the length of sentences, stay free.
    The file takes what the model takes: for images, pixels normalised with the mean and std in FILE.json, which also
    holds labels, words, shapes, versions and the result of the check.

    \b
    Examples:
      anydepth export runs/mnist --to mnist.onnx
      anydepth export runs/mnist --scheme euler --steps 4 --to mnist.pt2
      anydepth export runs/mnist --elastic --to mnist.onnx
    """
    from anydepth.deploy.elastic.elastic_export import export_elastic as write_elastic
    from anydepth.deploy.export.export import export as write
    from anydepth.deploy.export.sheet import sheet_of
    from anydepth.runs.folder import open_run

    with progress() as report:
        make = write_elastic if elastic else write
        sheet = make(open_run(run), to, scheme, steps, check, report)
    if json:
        facts = {"run": str(run), "file": str(to), "sheet": str(sheet_of(to))}
        print_json(facts | sheet.model_dump(mode="json", exclude={"facts"}))
    else:
        _show(sheet, to, sheet_of(to))
    raise typer.Exit(0 if sheet.parity is None or sheet.parity.holds else 1)


def _show_elastic(elastic: "Elastic") -> None:
    console.print(
        f"  takes steps int64 (1 or {len(elastic.blocks)}): {elastic.least} to {elastic.most} of "
        f"{elastic.scheme}, for all blocks or for each"
    )
    for row in elastic.rows:
        value = "-" if row.value is None else f"{row.value:.2f}"
        console.print(f"  {row.steps} steps: {elastic.metric} {value}, {row.latency_ms:.3g} ms")
    if not elastic.rows:
        console.print("  sweep the run first (anydepth sweep) for accuracy and latency of every number of steps")


def _show(sheet: "Sheet", to: Path, beside: Path) -> None:
    parity = sheet.parity
    if parity is not None and not parity.holds:
        console.print(f"[bold red]parity failed[/]: {escape(parity.reason)}; {escape(str(to))} must not be used")
        return
    kind = sheet.kind if sheet.opset is None else f"{sheet.kind}, opset {sheet.opset}"
    console.print(f"{bold(to)} ({kind}): {escape(', '.join(dict.fromkeys(sheet.solver)))}")
    for port in (*sheet.inputs, sheet.output):
        shape = ", ".join(map(str, port.shape))
        console.print(
            f"  {'gives' if port is sheet.output else 'takes'} {escape(f'{port.name} {port.dtype} ({shape})')}"
        )
    if sheet.elastic is not None:
        _show_elastic(sheet.elastic)
    console.print(f"  inputs: {escape(sheet.preparation)}")
    console.print(f"  labels, mean, std and all the rest in {escape(str(beside))}")
    if parity is None:
        console.print("  not compared with the run's model (--no-check)")
    else:
        console.print(f"  parity: off by at most {parity.largest:.1e}, the same predictions; batches 1, 7 and 256")
