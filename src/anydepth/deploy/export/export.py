"""A run as one file: frozen, traced, written, and compared with what the run's own model says."""

import os
from copy import deepcopy
from pathlib import Path

import torch
from torch import nn

from anydepth import artifact
from anydepth.deploy.export.formats import Format, format_of, traced
from anydepth.deploy.export.parity import Parity, compare
from anydepth.deploy.export.ports import Call, Port, drawn, inputs_of, output_of, preparation
from anydepth.deploy.export.sheet import Elastic, Sheet, write_export
from anydepth.deploy.freeze import freeze
from anydepth.errors import ConfigError, StorageError
from anydepth.measure.evaluation import evaluating
from anydepth.reporting import Report
from anydepth.runs.folder import Run
from anydepth.surgery.blocks import blocks_of
from anydepth.surgery.resize import set_solver
from anydepth.surgery.summary import summary

_EXAMPLES = 3
"""In the batch that is traced; from 2 on no size is special."""


def export(
    run: Run,
    target: Path,
    scheme: str | None = None,
    steps: int | None = None,
    check: bool = True,
    report: Report = lambda what, share: None,
) -> Sheet:
    """Write a run's model, with its own or another fixed solver, to a file, and its sheet beside it.

    The graph takes what the model takes, so images must be normalised first; the sheet has the numbers. A file whose
    parity does not hold is written too, with a sheet that says so; `predict` refuses it.
    """
    form = format_of(target)
    model = run.model()
    set_solver(model, scheme=scheme, steps=steps)
    for name, block in blocks_of(model).items():
        if block.plan is None:
            raise ConfigError(
                f"block {name!r} has the adaptive scheme {block.scheme.name!r}, but an exported network needs fixed "
                "steps; give --scheme and --steps"
            )
    check_writable(target)
    report("freezing", 0.05)
    dtypes = (dtype := next(model.parameters()).dtype, torch.float32 if form.is_single else dtype)
    content, sheet = _packed(run, model, form, dtypes, check, report)
    write_export(target, content, sheet)
    return sheet


def _packed(
    run: Run, model: nn.Module, form: Format, dtypes: tuple[torch.dtype, torch.dtype], check: bool, report: Report
) -> tuple[bytes, Sheet]:
    facts = run.facts
    frozen = freeze(model if dtypes[0] == dtypes[1] else deepcopy(model).to(dtypes[1]))
    ports, inputs = inputs_of(facts, dtypes[1]), drawn(facts, dtypes[1], _EXAMPLES)
    report("tracing", 0.1)
    with torch.inference_mode():
        output = output_of(facts, frozen(*inputs))
    program = traced(frozen, ports, inputs)
    report(f"writing {form.name}", 0.4)
    content = form.pack(program, ports, output)
    parity = None
    if check:
        report("comparing", 0.8)
        with evaluating(model):
            parity = compare(call_of(model), call_of(frozen), form.open(content, ports), facts, dtypes)
    return content, sheet_of(run, model, form, content, ports, output, parity)


def sheet_of(
    run: Run,
    model: nn.Module,
    form: Format,
    content: bytes,
    ports: tuple[Port, ...],
    output: Port,
    parity: Parity | None,
    elastic: Elastic | None = None,
) -> Sheet:
    """The sheet of a file that was made of a run's model."""
    return Sheet(
        kind=form.name,
        opset=form.opset,
        sha256=artifact.digest(content),
        model_sha256=run.model_hash(),
        solver=tuple(row.form.solver for row in summary(model).rows),
        inputs=ports,
        output=output,
        preparation=preparation(run.facts),
        facts=run.facts,
        versions=form.versions(),
        parity=parity,
        elastic=elastic,
    )


def call_of(module: nn.Module) -> Call:
    """A module as a function of its inputs."""
    return lambda inputs: module(*inputs)


def check_writable(target: Path) -> None:
    """Said before the work rather than after it."""
    artifact.make_folder(target.parent)
    if target.is_dir() or not os.access(target.parent, os.W_OK):
        reason = "it is a folder" if target.is_dir() else "its folder may not be written to"
        raise StorageError(f"cannot write {target}: {reason}; choose another place")
