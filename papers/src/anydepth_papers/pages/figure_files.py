"""Figures as files, small enough for a repository."""

from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from typing import TYPE_CHECKING, Any

from anydepth_papers.judge.experiment import Findings

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_BYTES = 60_000
DPI = 140
COLOURS = 128
"""Of a PNG that is kept."""


@contextmanager
def drawn(findings: Findings) -> "Iterator[Figure | None]":
    """The figure of a study; None where it has nothing to draw yet."""
    if findings.draw is None:
        yield None
        return
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    with matplotlib.rc_context({"svg.hashsalt": "anydepth", "font.size": 9}):
        figure = findings.draw()
        yield figure
        plt.close(figure)


def rendered(figure: "Figure", kind: str, dpi: float = DPI) -> bytes:
    """The bytes of an `svg` or a `png`; the same each time."""
    image = BytesIO()
    metadata: dict[str, Any] | None = {"Date": None} if kind == "svg" else None
    figure.savefig(image, format=kind, bbox_inches="tight", dpi=dpi, metadata=metadata)
    return image.getvalue()


def small(figure: "Figure") -> tuple[str, bytes]:
    """Name and bytes of at most 60 kB: an SVG, or else a PNG with as many dots as fit."""
    content = rendered(figure, "svg")
    if len(content) <= MOST_BYTES:
        return "figure.svg", content
    dpi = float(DPI)
    content = _few_colours(rendered(figure, "png", dpi))
    while len(content) > MOST_BYTES:
        dpi *= 0.85
        content = _few_colours(rendered(figure, "png", dpi))
    return "figure.png", content


def _few_colours(png: bytes) -> bytes:
    """The same picture with a palette: a third of the bytes."""
    from PIL import Image

    image = BytesIO()
    Image.open(BytesIO(png)).convert("RGB").quantize(COLOURS).save(image, format="png", optimize=True)
    return image.getvalue()
