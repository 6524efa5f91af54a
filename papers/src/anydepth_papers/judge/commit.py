"""Which code made a result."""

import subprocess
from pathlib import Path
from typing import Any

from anydepth import artifact

PLACES = (Path(__file__).parents[1], Path(artifact.__file__).parents[1])
"""The folders of this package and of anydepth."""


def commit_of_code() -> dict[str, Any]:
    """The commit that the packages are at, and whether their files differ from it; empty outside of a repository."""
    return {
        "commit": _git(PLACES[0], "rev-parse", "HEAD"),
        "is_changed": any(_git(place, "status", "--porcelain", ".") for place in PLACES),
    }


def _git(place: Path, *words: str) -> str:
    """What git says of a folder."""
    try:
        found = subprocess.run(["git", *words], cwd=place, capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return found.stdout.strip()
