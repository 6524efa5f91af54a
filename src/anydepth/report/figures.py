"""The figures of a report, as SVG text."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from anydepth.measure.form_curves import Compressed, CompressionCurve, SolverGrid, SolverPoint
from anydepth.report.curves import Curves, Points
from anydepth.report.drawing import (
    BASIS_COLOURS,
    GRID,
    INK,
    MARKERS,
    PALETTE,
    SCHEME_COLOURS,
    SOFT,
    drawing,
    numbers,
    plain,
    rows_without_overlap,
    wide_range,
)
from anydepth.report.weight_lines import WeightLines
from anydepth.report.yardstick import Yardstick

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH = 6.3
OWN = {"marker": "o", "markersize": 13, "fillstyle": "none", "markeredgewidth": 1.8, "color": INK, "zorder": 6}
LEAST_POINTS = 6.0
LABEL_SHARE = 0.185
"""Width of a refinement's label as a share of the axis."""


def training_figure(curves: Curves) -> str:
    """Loss and metric over epochs, with marks where the model grew, and its growth in a strip below."""
    yardstick = Yardstick(curves.metric)
    rows = rows_without_overlap([place for place, _ in curves.marks], LABEL_SHARE * curves.end)
    with drawing(WIDTH, 6.3 + 0.4 * max(rows)) as made:
        loss, metric, growth = made.figure.subplots(3, 1, sharex=True, height_ratios=(3, 3, 1.3))
        _pair(loss, curves.train_loss, curves.validation_loss)
        _pair(metric, curves.train_metric, curves.validation_metric)
        loss.set(ylabel="loss", xlim=(-0.02 * curves.end, 1.02 * curves.end))
        metric.set(ylabel=yardstick.axis())
        if wide_range([value for _, value in curves.train_loss]):
            loss.set_yscale("log")
        if not yardstick.is_percent and wide_range([value for _, value in curves.train_metric]):
            metric.set_yscale("log")
        _growth(growth, curves)
        for axes in (loss, metric, growth):
            for place, _ in curves.marks[1:]:
                axes.axvline(place, color=SOFT, linewidth=0.9, linestyle=(0, (4, 3)), zorder=1)
        for (place, label), row in zip(curves.marks, rows, strict=True):
            _mark(loss, place, label, row)
        _legend(made.figure, metric)
    return made.svg


def _pair(axes: "Axes", train: Points, validation: Points) -> None:
    styles = ((train, "training", SOFT, 1.4), (validation, "validation", PALETTE[0], 2.0))
    for points, label, colour, width in styles:
        if points:
            marker = "o" if len(points) < 40 else ""
            axes.plot(
                *zip(*points, strict=True), color=colour, linewidth=width, label=label, marker=marker, markersize=3
            )


def _growth(axes: "Axes", curves: Curves) -> None:
    right = axes.twinx()
    right.spines["right"].set_visible(True)
    right.grid(False)
    series = ((axes, curves.nfe, "NFE", PALETTE[0], "-"), (right, curves.parameters, "parameters", PALETTE[1], "--"))
    for side, points, label, colour, line in series:
        places, values = zip(*points, strict=True)
        side.step((0, *places), (values[0], *values), where="pre", color=colour, linestyle=line)
        side.set_ylabel(label, color=colour)
        side.tick_params(axis="y", colors=colour)
        side.set_ylim(0, 1.15 * max(*values, 1))
        side.locator_params(axis="y", nbins=3)
    right.yaxis.set_major_formatter(lambda value, _: short_count(value))
    axes.set_xlabel("epoch")
    axes.xaxis.get_major_locator().set_params(integer=True)  # pyright: ignore[reportCallIssue]


def _mark(axes: "Axes", place: float, label: str, row: int) -> None:
    """A label above the axes; labels in higher rows keep off those below."""
    axes.annotate(
        label,
        (place, 1.0),
        xycoords=("data", "axes fraction"),
        xytext=(0, 5 + 28 * row),
        textcoords="offset points",
        ha="center",
        va="bottom",
        fontsize=9,
        color=SOFT,
        linespacing=1.1,
        arrowprops={"arrowstyle": "-", "color": SOFT, "linewidth": 0.7, "shrinkA": 0, "shrinkB": 0} if row else None,
    )


def solver_figure(grid: SolverGrid, yardstick: Yardstick, reference: float | None, part: str) -> str:
    """The metric over steps, one line per scheme; what was trained is circled."""
    with drawing(WIDTH, 4.4) as made:
        axes = made.figure.subplots()
        _reference(axes, yardstick, reference)
        for place, (scheme, points) in enumerate(grid.by_scheme().items()):
            _solver_line(axes, points, scheme, place)
        if grid.adaptive:
            _solver_line(axes, grid.adaptive, f"{grid.adaptive[0].scheme} (adaptive)", 6)
        _solver_axes(axes, grid, yardstick, part)
        trained = [(p.steps, p.value) for p in grid.points if p.is_trained and p.value is not None]
        _circle(axes, trained, yardstick.base)
        _lost(axes, [(point.steps, point.value) for point in grid.points])
        _ample(axes, yardstick)
        _legend(made.figure, axes)
    return made.svg


def _solver_line(axes: "Axes", points: Sequence[SolverPoint], label: str, place: int) -> None:
    found = sorted((point.steps, float("nan") if point.value is None else point.value) for point in points)
    order = 5 if any(point.is_trained for point in points) else 3
    colour = SCHEME_COLOURS.get(points[0].scheme, PALETTE[place % len(PALETTE)])
    axes.plot(*zip(*found, strict=True), marker=MARKERS[place % len(MARKERS)], color=colour, label=label, zorder=order)


def _solver_axes(axes: "Axes", grid: SolverGrid, yardstick: Yardstick, part: str) -> None:
    axes.set(xscale="log", xlabel="steps in depth at run time", ylabel=yardstick.axis(part))
    if not yardstick.is_percent and wide_range([point.value for point in grid.points]):
        axes.set_yscale("log")
    steps = sorted({point.steps for point in grid.fixed})
    shown = steps if len(steps) <= 12 else steps[:: len(steps) // 8]
    axes.set_xticks(shown, [str(count) for count in shown])
    axes.minorticks_off()


def compression_figure(curve: CompressionCurve, yardstick: Yardstick, reference: float | None, part: str) -> str:
    """The metric over parameters kept, one line per target basis; what was trained is circled."""
    with drawing(WIDTH, 4.4) as made:
        axes = made.figure.subplots()
        _reference(axes, yardstick, reference)
        for place, basis in enumerate(dict.fromkeys(point.basis for point in curve.points)):
            mine = [point for point in curve.points if point.basis == basis]
            _basis_line(axes, [p for p in mine if not p.is_shortened], f"{plain(basis)}", place, "-")
            _basis_line(axes, [p for p in mine if p.is_shortened], f"{plain(basis)}, steps = size", place, ":")
        axes.set(xlabel="parameters of the whole model", ylabel=yardstick.axis(part))
        axes.xaxis.set_major_formatter(lambda value, _: short_count(value))
        if not yardstick.is_percent and wide_range([point.value for point in curve.points]):
            axes.set_yscale("log")
        _circle(axes, [] if reference is None else [(curve.parameters, reference)], yardstick.base)
        _lost(axes, [(point.parameters, point.value) for point in curve.points])
        _ample(axes, yardstick)
        _legend(made.figure, axes)
    return made.svg


def _basis_line(axes: "Axes", points: Sequence[Compressed], label: str, place: int, line: str) -> None:
    if points:
        colour = BASIS_COLOURS.get(points[0].basis, PALETTE[(place + 5) % len(PALETTE)])
        fill = "full" if line == "-" else "none"
        places, values = [point.parameters for point in points], numbers([point.value for point in points])
        style = {"marker": MARKERS[place], "color": colour, "fillstyle": fill, "zorder": 5 - place}
        axes.plot(places, values, line, label=label, **style)


def _reference(axes: "Axes", yardstick: Yardstick, reference: float | None) -> None:
    """A band of what is close to the model as trained."""
    if reference is not None:
        label = f"within {yardstick.margin} of {yardstick.base}"
        ends = (reference, yardstick.border(reference))
        axes.axhspan(*ends, color=GRID, alpha=0.9, zorder=0.5, linewidth=0, label=label)


def _ample(axes: "Axes", yardstick: Yardstick) -> None:
    """At least a few points of height, so that chance does not look like an effect."""
    axes.use_sticky_edges = False
    axes.autoscale_view()
    low, high = axes.get_ylim()
    extra = LEAST_POINTS - (high - low)
    if yardstick.is_percent and extra > 0:
        axes.set_ylim(low - 0.9 * extra, high + 0.1 * extra)


def _legend(figure: "Figure", axes: "Axes", columns: int = 3) -> None:
    """Below the axes, where it hides nothing."""
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=columns, columnspacing=1.4)


def _circle(axes: "Axes", points: Iterable[tuple[float, float]], label: str) -> None:
    for place, value in points:
        axes.plot([place], [value], linestyle="none", label=label, **OWN)


def _lost(axes: "Axes", points: Iterable[tuple[float, float | None]]) -> None:
    """Crosses at the foot of the axes for what is not finite."""
    places = sorted({place for place, value in points if value is None})
    if places:
        foot = axes.get_xaxis_transform()
        label = "not finite"
        axes.plot(places, [0.02] * len(places), "x", color=PALETTE[4], transform=foot, label=label, clip_on=False)


def weight_figure(lines: WeightLines) -> str:
    """A few coordinates of one tensor over depth."""
    with drawing(3.5, 2.6) as made:
        axes = made.figure.subplots()
        for place, line in enumerate(lines.lines):
            axes.plot(lines.depths, line, color=PALETTE[place % len(PALETTE)], linewidth=1.5)
        axes.set_title(f"{plain(lines.tensor)}\nroughness {lines.roughness:.2g}", loc="left", fontsize=10.5)
        axes.set(xlabel="depth t", xlim=(0, 1))
        axes.set_xticks((0, 0.5, 1), ("0", "½", "1"))
        axes.locator_params(axis="y", nbins=4)
    return made.svg


def overview_figure(series: dict[str, Points], yardstick: Yardstick, part: str) -> str:
    """One curve per run."""
    with drawing(WIDTH, 4.2 + 0.22 * ((len(series) + 1) // 2)) as made:
        axes = made.figure.subplots()
        for place, (name, points) in enumerate(series.items()):
            line = ("-", "--", ":", "-.")[place // len(PALETTE) % 4]
            colour = PALETTE[place % len(PALETTE)]
            axes.plot(*zip(*points, strict=True), line, color=colour, label=plain(name), marker="o", markersize=3)
        axes.set(xlabel="epoch", ylabel=yardstick.axis(part))
        values = [value for points in series.values() for _, value in points]
        if not yardstick.is_percent and wide_range(values):
            axes.set_yscale("log")
        axes.xaxis.get_major_locator().set_params(integer=True)  # pyright: ignore[reportCallIssue]
        _legend(made.figure, axes, 2)
    return made.svg


def short_count(value: float) -> str:
    """24,406 as 24.4 k."""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value:.3g}"
