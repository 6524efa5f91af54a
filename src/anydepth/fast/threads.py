"""Threads of the maths library: small products are slower on several of them than on one."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

SMALL = 1_000_000
"""Multiplications in a product below which sharing it among threads costs more than it saves."""


@contextmanager
def threads_for(multiplications: int) -> Iterator[None]:
    """One thread of the maths library for small products, and as many as before afterwards.

    PyTorch keeps the number per thread of the program: others that are at work do not notice.
    """
    before = torch.get_num_threads()
    if multiplications >= SMALL or before == 1:
        yield
        return
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
