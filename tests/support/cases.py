"""Cases of parametrised tests."""

from collections.abc import Iterable
from typing import Any

import pytest


def slow_but(chosen: list[tuple[Any, ...]], whole: Iterable[tuple[Any, ...]]) -> list[Any]:
    """The chosen cases, and all others of the whole marked as slow."""
    return [*chosen, *(pytest.param(*case, marks=pytest.mark.slow) for case in whole if case not in chosen)]
