"""Order conditions of Runge-Kutta methods, by rooted trees.

A tableau has order p when, for every rooted tree with at most p vertices,
sum_i b_i Phi_i(tree) = 1 / gamma(tree)  (Butcher 1963; Hairer, Norsett, Wanner II.2).
"""

from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import cache
from itertools import combinations_with_replacement
from math import prod

import numpy as np

Tree = tuple["Tree", ...]
"""A rooted tree is the sorted tuple of its root's subtrees; a leaf is the empty tuple."""

Matrix = Sequence[Sequence[Fraction]]

ROUNDING = 1e-12
"""A condition counts as met within this: tableaus of high order are published as rounded numbers."""


@cache
def trees(vertices: int) -> tuple[Tree, ...]:
    """All rooted trees with the given number of vertices."""
    return tuple(sorted(set(_forests(vertices - 1, vertices - 1))))


def _forests(vertices: int, largest: int) -> Iterator[Tree]:
    if vertices == 0:
        yield ()
    for size in range(min(vertices, largest), 0, -1):
        for count in range(1, vertices // size + 1):
            for same in combinations_with_replacement(trees(size), count):
                for rest in _forests(vertices - size * count, size - 1):
                    yield tuple(sorted(same + rest))


def vertices(tree: Tree) -> int:
    return 1 + sum(vertices(branch) for branch in tree)


def density(tree: Tree) -> int:
    """gamma(tree)."""
    return vertices(tree) * prod(density(branch) for branch in tree)


def elementary_weights(a: Matrix, order: int) -> list[tuple[Tree, np.ndarray]]:
    """Every tree with at most `order` vertices, and its Phi_i for every stage i."""
    matrix = np.array([[float(x) for x in row] + [0.0] * (len(a) - len(row)) for row in a])
    found: dict[Tree, np.ndarray] = {}
    for size in range(1, order + 1):
        for tree in trees(size):
            found[tree] = prod((matrix @ found[branch] for branch in tree), start=np.ones(len(a)))
    return list(found.items())


def order_of(a: Matrix, b: Sequence[Fraction], limit: int = 9) -> int:
    """The largest p <= limit for which every order condition up to p holds."""
    weights = np.array([float(x) for x in b])
    for order in range(1, limit + 1):
        for tree, phi in elementary_weights(a, order):
            if vertices(tree) == order and abs(weights @ phi - 1 / density(tree)) > ROUNDING:
                return order - 1
    return limit
