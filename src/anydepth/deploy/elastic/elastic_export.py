"""A run as one ONNX file for every number of steps."""

from copy import deepcopy
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.export import Dim

from anydepth.deploy.elastic.elastic_block import ElasticBlock
from anydepth.deploy.elastic.steps_input import LEAST, MOST, STEPS_PORT, check_steps, with_steps
from anydepth.deploy.export.export import call_of, check_writable, sheet_of
from anydepth.deploy.export.formats import Format, format_of, quietly
from anydepth.deploy.export.parity import Parity, compare
from anydepth.deploy.export.ports import BATCH, WORDS, Call, Port, drawn, inputs_of, output_of
from anydepth.deploy.export.sheet import Elastic, Sheet, StepsRow, write_export
from anydepth.deploy.sweeps.sweep_file import sweep_of
from anydepth.errors import ConfigError, ModelFileError
from anydepth.measure.evaluation import evaluating
from anydepth.reporting import Report
from anydepth.runs.folder import Run
from anydepth.surgery.blocks import blocks_of
from anydepth.surgery.resize import set_solver

if TYPE_CHECKING:
    from onnx import GraphProto

_EXAMPLES = 3
"""In the batch that is traced; from 2 on no size is special."""


class ElasticNet(nn.Module):
    """A model whose first input is the number of steps of every block."""

    def __init__(self, model: nn.Module):
        super().__init__()
        self.model, self.blocks = nn.Sequential(deepcopy(model).eval()), []
        for path, block in blocks_of(self.model).items():
            home, _, key = path.rpartition(".")
            made = ElasticBlock(block, path.removeprefix("0.") if path != "0" else "model")
            self.model.get_submodule(home)._modules[key] = made
            self.blocks.append(made)

    def forward(self, steps: Tensor, *inputs: Tensor) -> Tensor:
        for place, block in enumerate(self.blocks):
            block.count = steps[place]
        return self.model[0](*inputs)


def export_elastic(
    run: Run,
    target: Path,
    scheme: str | None = None,
    steps: int | None = None,
    check: bool = True,
    report: Report = lambda what, share: None,
) -> Sheet:
    """Write a run's model to a file that takes 1 to 64 steps as an input, and its sheet beside it.

    Args:
        steps: taken where a caller of `predict` names none; by default the run's own.
    """
    form = format_of(target)
    if form.name != "ONNX":
        raise ConfigError(f"an elastic file is ONNX, got {target.name}; name it FILE.onnx")
    if steps is not None:
        check_steps(steps)
    model = _single(run.model(), scheme)
    own = steps or min(MOST, max(block.steps or 1 for block in blocks_of(model).values()))
    net = ElasticNet(model)
    check_writable(target)
    report("tracing", 0.05)
    dtype = torch.float32
    ports, inputs = inputs_of(run.facts, dtype), drawn(run.facts, dtype, _EXAMPLES)
    content, output = elastic_bytes(net, ports, inputs, run, form)
    parity = _parity(model, net, form.open(content, (STEPS_PORT, *ports)), run, own, report) if check else None
    sheet = sheet_of(run, model, form, content, ports, output, parity, _elastic(run, model, own))
    write_export(target, content, sheet)
    return sheet


def _single(model: nn.Module, scheme: str | None) -> nn.Module:
    """In float32, with one fixed scheme and equal steps."""
    model = model.float()
    if scheme is not None:
        for name, block in blocks_of(model).items():
            set_solver(model, scheme=scheme, steps=block.steps or 8, where=name)
    return model


def elastic_bytes(
    net: ElasticNet, ports: tuple[Port, ...], inputs: tuple[Tensor, ...], run: Run, form: Format
) -> tuple[bytes, Port]:
    """The file, and what it gives."""
    count = len(net.blocks)
    steps = torch.full((count,), 2, dtype=torch.int64)
    with torch.inference_mode():
        output = output_of(run.facts, net(steps, *inputs))
    sizes = {name: Dim(name) for name in (BATCH, WORDS)}
    free = tuple({i: sizes[n] for i, n in enumerate(port.shape) if isinstance(n, str)} for port in ports)
    try:
        with quietly(), torch.no_grad():
            program = torch.export.export(net, (steps, *inputs), dynamic_shapes=(None, free), strict=False)
    except (RuntimeError, TypeError, ValueError, AttributeError, LookupError) as error:
        cause = str(error).strip().split("\n")[0]
        raise ConfigError(f"torch.export cannot take this model with steps as an input: {cause}") from None
    fixed = Port(name=STEPS_PORT.name, dtype="int64", shape=(count,))
    return tidied(form.pack(program, (fixed, *ports), output), count), output


def tidied(content: bytes, blocks: int) -> bytes:
    """Without notes on where operations come from, and with one number of steps allowed for all blocks."""
    import onnx

    model = onnx.load_from_string(content)
    _strip(model.graph)
    model.metadata_props.clear()
    if blocks > 1:
        _spread(model.graph, blocks)
    else:
        model.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 1
    return model.SerializeToString()


def _strip(graph: "GraphProto") -> None:
    graph.metadata_props.clear()
    del graph.value_info[:]
    for node in graph.node:
        node.metadata_props.clear()
        node.doc_string = ""
        for attribute in node.attribute:
            if attribute.HasField("g"):
                _strip(attribute.g)
    used = set(_names(graph))
    kept = [tensor for tensor in graph.initializer if tensor.name in used]
    del graph.initializer[:]
    graph.initializer.extend(kept)
    for value in (*graph.input, *graph.output):
        value.metadata_props.clear()


def _names(graph: "GraphProto") -> list[str]:
    """All that is read in a graph, and in the graphs inside it."""
    found = [value.name for value in graph.output]
    for node in graph.node:
        found += node.input
        for attribute in node.attribute:
            if attribute.HasField("g"):
                found += _names(attribute.g)
    return found


def _spread(graph: "GraphProto", blocks: int) -> None:
    """An input of one or of as many numbers as blocks, made as many in front of everything else."""
    import numpy as np
    from onnx import helper, numpy_helper

    name, spread, size = STEPS_PORT.name, "steps_of_blocks", "number_of_blocks"
    for node in graph.node:
        for place, given in enumerate(node.input):
            if given == name:
                node.input[place] = spread
    graph.initializer.append(numpy_helper.from_array(np.array([blocks], dtype=np.int64), size))
    graph.node.insert(0, helper.make_node("Expand", [name, size], [spread]))
    graph.input[0].type.tensor_type.shape.dim[0].dim_param = "blocks"


def _parity(model: nn.Module, net: ElasticNet, file: Call, run: Run, own: int, report: Report) -> Parity:
    """Against the model with few, its own, and the most steps."""
    found: list[Parity] = []
    for place, steps in enumerate(sorted({LEAST, own, MOST})):
        report(f"comparing {steps} steps", 0.5 + 0.15 * place)
        same = set_solver(deepcopy(model), steps=steps)
        count = torch.full((len(net.blocks),), steps, dtype=torch.int64)
        with evaluating(same):
            sides = call_of(same), lambda x, n=count: net(n, *x), with_steps(file, steps)
            found.append(compare(*sides, run.facts, (torch.float32, torch.float32)))
    return Parity(holds=all(one.holds for one in found), gaps=tuple(gap for one in found for gap in one.gaps))


def _elastic(run: Run, model: nn.Module, own: int) -> Elastic:
    """With the rows of the run's sweep that have its weights as they are and this scheme."""
    blocks = blocks_of(model)
    names = {block.scheme.name for block in blocks.values()}
    scheme = ", ".join(sorted(names))
    try:
        swept = sweep_of(run)
    except ModelFileError:
        swept = None
    rows = () if swept is None else swept.rows
    mine = [r for r in rows if (r.basis, r.size) == (swept.source.basis, swept.source.size)] if swept else []
    fits = [r for r in mine if r.scheme == scheme and r.steps is not None and r.steps <= MOST]
    return Elastic(
        scheme=scheme,
        blocks=tuple(blocks),
        least=LEAST,
        most=MOST,
        default=own,
        metric=swept.metric if swept is not None and fits else None,
        rows=tuple(
            StepsRow(steps=r.steps or 0, value=r.value, latency_ms=r.latency_ms)
            for r in sorted(fits, key=lambda r: r.steps or 0)
        ),
    )
