"""A kernel on the threads that PyTorch's own operations run on.

PyTorch's builds for Linux compute on the threads of an OpenMP library, which wait for more work before they sleep. A
kernel that asks the same library for threads is helped at once, and does not compete with threads that wait. Where
there is no such library, and in forked processes, which have none of the threads, one thread does all.
"""

import ctypes
import os
from collections.abc import Callable
from functools import cache
from typing import Any

import torch

_is_forked = False


def _note_fork() -> None:
    global _is_forked
    _is_forked = True


os.register_at_fork(after_in_child=_note_fork)


@cache
def _parallel() -> Callable[[int, int, int, int], None] | None:
    """The library's function that runs another on so many threads, and comes back when all are done."""
    try:
        found: Any = ctypes.CDLL(torch._C.__file__).GOMP_parallel
    except (OSError, AttributeError):
        return None
    found.argtypes, found.restype = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint), None
    return found


_CALL = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


@cache
def _alone(kernel: int) -> Callable[[int], None]:
    return _CALL(kernel)


def run(kernel: int, job: int, threads: int) -> None:
    """Call the function at an address with a pointer, on up to so many threads at once; back when all are done."""
    parallel = None if threads < 2 or _is_forked else _parallel()
    if parallel is None:
        _alone(kernel)(job)
    else:
        parallel(kernel, job, threads, 0)
