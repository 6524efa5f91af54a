"""`python tests/lowest.py`: the oldest version that pyproject.toml admits of every package, as constraints for pip."""

import re
import tomllib
from pathlib import Path

PROJECT = Path(__file__).parents[1] / "pyproject.toml"
TOOLS = ("dev", "docs")
"""Extras for developers, whose newest packages do."""


def lowest() -> list[str]:
    """`name==version` of every dependency, those of the extras for users too."""
    project = tomllib.loads(PROJECT.read_text())["project"]
    extras = [some for extra, some in project["optional-dependencies"].items() if extra not in TOOLS]
    needs = [need for some in (project["dependencies"], *extras) for need in some]
    found = [re.fullmatch(r"([\w.-]+)>=([\w.]+)", need) for need in needs]
    return sorted({f"{need[1]}=={need[2]}" for need in found if need})


if __name__ == "__main__":
    print(*lowest(), sep="\n")  # noqa: T201
