"""A sweep in one picture: the metric against parameters and against latency, what nothing beats drawn as a line."""

from collections.abc import Sequence
from io import BytesIO
from math import nan
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from anydepth import artifact
from anydepth.deploy.sweeps.result import DepthRow, FormRow, Sweep
from anydepth.measure.paired import RISING, closeness, shown
from anydepth.report.drawing import FAINT, INK, PALETTE, SOFT, drawing, plain, wide_range
from anydepth.report.figures import OWN, short_count

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PANELS = (("parameters", "parameters"), ("latency_ms", "latency (ms)"))
SPAN = 30.0
"""Points below the source that are still shown; forms below are counted."""
UNITS = {
    "accuracy": " (%)",
    "agreement": " with the source (%)",
    "rmse": " (lower is better)",
    "error": ", estimated (%, lower is better)",
}
FRONT, OTHER = PALETTE[0], FAINT


class Spot(NamedTuple):
    """Where a form is in the figure, in per cent from its left and its top, and whether it is on the front."""

    row: FormRow
    left: float
    top: float
    is_front: bool


def sweep_figure(sweep: Sweep) -> str:
    """As SVG text."""
    with drawing(9.6, 4.6) as made:
        _draw(made.figure, sweep)
    return made.svg


def sweep_panels(sweep: Sweep) -> list[tuple[str, list[Spot]]]:
    """The same as a drawing for every cost, with the places of the forms in it."""
    found = []
    for panel in PANELS:
        with drawing(5.3, 4.9) as made:
            _draw(made.figure, sweep, (panel,))
            made.figure.draw_without_rendering()
            spots = _spots(made.figure.axes[0], sweep, panel[0])
        found.append((made.svg, spots))
    return found


def _spots(axes: "Axes", sweep: Sweep, cost: str) -> list[Spot]:
    """Forms that are shown; those of the front last, so that they lie on top."""
    floor, front = _floor(sweep), sweep.front_by(cost)
    seen = sorted((row for row in sweep.rows if _is_seen(row, floor)), key=lambda row: row in front)
    places = axes.transData.transform([(getattr(row, cost), _value(row)) for row in seen])
    shares = axes.figure.transSubfigure.inverted().transform(places)
    return [Spot(row, 100 * x, 100 * (1 - y), row in front) for row, (x, y) in zip(seen, shares.tolist(), strict=True)]


def _value(row: FormRow | DepthRow) -> float:
    """Not a number where it is not known, which is not drawn."""
    return nan if row.value is None else row.value


def draw_sweep(sweep: Sweep, path: Path) -> None:
    """Write the figure as a PNG file."""
    with drawing(9.6, 4.6) as made:
        _draw(made.figure, sweep)
        image = BytesIO()
        made.figure.savefig(image, format="png", dpi=140)
    artifact.write_bytes(path, image.getvalue())


def _draw(figure: "Figure", sweep: Sweep, chosen: tuple[tuple[str, str], ...] = PANELS) -> None:
    panels = figure.subplots(1, len(chosen), sharey=True, squeeze=False)[0]
    floor = _floor(sweep)
    for axes, (cost, label) in zip(panels, chosen, strict=True):
        _panel(axes, sweep, cost, floor)
        axes.set(xlabel=label)
    part = f"{sweep.split} " if sweep.split else ""
    panels[0].set_ylabel(f"{part}{sweep.metric}{UNITS[sweep.metric]}")
    if chosen[0][0] == "parameters":
        panels[0].xaxis.set_major_formatter(lambda value, _: short_count(value))
    _heights(panels[0], sweep, floor)
    handles = panels[-1].get_legend_handles_labels()
    figure.legend(*handles, loc="outside lower center", ncols=2 * len(chosen), columnspacing=1.6)


def _panel(axes: "Axes", sweep: Sweep, cost: str, floor: float | None) -> None:
    front, best = sweep.front_by(cost), sweep.cheapest_close(cost)
    star = f"cheapest within {closeness(sweep.metric)} of it"
    others = [row for row in sweep.rows if row not in front and _is_seen(row, floor)]
    line = [(getattr(row, cost), _value(row)) for row in front if _is_seen(row, floor)]
    axes.scatter(
        [getattr(r, cost) for r in others], [_value(r) for r in others], s=16, color=OTHER, label="other forms"
    )
    axes.plot(
        *zip(*line, strict=True), drawstyle="steps-post", color=FRONT, marker="o", markersize=6, label="Pareto front"
    )
    source = sweep.source
    axes.plot([getattr(source, cost)], [_value(source)], linestyle="none", label="as trained", **OWN)
    if cost == "latency_ms" and sweep.anytime:
        spots = [(row.latency_ms, _value(row)) for row in sweep.anytime]
        axes.plot(*zip(*spots, strict=True), "D", color=PALETTE[2], markersize=6, label="a depth for every example")
    axes.plot([getattr(best, cost)], [_value(best)], "*", markersize=17, color=PALETTE[1], zorder=7, label=star)
    if wide_range([getattr(row, cost) for row in sweep.rows]):
        _logarithmic(axes)
    for row, offset, weight in _labelled(front, best, floor):
        _label(axes, row, cost, offset, weight)
    headline, detail = _takeaway(sweep, best, cost)
    axes.set_title(headline, loc="left", fontsize=13, fontweight="bold", pad=24)
    axes.annotate(detail, (0, 1), xycoords="axes fraction", xytext=(0, 8), textcoords="offset points", color=SOFT)


def _logarithmic(axes: "Axes") -> None:
    """With a few plain numbers below."""
    from matplotlib.ticker import LogLocator, NullFormatter

    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.xaxis.set_major_formatter(lambda value, _: short_count(value))
    axes.xaxis.set_minor_formatter(NullFormatter())


def _takeaway(sweep: Sweep, best: FormRow, cost: str) -> tuple[str, str]:
    """What a reader should take home, and what it rests on."""
    what = "parameters" if cost == "parameters" else "latency"
    share = 100 * getattr(best, cost) / getattr(sweep.source, cost)
    as_trained = f"{shown(sweep.metric, sweep.source.value)} as trained"
    if best.is_source or share >= 99.5:
        return f"No saving of {what}", f"{as_trained}; nothing cheaper is within {closeness(sweep.metric)}"
    return f"{share:.0f} % of the {what} will do", f"{shown(sweep.metric, best.value)} ({as_trained})"


def _labelled(
    front: tuple[FormRow, ...], best: FormRow, floor: float | None
) -> Sequence[tuple[FormRow, tuple[float, float], str]]:
    """The star, and the cheapest form of the front that is shown; where their names go, and how heavy."""
    found = [(best, (12, -15), "bold")]
    cheapest = next((row for row in front if _is_seen(row, floor)), best)
    return found if cheapest is best else [*found, (cheapest, (10, -13), "normal")]


def _label(axes: "Axes", row: FormRow, cost: str, offset: tuple[float, float], weight: str) -> None:
    """To the right of a point and below, on white."""
    axes.annotate(
        plain(row.name),
        (getattr(row, cost), row.value),
        xytext=offset,
        textcoords="offset points",
        ha="left",
        va="center",
        fontsize=10,
        fontweight=weight,
        color=INK,
        bbox={"boxstyle": "round,pad=0.15", "facecolor": "white", "edgecolor": "none", "alpha": 0.8},
        zorder=8,
    )


def _floor(sweep: Sweep) -> float | None:
    """The lowest value shown, of metrics in per cent; None: all are."""
    if sweep.metric not in RISING or sweep.source.value is None:
        return None
    return sweep.source.value - SPAN


def _is_seen(row: FormRow, floor: float | None) -> bool:
    return row.value is not None and (floor is None or row.value >= floor)


def _heights(axes: "Axes", sweep: Sweep, floor: float | None) -> None:
    """Room for labels, and a word about what is not shown."""
    values = [row.value for row in sweep.rows if row.value is not None and _is_seen(row, floor)]
    if sweep.metric not in RISING and wide_range(values):
        axes.set_yscale("log")
        return
    low, high = min(values), max(values)
    pad = 0.12 * max(high - low, 2.0 if sweep.metric in RISING else 1e-9)
    axes.set_ylim(low - pad, high + pad)
    hidden = len(sweep.rows) - len(values)
    if hidden:
        told = f"{hidden} forms are below {floor:.0f} %" if floor is not None else f"{hidden} forms are not finite"
        axes.text(0.98, 0.02, told, transform=axes.transAxes, ha="right", va="bottom", fontsize=9, color=SOFT)
