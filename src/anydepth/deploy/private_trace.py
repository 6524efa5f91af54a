"""torch.fx's tracer without its patches of nn.Module, which every other thread of the program would meet.

A module of a private copy gets a call of its own while it is traced (`_compiled_call_impl`, which `__call__` looks
for in the instance); parameters are found by their identity when they are used. What torch.fx puts into the globals of
functions (those given to `torch.fx.wrap`, and `math`'s) does for other threads what it did before.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from threading import RLock
from typing import Any, TypeVar

import torch
from torch import fx, nn
from torch.fx import _symbolic_trace as internal

from anydepth.block.block import ContinuousBlock

_ONE_AT_A_TIME = RLock()


class PrivateTracer(fx.Tracer):
    """Traces a module that nobody else holds."""

    def trace(self, root: nn.Module, concrete_args: dict[str, object] | None = None) -> fx.Graph:  # pyright: ignore[reportIncompatibleMethodOverride]
        self.root, self.root_module_name = root, root._get_name()
        self.submodule_paths = {module: name for name, module in root.named_modules()}
        self.graph = fx.Graph(tracer_cls=fx.Tracer)
        self.tensor_attrs = {
            value: f"{path}.{key}".lstrip(".")
            for path, module in root.named_modules()
            for key, value in vars(module).items()
            if isinstance(value, torch.Tensor)
        }
        spaces = [getattr(type(module).forward, "__globals__", {}) for module in root.modules()]
        function, args = self.create_args_for_root(type(root).forward, True, concrete_args)
        with torch.no_grad(), self._calls_noted(root), self._functions_wrapped(spaces):
            self.create_node("output", "output", (self.create_arg(function(*args)),), {})
        self.submodule_paths = None
        return self.graph

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return isinstance(m, ContinuousBlock) or super().is_leaf_module(m, module_qualified_name)

    @contextmanager
    def _calls_noted(self, root: nn.Module) -> Iterator[None]:
        """Calls of the root's modules go to the tracer, and of no others."""
        before = [(module, vars(module).get("_compiled_call_impl", self)) for module in root.modules()]
        for module, _ in before:
            vars(module)["_compiled_call_impl"] = partial(self._noted, module)
        try:
            yield
        finally:
            for module, call in before:
                if call is self:
                    del vars(module)["_compiled_call_impl"]
                else:
                    vars(module)["_compiled_call_impl"] = call

    def _noted(self, module: nn.Module, *args: object, **kwargs: object) -> object:
        return self.call_module(module, module._call_impl, args, kwargs)

    @contextmanager
    def _functions_wrapped(self, spaces: list[dict[str, object]]) -> Iterator[None]:
        with _ONE_AT_A_TIME, internal._new_patcher() as patcher:
            internal._patch_wrapped_functions(patcher)
            for space in spaces:
                internal._autowrap_check(patcher, space, self._autowrap_function_ids)
            yield


def private_trace(root: nn.Module) -> fx.GraphModule:
    """The module as a graph; it must be a copy that nobody else holds."""
    graph = PrivateTracer().trace(root)
    return fx.GraphModule(root, graph, root._get_name())


Found = TypeVar("Found")


def noted(function: Callable[..., Found]) -> Callable[..., Found]:
    """A function whose calls with a tracer's stand-in as first argument stay calls in the graph."""

    def call(first: Any, *args: object) -> Any:
        if isinstance(first, fx.Proxy):
            return first.tracer.create_proxy("call_function", call, (first, *args), {})
        return function(first, *args)

    return call
