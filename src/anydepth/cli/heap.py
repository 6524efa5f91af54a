"""Memory that a process has freed and will want again."""

import ctypes
import os
import sys

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
"""Names of glibc's settings (malloc.h)."""
_NEVER, _LARGEST = 2**31 - 1, 32 * 2**20


def keep_freed_memory() -> bool:
    """Have the C library keep freed memory for the next step of a training, instead of giving it back to the system
    and taking it anew, page by page. True if it does so; the user's own MALLOC_ settings, and other systems, are left
    alone."""
    if sys.platform != "linux" or any(name.startswith("MALLOC_") for name in os.environ):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    return mallopt is not None and bool(mallopt(_MMAP_THRESHOLD, _LARGEST) and mallopt(_TRIM_THRESHOLD, _NEVER))
