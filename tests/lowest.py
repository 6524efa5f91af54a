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
    found = [need for need in (re.fullmatch(r"([\w.-]+)>=([\w.]+)", need) for need in needs) if need]
    bounds: dict[str, str] = {}
    for name, version in (need.groups() for need in found):
        bounds[name] = max(version, bounds.get(name, "0"), key=_parts)
    return sorted(f"{name}=={version}" for name, version in bounds.items())


def _parts(version: str) -> list[int]:
    return [int(part) for part in version.split(".")]


if __name__ == "__main__":
    print(*lowest(), sep="\n")  # noqa: T201
