"""One stage of a solver and its vector-Jacobian product, traced once and compiled by Inductor.

The stage is x + factor * unit(x): its tensors (theta, t, the factor, extra arguments) are inputs, so that one
compilation serves every step, every number of steps, every size of the weights, and every refinement.
"""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from threading import RLock
from typing import Any

import torch
from torch import Tensor

from anydepth.fast.announcing import announce

StageFunction = Callable[..., Tensor]
"""(x, factor, *others) -> the next state."""
Boxed = Callable[[list[Tensor]], Sequence[Any]]

_ONE_AT_A_TIME = RLock()
COMPILATIONS = [0]
"""How many stages this process has compiled."""


class UntraceableError(Exception):
    """Why a stage cannot be compiled."""


@dataclass(frozen=True)
class StageGraphs:
    """The next state and what the gradient needs, from all inputs; gradients of all inputs, from that."""

    forward: Boxed
    back: Boxed | None
    is_apart: bool
    """Whether no gradient shares memory with another tensor, so that it may be added to."""


def compile_stage(stage: StageFunction, inputs: Sequence[Tensor], needs: Sequence[bool], name: str) -> StageGraphs:
    """Graphs for inputs like these, of which some need a gradient."""
    with _ONE_AT_A_TIME, torch.inference_mode(False), torch.enable_grad():
        announce(f"the step of {name}")
        COMPILATIONS[0] += 1
        examples = [_like(tensor, is_needed) for tensor, is_needed in zip(inputs, needs, strict=True)]
        try:
            return _compiled(stage, examples)
        except UntraceableError:
            raise
        except Exception as error:  # whatever a unit, a tracer or a compiler cannot do
            lines = str(error).strip().splitlines() or [type(error).__name__]
            raise UntraceableError(f"{type(error).__name__}: {lines[0]:.150}") from None


def _like(tensor: Tensor, needs: bool) -> Tensor:
    made = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=tensor.device)
    return made.zero_().requires_grad_(needs)


def _compiled(stage: StageFunction, examples: list[Tensor]) -> StageGraphs:
    from torch._functorch.aot_autograd import aot_function
    from torch._functorch.partitioners import min_cut_rematerialization_partition
    from torch._inductor import config
    from torch._inductor.decomposition import select_decomp_table

    found: dict[str, Boxed] = {}
    compilers = {f"{way}_compiler": partial(_keep, found, way) for way in ("fw", "bw", "inference")}
    with warnings.catch_warnings(), config.patch(size_asserts=False), torch.no_grad():
        warnings.simplefilter("ignore")  # those of the compiler about itself
        traced: object = aot_function(
            stage,
            **compilers,  # pyright: ignore[reportArgumentType]
            partition_fn=min_cut_rematerialization_partition,
            decompositions=select_decomp_table(),
        )
        with torch.enable_grad():
            out = traced(*examples)
            needed = [tensor for tensor in examples if tensor.requires_grad]
            if needed:
                torch.autograd.grad(out, needed, torch.zeros_like(out), allow_unused=True)
    if "inference" in found:
        return StageGraphs(found["inference"], None, True)
    return StageGraphs(found["fw"], found["bw"], _is_apart(found, examples))


def _keep(found: dict[str, Boxed], way: str, graph: torch.fx.GraphModule, inputs: Sequence[Tensor]) -> Boxed:
    """Compile a graph, and keep what comes of it."""
    if any(node.op == "get_attr" for node in graph.graph.nodes):
        raise UntraceableError("it uses a tensor that is neither its own nor an argument")
    found[way] = _inductor(graph, inputs, way == "bw")
    return found[way]


def _inductor(graph: torch.fx.GraphModule, inputs: Sequence[Tensor], is_back: bool) -> Boxed:
    from torch._inductor.compile_fx import compile_fx_inner

    return compile_fx_inner(graph, inputs, is_backward=is_back)  # pyright: ignore[reportReturnType]


def _is_apart(found: dict[str, Boxed], examples: Sequence[Tensor]) -> bool:
    out, *kept = found["fw"]([tensor.detach() for tensor in examples])
    grad = torch.zeros_like(out)
    known = {_memory(tensor) for tensor in (out, grad, *kept, *examples)}
    made = [tensor for tensor in found["bw"]([*kept, grad]) if isinstance(tensor, Tensor)]
    overlaps = any(torch._debug_has_internal_overlap(tensor) for tensor in made)  # pyright: ignore[reportPrivateImportUsage]
    own = {_memory(tensor) for tensor in made}
    return not overlaps and len(own) == len(made) and not own & known


def _memory(tensor: Tensor) -> int:
    return tensor.untyped_storage().data_ptr()
