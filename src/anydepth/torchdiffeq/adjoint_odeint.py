"""odeint_adjoint with torchdiffeq's signature: gradients by solving the adjoint equation backward in time."""

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import FunctionCtx, once_differentiable

from anydepth.errors import AnydepthWarning, ConfigError
from anydepth.solve.tensors import State
from anydepth.torchdiffeq.embedded_steps import Adaptive, Judge
from anydepth.torchdiffeq.grid_steps import Fixed
from anydepth.torchdiffeq.interface import prepared
from anydepth.torchdiffeq.norms import AdjointNorm, adjoint_norm
from anydepth.torchdiffeq.options import given_options, solver_of, with_grid
from anydepth.torchdiffeq.problem import Func, Packing, tolerance


def odeint_adjoint(
    func: Func,
    y0: Tensor | State,
    t: Tensor,
    *,
    rtol: object = 1e-7,
    atol: object = 1e-9,
    method: str | None = None,
    options: Mapping[str, object] | None = None,
    event_fn: Callable | None = None,
    adjoint_rtol: object = None,
    adjoint_atol: object = None,
    adjoint_method: str | None = None,
    adjoint_options: Mapping[str, object] | None = None,
    adjoint_params: Iterable[Tensor] | None = None,
) -> object:
    """Like `odeint`, with gradients in constant memory: nothing is kept but the states at the times of t.

    Args:
        adjoint_rtol, adjoint_atol, adjoint_method, adjoint_options: of the backward pass, by default those of the
            forward pass but for the norm. The norm in adjoint_options is a function of (t, y, adjoint of y, *gradients
            of parameters), or "seminorm", which leaves the parameters out.
        adjoint_params: the tensors besides y0 and t that get gradients; by default the parameters of func.
    """
    params = _trainable(func, adjoint_params, adjoint_options)
    problem = prepared(func, y0, t, rtol, atol, method, options, event_fn)
    backward = _backward_options(method, options, adjoint_method, adjoint_options)
    backward["norm"] = adjoint_norm(backward.get("norm"), problem.norm, problem.packing)
    back = Back(
        func,
        problem.packing,
        method if adjoint_method is None else adjoint_method,
        _limit("rtol", rtol, adjoint_rtol, problem.packing, problem.y),
        _limit("atol", atol, adjoint_atol, problem.packing, problem.y),
    )
    back.solver(backward, params, problem.t.requires_grad)  # to refuse what it cannot do before the forward pass
    found = AdjointSolve.apply(problem.states, back, backward, problem.y, problem.t, *params)
    return problem.packing.unpacked(found, (len(problem.t),))  # pyright: ignore[reportArgumentType]


def _trainable(func: Func, params: Iterable[Tensor] | None, options: Mapping[str, object] | None) -> tuple[Tensor, ...]:
    """The tensors that get gradients besides y0 and t."""
    if params is None and not isinstance(func, nn.Module):
        raise ConfigError("func is not an nn.Module, so its parameters are not known; give adjoint_params, () for none")
    given = tuple(func.parameters()) if params is None else tuple(params)  # pyright: ignore[reportFunctionMemberAccess]
    kept = tuple(param for param in given if param.requires_grad)
    if len(kept) < len(given) and callable(given_options("adjoint_options", options).get("norm")):
        warnings.warn(
            "adjoint parameters that require no gradient are left out, of the norm in adjoint_options too",
            AnydepthWarning,
            stacklevel=3,
        )
    return kept


def _backward_options(
    method: str | None,
    options: Mapping[str, object] | None,
    adjoint_method: str | None,
    adjoint_options: Mapping[str, object] | None,
) -> dict[str, object]:
    """The options of the backward pass: those given, or those of the forward pass but for the norm."""
    if adjoint_options is not None:
        return given_options("adjoint_options", adjoint_options)
    if adjoint_method not in (None, method) and options is not None:
        raise ConfigError("adjoint_method differs from method, so options do not fit it; give adjoint_options too")
    return {name: value for name, value in (options or {}).items() if name != "norm"}


def _limit(name: str, forward: object, given: object, packing: Packing, like: Tensor) -> float:
    """A tolerance of the backward pass, whose state has more parts than that of the forward pass."""
    found = tolerance(f"adjoint_{name}", forward if given is None else given, packing, like)
    if isinstance(found, Tensor):
        raise ConfigError(f"adjoint_{name} must be one number; give it beside an {name} of several")
    return found


@dataclass(frozen=True)
class Back:
    """The way back: d/dt (y, a, g) = (f, -a df/dy, -a df/d(t, p)), with a the adjoint of y and g gradients."""

    func: Func
    packing: Packing
    method: str | None
    rtol: float
    atol: float

    def solver(self, options: Mapping[str, object], params: Sequence[Tensor], with_time: bool) -> Adaptive | Fixed:
        norm: Any = options["norm"]

        def judged(parts: State) -> Tensor | float:
            y, costate, *rest = parts
            t = rest.pop(0) if with_time else y.new_zeros(())
            return norm((t, y, costate, *rest))

        def field(time: Tensor, at: State) -> State:
            return self.slopes(time, at[0], at[1], params, with_time)

        is_semi = isinstance(norm, AdjointNorm) and norm.is_seminorm
        judge = Judge(self.rtol, self.atol, judged, 2 + with_time if is_semi else None)
        return solver_of(self.method, with_grid(options, field, lambda state: state), field, judge, active=2)

    def slopes(self, time: Tensor, y: Tensor, costate: Tensor, params: Sequence[Tensor], with_time: bool) -> State:
        """The right-hand side of the adjoint equation."""
        with torch.enable_grad():
            at = y.detach().requires_grad_()
            when = (time.detach().requires_grad_(),) if with_time else ()
            inputs = (at, *when, *params)
            slope = self.packing.slope(self.func, when[0] if when else time, at)
            if not slope.requires_grad:
                return (slope, *(torch.zeros_like(part) for part in inputs))
            found = torch.autograd.grad(slope, inputs, costate.neg(), allow_unused=True)
        return (slope.detach(), *(torch.zeros_like(p) if g is None else g for p, g in zip(inputs, found, strict=True)))


class Kept(FunctionCtx):
    """What a solve keeps for its backward pass."""

    back: Back
    adjoint_options: dict[str, object]
    saved_tensors: tuple[Tensor, ...]
    needs_input_grad: tuple[bool, ...]


class AdjointSolve(torch.autograd.Function):
    """The states of a solve; their gradients by solving back."""

    @staticmethod
    def forward(ctx: Kept, states: Callable[[], Tensor], back: Back, options: dict, *tensors: Tensor) -> Tensor:
        found = states()
        ctx.back, ctx.adjoint_options = back, options
        ctx.save_for_backward(found, *tensors)
        return found

    @staticmethod
    @once_differentiable
    def backward(ctx: Kept, grad: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        states, y, t, *params = ctx.saved_tensors
        with_time = ctx.needs_input_grad[4]
        solver = ctx.back.solver(ctx.adjoint_options, params, with_time)
        costate, times, integrals = _way_back(ctx.back, solver, states.to(y), grad.to(y), t, params, with_time)
        return (None, None, None, costate, times, *integrals)


def _way_back(
    back: Back, solver: Adaptive | Fixed, y: Tensor, grad: Tensor, t: Tensor, params: Sequence[Tensor], with_time: bool
) -> tuple[Tensor, Tensor | None, list[Tensor]]:
    """Gradients of y0, of the times and of the parameters, from the states and their gradients.

    At every time the state is set to that of the forward pass, and the adjoint takes up the gradient there.
    """
    moved = torch.zeros_like(t) if with_time else None
    costate, integrals = (
        grad[-1],
        [torch.zeros_like(p) for p in ((y.new_zeros(()),) if with_time else ()) + tuple(params)],
    )
    for i in range(len(t) - 1, 0, -1):
        if moved is not None:
            moved[i] = (back.packing.slope(back.func, t[i].to(y), y[i]) * grad[i]).sum()
            integrals[0] = integrals[0] - moved[i].to(y)
        _, (_, costate, *integrals) = solver.solve((y[i], costate, *integrals), t[[i, i - 1]])
        costate = costate + grad[i - 1]
    if moved is not None:
        moved[0] = integrals.pop(0)
    return costate, moved, integrals
