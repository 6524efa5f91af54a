"""What all figures share: one look, and SVG text that is the same every time."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import StringIO
from math import isfinite
from typing import TYPE_CHECKING
from warnings import catch_warnings, filterwarnings

from anydepth.extras import demand

if TYPE_CHECKING:
    from matplotlib.figure import Figure

INK, SOFT, GRID = "#1b2430", "#5b6675", "#e3e7ec"
PALETTE = ("#0b6e99", "#c2571a", "#2f8f5b", "#7b4fa3", "#b8336a", "#8a6d1d", "#3f5bb5", "#5b6675")
SCHEME_COLOURS = {
    "rk4": "#0b6e99",
    "euler": "#c2571a",
    "midpoint": "#2f8f5b",
    "rk4_38": "#7b4fa3",
    "heun": "#b8336a",
    "ralston": "#8a6d1d",
}
BASIS_COLOURS = {
    "linear": "#0b6e99",
    "constant": "#c2571a",
    "discontinuous": "#2f8f5b",
    "legendre": "#7b4fa3",
    "bspline": "#b8336a",
}
MARKERS = "os^Dvp*X"
PAPER, FAINT = "#ffffff", "#b6bfca"
DARK = {
    PAPER: "#1b2129",
    INK: "#e7ebf0",
    SOFT: "#9ba7b5",
    GRID: "#323b47",
    FAINT: "#566272",
    "#0b6e99": "#63b9dd",
    "#c2571a": "#f0935a",
    "#2f8f5b": "#62c48f",
    "#7b4fa3": "#b794e0",
    "#b8336a": "#f07ba9",
    "#8a6d1d": "#d3b455",
    "#3f5bb5": "#8ea6f5",
}
"""What the colours become on a dark page."""
_LOOK = {
    "font.family": "DejaVu Sans",
    "font.size": 11,
    "axes.titlesize": 11,
    "axes.labelsize": 11,
    "axes.edgecolor": SOFT,
    "axes.labelcolor": INK,
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": GRID,
    "grid.linewidth": 0.8,
    "text.color": INK,
    "xtick.color": SOFT,
    "ytick.color": SOFT,
    "xtick.labelsize": 10,
    "ytick.labelsize": 10,
    "legend.fontsize": 10,
    "legend.frameon": False,
    "lines.linewidth": 1.8,
    "lines.markersize": 5,
    "figure.facecolor": "white",
    "svg.fonttype": "path",
    "svg.hashsalt": "anydepth",
}


class Drawing:
    """A figure being drawn; `svg` is its text when the drawing is done."""

    def __init__(self, figure: "Figure"):
        self.figure = figure
        self.svg = ""


@contextmanager
def drawing(width: float, height: float) -> Iterator[Drawing]:
    """A figure of the given size in inches, in the look of all figures."""
    demand("drawing figures", "matplotlib")
    from matplotlib import rc_context, rcParamsDefault
    from matplotlib.figure import Figure

    defaults = {key: value for key, value in rcParamsDefault.items() if not key.startswith("backend")}
    with rc_context(defaults | _LOOK):  # pyright: ignore[reportArgumentType]
        made = Drawing(Figure(figsize=(width, height), layout="constrained"))
        yield made
        text = StringIO()
        nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        with catch_warnings():
            filterwarnings("ignore", message=".*[Gg]lyph")  # a name in a script that the font lacks is still drawn
            made.figure.savefig(text, format="svg", metadata=nothing)
        svg = text.getvalue()
        made.svg = themed(svg[svg.index("<svg") :])


def themed(svg: str) -> str:
    """The same drawing with colours that follow the reader's choice of light or dark."""
    names = {colour: f"--c{place}" for place, colour in enumerate(DARK)}
    for colour, name in names.items():
        svg = svg.replace(f": {colour}", f": var({name})")
    light, dark = (
        ";".join(f"{names[c]}:{value}" for c, value in pairs) for pairs in (zip(DARK, DARK, strict=True), DARK.items())
    )
    style = f"<style>:root{{{light}}}@media (prefers-color-scheme:dark){{:root{{{dark}}}}}</style>"
    end = svg.index(">") + 1
    return svg[:end] + style + svg[end:]


def plain(text: str) -> str:
    """A name that came from outside, as a label: no formula, and never left out of a legend."""
    shown = text if len(text) <= 40 else f"{text[:39]}…"
    return (" " if shown.startswith("_") else "") + shown.replace("$", r"\$")


def numbers(values: Sequence[float | None]) -> list[float]:
    """Missing values as gaps in a line."""
    return [float("nan") if value is None else value for value in values]


def wide_range(values: Sequence[float | None]) -> bool:
    """Whether positive values differ so much that only a logarithmic axis shows them."""
    finite = [value for value in values if value is not None and isfinite(value)]
    return bool(finite) and min(finite) > 0 and max(finite) > 20 * min(finite)


def rows_without_overlap(places: Sequence[float], width: float) -> list[int]:
    """A row for every label of the given width centred at its place, so that none touches another."""
    ends: list[float] = []
    rows = []
    for place in places:
        row = next((r for r, end in enumerate(ends) if place - width / 2 >= end), len(ends))
        ends = [*ends[:row], place + width / 2, *ends[row + 1 :]]
        rows.append(row)
    return rows
