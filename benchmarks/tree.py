"""The tree of docs/architecture.md: the files of every room, rooms in the order of the layers that `make lint` checks.

python benchmarks/tree.py [--write]        print it, or put it in its place in the page
python benchmarks/tree.py --sizes          lines of every room
"""

import argparse
import re
import sys
import textwrap
import tomllib
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src/anydepth"
PAGE = ROOT / "docs/architecture.md"
WIDTH, INDENT = 120, 22
BEGIN = "The files, top layer first"


def rooms() -> list[str]:
    """Folders of the package by layer, each followed by the folders in it; files outside of any folder last."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    layers = [name.split(".")[1] for layer in contracts[0]["layers"] for name in layer.split(" | ")]
    found: list[str] = []
    for name in layers:
        top = PACKAGE / name
        found += [str(path.relative_to(PACKAGE)) for path in (top, *sorted(top.rglob("*/"))) if files(path)]
    return [*found, ""]


def files(room: Path) -> list[Path]:
    return sorted(path for path in room.glob("*.py") if not path.name.startswith("__"))


def shown(room: str) -> str:
    names = " ".join(path.stem.removesuffix("_command") for path in files(PACKAGE / room))
    head = f"{room}/" if room else ""
    wrapped = textwrap.wrap(names, WIDTH - INDENT, break_on_hyphens=False)
    return "\n".join(f"{head if row == 0 else '':{INDENT}}{line}" for row, line in enumerate(wrapped))


def tree() -> str:
    return "\n".join(shown(room) for room in rooms())


def page_with(text: str, drawn: str) -> str:
    """The page with this tree in the block of code that follows the words before it."""
    return re.sub(rf"({BEGIN}.*?```\n).*?(\n```)", lambda found: found[1] + drawn + found[2], text, count=1, flags=re.S)


def sizes() -> str:
    lines = Counter[str]()
    for path in PACKAGE.rglob("*.py"):
        inside = path.relative_to(PACKAGE).parts
        lines[inside[0] if len(inside) > 1 else "outside"] += len(path.read_text().splitlines())
    total = ("all", lines.total())
    return "\n".join(f"{name:14}{count:7,}" for name, count in [*sorted(lines.items()), total])


def main() -> int:
    reader = argparse.ArgumentParser(description=__doc__)
    reader.add_argument("--write", action="store_true", help="put the tree into docs/architecture.md")
    reader.add_argument("--sizes", action="store_true", help="print the lines of every room instead")
    given = reader.parse_args()
    if given.write:
        PAGE.write_text(page_with(PAGE.read_text(), tree()))
    else:
        sys.stdout.write((sizes() if given.sizes else tree()) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
