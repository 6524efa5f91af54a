"""How good are the gradients of each mode: compared with autograd's, on a trained model and a batch."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from time import perf_counter

import torch
from torch import Tensor, nn

from anydepth.block.block import ContinuousBlock
from anydepth.block.paths import GRADIENTS
from anydepth.errors import ConfigError
from anydepth.surgery.blocks import blocks_of
from anydepth.surgery.resize import set_gradient, set_solver

EXACT = "backprop"


@dataclass(frozen=True)
class Compared:
    """One mode at one number of steps: relative errors of the gradient, bytes kept for it, and seconds."""

    mode: str
    steps: str
    error: float
    initial_error: float | None
    """Of what is stored for tensors that evolve; None: nothing evolves."""
    evolution_error: float | None
    """Of the evolutions' own parameters."""
    kept_bytes: int
    seconds: float


def compare_gradients(
    model: nn.Module,
    loss: Callable[[nn.Module], Tensor],
    modes: Sequence[str] | None = None,
    refinements: Sequence[int] = (1, 2, 4),
    double: bool = True,
) -> list[Compared]:
    """Each mode, by default all, against backprop through the same steps: with the model's steps and with more.

    Works on a copy, in double precision by default so that rounding does not hide the order.
    """
    modes = [EXACT, *(mode for mode in GRADIENTS if mode != EXACT)] if modes is None else modes
    for mode in modes:
        GRADIENTS[mode]  # which refuses unknown ones
    rows = []
    for factor in refinements:
        copy = deepcopy(model).double() if double else deepcopy(model)
        _refine(copy, factor)
        steps = ", ".join(dict.fromkeys(str(block.solver) for block in blocks_of(copy).values()))
        exact = _gradient(copy, loss, EXACT)[0]
        for mode in modes:
            found, kept, seconds = _gradient(copy, loss, mode)
            whole, initial, own = (_relative(found, exact, part) for part in _parts(copy))
            rows.append(Compared(mode, steps, whole or 0.0, initial, own, kept, seconds))
    return rows


def _refine(model: nn.Module, factor: int) -> None:
    for name, block in blocks_of(model).items():
        if block.grid is None:
            raise ConfigError(f"block {name!r} has adaptive steps; give it fixed ones to compare gradients")
        set_solver(model, steps={name: block.grid.refined(factor)}, where=name)


def _gradient(model: nn.Module, loss: Callable[[nn.Module], Tensor], mode: str) -> tuple[dict[str, Tensor], int, float]:
    """The gradient of every parameter, bytes that the forward pass kept, and seconds of both passes."""
    longest = max(block.steps or 1 for block in blocks_of(model).values())
    set_gradient(model, mode, longest)
    model.zero_grad()
    state = {name: buffer.clone() for name, buffer in model.named_buffers()}
    began = perf_counter()
    with torch.random.fork_rng():
        torch.manual_seed(0)  # for dropout outside the blocks
        with _counting() as kept:
            value = loss(model)
        value.backward()
    seconds = perf_counter() - began
    with torch.no_grad():
        for name, buffer in model.named_buffers():
            buffer.copy_(state[name])
    found = {n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}
    return found, sum(kept.values()), seconds


@contextmanager
def _counting() -> Iterator[dict[int, int]]:
    """Bytes of the tensors that autograd keeps, each storage once."""
    kept: dict[int, int] = {}

    def note(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        yield kept


def _parts(model: nn.Module) -> tuple[set[str] | None, set[str], set[str]]:
    """Names of all parameters (None), of evolving weights, and of evolutions."""
    initial, own = set(), set()
    for prefix, block in model.named_modules():
        if not isinstance(block, ContinuousBlock):
            continue
        lead = f"{prefix}." if prefix else ""
        own |= {f"{lead}evolutions.{name}" for name, _ in block.evolutions.named_parameters()}
        initial |= {f"{lead}unit.{name}" for name, function in block.functions.items() if not function.is_linear}
    return None, initial, own


def _relative(found: dict[str, Tensor], exact: dict[str, Tensor], names: set[str] | None) -> float | None:
    chosen = [name for name in exact if names is None or name in names]
    if not chosen:
        return None
    gap = sum(float((found[name] - exact[name]).square().sum()) for name in chosen)
    size = sum(float(exact[name].square().sum()) for name in chosen)
    return (gap / size) ** 0.5 if size else gap**0.5
