"""Memory that a pass has freed and the next one will want again."""

from functools import cache

import numpy as np

_NEARLY_MOST = 31 * 2**20
"""Bytes. The most that glibc raises its threshold to is 32 MiB."""


@cache
def keep_freed_blocks() -> None:
    """Let activations of several MiB stay with the process between passes; costs nothing, once per process.

    glibc gives large blocks back to the system when they are freed, and the next pass takes them anew, page by page,
    which can take as long as its convolutions. How large "large" is, is the size of the largest block that was given
    back so far: a block of which no page is touched raises it. Then at most twice its size is kept. Other C libraries
    do not mind, and a user's own MALLOC_ settings stay in force.
    """
    np.empty(_NEARLY_MOST, np.uint8)
