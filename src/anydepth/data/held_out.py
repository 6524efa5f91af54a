"""How many training examples are held out: a count, or a share of them."""

from collections.abc import Callable
from typing import Any


def count_or_share(value: object, handler: Callable[[Any], float]) -> float:
    """A number as given, if it is a share below 1 or a whole number; 1 stays a whole number, and 1.0 is refused.

    `handler` checks the rest. One is the only number that could be either: all examples, or a single one.
    """
    if isinstance(value, float) and (value == 1 or (value > 1 and value % 1)):
        raise ValueError("a share must be below 1 and a count a whole number; write 1, not 1.0, for one example")
    found = handler(value)
    return 1 if isinstance(value, int) and value == 1 else found
