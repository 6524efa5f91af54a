"""One file for every number of steps, against PyTorch and against a file with fixed steps.

For every run and three schemes: the largest distance of scores from PyTorch's over all of 1 to 64 steps, relative to
the largest score where that is above 1. Then, with the run's own scheme and steps: the size of the file and its time
beside those of the file with fixed steps, and of that file with int8 weights by ONNX Runtime's own tool.
Run: python benchmarks/elastic.py parity RUN...     python benchmarks/elastic.py cost RUN...
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import Tensor

import anydepth as ad
from anydepth.deploy.elastic.elastic_export import export_elastic
from anydepth.deploy.elastic.steps_input import LEAST, MOST, STEPS_PORT, with_steps
from anydepth.deploy.export.export import export
from anydepth.deploy.export.formats import format_of
from anydepth.deploy.export.ports import Call, drawn, inputs_of
from anydepth.deploy.export.sheet import read_export
from anydepth.measure.cost import interleaved
from anydepth.measure.evaluation import evaluating
from anydepth.runs.folder import Run, open_run
from anydepth.surgery.blocks import blocks_of

SCHEMES = ("euler", "midpoint", "rk4")
BATCH, ROUNDS = 3, 150
SHAPES = ((1, 2), (1, 12), (2, 12), (4, 12), (16, 12))
"""Sentences, and words in each."""


def opened(path: Path, is_elastic: bool = False) -> Call:
    content, sheet = read_export(path)
    return format_of(path).open(content, (STEPS_PORT, *sheet.inputs) if is_elastic else sheet.inputs)


def parity(run: Run, folder: Path) -> Iterator[dict[str, Any]]:
    inputs = drawn(run.facts, torch.float32, BATCH, seed=3)
    for scheme in SCHEMES:
        target = folder / f"{scheme}.onnx"
        export_elastic(run, target, scheme=scheme, check=False)
        file, model = opened(target, is_elastic=True), run.model()
        gaps = {}
        for steps in range(LEAST, MOST + 1):
            ad.set_solver(model, scheme=scheme, steps=steps)
            with evaluating(model):
                wanted, found = real(run, model(*inputs), inputs), real(run, with_steps(file, steps)(inputs), inputs)
            gaps[steps] = float((found - wanted).abs().max()) / max(1.0, float(wanted.abs().max()))
        worst = max(gaps, key=gaps.__getitem__)
        yield {"scheme": scheme, "steps": len(gaps), "worst": gaps[worst], "at": worst}


def real(run: Run, outputs: Tensor, inputs: tuple[Tensor, ...]) -> Tensor:
    """Without padding."""
    return outputs[inputs[1]] if run.facts.kind == "sentences" else outputs


def cost(run: Run, folder: Path) -> Iterator[dict[str, Any]]:
    fixed, elastic, small = (folder / f"{name}.onnx" for name in ("fixed", "elastic", "int8"))
    export(run, fixed, check=False)
    export_elastic(run, elastic, check=False)
    quantized(fixed, small)
    sizes = {path.stem: path.stat().st_size for path in (fixed, elastic, small)}
    yield {"size": {name: round(size / sizes["fixed"], 3) for name, size in sizes.items()}}
    steps = max(block.steps or 0 for block in blocks_of(run.model()).values())
    plain = opened(fixed)
    ports = inputs_of(run.facts, torch.float32)
    calls = {"elastic": with_steps(opened(elastic, True), steps), "fixed": plain}
    calls["int8"] = format_of(small).open(small.read_bytes(), ports)
    for inputs in batches(run):
        seconds = interleaved({name: lambda c=call, x=inputs: c(x) for name, call in calls.items()}, ROUNDS, 20)
        ratios = {
            name: round(median(a / b for a, b in zip(times, seconds["fixed"], strict=True)), 3)
            for name, times in seconds.items()
        }
        off = float((calls["int8"](inputs) - plain(inputs)).abs().max())
        told = {"shape": list(inputs[0].shape), "steps": steps, "fixed ms": round(1e3 * median(seconds["fixed"]), 3)}
        yield told | {"times": ratios, "int8 off by": off, "largest": float(plain(inputs).abs().max())}


def quantized(source: Path, target: Path) -> None:
    from onnxruntime.quantization import QuantType, quantize_dynamic

    quantize_dynamic(source, target, weight_type=QuantType.QInt8)


def batches(run: Run) -> Iterator[tuple[Tensor, ...]]:
    draw = torch.Generator().manual_seed(0)
    if run.facts.kind != "sentences":
        yield from ((torch.randn(count, *run.facts.shape, generator=draw),) for count in (1, 16))
        return
    for shape in SHAPES:
        yield torch.randint(1, len(run.facts.words), shape, generator=draw), torch.ones(shape, dtype=torch.bool)


def main(what: str, *runs: str) -> None:
    torch.set_num_threads(1)
    for name in runs:
        with TemporaryDirectory() as folder:
            for told in {"parity": parity, "cost": cost}[what](open_run(Path(name)), Path(folder)):
                print(f"{Path(name).name}:", json.dumps(told), flush=True)  # noqa: T201


if __name__ == "__main__":
    main(*sys.argv[1:])
