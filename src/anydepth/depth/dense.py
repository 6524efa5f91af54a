"""Dense output: the solution inside a step, from the slopes of that step alone.

y(t + theta h) = y + h sum_i b_i(theta) k_i with polynomials b_i, derived from the order conditions at theta,
sum_i b_i(theta) Phi_i(tree) = theta^n / gamma(tree), n = vertices(tree)  (Hairer, Norsett, Wanner II.6).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from anydepth.depth.trees import Matrix, density, elementary_weights, vertices

SOLVED = 1e-10
"""Largest residual of equations that count as solvable: rounding of a well-scaled system of a hundred unknowns."""


@dataclass(frozen=True)
class Dense:
    """The polynomials b_i(theta); `coefficients[j - 1, i]` is that of theta^j."""

    order: int
    """For every theta the error of one step is O(h^(order + 1))."""
    coefficients: np.ndarray

    def weights(self, theta: Sequence[float]) -> np.ndarray:
        """b_i(theta), one row for every theta."""
        powers = np.asarray(theta, dtype=float)[:, None] ** np.arange(1, len(self.coefficients) + 1)
        return powers @ self.coefficients


def dense_output(a: Matrix, b: Sequence[Fraction], limit: int) -> Dense:
    """Polynomials of the highest order up to `limit` that the stages allow.

    At both ends they meet the state, and the slope too if the last stage sits at the end. What is left free makes the
    conditions of the next order as nearly true as possible, in the mean over the step.
    """
    for order in range(limit, 0, -1):
        known, equal = _conditions(a, b, order)
        point, free = _solved(known, equal)
        if np.abs(known @ point - equal).max() < SOLVED:
            wanted, goal = _next_order(a, order)
            shift, *_ = np.linalg.lstsq(wanted @ free, goal - wanted @ point, rcond=SOLVED)
            return Dense(order, (point + free @ shift).reshape(order + 1, len(b)))
    raise AssertionError("weights that sum to one allow order 1")


def _conditions(a: Matrix, b: Sequence[Fraction], order: int) -> tuple[np.ndarray, np.ndarray]:
    """Equations that the coefficients, row by row in one vector, must meet."""
    powers, stages = np.arange(1, order + 2), len(b)
    rows, values = [], []
    for tree, phi in elementary_weights(a, order):
        n = vertices(tree)
        rows += [np.kron(powers == j, phi) for j in powers]
        values += [(j == n) / density(tree) for j in powers]
    ends = [(powers == 1, np.eye(stages)[0]), (np.ones(order + 1), np.array([float(x) for x in b]))]
    if sum(a[-1], Fraction(0)) == 1:
        ends.append((powers, np.eye(stages)[-1]))
    for factors, weights in ends:
        rows += [np.kron(factors, one) for one in np.eye(stages)]
        values += list(weights)
    return np.array(rows, dtype=float), np.array(values)


def _next_order(a: Matrix, order: int) -> tuple[np.ndarray, np.ndarray]:
    """The conditions of the next order, at Gauss points of the step."""
    points, weights = np.polynomial.legendre.leggauss(order + 2)
    rows, values = [], []
    for tree, phi in elementary_weights(a, order + 1):
        if vertices(tree) <= order:
            continue
        for theta, weight in zip((points + 1) / 2, np.sqrt(weights), strict=True):
            rows.append(weight * np.kron(theta ** np.arange(1, order + 2), phi))
            values.append(weight * theta ** (order + 1) / density(tree))
    return np.array(rows), np.array(values)


def _solved(matrix: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The smallest solution of linear equations, and a basis of what may be added to it."""
    point, *_ = np.linalg.lstsq(matrix, values, rcond=SOLVED)
    _, sizes, right = np.linalg.svd(np.linalg.qr(matrix, mode="r"))
    return point, right[int((sizes > SOLVED * sizes[0]).sum()) :].T
