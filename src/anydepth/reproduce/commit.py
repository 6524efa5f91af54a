"""Which code made a result."""

import subprocess
from pathlib import Path
from typing import Any

from anydepth import artifact


def commit_of_code() -> dict[str, Any]:
    """The commit that the package is at, and whether its files differ from it; empty outside of a repository."""
    return {"commit": _git("rev-parse", "HEAD"), "is_changed": bool(_git("status", "--porcelain", "."))}


def _git(*words: str) -> str:
    """What git says of the package's own folder."""
    package = Path(artifact.__file__).parents[1]
    try:
        found = subprocess.run(["git", *words], cwd=package, capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return found.stdout.strip()
