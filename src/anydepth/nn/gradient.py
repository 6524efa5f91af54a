"""Gradient modes: what is kept of the forward pass, and what is computed again."""

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.utils.checkpoint import checkpoint

from anydepth.depth.times import Instant
from anydepth.errors import UnitError
from anydepth.nn.field import UnitField, UnitStages, random_state, set_random_state
from anydepth.nn.integrate import Run
from anydepth.nn.plan import Stages
from anydepth.nn.structure import State, in_precision

GRADIENTS = ("backprop", "checkpoint", "adjoint", "kkt")
"""backprop keeps every activation; checkpoint keeps the state between segments of steps and computes the
rest again, with the same random numbers: exact; adjoint keeps the result only and integrates the state and the adjoint
equation backward in time (Neural ODE); kkt keeps the state at the grid's points and integrates the adjoint equation
alone (ANODEV2 eq 7). The last two are approximate: as good as the solver, and the adjoint as the state's way back."""


def checkpointed(run: Run, stages: Sequence[Stages], inputs: State) -> State:
    """A piece of the forward pass, whose inside is forgotten and computed again in the backward pass."""
    mine = [at for at in stages if isinstance(at, UnitStages)]
    if len(mine) < len(stages):
        return checkpoint(lambda *y: run(stages, y), *inputs, use_reentrant=False)  # pyright: ignore
    weights = list({id(t): t for at in mine for t in at.tensors() if t.requires_grad}.values())
    piece = Piece(run, mine, weights, len(inputs))
    return Recomputed.apply(piece, *inputs, *weights)  # pyright: ignore[reportReturnType]


class Piece:
    """A piece of the forward pass as a function of its inputs and of the weights that its stages read."""

    def __init__(self, run: Run, stages: Sequence[UnitStages], weights: Sequence[Tensor], width: int):
        self.run, self.stages, self.weights, self.width = run, stages, weights, width
        self.field = stages[0].field
        self.seed = random_state(self.field.given.device)

    def __call__(self, tensors: Sequence[Tensor]) -> State:
        """The piece with other tensors, and the unit, random numbers and precision of the first time."""
        names = {id(old): new for old, new in zip(self.weights, tensors[self.width :], strict=True)}
        field, device = self.field.again(names), self.field.given.device
        now = random_state(device)
        try:
            set_random_state(device, self.seed)
            with in_precision(device, field.given.precision):
                return self.run([at.on(field, names) for at in self.stages], tuple(tensors[: self.width]))
        finally:
            set_random_state(device, now)
            field.close()


class Recomputed(torch.autograd.Function):
    """A piece that keeps its inputs only, and runs again when its gradient is asked for."""

    @staticmethod
    def forward(ctx: Any, piece: Piece, *tensors: Tensor) -> State:
        ctx.piece = piece
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*tensors)
        return piece.run(piece.stages, tensors[: piece.width])

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
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


def check_leaves(field: UnitField, results: Sequence[Tensor], known: Sequence[Tensor]) -> None:
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
                f"unit {field.given.unit_name} uses a trainable tensor of shape {tuple(leaf.shape)} that is "
                "not its own; gradient modes other than 'backprop' would lose its gradient: register it in the unit, "
                "pass it to the block as an argument, or use gradient='backprop'"
            )
        todo += [after for after, _ in node.next_functions if after is not None]


class AdjointField:
    """d/dt (y, l, g) = (R, -l dR/dy, -l dR/dp): the state, its adjoint, and the gradient of the leaves p."""

    def __init__(self, field: UnitField, leaves: Sequence[Tensor], width: int):
        self.field, self.leaves, self.width = field, leaves, width

    @property
    def scale(self) -> Fraction:
        return self.field.scale

    @property
    def breakpoints(self) -> Sequence[Fraction]:
        return self.field.breakpoints

    def stages(self, instants: Sequence[Instant]) -> "AdjointStages":
        return AdjointStages(self, instants)


class AdjointStages:
    """The adjoint field at the stages of one step."""

    def __init__(self, field: AdjointField, instants: Sequence[Instant]):
        self.field, self.instants = field, instants

    def __call__(self, stage: int, y: State) -> State:
        width = self.field.width
        slope, products = pulled_back(
            self.field.field, self.instants[stage], self.field.leaves, y[:width], y[width : 2 * width]
        )
        return (*slope, *products)

    def accept(self) -> None:
        """The backward pass leaves the block's state alone."""


def pulled_back(
    field: UnitField, instant: Instant, leaves: Sequence[Tensor], y: State, costate: State
) -> tuple[State, State]:
    """R at y, and the slopes -l dR/dy, -l dR/dp of the costate l and of the leaves' gradient."""
    with torch.enable_grad():
        at = tuple(part.detach().requires_grad_() for part in y)
        slope = field.stages((instant,))(0, at)
        inputs = (*at, *leaves)
        check_leaves(field, slope, inputs)
        pairs = [(s, w.to(s.dtype)) for s, w in zip(slope, costate, strict=True) if s.requires_grad]
        if not pairs:
            return slope, tuple(torch.zeros_like(part) for part in inputs)
        outputs, weights = zip(*pairs, strict=True)
        found = torch.autograd.grad(outputs, inputs, weights, allow_unused=True)
    products = tuple(torch.zeros_like(p) if g is None else -g for p, g in zip(inputs, found, strict=True))
    return tuple(part.detach() for part in slope), products


Forward = Callable[[], tuple[State, Sequence[State]]]
"""Gives the result, and the states before it that the way back needs."""
Back = Callable[[State, Sequence[State], State, Sequence[Tensor]], Sequence[Tensor]]
"""Gradients from the result, the states before it, the result's gradient and the tensors given."""


class AdjointSolve(torch.autograd.Function):
    """The result of a pass, and by solving back the gradients of all tensors given."""

    @staticmethod
    def forward(ctx: Any, forward: Forward, back: Back, width: int, *tensors: Tensor) -> State:
        result, states = forward()
        ctx.back, ctx.width, ctx.count = back, width, len(states)
        # Saved as autograd saves, so that nothing holds the result but its users, and all is freed with the graph.
        ctx.save_for_backward(*result, *(part for state in states for part in state), *tensors)
        return result

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        saved, width = ctx.saved_tensors, ctx.width
        pieces = [saved[i : i + width] for i in range(0, (ctx.count + 1) * width, width)]
        found = ctx.back(pieces[0], pieces[1:], grads, saved[(ctx.count + 1) * width :])
        return (None, None, None, *found)
