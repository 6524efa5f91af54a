"""ContinuousBlock: a unit made continuous in depth."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from fractions import Fraction
from numbers import Rational, Real
from typing import Unpack
from warnings import warn

import torch
from torch import Tensor, nn

from anydepth.block.form import KEY, SavedForm, form_under
from anydepth.block.passes import Held, Kind, Lifted, Outcome, Pass, PerThread, commit
from anydepth.block.paths import GRADIENTS, along, route, run
from anydepth.block.retired import watch_retired
from anydepth.block.roles import aliases_of, lift, make_units, replace, roles_of, tensors_of
from anydepth.depth.bases import Basis
from anydepth.depth.grids import Grid, GridLike
from anydepth.depth.schemes import SCHEMES, Scheme
from anydepth.depth.times import Instant, Side, TimeLike, exact
from anydepth.errors import AnydepthWarning, ConfigError, ModelFileError, NumericalError, UnitError, choices
from anydepth.solve.adaptive import Across, Stats
from anydepth.solve.plan import Plan
from anydepth.solve.solver import Solver, SolverSettings, make_solver
from anydepth.solve.tensors import (
    FiniteFlag,
    State,
    check_finite,
    like,
    parts_of,
    precision_on,
    wide,
)
from anydepth.weights.choose import Choice, choose, read_function
from anydepth.weights.protocol import Move, WeightFunction


class ContinuousBlock(nn.Module):
    """x(1) of dx/dt = scale * unit(x, theta(t)), x(0) given, by a Runge-Kutta scheme on a grid.

    Args:
        unit: makes a unit; called once for every basis function, so that the initial weights are
            independent samples of the unit's own initialisation at different depths.
        basis, size: every tensor of the unit becomes a function of depth in this basis, with `size` coefficients.
        scheme: a Runge-Kutta scheme, with fixed steps or adaptive.
        steps: a number of equal steps, or increasing times from 0 to 1; by default as many as `size`.
            For fixed schemes only.
        rtol, atol, max_steps: tolerances and cap of adaptive schemes, by default 1e-4, 1e-6 and 10,000.
        per_example: whether an adaptive scheme chooses the steps of every example of a batch by itself.
        scale: factor on the unit, constant from construction on. Euler with size = steps = scale is a ResNet.
        time: pass t to the unit as its first argument.
        weights: instead of basis and size, a function per tensor, such as
            `{"*.bias": ("linear", 4), "*": ("constant", 8)}`; the first pattern that matches applies.
        state, positive: buffers of the unit that are state besides running statistics; positive ones are
            kept in the logarithm.
        init: "independent" draws, or "shared": one draw for all depths.
        gradient: "backprop"; "checkpoint", exact with the memory of one segment of `segment` steps; or
            "adjoint" and "kkt", approximate: the adjoint equation, along states solved backward or kept.
        check_finite: refuse an input that is not finite; on a GPU this waits for `check_inputs`, which `save` calls.
        name: the block's name in error messages.
    """

    is_compiled = False
    """Whether passes take the compiled path where they can; `ad.compile` sets it."""

    def __init__(
        self,
        unit: Callable[[], nn.Module],
        basis: str | Basis = "constant",
        size: int | None = None,
        *,
        scheme: str = "rk4",
        steps: GridLike | None = None,
        rtol: float | None = None,
        atol: float | None = None,
        max_steps: int | None = None,
        per_example: bool | None = None,
        scale: float | Fraction = 1,
        time: bool = False,
        weights: Mapping[str, Choice] | None = None,
        state: Iterable[str] = (),
        positive: Iterable[str] = (),
        init: str = "independent",
        gradient: str = "backprop",
        segment: int = 1,
        check_finite: bool = True,
        name: str = "",
    ):
        super().__init__()
        self.time, self.check_finite, self._here = time, check_finite, PerThread({})
        self._finite = FiniteFlag()
        self.history: tuple = ()
        self.across: Across | None = None
        self.scale = _finite_fraction(scale)
        first = make_units(unit, 1, init)[0]
        if any(isinstance(module, ContinuousBlock) for module in first.modules()):
            raise UnitError("a unit cannot contain a ContinuousBlock; put the blocks one after another")
        self.roles = roles_of(first, state, positive)
        functions = choose(self.roles.lifted, basis, size, weights)
        shapes = {name: tuple(tensor.shape) for name, tensor in tensors_of(first).items()}
        self.lifted: Mapping[str, Lifted] = {
            name: Lifted(kind, functions[name], shapes[name]) for name, kind in self.roles.lifted.items()
        }
        """By the name of a tensor; a pass keeps it, so it is replaced and never changed."""
        largest = max((function.size for function in functions.values()), default=1)
        is_fixed = not SCHEMES[scheme].is_adaptive
        self._set(
            make_solver(
                scheme=scheme,
                steps=largest if steps is None and is_fixed else steps,
                rtol=rtol,
                atol=atol,
                max_steps=max_steps,
                per_example=per_example,
            )
        )
        self.set_gradient(gradient, segment)
        rest = make_units(unit, largest - 1, init) if init == "independent" else [first] * (largest - 1)
        self.unit = lift([first, *rest], self.lifted)
        self.aliases = aliases_of(self.unit)
        self.label = f"block {name!r}" if name else f"the block of {type(self.unit).__name__}"
        for lifted_name in self.lifted:
            self._renew(lifted_name)

    # What the block is

    @property
    def scheme(self) -> Scheme:
        """The Runge-Kutta scheme."""
        return self.solver.scheme

    @property
    def grid(self) -> Grid | None:
        """The grid of a fixed scheme; an adaptive one has none."""
        return self.solver.grid

    @property
    def steps(self) -> int | None:
        """The number of steps of a fixed scheme; an adaptive one has none."""
        return self.solver.steps

    @property
    def stats(self) -> Stats:
        """Statistics of this thread's last pass: evaluations, steps, path, and why faster paths were refused."""
        return self._here.stats

    @stats.setter
    def stats(self, stats: Stats) -> None:
        self._here.stats = stats

    @property
    def nfe(self) -> int:
        """Number of evaluations of the unit (NFE) in this thread's last pass."""
        return self.stats.evaluations

    @property
    def size(self) -> int:
        """The largest number of coefficients of any tensor."""
        return max((part.function.size for part in self.lifted.values()), default=1)

    @property
    def state_names(self) -> tuple[str, ...]:
        """Names of the running statistics and other state that are functions of depth."""
        return tuple(name for name, part in self.lifted.items() if part.kind is not Kind.PARAMETER)

    @property
    def functions(self) -> dict[str, WeightFunction]:
        """The weight function of every lifted tensor, by its name in the unit."""
        return {name: part.function for name, part in self.lifted.items()}

    def stored(self, name: str) -> Tensor:
        """What is stored for a tensor of the unit, by its name there."""
        *path, key = name.split(".")
        module: object = self._modules["unit"]
        for part in path:
            module = None if module is None else module._modules.get(part)
        if module is not None:
            found = module._parameters.get(key)
            found = module._buffers.get(key) if found is None else found
            if found is not None:
                return found
        raise self._altered(f"{name!r} was removed")

    def _altered(self, what: str) -> UnitError:
        return UnitError(
            f"{self.label} was made for other tensors than its unit has now: {what}; change the unit in the function "
            "that makes it (pruning, parametrizations, other layers), not inside the block"
        )

    def held(self, name: str) -> tuple[Tensor, ...]:
        """What is stored for a tensor, and the parameters that its function has besides."""
        if "evolutions" not in self._modules or _key(name) not in self.evolutions:
            return (self.stored(name),)
        return (self.stored(name), *self.evolutions[_key(name)].parameters())

    @property
    def evolutions(self) -> nn.ModuleDict:
        """The evolutions of tensors that evolve; a submodule where there are any."""
        kept = self._modules.get("evolutions")
        return kept if isinstance(kept, nn.ModuleDict) else nn.ModuleDict()

    @staticmethod
    def home_of(name: str) -> str:
        """Where the block keeps the evolution of a tensor of the unit."""
        return f"evolutions.{_key(name)}"

    def evolution(self, name: str) -> nn.Module:
        """q of an evolving tensor of the unit, by its name there."""
        if _key(name) not in self.evolutions:
            known = [other.removeprefix("w:").replace(":", ".") for other in self.evolutions]
            raise ConfigError(f"tensor {name!r} does not evolve; {choices(name, known)}")
        return self.evolutions[_key(name)]

    def theta(self, time: TimeLike, side: Side = Side.RIGHT) -> dict[str, Tensor]:
        """Every lifted tensor at one depth, as the unit would see it there."""
        instant = (Instant(exact(time), side),)
        return {
            name: part.kind.decode(part.function.reading(instant).rows(*self.held(name))[0])
            for name, part in self.lifted.items()
        }

    def extra_repr(self) -> str:
        """Weight functions, solver and scale, for `print`."""
        kinds = ", ".join(sorted({str(function) for function in self.functions.values()}))
        mode = "" if self.gradient == "backprop" else f", gradient={self.gradient}"
        return f"{kinds}, {self.solver}, scale={float(self.scale):g}{mode}"

    # Running it

    def set_solver(self, **settings: Unpack[SolverSettings]) -> None:
        """Run the same weights as another discrete network: scheme, steps, rtol, atol, max_steps, per_example."""
        self._set(self.solver.changed(**settings))

    def _set(self, solver: Solver) -> None:
        self.solver = solver
        self.plan = None if solver.grid is None else Plan(solver.grid, solver.scheme, self.scale)

    def set_gradient(self, mode: str, segment: int = 1) -> None:
        """Choose the gradient mode: backprop, checkpoint (every `segment` steps), adjoint or kkt."""
        GRADIENTS[mode]  # which refuses unknown ones
        if not isinstance(segment, int) or segment < 1:
            raise ConfigError(f"segment must be a whole number of steps, at least 1, got {segment!r}")
        self.gradient, self.segment = mode, segment

    def forward(self, x: Tensor | State, *args: object, **kwargs: object) -> Tensor | State:
        """The state at depth 1; further arguments reach every evaluation of the unit unchanged."""
        y = wide(self._enter(x))
        given = self.describe_pass(x, args, kwargs)
        outcome = run(given, y)
        self._commit(given, outcome)
        return like(x, outcome.y)

    def describe_pass(self, x: Tensor | State, args: tuple = (), kwargs: Mapping[str, object] | None = None) -> Pass:
        """All that a pass depends on, as it is now."""
        held = {name: self.held(name) for name in self.lifted}
        self._check_shapes(held)
        parts = x if isinstance(x, tuple) else (x,)
        shared = (*self.roles.counters, *self.roles.constants)
        return Pass(
            unit=self.unit,
            image=self._here.image(self.unit),
            aliases=self.aliases,
            roles=self.roles,
            lifted=self.lifted,
            held=held,
            shared={name: self.stored(name) for name in shared},
            solver=self.solver,
            plan=self.plan,
            scale=self.scale,
            gradient=self.gradient,
            segment=self.segment,
            is_training=self.training,
            has_time=self.time,
            is_tuple=isinstance(x, tuple),
            dtypes=tuple([part.dtype for part in parts]),
            device=parts[0].device,
            is_inference=_is_inference(parts),
            precision=precision_on(parts[0].device),
            args=args,
            kwargs=dict(kwargs or {}),
            label=self.label,
            across=self.across,
            is_compiled=self.is_compiled,
        )

    def explain(self, x: Tensor | State, *args: object, **kwargs: object) -> str:
        """The path a pass on x would take, and why not a faster one, as text; nothing is run."""
        return str(route(self.describe_pass(x, args, kwargs), wide(parts_of(x))))

    def _check_shapes(self, held: Held) -> None:
        """Refuse a unit whose tensors are not those that the block lifted."""
        for name, part in self.lifted.items():
            shape = held[name][0].shape
            if len(shape) == 0 or shape[1:] != part.shape or shape[0] != part.function.size:
                raise self._altered(f"{name!r} has shape {tuple(shape)}, expected {(part.function.size, *part.shape)}")

    def _commit(self, given: Pass, outcome: Outcome) -> None:
        """Keep what a pass left. Nobody else writes to the block."""
        if not torch.compiler.is_compiling():
            self._here.stats = outcome.stats
        if given.is_training and (outcome.samples or outcome.counters):
            commit(given, outcome, self.stored)
        for module, key, value in outcome.written:
            vars(module)[key] = value

    def trajectory(
        self, x: Tensor | State, times: Tensor | Sequence[TimeLike] | None = None, *args: object, **kwargs: object
    ) -> Tensor | State:
        """x at the given times (by default the grid's), stacked on a new leading axis.

        With a fixed scheme, the states of the forward pass at grid points; between them, a step of
        the same scheme from the last grid point. No state is updated.
        """
        y = wide(self._enter(x))
        if times is None and self.grid is None:
            raise ConfigError(f"scheme {self.scheme.name!r} has no grid of its own; give trajectory its times")
        listed = times.tolist() if isinstance(times, Tensor) else times
        wanted = self.grid.times if listed is None and self.grid else tuple(exact(time) for time in listed or ())
        if not wanted or not all(0 <= time <= 1 for time in wanted):
            raise ConfigError("trajectory needs at least one time, all from 0 to 1")
        at = along(self.describe_pass(x, args, kwargs), y, sorted({Fraction(0), *wanted}))
        stacked = tuple(torch.stack(parts) for parts in zip(*(at[time] for time in wanted), strict=True))
        return like(x, stacked)

    def _enter(self, x: Tensor | State) -> State:
        """x as a tuple, once it is fit to be integrated."""
        parts = parts_of(x)
        if self.check_finite:
            if all(part.is_cpu for part in parts):
                check_finite(parts, "x")
            else:
                self._finite.note(parts)
        return parts

    def check_inputs(self) -> None:
        """Raise an error if an input on a device other than the CPU was not finite since the last call.

        There a pass does not wait for the device; `save` and training call this.
        """
        if not self._finite.read():
            raise NumericalError(
                f"the input of {self.label} was not finite; correct the data or lower the learning rate"
            )

    # Changing what is stored

    def move(self, functions: Mapping[str, WeightFunction], method: str) -> dict[str, Move]:
        """Replace stored tensors and their weight functions; parameters become new objects."""
        moves = {name: self.lifted[name].function.move(new, method) for name, new in functions.items()}
        for name, step in moves.items():
            self._store(name, functions[name], step.weights(*self.held(name)))
        return moves

    def resize(self, functions: Mapping[str, WeightFunction]) -> None:
        """Change the weight functions before loading; a tensor that keeps its shape stays the same object."""
        retired: list[nn.Parameter] = []
        for name, function in functions.items():
            part, stored = self.lifted[name], self.stored(name)
            if function == part.function:
                continue
            if function.size == part.function.size and part.function.is_linear and function.is_linear:
                self.lifted = {**self.lifted, name: Lifted(part.kind, function, part.shape)}
                continue
            if isinstance(stored, nn.Parameter):
                retired.append(stored)
            self._store(name, function, stored.new_zeros((function.size, *stored.shape[1:])))
        watch_retired(retired, is_fatal=True)

    def _store(self, name: str, function: WeightFunction, tensor: Tensor) -> None:
        replace(self.unit, name, tensor)
        part = self.lifted[name]
        self.lifted = {**self.lifted, name: Lifted(part.kind, function, part.shape)}
        self._renew(name)

    def _renew(self, name: str) -> None:
        """Fresh parameters for a function that has some of its own."""
        stored, part = self.stored(name), self.lifted[name]
        made = part.function.module(stored.shape[1:])
        if made is not None and part.kind is not Kind.PARAMETER:
            raise ConfigError(f"{name!r} is state (a running statistic), which cannot evolve; give it a basis")
        kept = self.evolutions
        if made is not None:
            kept[_key(name)] = made.to(stored.device, stored.dtype)
        elif _key(name) in kept:
            del kept[_key(name)]
        self._modules.pop("evolutions", None)
        if len(kept):
            self._modules["evolutions"] = kept

    # Its form in state dicts

    def get_extra_state(self) -> Tensor:
        """The block's form, for its state dict."""
        functions = {name: function.describe() for name, function in self.functions.items()}
        return SavedForm(functions, self.solver.describe(), str(self.scale), self.time).encode()

    def set_extra_state(self, state: Tensor) -> None:
        """Read the form from a state dict; called by `load_state_dict`."""
        self.adopt(SavedForm.decode(state))

    def adopt(self, form: SavedForm) -> None:
        """Change to the weight functions and the solver of a form; load the weights next."""
        for key, mine in (("scale", str(self.scale)), ("time", self.time)):
            if getattr(form, key) != mine:
                raise ModelFileError(f"{self.label} has {key} {mine}, the state dict {getattr(form, key)!r:.40}")
        if form.functions.keys() != self.lifted.keys():
            other = sorted(form.functions.keys() ^ self.lifted.keys())
            raise ModelFileError(f"{self.label} and the state dict differ in tensors of the unit: {', '.join(other)}")
        mine = {name: function.describe() for name, function in self.functions.items()}
        told = form.functions.items()
        functions = {n: self.functions[n] if mine[n] == given else read_function(given) for n, given in told}
        solver = make_solver(**form.solver)
        self.resize(functions)
        if solver != self.solver:
            self._set(solver)

    def _load_from_state_dict(  # pyright: ignore[reportIncompatibleMethodOverride]
        self,
        state_dict: Mapping[str, object],
        prefix: str,
        metadata: dict,
        strict: bool,
        missing: list[str],
        *rest: object,
    ) -> None:
        """Take on the form first, so that weights of any form can be loaded; without one, sizes follow the tensors."""
        form = form_under(state_dict, prefix)
        if form is not None:
            self.adopt(form)
        else:
            self._resize_to(state_dict, prefix)
        super()._load_from_state_dict(state_dict, prefix, metadata, strict, missing, *rest)  # pyright: ignore
        if form is None and prefix + KEY in missing:
            missing.remove(prefix + KEY)

    def _resize_to(self, state_dict: Mapping[str, object], prefix: str) -> None:
        incoming = {name: state_dict.get(f"{prefix}unit.{name}") for name in self.lifted}
        fitting = {n: v for n, v in incoming.items() if isinstance(v, Tensor) and _same_tail(v, self.stored(n))}
        if fitting:
            warn(
                "the state dict does not contain the form of a block (basis, scheme, steps); the block keeps its own; "
                "a state dict that a model with blocks made has it",
                AnydepthWarning,
                stacklevel=2,
            )
        with suppress(ConfigError):  # where the function has no such size, PyTorch reports the mismatch
            self.resize({name: self.lifted[name].function.resized(len(value)) for name, value in fitting.items()})

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> "ContinuousBlock":
        """Move or convert as any module; a memory format for images passes lifted tensors by.

        They have one axis more than the unit's, so that a format by number of axes does not fit them.
        """

        def flat(tensor: Tensor) -> Tensor:
            if tensor.dim() not in (4, 5):
                return fn(tensor)
            moved = fn(tensor.reshape(-1))
            same = moved.dtype == tensor.dtype and moved.device == tensor.device and not moved.is_meta
            return tensor if same and moved.data_ptr() == tensor.data_ptr() else moved.reshape(tensor.shape)

        return super()._apply(flat, recurse)

    def counts(self) -> tuple[int, int]:
        """Numbers of trained values and of state values."""
        sizes = {name: sum(tensor.numel() for tensor in self.held(name)) for name in self.lifted}
        state = sum(sizes[name] for name in self.state_names)
        return sum(sizes.values()) - state, state


_LARGEST_SCALE = 1e30
"""Steps times scale must stay far below the largest number of float32."""


def _finite_fraction(scale: object) -> Fraction:
    try:
        if isinstance(scale, Real) and not isinstance(scale, bool) and abs(float(scale)) <= _LARGEST_SCALE:
            return Fraction(scale) if isinstance(scale, Rational) else Fraction(float(scale))
    except OverflowError:
        pass
    raise ConfigError(f"scale must be a finite number, at most {_LARGEST_SCALE:g} in size, got {scale!r:.40}")


def _is_inference(parts: State) -> bool:
    """Whether any part was made in inference mode, which a compiler cannot ask."""
    return not torch.compiler.is_compiling() and any(part.is_inference() for part in parts)


def _key(name: str) -> str:
    """A tensor's name as that of a module."""
    return "w:" + name.replace(".", ":")


def _same_tail(a: Tensor, b: Tensor) -> bool:
    """Whether two tensors differ at most in the length of their leading axis."""
    return a.dim() > 0 and len(a) > 0 and a.shape[1:] == b.shape[1:]
