"""Transfer matrices: every change of basis is one small matrix T[k_new, k_old]."""

import itertools
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from math import ceil
from typing import NamedTuple

import numpy as np
from numpy.polynomial.legendre import leggauss

from anydepth.depth.bases.base import Basis
from anydepth.depth.times import Instant
from anydepth.errors import ConfigError, choices

NESTED = 1e-10
"""Relative change of a function below which one basis counts as contained in another."""

RANK = 0.02
"""Singular values of a design matrix below this share of the largest count as zero in a fit.

A function that the samples hardly see keeps its old coefficient: fitting it would multiply the noise of
the samples by the inverse of its singular value wherever they do not look."""


def interpolate(old: Basis, new: Basis) -> np.ndarray:
    """Coefficients whose function agrees with the old one at the new control points.

    T = V^-1 Phi_old(control points), V = Phi_new(control points)  (Stateful ODE-Nets eq 7).
    """
    if old == new:
        return np.eye(old.size)
    values = old.evaluate(new.control_points)
    vandermonde = new.evaluate(new.control_points)
    return values if is_identity(vandermonde) else np.linalg.solve(vandermonde, values)


def project(old: Basis, new: Basis) -> np.ndarray:
    """Least squares over depth: T = H^-1 R with H = <new, new>, R = <new, old>.

    (Stateful ODE-Nets eq 8, 20-24.) Solved by QR of the weighted quadrature samples, which is
    the same thing with half the loss of digits.
    """
    if old == new:
        return np.eye(old.size)
    points, weights = quadrature(old, new)
    root = np.sqrt(weights)[:, None]
    q, r = np.linalg.qr(root * new.evaluate(points))
    return np.linalg.solve(r, q.T @ (root * old.evaluate(points)))


METHODS = {"interpolate": interpolate, "project": project}


@lru_cache(maxsize=512)
def transfer(old: Basis, new: Basis, method: str) -> np.ndarray:
    """The matrix of the named method, read-only."""
    if method not in METHODS:
        raise ConfigError(f"unknown transfer method {method!r}; {choices(method, METHODS)}")
    matrix = METHODS[method](old, new)
    matrix.setflags(write=False)
    return matrix


def refine(old: Basis) -> tuple[Basis, np.ndarray]:
    """The next nested basis and the exact matrix onto it."""
    new = old.refined()
    return new, transfer(old, new, "interpolate")


def quadrature(*bases: Basis) -> tuple[list[Instant], np.ndarray]:
    """Gauss points and weights, exact for products of two of the bases' functions.

    The cells are the union of all breakpoints, so no integrand has a kink inside a cell.
    """
    knots = sorted({knot for basis in bases for knot in basis.breakpoints})
    degree = 2 * max(basis.degree for basis in bases)
    nodes, weights = leggauss(ceil((degree + 1) / 2))
    points: list[Instant] = []
    for start, end in itertools.pairwise(knots):
        points += [Instant(start + (end - start) * Fraction((1.0 + node) / 2.0)) for node in nodes]
    widths = np.array([float(end - start) for start, end in itertools.pairwise(knots)])
    return points, np.outer(widths, weights / 2.0).ravel()


def error_factor(old: Basis, new: Basis, matrix: np.ndarray) -> np.ndarray:
    """Upper triangle E with |E c| = L2 distance over depth between the old function and the new one."""
    points, weights = quadrature(old, new)
    gap = old.evaluate(points) - new.evaluate(points) @ matrix
    return np.asarray(np.linalg.qr(np.sqrt(weights)[:, None] * gap, mode="r"))


def norm_factor(basis: Basis) -> np.ndarray:
    """Upper triangle N with |N c| = L2 norm of the function over depth."""
    points, weights = quadrature(basis)
    return np.asarray(np.linalg.qr(np.sqrt(weights)[:, None] * basis.evaluate(points), mode="r"))


@lru_cache(maxsize=512)
def is_nested(old: Basis, new: Basis) -> bool:
    """Whether every function of `old` is one of `new`."""
    gap = error_factor(old, new, transfer(old, new, "interpolate"))
    return bool(np.linalg.norm(gap) <= NESTED * np.linalg.norm(norm_factor(old)))


class Fit(NamedTuple):
    """Coefficients from samples: new = from_samples @ samples + keep_old @ old.

    The minimum-norm update of the old coefficients that fits the samples in least squares;
    `keep_old` is None when the samples determine everything.
    """

    from_samples: np.ndarray
    keep_old: np.ndarray | None


def fit(design: np.ndarray) -> Fit:
    """The fit of samples taken where `design` [sample, k] was evaluated (Stateful ODE-Nets eq 13)."""
    size = design.shape[1]
    if is_one_hot(design):
        counts = design.sum(axis=0)
        average = design.T / np.maximum(counts, 1.0)[:, None]
        return Fit(average, None if counts.all() else np.diag((counts == 0).astype(float)))
    inverse = np.linalg.pinv(design, rcond=RANK)
    rank = int((np.linalg.svd(design, compute_uv=False) > RANK * np.linalg.norm(design, 2)).sum())
    return Fit(inverse, None if rank == size else np.eye(size) - inverse @ design)


def is_one_hot(design: np.ndarray) -> bool:
    """Whether every row picks exactly one coefficient."""
    return bool(((design == 0.0) | (design == 1.0)).all() and (design.sum(axis=1) == 1.0).all())


def is_identity(matrix: np.ndarray) -> bool:
    return matrix.shape[0] == matrix.shape[1] and bool((matrix == np.eye(len(matrix))).all())


def design_rows(basis: Basis, instants: Sequence[Instant]) -> tuple[np.ndarray, np.ndarray]:
    """The distinct rows of the design matrix, and which of them each instant reads."""
    rows, index = np.unique(basis.evaluate(instants), axis=0, return_inverse=True)
    return rows, index.reshape(-1)
