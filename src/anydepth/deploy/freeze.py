"""Freeze: the discrete network of one solver, as plain PyTorch modules that need no anydepth to run."""

from collections.abc import Collection, Sequence
from copy import deepcopy
from itertools import count
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.fx.proxy import TraceError
from torch.nn.utils.fusion import fuse_conv_bn_eval
from torch.nn.utils.parametrize import is_parametrized

from anydepth.block.block import ContinuousBlock
from anydepth.block.branch import Whole, is_layered
from anydepth.deploy.exported import agrees, exported
from anydepth.deploy.private_trace import noted, private_trace
from anydepth.deploy.quick import answer_by, is_field
from anydepth.errors import ConfigError, UnitError
from anydepth.fast.freed_memory import keep_freed_blocks
from anydepth.solve.plan import Step, Terms
from anydepth.solve.tensors import State
from anydepth.surgery.blocks import blocks_of
from anydepth.surgery.unrolled import units_of

_CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
_LINEAR = (*_CONVOLUTIONS, nn.Linear)
_CALLED = {nn.Conv2d: torch.conv2d, nn.Linear: nn.functional.linear}
_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)

_UNTRACED = (TraceError, TypeError, RuntimeError, NameError, AttributeError, LookupError, ValueError, AssertionError)
"""What comes of tracing a forward pass that looks at its inputs."""


def freeze(model: nn.Module, inputs: object = None) -> fx.GraphModule:
    """A plain copy of a model for inference: every block becomes the layers of its scheme and steps.

    Weights are evaluated at every stage once, batch norms folded into the convolutions that feed them,
    convolutions laid out with the channels innermost. In this process it answers by the native path where its blocks
    would; saved, copied or exported it is plain layers alone. It is for inference only: activations are overwritten, so
    that no gradient passes through it. The model itself is left as it is. Without inputs, an argument with a default is
    taken to be given.

    Args:
        inputs: arguments of one call (a tensor, a tuple, or a dict of keywords). A model that torch.fx cannot trace, or
            whose state is a tuple that comes from outside, is then written down by torch.export, as plain operations.
            Sizes that the model does not fix stay free; give at least two examples.
    """
    keep_freed_blocks()
    blocks = blocks_of(model)
    for name, block in blocks.items():
        if block.plan is None:
            raise ConfigError(
                f"block {name!r} has the adaptive scheme {block.scheme.name!r}, so no fixed network; choose another "
                "with set_solver(model, scheme=..., steps=...)"
            )
    root = _unrolled(model, blocks)
    try:
        graph = private_trace(root)
    except _UNTRACED as error:
        if inputs is not None:
            return exported(root, inputs)
        raise UnitError(
            f"the model cannot be traced into a graph of layers: {error}; give it inputs to follow, freeze(model, "
            "inputs), or a forward that names its inputs and does not branch on their values"
        ) from None
    _write_plainly(graph)
    if inputs is not None and not agrees(graph, root, inputs):
        return exported(root, inputs)
    fields = {name for name, block in blocks.items() if is_field(block)}
    if fields:
        root = _unrolled(model, blocks.keys() - fields)
        for field in blocks_of(root).values():
            field.check_finite = False  # as plain layers are
        other = private_trace(root)
        _write_plainly(other)
        answer_by(graph, other)
    return graph


def _unrolled(model: nn.Module, names: Collection[str]) -> nn.Module:
    """A copy of a model, whose blocks of these names are unrolled."""
    copy = deepcopy(model).eval()
    found = blocks_of(copy)
    unrolled = {found[name]: _Unrolled(found[name]) for name in names}
    root = nn.Sequential(copy) if isinstance(copy, ContinuousBlock) else copy
    for module in list(root.modules()):
        for name, part in module._modules.items():
            if part in unrolled:
                module._modules[name] = unrolled[part]  # pyright: ignore[reportArgumentType]
    return root


def _write_plainly(graph: fx.GraphModule) -> None:
    """All that makes a traced graph cheaper."""
    _fold_norms(graph)
    _write_norms(graph)
    _write_sums(graph)
    _reuse_memory(graph)
    _reuse_norms(graph)
    _call_directly(graph)
    _allow_any_layout(graph)
    for parameter in graph.parameters():
        parameter.requires_grad_(False)
        if parameter.dim() == 4:
            parameter.data = parameter.data.contiguous(memory_format=torch.channels_last)
    graph.eval()


@noted
def _plus(y: Tensor, slope: Tensor, factor: float) -> Tensor:
    """One term of a sum over slopes; a call of its own in the graph until `_write_sums`."""
    return torch.add(y, slope, alpha=factor)


def _advance(y: State, terms: Terms, slopes: Sequence[State]) -> State:
    """As `integrate.advance`, term by term."""
    for j, factor in terms:
        y = tuple(_plus(part, slope, factor) for part, slope in zip(y, slopes[j], strict=True))
    return y


class _Unrolled(nn.Module):
    """A block as a list of units, one for every distinct set of weights, and the sums between them."""

    def __init__(self, block: ContinuousBlock):
        super().__init__()
        plan = block.plan
        assert plan is not None
        self.plan_steps = plan.steps
        self.narrow = next((p.dtype for p in block.parameters() if p.dtype.itemsize < 4), None)
        self.places, self.units = units_of(block, plan)
        self.is_layered = is_layered(block.unit, plan) and not block.time
        if self.is_layered:
            self.units = nn.ModuleList(Whole(unit.layer, unit.returns) for unit in self.units)  # pyright: ignore
        self.times = [float(instant.time) for instant in plan.instants] if block.time else None
        self.count = len(plan.stages[0])

    def forward(self, x: Tensor | State, *args: object, **kwargs: object) -> Tensor | State:
        y: State = x if isinstance(x, tuple) else (x,)
        if self.narrow is not None:
            y = tuple(part.float() for part in y)
        for n, step in enumerate(self.plan_steps):
            y = self._step(n * self.count, step, y, isinstance(x, tuple), args, kwargs)
        if self.narrow is not None:
            y = tuple(part.to(self.narrow) for part in y)
        return y if isinstance(x, tuple) else y[0]

    def _step(self, start: int, step: Step, y: State, is_tuple: bool, args: tuple, kwargs: dict[str, object]) -> State:
        slopes: list[State] = []
        for stage, terms in enumerate(step.stages):
            at = _advance(y, terms, slopes)
            at = at if self.narrow is None else tuple(part.to(self.narrow) for part in at)
            given = at if is_tuple else at[0]
            lead = () if self.times is None else (at[0].new_tensor(self.times[start + stage]),)
            slope = self.units[self.places[start + stage]](*lead, given, *args, **kwargs)
            slopes.append(slope if isinstance(slope, tuple) else (slope,))
        if self.is_layered:
            return slopes[0]
        return _advance(y, step.result, slopes)


def _fold_norms(graph: fx.GraphModule) -> None:
    """Put batch norms into the convolutions whose only result they take."""
    folded: dict[tuple[str, str], str] = {}
    for node in list(graph.graph.nodes):
        layer = _feeding(graph, node)
        if layer is None:
            continue
        key = (str(layer.target), str(node.target))
        if key not in folded:
            folded[key] = _unused(graph, f"{key[0]}_with_norm")
            conv, norm = (graph.get_submodule(target) for target in key)
            graph.add_submodule(folded[key], fuse_conv_bn_eval(conv, norm))  # pyright: ignore[reportArgumentType]
        layer.target = folded[key]
        node.replace_all_uses_with(layer)
        graph.graph.erase_node(node)
    graph.delete_all_unused_submodules()
    graph.recompile()


def _write_norms(graph: fx.GraphModule) -> None:
    """Norms of images that no convolution could take, as shift + factor * x."""
    written: dict[str, tuple[str, str]] = {}
    for node in list(graph.graph.nodes):
        norm = graph.get_submodule(str(node.target)) if node.op == "call_module" else None
        if type(norm) is not nn.BatchNorm2d or norm.running_var is None or len(node.args) != 1 or not _is_plain(norm):
            continue
        key = str(node.target)
        if key not in written:
            written[key] = _unused(graph, "shift"), _unused(graph, "factor")
            for name, value in zip(written[key], _affine(norm), strict=True):
                graph.register_buffer(name, value)
        with graph.graph.inserting_before(node):
            shift, factor = (graph.graph.get_attr(name) for name in written[key])
        node.op, node.target, node.args = "call_function", torch.addcmul, (shift, node.args[0], factor)
    graph.delete_all_unused_submodules()
    graph.recompile()


def _affine(norm: nn.BatchNorm2d) -> tuple[Tensor, Tensor]:
    """Shift and factor of a batch norm in evaluation, beside (batch, channels, height, width)."""
    assert norm.running_var is not None
    assert norm.running_mean is not None
    with torch.no_grad():
        factor = torch.rsqrt(norm.running_var.double() + norm.eps)
        factor = factor if norm.weight is None else factor * norm.weight.double()
        shift = -norm.running_mean.double() * factor
        shift = shift if norm.bias is None else shift + norm.bias.double()
        return tuple(value.to(norm.running_var.dtype).view(1, -1, 1, 1) for value in (shift, factor))  # pyright: ignore


def _write_sums(graph: fx.GraphModule) -> None:
    """Sums y + h * slope as PyTorch's own; where the slope is a layer's result that nothing else takes, h goes into the
    layer. A sum is written over y if that is a sum too, and nothing takes it afterwards."""
    is_wide = all(parameter.dtype.itemsize >= 4 for parameter in graph.parameters())
    sums: set[fx.Node] = set()
    for node in list(graph.graph.nodes):
        if node.target is not _plus:
            continue
        state, slope, factor = node.args
        node.args = (state, slope)
        if is_wide and _is_fresh(graph, slope, _LINEAR) and not _is_shared(graph, slope):
            slope.target = _scaled(graph, str(slope.target), factor)
        else:
            node.kwargs = {"alpha": factor}
        node.target = torch.add
        if state in sums and _is_last(graph, state, node):
            node.op, node.target = "call_method", "add_"
        sums.add(node)
    graph.delete_all_unused_submodules()
    graph.recompile()


def _is_last(graph: fx.GraphModule, value: fx.Node, reader: fx.Node) -> bool:
    """Whether a node is read by this reader last, and all others make new tensors of it."""
    others = [user for user in value.users if user is not reader]
    return all(user < reader and _makes_new(graph, user) for user in others)


def _makes_new(graph: fx.GraphModule, node: fx.Node) -> bool:
    if node.op == "call_module":
        layer = graph.get_submodule(str(node.target))
        return type(layer) in (*_LINEAR, *_NORMS, nn.LayerNorm) and _is_plain(layer)
    return node.target in (torch.add, torch.addcmul, _plus)


def _scaled(graph: fx.GraphModule, name: str, factor: float) -> str:
    """A copy of a layer whose result is multiplied by a factor."""
    module = deepcopy(graph.get_submodule(name))
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.mul_(factor)
    scaled = _unused(graph, f"{name}_scaled")
    graph.add_submodule(scaled, module)
    return scaled


def _reuse_memory(graph: fx.GraphModule) -> None:
    """Write ReLUs over the result of a layer that nothing else takes."""
    for node in list(graph.graph.nodes):
        if node.target not in ("relu", torch.relu, nn.functional.relu) or node.op == "call_module":
            continue
        if len(node.args) == 1 and not node.kwargs and _is_fresh(graph, node.args[0], (*_LINEAR, *_NORMS)):
            node.op, node.target = "call_method", "relu_"
    graph.recompile()


def _reuse_norms(graph: fx.GraphModule) -> None:
    """Write a norm over that of the step before, which nothing takes any more: large results that come and go are taken
    from the system anew each time, which costs more than the norm."""
    order = {node: i for i, node in enumerate(graph.graph.nodes)}
    last: dict[fx.Node, fx.Node] = {}
    for node in list(graph.graph.nodes):
        if node.target is not torch.addcmul or node.kwargs:
            continue
        root = _root(node.args[1])
        before = last.get(root)
        if before is not None and _last_use(graph, before, order) < order[node]:
            node.kwargs = {"out": before}
        last[root] = node
    graph.recompile()


def _root(state: Any) -> Any:
    """What a sum began with, which has its shape."""
    while isinstance(state, fx.Node) and state.target in (torch.add, "add_"):
        state = state.args[0]
    return state


def _last_use(graph: fx.GraphModule, node: fx.Node, order: dict[fx.Node, int]) -> float:
    """Where the memory of a node is read last, also under the name of a ReLU that was written over it; infinite where
    somebody may hold on to it."""
    written = [user for user in node.users if user.target == "relu_"]
    readers = [user for one in (node, *written) for user in one.users if user not in written]
    is_known = all(reader.op == "call_module" and _makes_new(graph, reader) for reader in readers)
    return max((order[reader] for reader in readers), default=order[node]) if is_known else float("inf")


def _call_directly(graph: fx.GraphModule) -> None:
    """Convolutions and linear layers as functions of their weights, which are kept at the top: small inputs feel what a
    module does around its layer."""
    written: dict[str, tuple[str, str | None]] = {}
    for node in list(graph.graph.nodes):
        layer = graph.get_submodule(str(node.target)) if node.op == "call_module" else None
        if layer is None or type(layer) not in _CALLED or len(node.args) != 1 or not _is_plain(layer):
            continue
        if isinstance(layer, nn.Conv2d) and layer.padding_mode != "zeros":
            continue
        key = str(node.target)
        if key not in written:
            written[key] = (_unused(graph, "weight"), None if layer.bias is None else _unused(graph, "bias"))
            for name, own in zip(written[key], ("weight", "bias"), strict=True):
                if name is not None:
                    graph.register_parameter(name, layer.get_parameter(own))
        with graph.graph.inserting_before(node):
            weight, bias = (None if name is None else graph.graph.get_attr(name) for name in written[key])
        settings = (layer.stride, layer.padding, layer.dilation, layer.groups) if isinstance(layer, nn.Conv2d) else ()
        node.op, node.target = "call_function", _CALLED[type(layer)]
        node.args = (node.args[0], weight, bias, *settings)
    graph.delete_all_unused_submodules()
    graph.recompile()


def _allow_any_layout(graph: fx.GraphModule) -> None:
    """Views as reshapes: with the channels innermost, a tensor may have to be copied for it."""
    for node in graph.graph.nodes:
        is_shape = all(not isinstance(arg, torch.dtype) for arg in node.args) and not node.kwargs
        if node.op == "call_method" and node.target == "view" and is_shape:
            node.target = "reshape"
    graph.recompile()


def _is_fresh(graph: fx.GraphModule, node: object, kinds: tuple[type[nn.Module], ...]) -> bool:
    """Whether a node is a new tensor, made by a layer of these kinds for one reader alone."""
    if isinstance(node, fx.Node) and node.target is torch.addcmul and nn.BatchNorm2d in kinds:
        return len(node.users) == 1
    if not isinstance(node, fx.Node) or node.op != "call_module" or len(node.users) > 1:
        return False
    layer = graph.get_submodule(str(node.target))
    return type(layer) in kinds and _is_plain(layer)


def _is_plain(layer: nn.Module) -> bool:
    """Whether a layer does what its class does with its own parameters: no hooks, no weights made elsewhere."""
    has_hooks = layer._forward_hooks or layer._forward_pre_hooks
    own = all(isinstance(getattr(layer, name), nn.Parameter | None) for name in ("weight", "bias"))
    return own and not has_hooks and not is_parametrized(layer)


def _unused(graph: fx.GraphModule, name: str) -> str:
    """The name with the first number that makes it a new one."""
    path, _, last = name.rpartition(".")
    home = graph.get_submodule(path)
    number = next(n for n in count() if not hasattr(home, f"{last}{n}"))
    return f"{name}{number}"


def _is_shared(graph: fx.GraphModule, node: fx.Node) -> bool:
    """Whether the layer of a node is called elsewhere too."""
    return sum(other.op == "call_module" and other.target == node.target for other in graph.graph.nodes) > 1


def _feeding(graph: fx.GraphModule, node: fx.Node) -> fx.Node | None:
    """The call of a convolution that a batch norm alone takes the result of, if this node is such a norm."""
    if node.op != "call_module":
        return None
    norm = graph.get_submodule(str(node.target))
    layer = node.args[0] if node.args else node.kwargs.get("input")
    if not isinstance(norm, _NORMS) or norm.running_var is None or not isinstance(layer, fx.Node):
        return None
    if layer.op != "call_module" or len(layer.users) > 1:
        return None
    conv = graph.get_submodule(str(layer.target))
    return layer if type(conv) in _CONVOLUTIONS and _is_plain(conv) and _is_plain(norm) else None
