"""Weights that evolve: theta(t) from dw/dt = q(w; p), w(0) stored, beside the basis expansions (ANODEV2)."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.polynomial.legendre import leggauss
from torch import Tensor, nn

from anydepth.depth.bases import Basis, read_basis
from anydepth.depth.bases.base import locate
from anydepth.depth.grids import GridLike, unit_grid
from anydepth.depth.schemes import SCHEMES
from anydepth.depth.times import Instant, TimeLike, exact
from anydepth.depth.transfer import METHODS
from anydepth.errors import ConfigError, choices
from anydepth.executor.executor import Image, unit_call
from anydepth.registry import check_options
from anydepth.solve.plan import Step, make_step
from anydepth.weights.evolutions import EVOLUTIONS, Evolution
from anydepth.weights.expansion import Expansion
from anydepth.weights.protocol import WeightFunction
from anydepth.weights.time_kernel import DIRAC, TimeKernel, read_kernel

Made = Callable[[Sequence[int]], nn.Module]
"""Makes q for a tensor of a shape: any module from w to dw/dt."""
_NODES, _CELLS = 8, 8
"""Gauss points of a cell, and equal cells besides those of the functions, when an evolved function is projected."""


class Evolved:
    """theta(t) = integral of K(t - s) w(s) ds with dw/dt = q(w; p), w(0) = what is stored; by default theta = w.

    A function of depth like any other: solvers of the block may change and it stays what it is. For that its grid is
    its own; configuration one of the paper is the case that it has as many steps as the block, and where w is known in
    closed form, as for "rda" and "linear", there is no grid.

    Args:
        evolution: the registered name of q, or a function that makes a module w -> dw/dt for a tensor's shape,
            which is run in evaluation mode.
        options: of that evolution.
        steps, scheme: the grid and the scheme of w, where w is not known in closed form.
        kernel: the kernel K in time, by name ("dirac", "exponential", "box") or as a `TimeKernel`.
        apply_at: weight times for equal cells of depth: (0, 1) applies w(0) in the first half and w(1) in the second
            (configuration two); None: w(t) at depth t.
    """

    def __init__(
        self,
        evolution: str | Made = "rda",
        options: Mapping[str, object] | None = None,
        *,
        steps: GridLike = 10,
        scheme: str = "rk4",
        kernel: TimeKernel | str | dict[str, object] = DIRAC,
        apply_at: Iterable[TimeLike] | None = None,
    ):
        self.evolution, self.options = evolution, dict(options or {})
        if isinstance(evolution, str):
            check_options(f"evolution {evolution!r}", EVOLUTIONS[evolution], self.options, given=1)
        elif not callable(evolution) or isinstance(evolution, nn.Module):
            raise ConfigError(f"an evolution is a name or a function of a shape, got {evolution!r}")
        elif self.options:
            raise ConfigError("options go with the name of an evolution; put them into the function that makes it")
        self.grid, self.scheme, self.kernel = unit_grid(steps), SCHEMES[scheme], read_kernel(kernel)
        if self.scheme.is_adaptive:
            raise ConfigError(f"weights evolve by a scheme with fixed steps, got {scheme!r}")
        self.apply_at = None if apply_at is None else tuple(exact(time) for time in apply_at)
        if self.apply_at is not None and not (self.apply_at and all(0 <= time <= 1 for time in self.apply_at)):
            raise ConfigError("apply_at needs at least one weight time, all from 0 to 1")
        self._key = (evolution, repr(sorted(self.options.items())), self.grid, scheme, self.kernel, self.apply_at)
        self._hash = hash(self._key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Evolved) and self._key == other._key

    def __hash__(self) -> int:
        return self._hash

    # What a weight function tells

    @property
    def is_linear(self) -> bool:
        return False

    @property
    def is_constant(self) -> bool:
        return False

    @property
    def size(self) -> int:
        return 1

    @property
    def breakpoints(self) -> Sequence[Fraction]:
        cells = 1 if self.apply_at is None else len(self.apply_at)
        return tuple(Fraction(i, cells) for i in range(cells + 1))

    def from_samples(self, samples_KX: Tensor) -> Tensor:
        return samples_KX

    def module(self, shape: Sequence[int]) -> nn.Module:
        """q with fresh parameters, for a tensor of this shape."""
        if isinstance(self.evolution, str):
            return EVOLUTIONS[self.evolution](shape, **self.options)
        made = self.evolution(tuple(shape))
        if not isinstance(made, nn.Module) or any(True for _ in made.buffers()):
            raise ConfigError(f"an evolution must be an nn.Module without buffers, got {type(made).__name__}")
        return made if isinstance(made, Evolution) else _Plain(shape, made)

    def own_shapes(self, shape: Sequence[int]) -> dict[str, tuple[int, ...]]:
        return {name.removeprefix("q."): size for name, size in _template(self, tuple(shape))[1].items()}

    def reading(self, instants: Sequence[Instant]) -> "EvolvedReading":
        return EvolvedReading(self, instants)

    def move(self, to: WeightFunction, method: str) -> "Projection":
        if not isinstance(to, Expansion):
            raise ConfigError(f"evolved weights {self} cannot become {to}; expected a basis")
        return Projection(self, to.basis, method)

    def refined(self) -> "Evolved":
        return self

    def resized(self, size: int, basis: str | None = None) -> WeightFunction:
        if basis is not None:
            return Expansion(read_basis({"basis": basis, "size": size}))
        if size != 1:
            raise ConfigError(f"evolved weights have no size, got size {size}; name a basis to project them onto")
        return self

    def describe(self) -> dict[str, object]:
        custom = getattr(self.evolution, "__qualname__", type(self.evolution).__name__)
        return {
            "evolution": self.evolution if isinstance(self.evolution, str) else {"custom": custom},
            "options": self.options,
            "steps": self.grid.describe(),
            "scheme": self.scheme.name,
            "kernel": self.kernel.describe(),
            "apply_at": None if self.apply_at is None else [str(time) for time in self.apply_at],
        }

    def __str__(self) -> str:
        name = self.evolution if isinstance(self.evolution, str) else "custom"
        applied = "" if self.apply_at is None else " at " + ", ".join(str(time) for time in self.apply_at)
        return f"evolved:{name}{applied}"

    # The weights themselves

    def weight_time(self, instant: Instant) -> Fraction:
        """The time of w that an instant of depth reads."""
        if self.apply_at is None:
            return instant.time
        return self.apply_at[locate(len(self.apply_at), instant)]

    def along(self, q: Evolution, w: Tensor, times: Sequence[Fraction]) -> Tensor:
        """w at increasing times, stacked."""
        wide = w.to(torch.promote_types(w.dtype, torch.float32))
        if not q.has_flow:
            return torch.stack(self._stepped(q, wide, times)).to(w.dtype)
        later = [float(time) for time in times if time > 0]
        rows = [wide[None]] if times[0] == 0 else []
        if later:
            rows.append(q.flow(wide, torch.tensor(later, dtype=wide.dtype, device=w.device)))
        return torch.cat(rows).to(w.dtype)

    def _stepped(self, q: Evolution, w: Tensor, times: Sequence[Fraction]) -> list[Tensor]:
        """Along the grid, and from its points by a part of a step to times between them."""
        found: dict[Fraction, Tensor] = {Fraction(0): w}
        for start, end in pairwise(self.grid.times):
            inside = [time for time in times if start < time < end]
            if not inside and end > times[-1] and start >= times[-1]:
                break
            for time in (*inside, end):
                found[time] = q.step(found[start], _step(self.scheme.name, time - start), float(time - start))
        return [found[time] for time in times]


@lru_cache(maxsize=4096)
def _step(scheme: str, width: Fraction) -> Step:
    return make_step(SCHEMES[scheme], width)


class _Plain(Evolution):
    """A user's module as q."""

    def __init__(self, shape: Sequence[int], net: nn.Module):
        super().__init__(shape)
        self.net = net

    def forward(self, w: Tensor) -> Tensor:
        return self.net(w)


class _Run(nn.Module):
    """Calls a function of q, so that q can be called with other parameters in the place of its own."""

    def __init__(self, q: nn.Module):
        super().__init__()
        self.q = q

    def forward(self, run: Callable[[nn.Module], Tensor]) -> Tensor:
        return run(self.q)


@lru_cache(maxsize=256)
def _template(function: Evolved, shape: tuple[int, ...]) -> tuple[Image, dict[str, tuple[int, ...]]]:
    """A q of the right form, whose numbers do not count, and the names and shapes of its parameters."""
    if isinstance(function.evolution, str):
        with torch.device("meta"):
            run = _Run(function.module(shape))
    else:
        with torch.random.fork_rng():
            run = _Run(function.module(shape))
    run.eval()
    return Image(run), {name: tuple(parameter.shape) for name, parameter in run.named_parameters()}


def evolve(function: Evolved, times: Sequence[Fraction], stored_KX: Tensor, own: Sequence[Tensor]) -> Tensor:
    """w at increasing times, given what is stored and the parameters p."""
    image, shapes = _template(function, tuple(stored_KX.shape[1:]))
    wide = torch.promote_types(stored_KX.dtype, torch.float32)
    call = unit_call(image, tuple(shapes), {name: [name] for name in shapes})
    try:
        return call([p.to(wide) for p in own], (lambda q: function.along(q, stored_KX[0], times),), {}, ())[0]
    finally:
        call.close()


class EvolvedReading:
    """theta at the instants it was made for: w at a few times, and the matrix of a kernel in time."""

    def __init__(self, function: Evolved, instants: Sequence[Instant]):
        times = [function.weight_time(instant) for instant in instants]
        distinct = sorted(set(times))
        place = {time: i for i, time in enumerate(distinct)}
        self.function, self.index = function, tuple(place[time] for time in times)
        self.times, self.matrix = function.kernel.averages(distinct, function.grid.times)

    def rows(self, stored_KX: Tensor, *own: Tensor) -> Sequence[Tensor]:
        w = evolve(self.function, self.times, stored_KX, own)
        if self.function.kernel.name == "dirac":
            return w.unbind(0)
        matrix = torch.tensor(self.matrix, dtype=w.dtype, device=w.device)
        return torch.tensordot(matrix, w, dims=1).unbind(0)

    def fit(self, stored_KX: Tensor, samples_SX: Tensor) -> Tensor:
        raise ConfigError("state cannot evolve: it holds statistics of the training")


@dataclass(frozen=True)
class Projection:
    """An evolved function moved onto a basis, by least squares over depth or through its control points."""

    old: Evolved
    new: Basis
    method: str

    def weights(self, stored: Tensor, *own: Tensor) -> Tensor:
        return self._fitted(stored, own)[0].to(stored.dtype)

    def gradient(self, stored: Tensor) -> Tensor:
        raise ConfigError(
            "optimiser moments cannot be carried over from evolved weights to a basis; make a new optimiser"
        )

    def gradient_squared(self, stored: Tensor) -> Tensor:
        return self.gradient(stored)

    def error(self, stored: Tensor, *own: Tensor) -> tuple[float, float]:
        fitted, points, weights = self._fitted(stored, own)
        old = self._values(points, stored, own)
        new = torch.tensordot(torch.tensor(self.new.evaluate(points)).to(fitted), fitted, dims=1)
        root = torch.tensor(weights**0.5).to(fitted).view(-1, *[1] * (old.dim() - 1))
        return float((root * (new - old)).norm()), float((root * old).norm())

    def _fitted(self, stored: Tensor, own: Sequence[Tensor]) -> tuple[Tensor, list[Instant], np.ndarray]:
        if self.method not in METHODS:
            raise ConfigError(f"unknown transfer method {self.method!r}; {choices(self.method, METHODS)}")
        points, weights = self._quadrature()
        at, root = (points, weights**0.5) if self.method == "project" else (self.new.control_points, None)
        design = self.new.evaluate(at) if root is None else root[:, None] * self.new.evaluate(at)
        inverse = torch.tensor(np.linalg.pinv(design))
        values = self._values(at, stored, own)
        scaled = values if root is None else torch.tensor(root).to(values).view(-1, *[1] * (values.dim() - 1)) * values
        return torch.tensordot(inverse.to(values), scaled, dims=1), points, weights

    def _values(self, points: Sequence[Instant], stored: Tensor, own: Sequence[Tensor]) -> Tensor:
        """theta at the points, in double precision."""
        reading = self.old.reading(points)
        with torch.no_grad():
            rows = reading.rows(stored.detach().double(), *(p.detach().double() for p in own))
            return torch.stack([rows[i] for i in reading.index])

    def _quadrature(self) -> tuple[list[Instant], np.ndarray]:
        even = {Fraction(i, _CELLS) for i in range(_CELLS + 1)}
        knots = sorted({*self.new.breakpoints, *self.old.breakpoints, *even})
        nodes, factors = leggauss(_NODES)
        cells = list(pairwise(knots))
        points = [Instant(a + (b - a) * Fraction((1 + node) / 2)) for a, b in cells for node in nodes]
        return points, np.array([float(b - a) * factor / 2 for a, b in cells for factor in factors])


def read_evolved(description: Mapping[str, Any]) -> Evolved:
    """Inverse of `Evolved.describe`."""
    told = dict(description)
    evolution = told.pop("evolution")
    if not isinstance(evolution, str):
        raise ConfigError(
            f"evolution {evolution!r:.80} is not registered; load into a model that has it, load(folder, into=model)"
        )
    known = {"options", "steps", "scheme", "kernel", "apply_at"}
    if not told.keys() <= known:
        raise ConfigError(f"evolved weights have no {', '.join(sorted(told.keys() - known))}; {choices('', known)}")
    return Evolved(evolution, told.pop("options", None), **told)
