"""Models that torch.fx cannot trace, written down by torch.export from one call."""

from collections.abc import Mapping
from inspect import signature

import torch
from torch import Tensor, fx, nn
from torch.utils._pytree import tree_leaves, tree_map

from anydepth.errors import UnitError

_FAILURES = (RuntimeError, TypeError, ValueError, AttributeError, LookupError, AssertionError)
_CLOSE = 1e-3
"""Relative distance of outputs above which a graph is not that of a model; rounding stays far below."""


def as_call(inputs: object) -> tuple[tuple, dict[str, object]]:
    """Arguments and keywords, from a tensor, a tuple of arguments, or a dict of keywords."""
    if isinstance(inputs, Mapping):
        return (), dict(inputs)
    return (inputs if isinstance(inputs, tuple) else (inputs,)), {}


def exported(model: nn.Module, inputs: object) -> fx.GraphModule:
    """The operations of one call, for inputs of any sizes that the model does not fix itself."""
    args, kwargs = as_call(inputs)
    try:
        given = signature(model.forward).bind(*args, **kwargs).arguments
        with torch.no_grad():
            program = torch.export.export(model, args, kwargs, dynamic_shapes=tree_map(_free, given), strict=False)
        module = program.module()
    except _FAILURES as error:
        cause = str(error).strip().split("\n")[0]
        raise UnitError(
            f"torch.export cannot trace the model either: {cause}; its forward must not branch on values"
        ) from error
    graph = fx.GraphModule(module, module.graph)  # pyright: ignore[reportArgumentType]
    return graph.requires_grad_(False).eval()


def _free(leaf: object) -> object:
    """All sizes of a tensor are free until the model fixes them."""
    return dict.fromkeys(range(leaf.dim()), torch.export.Dim.AUTO) if isinstance(leaf, Tensor) else None


def agrees(graph: nn.Module, model: nn.Module, inputs: object) -> bool:
    """Whether a graph gives what its model gives."""
    args, kwargs = as_call(inputs)
    with torch.no_grad():
        try:
            found = tree_leaves(graph.forward(*args, **kwargs))  # a call would print what fails
        except _FAILURES:
            return False
        expected = tree_leaves(model(*args, **kwargs))
    return len(found) == len(expected) and all(map(_is_close, found, expected))


def _is_close(found: object, expected: object) -> bool:
    if not isinstance(expected, Tensor) or not isinstance(found, Tensor) or not expected.is_floating_point():
        return type(found) is type(expected)
    if found.shape != expected.shape:
        return False
    return bool((found - expected).norm() <= _CLOSE * expected.norm() + 1e-12)
