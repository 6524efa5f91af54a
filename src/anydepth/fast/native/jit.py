"""Compiled functions that are kept on disk in the user's cache."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

from numba import config, njit

OPTIONS: dict[str, Any] = {"fastmath": {"contract"}, "error_model": "numpy", "nogil": True}
"""Sums are not reordered: results do not depend on the machine's vectors more than they must."""

_COMPILED = ("codes", "elementwise", "intrinsics", "jit", "kernels", "products", "scalars", "unit_kernel")
"""The source files of the kernels."""


def folder() -> Path:
    """Where compiled kernels are kept: one folder for every state of their source files."""
    home = os.environ.get("ANYDEPTH_CACHE") or os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    here = Path(__file__).parent
    digest = sha256(b"".join((here / f"{name}.py").read_bytes() for name in _COMPILED)).hexdigest()[:16]
    return Path(home).expanduser() / "anydepth" / "native" / digest


@contextmanager
def _cache_in(path: Path) -> Iterator[None]:
    before = config.CACHE_DIR  # pyright: ignore[reportAttributeAccessIssue]
    config.CACHE_DIR = before or str(path)  # pyright: ignore[reportAttributeAccessIssue]
    try:
        yield
    finally:
        config.CACHE_DIR = before  # pyright: ignore[reportAttributeAccessIssue]


def kept(function: Callable[..., object]) -> Any:
    """A function compiled once per machine; where nothing can be written, once per process."""
    try:
        with _cache_in(folder()):
            return njit(cache=True, **OPTIONS)(function)
    except (RuntimeError, OSError):  # no folder that can be written to
        return njit(**OPTIONS)(function)


def is_at_hand(function: Any, signature: tuple) -> bool:
    """Whether a compiled function is in this process or on disk."""
    if signature in function.overloads:
        return True
    try:
        cache = function._cache
        key = cache._index_key(signature, function.targetctx.codegen())
        return key in cache._cache_file._load_index()
    except (AttributeError, OSError, ValueError):  # no cache, or another numba
        return False
