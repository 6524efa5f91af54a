"""Basis expansions: theta(t) as a combination of stored coefficients."""

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from anydepth.depth import transfer
from anydepth.depth.bases import Basis, read_basis
from anydepth.depth.bases.base import locate
from anydepth.depth.times import Instant
from anydepth.errors import ConfigError
from anydepth.weights.protocol import WeightFunction


@dataclass(frozen=True)
class Expansion:
    """theta(t) = sum_k phi_k(t) coefficients_k."""

    basis: Basis

    @property
    def is_linear(self) -> bool:
        return True

    @property
    def is_constant(self) -> bool:
        return self.size == 1

    @property
    def size(self) -> int:
        return self.basis.size

    @property
    def breakpoints(self) -> Sequence[Fraction]:
        return self._breakpoints

    @cached_property
    def _breakpoints(self) -> Sequence[Fraction]:
        return self.basis.breakpoints

    def from_samples(self, samples_KX: Tensor) -> Tensor:
        vandermonde = self.basis.evaluate(self.basis.control_points)
        if transfer.is_identity(vandermonde):
            return samples_KX
        return apply_matrix(np.linalg.inv(vandermonde), samples_KX)

    def module(self, shape: Sequence[int]) -> None:
        return None

    def own_shapes(self, shape: Sequence[int]) -> dict[str, tuple[int, ...]]:
        return {}

    def reading(self, instants: Sequence[Instant]) -> "ExpansionReading":
        if not self.is_constant:
            return ExpansionReading(*_distinct(self.basis, instants))
        for instant in instants:
            if not 0 <= instant.time.numerator <= instant.time.denominator:
                locate(1, instant)  # which refuses it
        return self._anywhere.on((0,) * len(instants))

    @cached_property
    def _anywhere(self) -> "ExpansionReading":
        """A reading at one instant, which is that at any."""
        return ExpansionReading(*_distinct(self.basis, (Instant(Fraction(0)),)))

    def move(self, to: WeightFunction, method: str) -> "MatrixMove":
        if not isinstance(to, Expansion):
            raise ConfigError(f"weights in basis {self.basis} cannot become {to}; expected another basis")
        return MatrixMove(self.basis, to.basis, method)

    def refined(self) -> "Expansion":
        return Expansion(self.basis.refined())

    def resized(self, size: int, basis: str | None = None) -> "Expansion":
        if basis is None:
            return Expansion(self.basis.resized(size))
        return Expansion(read_basis({"basis": basis, "size": size}))

    def describe(self) -> dict:
        return self.basis.describe()

    def __str__(self) -> str:
        return str(self.basis)


@dataclass
class ExpansionReading:
    """Phi @ coefficients at distinct rows of Phi; plain indexing where every row is one-hot."""

    design_UK: np.ndarray
    index: tuple[int, ...]
    _tensors: dict = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        one_hot = transfer.is_one_hot(self.design_UK)
        self._picks = [int(k) for k in self.design_UK.argmax(axis=1)] if one_hot else None
        self._places = tuple(self._picks[i] for i in self.index) if self._picks is not None else ()
        self._fits: transfer.Fit | None = None

    def on(self, index: tuple[int, ...]) -> "ExpansionReading":
        """The same rows for other instants, without asking the basis again."""
        reading = copy(self)
        reading.index, reading._fits, reading._tensors = index, None, {}
        if self._picks is not None:
            reading._places = tuple(self._picks[i] for i in index)
        return reading

    @property
    def _fit(self) -> transfer.Fit:
        if self._fits is None:
            self._fits = transfer.fit(self.design_UK[list(self.index)])
        return self._fits

    def rows(self, stored_KX: Tensor, *own: Tensor) -> Sequence[Tensor]:
        if self._picks is not None:
            parts = stored_KX.unbind(0)
            return [parts[k] for k in self._picks]
        return torch.tensordot(self._tensor("design", stored_KX), stored_KX, dims=1).unbind(0)

    def stacked(self, stored_KX: Tensor) -> tuple[Tensor, tuple[int, ...]]:
        """theta at distinct instants as one tensor, and which of its rows each instant reads."""
        if self._picks is not None:
            return stored_KX, self._places
        return torch.tensordot(self._tensor("design", stored_KX), stored_KX, dims=1), self.index

    def fit(self, stored_KX: Tensor, samples_SX: Tensor) -> Tensor:
        fitted = torch.tensordot(self._tensor("from_samples", stored_KX), samples_SX, dims=1)
        if self._fit.keep_old is None:
            return fitted
        return fitted + torch.tensordot(self._tensor("keep_old", stored_KX), stored_KX, dims=1)

    def _tensor(self, which: str, like: Tensor) -> Tensor:
        """One of our matrices in the dtype and on the device of `like`."""
        key = (which, like.dtype, like.device)
        if torch.compiler.is_compiling():
            return torch.as_tensor(self._matrix(which)).to(like.device, like.dtype)
        if key not in self._tensors:
            with torch.inference_mode(False):
                made = torch.tensor(self._matrix(which), dtype=like.dtype, device=like.device)
            if type(made) is not Tensor:  # a stand-in of some tracing mode
                return made
            self._tensors[key] = made
        return self._tensors[key]

    def _matrix(self, which: str) -> np.ndarray:
        matrices = {"design": self.design_UK} if which == "design" else self._fit._asdict()
        return matrices[which]


@dataclass(frozen=True)
class MatrixMove:
    """The transfer matrix between two bases, and its dual for gradients.

    Weights move by T. A gradient is a linear form on functions; it moves by the transpose of the
    projection back, P^T (so that P T = 1 keeps every directional derivative), and its square
    elementwise, which keeps second moments non-negative.
    """

    old: Basis
    new: Basis
    method: str

    @cached_property
    def matrix(self) -> np.ndarray:
        return transfer.transfer(self.old, self.new, self.method)

    @cached_property
    def _dual(self) -> np.ndarray:
        return transfer.transfer(self.new, self.old, "project").T

    def weights(self, stored: Tensor, *own: Tensor) -> Tensor:
        return apply_matrix(self.matrix, stored)

    def gradient(self, stored: Tensor) -> Tensor:
        return apply_matrix(self._dual, stored)

    def gradient_squared(self, stored: Tensor) -> Tensor:
        return apply_matrix(self._dual**2, stored)

    def error(self, stored: Tensor, *own: Tensor) -> tuple[float, float]:
        gap, size = transfer.error_factor(self.old, self.new, self.matrix), transfer.norm_factor(self.old)
        both = apply_matrix(np.concatenate([gap, size]), stored)
        return float(both[: len(gap)].norm()), float(both[len(gap) :].norm())


def apply_matrix(matrix: np.ndarray, tensor_KX: Tensor) -> Tensor:
    """matrix @ tensor on the leading axis, in float64, returned in the tensor's dtype."""
    factor = torch.tensor(matrix, dtype=torch.float64, device=tensor_KX.device)
    return torch.tensordot(factor, tensor_KX.detach().double(), dims=1).to(tensor_KX.dtype)


def _distinct(basis: Basis, instants: Sequence[Instant]) -> tuple[np.ndarray, tuple[int, ...]]:
    rows, index = transfer.design_rows(basis, instants)
    return rows, tuple(int(i) for i in index)
