"""The forms that an anytime net climbs: the same weights with fewer evaluations, and the model's own solver on top."""

from collections.abc import Iterable, Sequence
from copy import deepcopy
from dataclasses import dataclass

from torch import nn

from anydepth.data.table import like_inputs
from anydepth.deploy.recalibrate import recalibrate
from anydepth.errors import ConfigError
from anydepth.measure.answers import outputs_of
from anydepth.measure.evaluation import evaluating, fitting
from anydepth.measure.predictions import examples_of
from anydepth.surgery.blocks import blocks_in, blocks_of
from anydepth.surgery.resize import set_solver
from anydepth.surgery.summary import summary

FormLike = str | tuple[str, int]
"""A scheme and a number of steps for every block: "midpoint x 2" or ("midpoint", 2)."""
COARSE = (("euler", 1), ("midpoint", 1), ("euler", 2), ("midpoint", 2), ("midpoint", 4))
"""Tried by default, where they take fewer evaluations than the model."""
CHEAP = 0.6
"""Of the model's evaluations: a form that takes more is no coarse one by default."""


STATISTICS = 40
"""Of a run, the training batches that the running statistics of coarse forms are estimated from."""


@dataclass(frozen=True)
class Way:
    """How all blocks of a coarse form are run."""

    scheme: str
    steps: int

    def __str__(self) -> str:
        return f"{self.scheme} x {self.steps}"


def way_of(form: FormLike) -> Way:
    """From either way of writing it."""
    parts = [part.strip() for part in form.split(" x ")] if isinstance(form, str) else list(form)
    if len(parts) != 2 or not str(parts[1]).isdigit():
        raise ConfigError(f"a form of an anytime net is a scheme and steps, such as 'midpoint x 2', got {form!r}")
    return Way(str(parts[0]), int(parts[1]))


def evaluations_of(model: nn.Module) -> int | None:
    """Of all units in a pass; None where a scheme chooses its own steps."""
    return None if any(block.plan is None for block in blocks_in(model).values()) else summary(model).nfe


def in_way(model: nn.Module, way: Way, batches: Sequence[object] | None) -> nn.Module:
    """A copy run in another way, its running statistics estimated afresh there if batches are given.

    Those ahead of the first block stay, since no solver changes what they see: so all forms have one stem.
    """
    found = set_solver(deepcopy(model), scheme=way.scheme, steps=way.steps)
    if batches is None:
        return found
    ahead = {tensor: tensor.clone() for module in _ahead(found, batches) for tensor in module.buffers(recurse=False)}
    recalibrate(found, batches)
    for tensor, before in ahead.items():
        tensor.copy_(before)
    return found


def _ahead(model: nn.Module, batches: Sequence[object]) -> list[nn.Module]:
    """Modules that are called before any block is, outside blocks."""
    found, blocks = [], list(blocks_in(model).values())
    inside = {id(module) for block in blocks for module in block.modules()}
    begun = []

    def note(module: nn.Module, *_: object) -> None:
        if not begun:
            found.append(module)

    hooks = [block.register_forward_pre_hook(lambda *_: begun.append(True)) for block in blocks]
    hooks += [module.register_forward_hook(note) for module in model.modules() if id(module) not in inside]
    example = fitting(model, examples_of(batches)[0])
    try:
        with evaluating(model):
            outputs_of(model, like_inputs(example.inputs, [part[:1] for part in example.inputs]))
    finally:
        for hook in hooks:
            hook.remove()
    return found


def ways_of(model: nn.Module, forms: Iterable[FormLike] | None) -> list[Way]:
    """The coarse ways that were asked for, in their order; by default those of `COARSE` that are cheap, and the
    model's own scheme with half and a quarter of its steps."""
    if forms is not None:
        found = [way_of(form) for form in forms]
        if not found:
            raise ConfigError("forms of an anytime net are empty; name at least one, or leave forms out")
        return found
    own, blocks = evaluations_of(model), blocks_of(model)
    wanted = [Way(*pair) for pair in COARSE]
    steps = {(block.scheme.name, block.steps) for block in blocks.values()}
    if own is not None and len(steps) == 1:
        scheme, count = next(iter(steps))
        wanted += [Way(scheme, n) for n in ((count or 0) // 4, (count or 0) // 2) if n]
    return [way for way in dict.fromkeys(wanted) if own is None or _cost(model, way) <= CHEAP * own]


def _cost(model: nn.Module, way: Way) -> int:
    blocks = blocks_of(model).values()
    stages = {block.solver.changed(scheme=way.scheme, steps=way.steps).scheme.stages for block in blocks}
    return stages.pop() * way.steps * len(blocks)
