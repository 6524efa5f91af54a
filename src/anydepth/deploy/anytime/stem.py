"""What the frozen forms of one net compute alike, such as the stem, taken out so that it is computed once per example.

An operation is shared where every form has it with the same settings and equal weights, on what is shared already.
Shared results that are tensors with a row for each example are handed on; others (sizes, positions) are cheap, and
every form works them out again.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, fx, nn

from anydepth.data.table import like_inputs
from anydepth.measure.answers import answer, outputs_of, scores_in

_CLOSE = 1e-6
"""Of the largest output: the same operations on the same numbers."""
_COUNTS = (2, 3)
"""Examples in the passes that tell which results have a row for each."""
Numbers = dict[fx.Node, int]
"""Of the operations of a graph: two have the same number if they are the same."""


def split_stem(forms: Sequence[nn.Module], inputs: tuple[Tensor, ...]) -> tuple[nn.Module, list[nn.Module]] | None:
    """A stem, which gives a tuple of tensors, and the rest of every form, which takes them; None where there is none.

    Args:
        inputs: of one call.
    """
    graphs = [form for form in forms if isinstance(form, fx.GraphModule)]
    if len(graphs) < len(forms) or len(graphs) < 2:
        return None
    known, tensors = {}, []
    numbered = [_numbers(graph, known, tensors) for graph in graphs]
    samples = [like_inputs(inputs, [part[torch.arange(n) % len(part)] for part in inputs]) for n in _COUNTS]
    offered = {numbered[0][node] for node in _with_rows(graphs[0], samples)}
    offered = offered.intersection(*(numbers.values() for numbers in numbered))
    used = [_behind([g.graph.output_node()], n, offered) for g, n in zip(graphs, numbered, strict=True)]
    wanted = offered & {n.get(node) for n, nodes in zip(numbered, used, strict=True) for node in nodes}
    handed = {number: node for node, number in reversed(numbered[0].items()) if number in wanted}
    if all(node.op == "placeholder" for node in handed.values()):
        return None
    rests = [_rest(*of, list(handed)) for of in zip(graphs, numbered, used, strict=True)]
    stem = _stem(graphs[0], numbered[0], list(handed.values()))
    are_same = all(_are_same(stem, rests, graphs, sample) for sample in samples)
    return (stem, rests) if are_same else None


def _numbers(graph: fx.GraphModule, known: dict[object, int], tensors: list[Tensor]) -> Numbers:
    """`known` and `tensors` are what was numbered in other graphs."""
    found: Numbers = {}

    def key_of(node: fx.Node) -> object:
        given = fx.map_arg((node.args, node.kwargs), lambda other: _Number(found[other]))
        if node.op == "get_attr":
            return "tensor", _place_of(_attribute(graph, str(node.target)), tensors)
        if node.op == "call_module":
            module = graph.get_submodule(str(node.target))
            held = tuple(_place_of(tensor, tensors) for tensor in module.state_dict().values())
            return type(module), repr(module), held, repr(given)
        target = node.target if isinstance(node.target, str) else id(node.target)
        return node.op, target, repr(given)

    for node in graph.graph.nodes:
        if node.op != "output":
            found[node] = known.setdefault(key_of(node), len(known))
    return found


class _Number(int):
    """Of an operation, which no number in a graph can be mistaken for."""

    def __repr__(self) -> str:
        return f"operation {int(self)}"


def _attribute(graph: fx.GraphModule, name: str) -> Any:
    path, _, last = name.rpartition(".")
    return getattr(graph.get_submodule(path), last)


def _place_of(tensor: Tensor, tensors: list[Tensor]) -> int:
    """Among those seen, that of an equal one; else it is added."""
    for place, seen in enumerate(tensors):
        is_like = (seen.shape, seen.dtype, seen.device) == (tensor.shape, tensor.dtype, tensor.device)
        if is_like and torch.equal(seen, tensor):
            return place
    tensors.append(tensor)
    return len(tensors) - 1


class _Rows(fx.Interpreter):
    """Follows a pass and notes which results are tensors with a row for each example."""

    def __init__(self, graph: fx.GraphModule, count: int):
        super().__init__(graph)
        self.count, self.found = count, set[fx.Node]()

    def run_node(self, n: fx.Node) -> object:
        result = super().run_node(n)
        is_made = n.op not in ("get_attr", "output")
        if is_made and isinstance(result, Tensor) and result.dim() and len(result) == self.count:
            self.found.add(n)
        return result


def _with_rows(graph: fx.GraphModule, samples: Sequence[tuple[Tensor, ...]]) -> set[fx.Node]:
    found = []
    for count, sample in zip(_COUNTS, samples, strict=True):
        follower = _Rows(graph, count)
        with torch.no_grad():
            follower.run(*_in_order(graph, sample))
        found.append(follower.found)
    return set.intersection(*found)


def _in_order(graph: fx.GraphModule, inputs: tuple[Tensor, ...]) -> list[object]:
    """Inputs as the graph takes them; those that are left out have the graph's own defaults."""
    holes = [node for node in graph.graph.nodes if node.op == "placeholder"]
    names = getattr(inputs, "names", [hole.target for hole in holes])
    named = dict(zip(names, inputs, strict=False))
    return [named[hole.target] if hole.target in named else hole.args[0] for hole in holes]


def _behind(ends: Sequence[fx.Node], numbers: Numbers, stops: set[int]) -> list[fx.Node]:
    """All that results are made of, in order, looking back as far as stops, which are among it."""
    found, waiting = set[fx.Node](), list(ends)
    while waiting:
        node = waiting.pop()
        if node not in found:
            found.add(node)
            waiting += [] if numbers.get(node) in stops else node.all_input_nodes
    return [node for node in ends[0].graph.nodes if node in found]


def _stem(graph: fx.GraphModule, numbers: Numbers, handed: Sequence[fx.Node]) -> nn.Module:
    """It takes what the graph takes."""
    made, copies = fx.Graph(), dict[fx.Node, fx.Node]()
    inputs = [node for node in graph.graph.nodes if node.op == "placeholder"]
    for node in _behind([*handed, *inputs], numbers, set()):
        copies[node] = made.node_copy(node, copies.__getitem__)
    made.output(tuple(copies[node] for node in handed))
    return fx.GraphModule(graph, made)


def _rest(graph: fx.GraphModule, numbers: Numbers, used: Sequence[fx.Node], handed: Sequence[int]) -> nn.Module:
    """A form from what is handed on, which it does not write over, since the next form takes it too."""
    made, copies = fx.Graph(), dict[fx.Node, fx.Node]()
    given = {number: made.placeholder(f"handed_{place}") for place, number in enumerate(handed)}
    for node in used:
        if numbers.get(node) in given:
            copies[node] = given[numbers[node]]
        else:
            copies[node] = _beside(made.node_copy(node, copies.__getitem__), set(given.values()))
    return fx.GraphModule(graph, made)


def _beside(node: fx.Node, kept: set[fx.Node]) -> fx.Node:
    """An operation that makes a new tensor where it would write over one that is kept."""
    if node.kwargs.get("out") in kept:
        node.kwargs = {name: value for name, value in node.kwargs.items() if name != "out"}
    if node.op == "call_method" and node.args[0] in kept and node.target in ("relu_", "add_"):
        node.target = str(node.target)[:-1]
    return node


def _are_same(
    stem: nn.Module, rests: Sequence[nn.Module], forms: Sequence[nn.Module], inputs: tuple[Tensor, ...]
) -> bool:
    """Whether the parts answer as the forms do, one after another on the same stem."""
    with torch.no_grad():
        parts = outputs_of(stem, inputs)
        for rest, form in zip(rests, forms, strict=True):
            its = answer(form, inputs)
            if not torch.allclose(
                scores_in(rest(*parts)), its, rtol=0, atol=_CLOSE * max(1.0, float(its.abs().max())), equal_nan=True
            ):
                return False
    return True
