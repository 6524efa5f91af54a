"""`anydepth compress`."""

import shlex
from dataclasses import dataclass, field
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from anydepth.cli.output import Data, Json, RunFolder, bold, console, print_json, progress
from anydepth.cli.sweep_command import NoData

if TYPE_CHECKING:
    from torch import nn

    from anydepth.deploy.sweeps.budget import Budget
    from anydepth.deploy.sweeps.pick import Fitted
    from anydepth.deploy.sweeps.sweep_inputs import SweepInputs
    from anydepth.json_values import JsonObject
    from anydepth.runs.folder import Run
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
    max_params: Annotated[
        int | None, typer.Option(help="Choose the best form with at most this many parameters.")
    ] = None,
    max_latency_ms: Annotated[
        float | None, typer.Option(help="Choose the best form with at most this latency.")
    ] = None,
    max_drop: Annotated[
        float | None, typer.Option(help="Largest drop in percentage points; alone, it chooses the smallest such form.")
    ] = None,
    confidence: Annotated[
        float | None,
        typer.Option(
            help="Confidence that the drop on new data stays within --max-drop; default 0.95; 0 uses the measured drop."
        ),
    ] = None,
    sweep: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder of the sweep that the budget needs; default: RUN.")
    ] = None,
    per_block: Annotated[
        bool, typer.Option("--per-block", help="Choose sizes and steps for every block by itself; needs a budget.")
    ] = False,
    no_data: NoData = False,
    recalibrate: Annotated[
        bool,
        typer.Option(
            "--recalibrate", help="Estimate batch statistics again on training data; kept unless validation gets worse."
        ),
    ] = False,
    data: Data = None,
    json: Json = False,
) -> None:
    """Move a trained model to fewer basis functions, another basis or fewer steps: no retraining, and no data needed.

    Give a form, or a budget: then the best form within it is chosen from the run's sweep (see anydepth sweep).

    \b
    Examples:
      anydepth compress runs/digits --size 4 --out runs/digits-4
      anydepth compress runs/digits --basis constant --size 4 --steps 4 --out runs/digits-short
      anydepth compress runs/digits --max-params 5000 --max-latency-ms 2 --out runs/digits-fit
      anydepth compress runs/digits --max-drop 1 --per-block --out runs/digits-blocks
    """
    from anydepth.errors import ConfigError
    from anydepth.runs.folder import check_new, open_run, save_derived

    wanted = {"basis": basis, "size": size, "steps": steps, "scheme": scheme}
    budget = _budget(max_params, max_latency_ms, max_drop, confidence)
    is_formed = any(value is not None for value in wanted.values())
    if is_formed == (not budget.is_empty):
        told = "either a form or a budget, not both" if is_formed else "nothing to do"
        raise ConfigError(f"{told}; give --size, --basis, --steps or --scheme, or --max-params and the like")
    if per_block and (is_formed or no_data):
        raise ConfigError("--per-block needs a budget and data; give --max-params or --max-drop, and no form")
    parent = open_run(run)
    check_new(out)
    if is_formed:
        made = _formed(parent, wanted, method)
    elif per_block:
        made = _per_block(parent, budget, data)
    else:
        made = _within(parent, budget, data, not no_data, sweep, method)
    transform = {"operation": "compress", **wanted, "method": method, **made.transform}
    if recalibrate:
        made.small, made.found["recalibrated"] = _recalibrated(parent, made.small, data, made.given)
        transform["recalibrated"] = made.found["recalibrated"]["is_kept"]
    save_derived(parent, out, made.small, transform)
    _tell(run, out, made, json)


@dataclass
class _Made:
    """A model made smaller, and what there is to tell of it."""

    model: "nn.Module"
    """As it was."""
    small: "nn.Module"
    transform: "JsonObject" = field(default_factory=dict)
    """What its run's record says."""
    found: "JsonObject" = field(default_factory=dict)
    given: "SweepInputs | None" = None
    """The model on data, where it was read."""


def _formed(parent: "Run", wanted: "JsonObject", method: str) -> _Made:
    """In the form asked for."""
    from anydepth.surgery.resize import compress as smaller

    model = parent.model()
    _check_smaller(model, wanted["basis"], wanted["size"])
    return _Made(model, smaller(model, **wanted, method=method))


def _per_block(parent: "Run", budget: "Budget", data: Path | None) -> _Made:
    """Within a budget, with sizes and steps of its own for every block."""
    with progress() as report:
        from anydepth.deploy.sweeps.per_block import fit_blocks

        shaped = fit_blocks(parent, budget, data, report)
    told = shaped.describe()
    transform = {"blocks": told["blocks"], "budget": budget.describe()}
    return _Made(shaped.inputs.meter.model, shaped.model, transform, {"per_block": told}, shaped.inputs)


def _within(
    parent: "Run", budget: "Budget", data: Path | None, use_data: bool, folder: Path | None, method: str
) -> _Made:
    """The best form of a sweep within a budget."""
    from anydepth.errors import ConfigError

    if method != "project":
        raise ConfigError(f"with a budget the method is always projection, got --method {method}; leave it out")
    with progress() as report:
        from anydepth.deploy.sweeps.pick import fit_to

        fitted = fit_to(parent, budget, data, use_data, folder, report)
    row = fitted.picked.row
    form = {"basis": row.basis, "size": row.size, "steps": row.steps, "scheme": row.scheme}
    told = {"picked": _picked(fitted, budget)}
    return _Made(fitted.inputs.meter.model, fitted.model, form | {"budget": budget.describe()}, told, fitted.inputs)


def _budget(
    max_params: int | None, max_latency_ms: float | None, max_drop: float | None, confidence: float | None
) -> "Budget":
    from anydepth.deploy.sweeps.budget import CONFIDENCE, Budget
    from anydepth.errors import ConfigError

    if confidence is not None and max_drop is None:
        raise ConfigError("--confidence belongs to --max-drop; give --max-drop too, or leave --confidence out")
    return Budget(max_params, max_latency_ms, max_drop, CONFIDENCE if confidence is None else confidence)


def _check_smaller(model: "nn.Module", basis: str | None, size: int | None) -> None:
    """Refuse a size that is larger than the model's; in another basis it may be wanted, so that it is only told."""
    from anydepth.errors import ConfigError
    from anydepth.surgery.blocks import blocks_of
    from anydepth.surgery.forms import own_basis

    largest = max(block.size for block in blocks_of(model).values())
    if size is None or size <= largest:
        return
    told = f"--size {size} is larger than the model's {largest}, so that nothing is compressed"
    if basis is None or basis == own_basis(model):
        raise ConfigError(f"{told}; give at most {largest}, or let it grow in training with refine.at")
    console.print(told, style="yellow")


def _recalibrated(
    parent: "Run", small: "nn.Module", data: Path | None, given: "SweepInputs | None"
) -> "tuple[nn.Module, JsonObject]":
    from anydepth.deploy.recalibrate import recalibrated

    done = recalibrated(parent, small, data, given)
    return done.model, done.describe()


def _picked(fitted: "Fitted", budget: "Budget") -> "JsonObject":
    """What was picked, and by what."""
    table, row = fitted.sweep, fitted.picked.row
    drop, most = table.drop(row), table.most_drop(row, budget.confidence)
    return {
        "budget": budget.describe(),
        "form": row.name,
        "metric": table.metric,
        "split": table.split,
        "examples": table.settings["examples"],
        "value": row.value,
        "drop": drop if isfinite(drop) else None,
        "most_drop": most if row.paired is not None and isfinite(most) else None,
        "parameters": row.parameters,
        "latency_ms": row.latency_ms,
        "remeasured_latency_ms": fitted.picked.latency_ms,
        "batch": table.settings["batch"],
        "used_data": table.split is not None,
        "note": "; ".join(filter(None, (table.note, fitted.unread, table.doubt(budget)))),
    }


def _tell(run: Path, out: Path, made: _Made, json: bool) -> None:
    from anydepth.surgery.change import history
    from anydepth.surgery.summary import summary

    before, after = summary(made.model), summary(made.small)
    largest = max((changes[-1].largest_error for changes in history(made.small).values() if changes), default=0.0)
    if json:
        told = {
            "run": str(out),
            "parent": str(run),
            "parameters": {"from": before.parameters, "to": after.parameters},
            "nfe": {"from": _nfe(before), "to": _nfe(after)},
            "largest_relative_change": largest,
        }
        print_json(told | made.found)
        return
    for line in _lines(made.found):
        console.print(line)
    kept = f"[bold]{after.parameters:,}[/] ({100 * after.parameters / before.parameters:.0f} %)"
    console.print(
        f"parameters {before.parameters:,} -> {kept}, NFE {_nfe(before) or 'adaptive'} -> {_nfe(after) or 'adaptive'}"
    )
    console.print(f"largest relative change of a weight over depth {largest:.2g}")
    console.print(f"run {bold(out)}; next: {escape(f'anydepth evaluate {shlex.quote(str(out))}')}")


def _lines(found: "JsonObject") -> list[str]:
    """About the budget and the recalibration, where there were any."""
    from anydepth.measure.paired import shown

    lines = []
    if "picked" in found:
        told = found["picked"]
        of = f"on {told['examples']:,} {told['split']} examples" if told["used_data"] else "estimated without data"
        lines.append(f"picked {bold(told['form'])}: {told['metric']} {shown(told['metric'], told['value'])} {of}")
        lines += _drop_lines(told)
        if told["remeasured_latency_ms"] is not None:
            lines.append(f"latency {told['remeasured_latency_ms']:.3g} ms, measured once more, batch {told['batch']}")
        lines += [escape(told["note"])] if told["note"] else []
    if "per_block" in found:
        told = found["per_block"]
        for name, shape in told["blocks"].items():
            lines.append(f"{escape(name)}: size {shape['size']}, {shape['steps'] or 'adaptive'} steps")
        lines.append(
            f"{told['metric']} {shown(told['metric'], told['value'])}, drop {told['drop']:.3g}, "
            f"at most {told['most_drop']:.3g}"
        )
    if "recalibrated" in found:
        told = found["recalibrated"]
        before, after = (shown(told["metric"], told[key]) for key in ("before", "after"))
        kept = "" if told["is_kept"] else "; worse, so not kept"
        lines.append(f"recalibrated: {told['split']} {told['metric']} {before} -> {bold(after)}{kept}")
    return lines


def _drop_lines(told: "JsonObject") -> list[str]:
    """About the drop where one was asked for, and how sure it is where examples tell."""
    if "max_drop" not in told["budget"]:
        return []
    drop, most, confidence = told["drop"], told["most_drop"], told["budget"]["confidence"]
    is_surer = most is not None and most > drop
    return [f"drop {drop:.3g}" + (f", at most {most:.3g} with {100 * confidence:g} % confidence" if is_surer else "")]


def _nfe(found: "Summary") -> int | None:
    """Evaluations a pass; None where the solver decides while it runs."""
    return None if any("rtol" in row.form.solver for row in found.rows) else found.nfe
