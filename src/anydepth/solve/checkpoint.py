"""Gradients by running again: pieces of the forward pass that keep their inputs only."""

from collections.abc import Mapping, Sequence
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor
from torch.autograd.function import FunctionCtx
from torch.utils.checkpoint import checkpoint

from anydepth.errors import UnitError
from anydepth.solve.fixed import Run
from anydepth.solve.plan import Stages
from anydepth.solve.tensors import Precision, State, in_precision, random_state


class RepeatableField(Protocol):
    """A field that can be made again as it was in the forward pass."""

    checked: set[str]
    """What needs to be looked at once in a pass, and has been."""

    @property
    def name(self) -> str: ...

    @property
    def device(self) -> torch.device: ...

    @property
    def precision(self) -> Precision: ...

    def again(self, names: Mapping[int, Tensor]) -> "RepeatableField":
        """The field as it was, reading other tensors, by identity, in the place of some."""
        ...

    def close(self) -> None: ...


@runtime_checkable
class RepeatableStages(Protocol):
    """Stages of such a field."""

    @property
    def field(self) -> RepeatableField: ...

    def __call__(self, stage: int, y: State) -> State: ...

    def accept(self) -> None: ...

    def tensors(self) -> list[Tensor]:
        """All tensors that the stages read."""
        ...

    def on(self, field: object, names: Mapping[int, Tensor]) -> Stages:
        """The same stages of a field made again."""
        ...


def checkpointed(run: Run, stages: Sequence[Stages], inputs: State) -> State:
    """A piece of the forward pass, whose inside is forgotten and computed again in the backward pass."""
    mine = [at for at in stages if isinstance(at, RepeatableStages)]
    if len(mine) < len(stages):
        return checkpoint(lambda *y: run(stages, y), *inputs, use_reentrant=False)  # pyright: ignore
    weights = list({id(t): t for at in mine for t in at.tensors() if t.requires_grad}.values())
    piece = Piece(run, mine, weights, len(inputs))
    return Recomputed.apply(piece, *inputs, *weights)  # pyright: ignore[reportReturnType]


class Piece:
    """A piece of the forward pass as a function of its inputs and of the weights that its stages read."""

    def __init__(self, run: Run, stages: Sequence[RepeatableStages], weights: Sequence[Tensor], width: int):
        self.run, self.stages, self.weights, self.width = run, stages, weights, width
        self.field = stages[0].field
        self.seed = random_state(self.field.device)

    def __call__(self, tensors: Sequence[Tensor]) -> State:
        """The piece with other tensors, and the unit, random numbers and precision of the first time."""
        names = {id(old): new for old, new in zip(self.weights, tensors[self.width :], strict=True)}
        field, device = self.field.again(names), self.field.device
        now = random_state(device)
        try:
            set_random_state(device, self.seed)
            with in_precision(device, self.field.precision):
                return self.run([at.on(field, names) for at in self.stages], tuple(tensors[: self.width]))
        finally:
            set_random_state(device, now)
            field.close()


class Kept(FunctionCtx):
    """What a piece keeps for its backward pass."""

    piece: Piece
    saved_tensors: tuple[Tensor, ...]


class Recomputed(torch.autograd.Function):
    """A piece that keeps its inputs only, and runs again when its gradient is asked for."""

    @staticmethod
    def forward(ctx: Kept, piece: Piece, *tensors: Tensor) -> State:
        ctx.piece = piece
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*tensors)
        return piece.run(piece.stages, tensors[: piece.width])

    @staticmethod
    def backward(ctx: Kept, *grads: Tensor | None) -> tuple[Tensor | None, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        again = torch.is_grad_enabled()
        with torch.enable_grad():
            tensors = tuple(_apart(t, again) for t in ctx.saved_tensors)
            results = ctx.piece(tensors)
        check_leaves(ctx.piece.field, results, tensors)
        asked = [(r, g) for r, g in zip(results, grads, strict=True) if g is not None and r.requires_grad]
        wanted = [t for t in tensors if t.requires_grad]
        if not asked or not wanted:
            return (None,) * (len(tensors) + 1)
        outputs, weights = zip(*asked, strict=True)
        found = iter(torch.autograd.grad(outputs, wanted, weights, allow_unused=True, create_graph=again))
        return (None, *(next(found) if t.requires_grad else None for t in tensors))


def _apart(tensor: Tensor, again: bool) -> Tensor:
    """A tensor cut from what it was made of: else gradients would also take the ways from one input to another.

    As a view it is a new end of the graph that can be differentiated once more.
    """
    if not tensor.requires_grad:
        return tensor
    return tensor.view_as(tensor) if again else tensor.detach().requires_grad_()


def check_leaves(field: RepeatableField, results: Sequence[Tensor], known: Sequence[Tensor]) -> None:
    """Refuse, once per pass, a unit that uses trainable tensors which are neither its own nor arguments.

    Their gradients would be lost in silence.
    """
    if "leaves" in field.checked:
        return
    field.checked.add("leaves")
    roots = [result.grad_fn for result in results]
    stop = {tensor.grad_fn for tensor in known if tensor.grad_fn is not None}
    leaves, seen, todo = {id(tensor) for tensor in known}, set(), [root for root in roots if root is not None]
    while todo:
        node = todo.pop()
        if node in seen or node in stop:
            continue
        seen.add(node)
        leaf = getattr(node, "variable", None)
        if leaf is not None and id(leaf) not in leaves:
            raise UnitError(
                f"unit {field.name} uses a trainable tensor of shape {tuple(leaf.shape)} that is "
                "not its own; gradient modes other than 'backprop' would lose its gradient: register it in the unit, "
                "pass it to the block as an argument, or use gradient='backprop'"
            )
        todo += [after for after, _ in node.next_functions if after is not None]


def set_random_state(device: torch.device, state: Tensor) -> None:
    if device.type == "cuda":
        torch.cuda.set_rng_state(state, device)
    else:
        torch.set_rng_state(state)
