"""A frozen network in the process that froze it: blocks of small fields stay blocks, which the native path runs.

The graph that `freeze` gives is plain, and stays so when it is saved, copied, traced or exported. Called on plain
tensors it answers by its twin, in which these blocks were not unrolled, as long as nobody has changed the graph or its
tensors.
"""

from collections.abc import Callable, Sequence
from functools import wraps
from itertools import chain
from operator import is_
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch._C import _len_torch_dispatch_stack, _len_torch_function_stack  # pyright: ignore

from anydepth.block.block import ContinuousBlock
from anydepth.block.paths import route
from anydepth.solve.tensors import is_transformed

NATIVE = "native"


def is_field(block: ContinuousBlock) -> bool:
    """Whether the native path can take rows of some width."""
    stored = [block.stored(name) for name in block.lifted]
    widths = {tensor.shape[-1] for tensor in stored if tensor.dim() == 3 and tensor.device.type == "cpu"}
    return any(_takes(block, torch.zeros(2, width, dtype=stored[0].dtype)) for width in sorted(widths))


def _takes(block: ContinuousBlock, x: Tensor) -> bool:
    with torch.no_grad():
        return route(block.describe_pass(x), (x,)).name == NATIVE


class Twin:
    """The other form of a graph, and what both depend on."""

    def __init__(self, graph: fx.GraphModule, other: fx.GraphModule):
        self.other: Callable[..., Any] = other.forward  # a call of the module would print what fails
        self.fields = [module for module in other.modules() if isinstance(module, ContinuousBlock)]
        self._tables = [table for m in graph.modules() for table in (m._parameters, m._buffers) if table]
        self._tensors = [tensor for table in self._tables for tensor in table.values()]
        self._stamp = self._now()
        self._refused: set[Any] = set()

    def takes(self, graph: nn.Module, inputs: Sequence[Any]) -> bool:
        """Whether the twin may answer in the graph's place: nobody watches or traces, and nothing has changed."""
        is_traced = torch.jit.is_tracing()  # pyright: ignore[reportPrivateImportUsage]
        if torch.compiler.is_compiling() or is_traced or is_transformed():
            return False
        if _len_torch_dispatch_stack() or _len_torch_function_stack() or not all(map(_is_plain, inputs)):
            return False
        return _key(inputs) not in self._refused and not graph.training and self._is_same()

    def _now(self) -> tuple[list[int], list[int]]:
        """What changes when a tensor is written or moved."""
        tensors = [tensor for tensor in self._tensors if tensor is not None]
        return [tensor._version for tensor in tensors], [tensor.data_ptr() for tensor in tensors]

    def _is_same(self) -> bool:
        tensors = chain.from_iterable(table.values() for table in self._tables)
        return all(map(is_, tensors, self._tensors)) and self._now() == self._stamp

    def __call__(self, inputs: Sequence[Tensor]) -> Any:
        """The answer; inputs that some block cannot take natively are the graph's from now on."""
        found = self.other(*inputs)
        if any(field.stats.path != NATIVE for field in self.fields):
            self._refused.add(_key(inputs))
        return found


def _is_plain(value: Any) -> bool:
    return type(value) is Tensor and not (value.requires_grad and torch.is_grad_enabled())


def _key(inputs: Sequence[Tensor]) -> Any:
    return tuple((part.shape, part.dtype, part.device) for part in inputs)


def answer_by(graph: fx.GraphModule, other: fx.GraphModule) -> None:
    """Let a graph answer by another form of it; compiling the graph's code anew takes this back."""
    kind, twin = type(graph), Twin(graph, other)
    plain: Callable[..., Any] = kind.forward  # of this graph alone: every graph has a class of its own

    @wraps(plain)
    def forward(self: fx.GraphModule, *args: Any, **kwargs: Any) -> Any:
        return twin(args) if not kwargs and twin.takes(self, args) else plain(self, *args, **kwargs)

    kind.forward = forward
