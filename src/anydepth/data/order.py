"""Randomness of the data as a pure function of (seed, epoch, index): no stream is consumed, so the order and the
augmentation are the same for any number of workers, threads and ranks, and after any resume."""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

Indices = NDArray[np.int64]
T = TypeVar("T")

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))
_POOL = 50
"""Batches of like length are formed within pools of this many batches, which are random."""


class Draw(NamedTuple):
    """Where in the training a batch belongs; decides every random choice about it."""

    seed: int
    epoch: int


def scramble(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The finaliser of SplitMix64: a bijection of 64-bit words without visible pattern."""
    x = (x ^ (x >> np.uint64(30))) * _MIX[0]
    x = (x ^ (x >> np.uint64(27))) * _MIX[1]
    return x ^ (x >> np.uint64(31))


def words(draw: Draw, indices: Indices, stream: int) -> NDArray[np.uint64]:
    """One random 64-bit word for every example; `stream` tells uses apart."""
    key = np.zeros(1, np.uint64)
    for part in (draw.seed, draw.epoch, stream):
        key = scramble((key ^ np.uint64(part)) * _GOLDEN + _GOLDEN)
    return scramble(key ^ scramble(indices.astype(np.uint64) * _GOLDEN + _GOLDEN))


def uniform(draw: Draw, indices: Indices, stream: int) -> NDArray[np.float64]:
    """One random number in [0, 1) for every example."""
    return (words(draw, indices, stream) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def below(draw: Draw, indices: Indices, stream: int, bound: int) -> Indices:
    """One random whole number in [0, bound) for every example."""
    return (words(draw, indices, stream) % np.uint64(bound)).astype(np.int64)


def permutation(draw: Draw, count: int, stream: int = 0) -> Indices:
    """All examples in random order."""
    return np.argsort(words(draw, np.arange(count), stream), kind="stable")


def batches(draw: Draw, count: int, size: int, lengths: Indices | None = None) -> list[Indices]:
    """The batches of one epoch, all of `size` examples; what is left over comes up in other epochs.

    With `lengths`, examples of like length share a batch, and the batches come in random order.
    """
    size = min(size, count)
    order = permutation(draw, count)[: count - count % size]
    if lengths is not None:
        pools = [order[start : start + _POOL * size] for start in range(0, len(order), _POOL * size)]
        order = np.concatenate([pool[np.argsort(lengths[pool], kind="stable")] for pool in pools])
    parts = [order[start : start + size] for start in range(0, len(order), size)]
    if lengths is None:
        return parts
    return [parts[i] for i in permutation(draw, len(parts), stream=1)]


def split(seed: int, count: int, held_out: int) -> tuple[Indices, Indices]:
    """Examples to train on and examples held out, each in their original order."""
    order = permutation(Draw(seed, 0), count, stream=2)
    return np.sort(order[held_out:]), np.sort(order[:held_out])


def in_steps(
    start: int, total: int, per_epoch: int, order: Callable[[int], Sequence[T]]
) -> Iterator[tuple[int, int, T]]:
    """Step, epoch and batch of every step of a training from `start` on; `order` gives the batches of an epoch."""
    found: Sequence[T] = ()
    for step in range(start, total):
        epoch, place = divmod(step, per_epoch)
        if place == 0 or not len(found):
            found = order(epoch)
        yield step, epoch, found[place]


Given = TypeVar("Given")


def count_or_share(value: Given, handler: Callable[[Given], float]) -> float:
    """A number as given, if it is a share below 1 or a whole number; 1 stays a whole number, and 1.0 is refused.

    `handler` checks the rest. One is the only number that could be either: all examples, or a single one.
    """
    if isinstance(value, float) and (value == 1 or (value > 1 and value % 1)):
        raise ValueError("a share must be below 1 and a count a whole number; write 1, not 1.0, for one example")
    found = handler(value)
    return 1 if isinstance(value, int) and value == 1 else found
