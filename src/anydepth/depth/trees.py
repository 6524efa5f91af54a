"""Order conditions of Runge-Kutta methods, by rooted trees, in exact rationals.

A tableau has order p when, for every rooted tree with at most p vertices,
sum_i b_i Phi_i(tree) = 1 / gamma(tree)  (Butcher 1963; Hairer, Norsett, Wanner II.2).
"""

from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import cache
from itertools import combinations_with_replacement
from math import prod

Tree = tuple["Tree", ...]
"""A rooted tree is the sorted tuple of its root's subtrees; a leaf is the empty tuple."""

Matrix = Sequence[Sequence[Fraction]]


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


def elementary_weights(a: Matrix, tree: Tree) -> list[Fraction]:
    """Phi_i(tree) for every stage i."""
    branches = [elementary_weights(a, branch) for branch in tree]
    return [
        prod(
            (sum((x * w for x, w in zip(row, branch, strict=False)), Fraction(0)) for branch in branches),
            start=Fraction(1),
        )
        for row in a
    ]


def order_of(a: Matrix, b: Sequence[Fraction], limit: int = 6) -> int:
    """The largest p <= limit for which every order condition up to p holds."""
    for order in range(1, limit + 1):
        for tree in trees(order):
            weights = elementary_weights(a, tree)
            if sum(x * w for x, w in zip(b, weights, strict=True)) != Fraction(1, density(tree)):
                return order - 1
    return limit
