"""A verdict in one picture: errors over steps, and margins beside errors."""

from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

from anydepth import artifact
from anydepth.depth.schemes import SCHEMES
from anydepth.errors import ConfigError
from anydepth.measure.predictions import Margin
from anydepth.report.drawing import MARKERS, PALETTE, SCHEME_COLOURS, SOFT, drawing, plain
from anydepth.verdict.check import Verdict
from anydepth.verdict.row import SolverRow

if TYPE_CHECKING:
    from matplotlib.axes import Axes

KINDS = ("png", "svg", "pdf")


def kind_of(path: Path) -> str:
    """The format that a file name asks for."""
    kind = path.suffix.lstrip(".").lower()
    if kind not in KINDS:
        raise ConfigError(f"a figure's name must end in .{', .'.join(KINDS)}, got {path.name!r}")
    return kind


def draw_verdict(verdict: Verdict, path: Path) -> None:
    """Write the figure as png, svg or pdf."""
    kind = kind_of(path)
    panels = 1 if verdict.margin is None else 2
    with drawing(5.6 * panels, 4.2) as made:
        axes = made.figure.subplots(1, panels, squeeze=False)[0]
        _errors(axes[0], verdict)
        if verdict.margin is not None:
            _margins(axes[1], verdict.margin)
        image = BytesIO()
        dated = {"png": {}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}[kind]
        made.figure.savefig(image, format=kind, dpi=140, metadata=dated)
    artifact.write_bytes(path, image.getvalue())


def _errors(axes: "Axes", verdict: Verdict) -> None:
    """Distance from the finest outputs over the step; over evaluations where solvers choose their own steps."""
    rows = [row for row in (*verdict.table, *verdict.coarser) if row.error]
    by_step = verdict.step is not None
    for i, scheme in enumerate(dict.fromkeys(row.scheme for row in rows)):
        colour = SCHEME_COLOURS.get(scheme, PALETTE[i % len(PALETTE)])
        points = sorted((_place(row, by_step), row.error or 0.0) for row in rows if row.scheme == scheme)
        label = plain(scheme)
        if by_step and scheme in SCHEMES:
            order = SCHEMES[scheme].order
            label += f" (dashed: order {order})"
            _slope(axes, points, order, colour)
        axes.plot(*zip(*points, strict=True), marker=MARKERS[i % len(MARKERS)], color=colour, label=label)
    trained = verdict.table[0]
    if trained.error:
        place = (_place(trained, by_step), trained.error)
        axes.plot(*place, "o", markersize=13, fillstyle="none", color=SOFT, markeredgewidth=1.5, label="as trained")
    if verdict.critical_step is not None:
        axes.axvline(
            verdict.critical_step, color=SOFT, linestyle=":", label=f"critical step {verdict.critical_step:.3g}"
        )
    axes.set(xlabel="step" if by_step else "evaluations", ylabel="relative error of the outputs")
    axes.set_title(f"Distance from {plain(verdict.reference)}")
    if rows:
        axes.set(xscale="log", yscale="log")
        axes.legend(fontsize=8.5)


def _place(row: SolverRow, by_step: bool) -> float:
    return (row.step or 0.0) if by_step else float(row.nfe)


def _slope(axes: "Axes", points: list[tuple[float, float]], order: int, colour: str) -> None:
    """h^order through the smallest step, far enough to be seen."""
    (first, error), last = points[0], min(points[-1][0], 4 * points[0][0])
    axes.plot([first, last], [error, error * (last / first) ** order], "--", linewidth=1, color=colour, alpha=0.6)


def _margins(axes: "Axes", margin: Margin) -> None:
    """How many predictions have a margin, and an error, of at most so much."""
    shares = [100 * i / (len(margin.margins) - 1) for i in range(len(margin.margins))]
    smallest = min((x for x in (*margin.margins, *margin.errors) if x > 0), default=1e-6)
    for values, label, colour in (
        (margin.errors, "solver error in the scores", PALETTE[1]),
        (margin.margins, "margin", PALETTE[0]),
    ):
        axes.plot([max(x, smallest) for x in values], shares, color=colour, marker=".", label=label)
    axes.set(xscale="log", xlabel="difference of two scores", ylabel="predictions below (%)", ylim=(-2, 102))
    axes.set_title(f"{margin.safe:.1f} % of the predictions are safe by their margins")
    axes.legend(fontsize=8.5)
