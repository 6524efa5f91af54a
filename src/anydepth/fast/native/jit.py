"""Compiled functions that are kept on disk in the user's cache."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

from numba import config, njit, types
from numba.core.ccallback import CFunc
from numba.core.sigutils import normalize_signature

OPTIONS: dict[str, Any] = {"fastmath": {"contract"}, "error_model": "numpy", "nogil": True}
"""Sums are not reordered: results do not depend on the machine's vectors more than they must."""

_COMPILED = (
    "codes",
    "elementwise",
    "intrinsics",
    "jit",
    "kernels",
    "layer_norms",
    "products",
    "scalars",
    "unit_kernel",
)
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


def callback(function: Callable[..., Any]) -> tuple[CFunc, bool]:
    """A function of a pointer to whole numbers as one that C can call, and whether it was on disk; to be compiled."""
    made = CFunc(function, normalize_signature(types.void(types.CPointer(types.int64))), {}, {**OPTIONS})
    try:
        with _cache_in(folder()):
            made.enable_caching()
        key = made._cache._index_key(made._sig, made._targetdescr.target_context.codegen())  # pyright: ignore
        return made, key in made._cache._cache_file._load_index()  # pyright: ignore[reportAttributeAccessIssue]
    except (RuntimeError, OSError, AttributeError, ValueError):  # no folder that can be written to, or another numba
        return made, False
