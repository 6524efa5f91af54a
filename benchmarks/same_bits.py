"""Whether a change of the code changes a bit: hashes of outputs, gradients and state after three training steps.

    python benchmarks/same_bits.py record FILE [--data DIR]      before
    python benchmarks/same_bits.py compare FILE [--data DIR]     after

Runs every registered unit on small inputs in float32 with one thread: with every scheme, with every basis, and with
every gradient mode, or with --full in all combinations; and, with --data, a few steps of the recipes digits, mnist and
gum. Results of the native path are those of the general one up to rounding; --no-numba leaves it out.
"""

import argparse
import hashlib
import json
import sys
import tempfile
import warnings
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import torch
from torch import Tensor, nn

import anydepth as ad
from anydepth.depth.bases import BASES
from anydepth.depth.schemes import SCHEMES
from anydepth.errors import AnydepthError
from anydepth.recipes import RECIPES
from anydepth.runs.override import override
from anydepth.train.training import train

MODES = ("backprop", "checkpoint", "adjoint", "kkt")
SHAPES = {2: (5, 4), 3: (2, 3, 4), 4: (3, 4, 5, 5)}
"""Inputs by the rank that a unit takes."""
RECIPE_STEPS = {
    "digits": ("training.epochs=2", "refine.at=[1]", "data.limit=320"),
    "mnist": ("training.epochs=1", "data.limit=640", "refine.at=[]", "evaluation.test=false"),
    "gum": ("training.steps=4", "refine.at=[2]", "data.limit=200", "evaluation.test=false"),
}


def digest(tensors: dict[str, Tensor]) -> str:
    found = hashlib.sha256()
    for name, tensor in sorted(tensors.items()):
        found.update(name.encode() + tensor.detach().contiguous().numpy().tobytes())
    return found.hexdigest()[:16]


def trained(block: nn.Module, x: Tensor) -> dict[str, Tensor]:
    """What three steps of SGD leave: the last output and gradients, parameters, buffers, and an answer in eval mode."""
    found: dict[str, Tensor] = {}
    for _ in range(3):
        block.zero_grad()
        at = x.clone().requires_grad_()
        out = block(at)
        out.square().mean().backward()
        found = {"out": out, "x": at.grad if at.grad is not None else x}
        with torch.no_grad():
            for name, parameter in block.named_parameters():
                if parameter.grad is not None:
                    found[f"grad {name}"] = parameter.grad.clone()
                    parameter -= 0.05 * parameter.grad
    found |= {f"kept {n}": t for n, t in [*block.named_parameters(), *block.named_buffers()]}
    with torch.no_grad():
        return found | {"eval": block.eval()(x)}


def settings(is_full: bool) -> list[tuple[str, str, str]]:
    """Basis, scheme and gradient mode."""
    if is_full:
        return list(product(BASES.names(), SCHEMES, MODES))
    schemes = [("linear", scheme, "backprop") for scheme in SCHEMES]
    bases = [(basis, "rk4", "backprop") for basis in BASES.names()]
    modes = [("linear", scheme, mode) for scheme in ("midpoint", "bosh32") for mode in MODES]
    return list(dict.fromkeys([*schemes, *bases, *modes]))


def unit_cases(is_full: bool) -> Iterator[tuple[str, str]]:
    for name, (basis, scheme, mode) in product(ad.UNITS.names(), settings(is_full)):
        limits = {"rtol": 1e-2, "atol": 1e-2} if SCHEMES[scheme].is_adaptive else {"steps": 3}
        torch.manual_seed(0)
        unit = ad.UNITS[name]
        try:
            block = ad.ContinuousBlock(
                lambda unit=unit: unit(4), basis, 2, scheme=scheme, gradient=mode, scale=2, **limits
            )
            found = digest(trained(block, torch.randn(SHAPES[unit.input_rank])))
        except AnydepthError as error:
            found = type(error).__name__
        yield f"{name} {basis} {scheme} {mode}", found


def recipe_cases(data: Path) -> Iterator[tuple[str, str]]:
    for name, settings in RECIPE_STEPS.items():
        config = override(RECIPES[name](), list(settings))
        with tempfile.TemporaryDirectory() as folder:
            run = train(config, Path(folder) / "run", data)
            model = ad.load(run.folder)
        yield f"recipe {name}", digest(dict([*model.named_parameters(), *model.named_buffers()]))


def cases(data: Path | None, is_full: bool) -> dict[str, str]:
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    return dict(unit_cases(is_full)) | (dict(recipe_cases(data)) if data else {})


def main() -> int:
    reader = argparse.ArgumentParser(description=__doc__)
    reader.add_argument("what", choices=("record", "compare"))
    reader.add_argument("file", type=Path)
    reader.add_argument("--data", type=Path)
    reader.add_argument("--full", action="store_true")
    reader.add_argument("--no-numba", action="store_true")
    given = reader.parse_args()
    if given.no_numba:
        sys.modules["numba"] = None  # pyright: ignore[reportArgumentType]
    found = cases(given.data, given.full)
    if given.what == "record":
        given.file.write_text(json.dumps(found, indent=1))
        return 0
    known = json.loads(given.file.read_text())
    both = [name for name in found if name in known]
    other = [name for name in both if known[name] != found[name]]
    sys.stdout.write("".join(f"differs: {name} {known[name]} {found[name]}\n" for name in other))
    sys.stdout.write(
        f"{len(both) - len(other)} of {len(both)} are the same to the bit; {len(found) - len(both)} are new\n"
    )
    return 1 if other else 0


if __name__ == "__main__":
    raise SystemExit(main())
