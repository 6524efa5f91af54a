"""ContinuousBlock: a unit made continuous in depth."""

from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from math import isfinite, prod
from typing import Any

import torch
from torch import Tensor, nn

from anydepth.depth.bases import Basis
from anydepth.depth.grids import Grid, GridLike, unit_grid
from anydepth.depth.schemes import Scheme, fixed_scheme
from anydepth.depth.times import Instant, Side, TimeLike, exact
from anydepth.errors import ConfigError, NumericalError, ShapeError, UnitError
from anydepth.nn.choose import Choice, choose
from anydepth.nn.field import BlockField
from anydepth.nn.functions import Move, WeightFunction
from anydepth.nn.integrate import integrate, states
from anydepth.nn.plan import Plan, State
from anydepth.nn.retired import watch_retired
from anydepth.nn.roles import Kind, Lifted, lift, make_units, replace, roles_of


class ContinuousBlock(nn.Module):
    """x(1) of dx/dt = scale * unit(x, theta(t)), x(0) given, by a Runge-Kutta scheme on a grid.

    Args:
        unit: makes a unit; called once for every basis function, so that the initial weights are
            independent samples of the unit's own initialisation at different depths.
        basis, size: the function of depth that every tensor of the unit is.
        scheme: a fixed-step scheme.
        steps: a number of equal steps, or increasing times from 0 to 1; by default as many as `size`.
        scale: factor on the unit, fixed for good. Euler with size = steps = scale is a ResNet.
        time: pass t to the unit as its first argument.
        weights: instead of basis and size, a function per tensor: {"*.bias": ("linear", 4), "*": ("constant", 8)};
            the first pattern that fits counts.
        state, positive: buffers of the unit that are state besides running statistics; positive ones are
            kept in the logarithm.
        init: "independent" draws, or "shared": one draw for all depths.
        check_finite: refuse a non-finite input (one pass over x).
    """

    def __init__(
        self,
        unit: Callable[[], nn.Module],
        basis: str | Basis = "constant",
        size: int | None = None,
        *,
        scheme: str = "rk4",
        steps: GridLike | None = None,
        scale: float | Fraction = 1,
        time: bool = False,
        weights: Mapping[str, Choice] | None = None,
        state: Iterable[str] = (),
        positive: Iterable[str] = (),
        init: str = "independent",
        check_finite: bool = True,
    ):
        super().__init__()
        self.time, self.check_finite, self.nfe = time, check_finite, 0
        self.history: tuple = ()
        if not isinstance(scale, int | float | Fraction) or not isfinite(scale):
            raise ConfigError(f"scale must be a finite number, got {scale!r}")
        self.scale = Fraction(scale)
        first = make_units(unit, 1, init)[0]
        if any(isinstance(module, ContinuousBlock) for module in first.modules()):
            raise UnitError("a unit cannot contain a ContinuousBlock; put the blocks one after another")
        self.roles = roles_of(first, state, positive)
        functions = choose(self.roles.lifted, basis, size, weights)
        self.lifted = {name: Lifted(kind, functions[name]) for name, kind in self.roles.lifted.items()}
        largest = max((function.size for function in functions.values()), default=1)
        self.set_solver(scheme, largest if steps is None else steps)
        rest = make_units(unit, largest - 1, init) if init == "independent" else [first] * (largest - 1)
        self.unit = lift([first, *rest], self.lifted)
        for function in {id(f): f for f in functions.values() if isinstance(f, nn.Module)}.values():
            self.add_module(f"function{len(self._modules)}", function)

    # What the block is

    @property
    def scheme(self) -> Scheme:
        return self._scheme

    @property
    def grid(self) -> Grid:
        return self._grid

    @property
    def steps(self) -> int:
        return self._grid.steps

    @property
    def size(self) -> int:
        """The largest number of coefficients of any tensor."""
        return max((part.function.size for part in self.lifted.values()), default=1)

    @property
    def state_names(self) -> tuple[str, ...]:
        return tuple(name for name, part in self.lifted.items() if part.kind is not Kind.PARAMETER)

    @property
    def functions(self) -> dict[str, WeightFunction]:
        return {name: part.function for name, part in self.lifted.items()}

    def stored(self, name: str) -> Tensor:
        """What is stored for a tensor of the unit, by its name there."""
        path, _, attribute = name.rpartition(".")
        return getattr(self.unit.get_submodule(path), attribute)

    def theta(self, time: TimeLike, side: Side = Side.RIGHT) -> dict[str, Tensor]:
        """Every lifted tensor at one depth, as the unit would see it there."""
        instant = (Instant(exact(time), side),)
        return {
            name: part.kind.decode(part.function.reading(instant).rows(self.stored(name))[0])
            for name, part in self.lifted.items()
        }

    def extra_repr(self) -> str:
        kinds = ", ".join(sorted({str(function) for function in self.functions.values()}))
        return f"{kinds}, scheme={self.scheme.name}, steps={self.steps}, scale={float(self.scale):g}"

    # Running it

    def set_solver(self, scheme: str | None = None, steps: GridLike | None = None) -> None:
        """Run the same weights as another discrete network."""
        chosen = self._scheme if scheme is None else fixed_scheme(scheme)
        grid = self._grid if steps is None else unit_grid(steps)
        self._scheme, self._grid = chosen, grid
        self._plan = Plan(grid, chosen, self.scale)

    def forward(self, x: Tensor | State, *args: Any, **kwargs: Any) -> Tensor | State:
        parts = self._enter(x)
        field = BlockField(self, self._plan, x, args, kwargs)
        y = integrate(field, _wide(parts), self._plan)
        if self.training:
            field.commit()
        self.nfe = self._plan.evaluations
        return _like(x, y)

    def trajectory(
        self, x: Tensor | State, times: Iterable[TimeLike] | None = None, *args: Any, **kwargs: Any
    ) -> Tensor | State:
        """x at the given times (by default the grid's), stacked on a new leading axis.

        At grid points these are the states of the forward pass; between them, a step of the same
        scheme from the last grid point. No state is updated.
        """
        parts = self._enter(x)
        wanted = self.grid.times if times is None else tuple(exact(time) for time in times)
        if not wanted or not all(0 <= time <= 1 for time in wanted):
            raise ConfigError("trajectory needs at least one time, all from 0 to 1")
        field, y = BlockField(self, self._plan, x, args, kwargs), _wide(parts)
        at = dict(zip(self.grid.times, (y, *states(field, y, self._plan)), strict=True))
        for time in sorted(set(wanted) - at.keys()):
            start = max(point for point in self.grid.times if point < time)
            plan = Plan(Grid((start, time)), self.scheme, self.scale)
            at[time] = integrate(BlockField(self, plan, x, args, kwargs), at[start], plan)
        stacked = tuple(torch.stack(parts) for parts in zip(*(at[time] for time in wanted), strict=True))
        return _like(x, stacked)

    def _enter(self, x: Tensor | State) -> State:
        """x as a tuple, once it is fit to be integrated."""
        parts = x if isinstance(x, tuple) else (x,)
        if not parts or not all(isinstance(part, Tensor) and part.is_floating_point() for part in parts):
            got = [str(part.dtype) if isinstance(part, Tensor) else type(part).__name__ for part in parts]
            raise ShapeError(
                f"x must be a floating-point tensor or a tuple of them, got {', '.join(got) or 'an empty tuple'}"
            )
        if self.check_finite and not torch.compiler.is_compiling():
            for part in parts:
                _check_finite(part)
        return parts

    # Changing what is stored

    def move(self, functions: Mapping[str, WeightFunction], method: str) -> dict[str, Move]:
        """Hand tensors over to other functions; parameters become new objects."""
        moves = {name: self.lifted[name].function.move(new, method) for name, new in functions.items()}
        for name, step in moves.items():
            self._store(name, functions[name], step.weights(self.stored(name)))
        return moves

    def resize(self, functions: Mapping[str, WeightFunction]) -> None:
        """Make room for other functions, to be filled by loading; what was stored is given up."""
        retired: list[nn.Parameter] = []
        for name, function in functions.items():
            stored = self.stored(name)
            if function != self.lifted[name].function:
                if isinstance(stored, nn.Parameter):
                    retired.append(stored)
                self._store(name, function, stored.new_zeros((function.size, *stored.shape[1:])))
        watch_retired(retired)

    def _store(self, name: str, function: WeightFunction, tensor: Tensor) -> None:
        replace(self.unit, name, tensor)
        self.lifted[name] = Lifted(self.lifted[name].kind, function)

    def _load_from_state_dict(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, state_dict: Mapping[str, Any], prefix: str, *rest: Any
    ) -> None:
        """Resize first, so that weights of any size can be loaded."""
        incoming = {name: state_dict.get(f"{prefix}unit.{name}") for name in self.lifted}
        fitting = {n: v for n, v in incoming.items() if isinstance(v, Tensor) and _same_tail(v, self.stored(n))}
        self.resize({name: self.lifted[name].function.resized(len(value)) for name, value in fitting.items()})
        super()._load_from_state_dict(state_dict, prefix, *rest)  # pyright: ignore[reportArgumentType]

    def counts(self) -> tuple[int, int]:
        """Numbers of trained values and of state values."""
        sizes = {name: prod(self.stored(name).shape) for name in self.lifted}
        state = sum(sizes[name] for name in self.state_names)
        return sum(sizes.values()) - state, state


def _same_tail(a: Tensor, b: Tensor) -> bool:
    """Whether two tensors differ at most in the length of their leading axis."""
    return a.dim() > 0 and len(a) > 0 and a.shape[1:] == b.shape[1:]


def _wide(parts: State) -> State:
    """The state in the dtype in which steps accumulate: at least float32."""
    return tuple(part.to(torch.promote_types(part.dtype, torch.float32)) for part in parts)


def _like(x: Tensor | State, y: State) -> Tensor | State:
    """y with the structure and dtypes of x."""
    if isinstance(x, tuple):
        return tuple(part.to(given.dtype) for part, given in zip(y, x, strict=True))
    return y[0].to(x.dtype)


def _check_finite(part: Tensor) -> None:
    is_transformed = torch._C._functorch.is_functorch_wrapped_tensor(part)  # pyright: ignore[reportAttributeAccessIssue]
    if is_transformed or bool(torch.isfinite(part).all()):
        return
    bad = int((~torch.isfinite(part)).sum())
    raise NumericalError(
        f"x has {bad} non-finite of {part.numel()} values; mend the data or lower the learning rate "
        "(check_finite=False lets them through)"
    )
