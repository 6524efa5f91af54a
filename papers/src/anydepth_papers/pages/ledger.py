"""The claims ledger: all pages of the evidence."""

import sys
from os.path import relpath
from pathlib import Path

from anydepth import artifact
from anydepth_papers.pages.changed import changed_page
from anydepth_papers.pages.entries import entries
from anydepth_papers.pages.front_page import PAGES, overview
from anydepth_papers.pages.paper_page import paper_page

BEFORE = "before.json"
"""The verdicts before the present rules."""


def pages(evidence: Path, folder: Path) -> dict[str, str]:
    """All pages by file name, as they are in `folder`."""
    found = entries(evidence)
    before = artifact.read_json(evidence / BEFORE) if (evidence / BEFORE).exists() else {}
    figures = {e.name: Path(relpath(e.figure, folder)).as_posix() for e in found if e.figure is not None}
    return {
        "README.md": overview(found),
        **{file: paper_page(paper, found, figures) for paper, file in PAGES.items()},
        "changed-verdicts.md": changed_page(found, before),
    }


if __name__ == "__main__":
    for name, text in pages(Path(sys.argv[1]), Path(sys.argv[2])).items():
        artifact.write_bytes(Path(sys.argv[2]) / name, text.encode())
