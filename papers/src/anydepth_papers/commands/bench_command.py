"""`anydepth bench`."""

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from anydepth.cli.output import Json, bold, console, print_json, progress
from anydepth.errors import ConfigError


def register(app: typer.Typer) -> None:
    app.command("bench")(bench)


def bench(
    only: Annotated[
        str | None, typer.Option(metavar="PATTERN", help="Cases whose name contains or matches this.")
    ] = None,
    rounds: Annotated[int | None, typer.Option(min=1, help="Rounds of every case; 9, or 3 with --quick.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Few rounds, nothing compiled, no memory.")] = False,
    growth: Annotated[bool, typer.Option("--growth", help="Also how cost grows with steps, size and batch.")] = False,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the results as JSON.")] = None,
    device: Annotated[str, typer.Option(help="Where all sides run: cpu or cuda.")] = "cpu",
    precision: Annotated[str, typer.Option(help="float32, or bf16: all sides under autocast.")] = "float32",
    tables: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Measure nothing: print the tables of this file of results.")
    ] = None,
    page: Annotated[Path | None, typer.Option(metavar="FILE", help="With --tables: write them into this page.")] = None,
    figure: Annotated[
        Path | None, typer.Option(metavar="FILE", help="With --tables: draw the growth of cost as a picture.")
    ] = None,
    json: Json = False,
) -> None:
    """Side by side with hand-written networks and other solvers: time with its spread, and peak memory.

    Every case runs in a process of its own, where the sides take turns. Every round gives a ratio; the median and
    quartiles are shown. Peers that are not installed are skipped. Peak memory is measured separately.

    \b
    Examples:
      anydepth bench --quick
      anydepth bench --only "inference*" --rounds 21
      anydepth bench --growth --out results.json
      anydepth bench --tables results.json
    """
    if tables is not None:
        _print_tables(tables, page, figure)
        return
    _check_place(device, precision)
    from anydepth import artifact
    from anydepth.measure.cost import is_busy
    from anydepth_papers.bench.run import about, absent, chosen, measure_apart

    names, times = chosen(only, growth), rounds or (3 if quick else 9)
    about_it = about() | {"rounds": times, "busy": is_busy(), "device": device, "precision": precision}
    found: dict[str, Any] = {"about": about_it, "skipped": absent(), "cases": {}}
    if not json:
        if about_it["busy"]:
            console.print("other processes use the same cores: figures are rough", style="yellow")
        for name, reason in found["skipped"].items():
            console.print(f"{name} is left out: {escape(reason)}", style="dim")
    with progress() as report:
        for done, name in enumerate(names):
            report(name, done / len(names))
            found["cases"][name] = measure_apart(name, times, quick, device, precision)
            if out is not None:
                artifact.write_json(out, found)
            if not json:
                _show(name, found["cases"][name])
    if json:
        print_json(found)
    elif out is not None:
        console.print(f"kept in {bold(out)}")


def _check_place(device: str, precision: str) -> None:
    if device not in ("cpu", "cuda") or precision not in ("float32", "bf16"):
        raise ConfigError(
            f"the sides cannot run on {device!r} in {precision!r}; expected cpu or cuda, and float32 or bf16"
        )
    if device == "cuda":
        import torch

        if not torch.cuda.is_available():
            raise ConfigError("this PyTorch sees no GPU; run with --device cpu, or install a build of PyTorch for CUDA")


def _print_tables(results: Path, page: Path | None, figure: Path | None) -> None:
    from anydepth import artifact
    from anydepth_papers.bench.page import draw, rewrite, tables

    if not results.is_file():
        raise ConfigError(f"no file {results}; expected what anydepth bench --out wrote")
    found = artifact.read_json(results)
    if page is None:
        typer.echo(tables(found), nl=False)
    else:
        rewrite(page, found)
        console.print(f"tables put into {bold(page)}")
    if figure is not None:
        draw(found, figure)
        console.print(f"growth drawn in {bold(figure)}")


def _show(name: str, case: dict[str, Any]) -> None:
    grows = f"; time ~ {name.split()[-1]}^{case['exponent']:.2f}" if "exponent" in case else ""
    table = Table(title=escape(f"{name} (compared with {case['base']}){grows}"), title_justify="left")
    for column in ("side", "ms [quartiles]", "ratio [quartiles]", "goal", "MB (ratio)"):
        table.add_column(escape(column), justify="left" if column == "side" else "right", no_wrap=True)
    for side, row in case["sides"].items():
        table.add_row(escape(side), *_cells(row))
    console.print(table)
    for side, reason in case["failed"].items():
        console.print(f"{escape(side)} is left out: {escape(reason)}", style="dim")


def _cells(row: dict[str, float]) -> list[str]:
    from anydepth_papers.bench.goals import is_met

    cells: list[str] = []
    for name, digits in (("milliseconds", 2), ("ratio", 3)):
        low, middle, high = (f"{row[key]:.{digits}f}" for key in (f"{name}_low", name, f"{name}_high"))
        cells.append(escape(f"{middle} [{low}, {high}]"))
    cells.append(f"{row['goal']:.2f} {'met' if is_met(row) else 'not met'}" if "goal" in row else "")
    ratio = f" ({row['memory_ratio']:.3f})" if "memory_ratio" in row else ""
    return [*cells, f"{row['megabytes']:.1f}{ratio}" if "megabytes" in row else ""]
