"""The sections of a run's page that show what was measured."""

from anydepth.measure.form_curves import Compressed, SolverPoint
from anydepth.report import figures
from anydepth.report.advice import compression_verdict
from anydepth.report.choices import chosen_form, on_which
from anydepth.report.curves import read_curves
from anydepth.report.findings import Findings, Measured
from anydepth.report.html import NONE, Markup, join, picture, section, table, tag
from anydepth.report.yardstick import Yardstick

SHADES = (0.25, 1.0, 3.0, 10.0)
"""Upper ends, in margins, of the shades of a cell; beyond them two more: worse, and not finite."""

_SOLVER_WORDS = (
    "Each point is this model, its weights unchanged, run with another Runge-Kutta scheme or another number "
    "of steps. Where the lines stay together the weights are a function of depth; a peak at the model's own solver "
    "alone means that they belong to that one network."
)
_WEIGHT_WORDS = (
    "A few coordinates of some tensors of each block, as functions of depth. Roughness is the length of a tensor's "
    "way over depth, divided by its mean size: the smaller, the smoother."
)


def training(found: Findings) -> Markup:
    curves = read_curves(found.metrics, found.yardstick.metric)
    if curves is None:
        made = "made from another run" if found.run.record.parent else "not trained yet"
        return section("Training", "training", tag("p", f"There are no curves: this run was {made}.", class_="soft"))
    grown = len(curves.marks) - 1
    times = "once" if grown == 1 else f"{grown} times"
    told = f"The model grew {times} while it trained, at the dashed lines." if grown else None
    drawn = picture(figures.training_figure(curves), "Loss and metric over epochs, with the growth of the model")
    return section("Training", "training", tag("p", told) if told else None, drawn)


def solvers(found: Findings) -> Markup:
    title, anchor = "The same weights with other solvers", "solvers"
    if found.measured is None:
        return section(title, anchor, _missing(found))
    yardstick, grid = found.yardstick, found.measured.grid
    drawn = picture(
        figures.solver_figure(grid, yardstick, found.reference, found.split),
        f"{yardstick.metric} over the number of steps, one line per scheme; the model's own is circled",
    )
    steps = sorted({point.steps for point in grid.fixed})
    rows = [
        [tag("th", scheme, scope="row"), *(_solver_cell(point, found) for point in points)]
        for scheme, points in grid.by_scheme().items()
    ]
    return section(
        title,
        anchor,
        tag("p", _SOLVER_WORDS),
        drawn,
        tag("h3", f"{yardstick.axis(found.split)} by scheme and steps"),
        table(["steps", *map(str, steps)], rows, class_="numbers tiled"),
        _tolerances(found, found.measured),
        _key(yardstick),
    )


def _tolerances(found: Findings, measured: Measured) -> Markup | None:
    if not measured.grid.adaptive:
        return None
    rows = [
        [tag("th", f"{p.rtol:.0e}", scope="row"), f"{p.steps:,}", f"{p.nfe:,}", _solver_cell(p, found)]
        for p in measured.grid.adaptive
    ]
    head = ["rtol", "steps taken", "NFE", found.yardstick.metric]
    title = tag("h3", f"{measured.grid.adaptive[0].scheme} with other tolerances")
    return join([title, table(head, rows, class_="numbers tiled")])


def _solver_cell(point: SolverPoint, found: Findings) -> Markup:
    return _graded(found, point.value, point.is_trained, f"{point.label}, {point.nfe:,} unit evaluations")


def _graded(found: Findings, value: float | None, is_trained: bool = False, title: str | None = None) -> Markup:
    """A cell shaded by how much is lost."""
    classes = [] if found.reference is None else [f"d{_shade(found.yardstick.lost(value, found.reference))}"]
    if is_trained:
        classes.append("trained")
    return tag("td", found.yardstick.number(value), class_=" ".join(classes) or None, title=title)


def _shade(lost: float) -> int:
    if lost == float("inf"):
        return len(SHADES) + 1
    return next((place for place, end in enumerate(SHADES) if lost <= end), len(SHADES))


def _key(yardstick: Yardstick) -> Markup:
    """What the shades mean."""
    told = [*(f"worse by at most {yardstick.margins(end)}" for end in SHADES), "worse than that", "not finite"]
    shades = (tag("span", tag("i", class_=f"d{place}"), text) for place, text in enumerate(told))
    return tag("div", *shades, tag("span", tag("i", class_="trained"), yardstick.base), class_="key")


def compression(found: Findings) -> Markup:
    title, anchor = "The same weights with fewer parameters", "compression"
    if found.measured is None:
        return section(title, anchor, _missing(found))
    yardstick, curve = found.yardstick, found.measured.curve
    if not curve.points:
        return section(title, anchor, tag("p", f"These weights cannot be projected: {curve.refused}", class_="missing"))
    told = None
    if found.reference is not None:
        told = compression_verdict(curve, yardstick, chosen_form(found), on_which(found))
    drawn = picture(
        figures.compression_figure(curve, yardstick, found.reference, found.split),
        f"{yardstick.metric} over parameters kept, one line per target basis; the model itself is circled",
    )
    return section(
        title,
        anchor,
        tag("p", told) if told else None,
        drawn,
        _compression_table(found, found.measured),
        tag("p", f"Left out: {curve.refused}", class_="note") if curve.refused else None,
        _key(yardstick),
    )


def _compression_table(found: Findings, measured: Measured) -> Markup:
    """A row for every size, a column for every basis, with steps as trained and shortened to the size."""
    points = measured.curve.points
    by_place = {(p.basis, p.is_shortened, p.size): p for p in points}
    columns = list(dict.fromkeys((p.basis, p.is_shortened) for p in points))
    rows = []
    for size in sorted({p.size for p in points}):
        kept = next(p.parameters for p in points if p.size == size)
        share = f"{100 * kept / measured.curve.parameters:.0f} %"
        cells = (_compressed_cell(by_place.get((*column, size)), found) for column in columns)
        rows.append([tag("th", str(size), scope="row"), f"{kept:,}", share, *cells])
    titles = [f"{basis}, steps = size" if is_cut else basis for basis, is_cut in columns]
    return table(["size", "parameters", "kept", *titles], rows, class_="numbers tiled")


def _compressed_cell(point: Compressed | None, found: Findings) -> Markup:
    if point is None:
        return tag("td", NONE)
    weights = {row.form.weights for row in found.model.summary.rows} if found.model else set()
    is_trained = not point.is_shortened and weights == {f"{point.basis}:{point.size}"}
    return _graded(found, point.value, is_trained, f"{point.label}, {point.nfe:,} unit evaluations")


def control(found: Findings) -> Markup:
    title, anchor = "Do the blocks do the work?", "control"
    if found.measured is None:
        return section(title, anchor, _missing(found))
    yardstick, bare = found.yardstick, found.measured.bare
    told = f"With every block replaced by the identity, {yardstick.metric} is {yardstick.text(bare)}"
    if found.reference is None:
        return section(title, anchor, tag("p", f"{told}."))
    close = "so the blocks hardly matter: what holds above says little about depth"
    verdict = close if yardstick.is_close(bare, found.reference) else "so it is the blocks that do the work"
    return section(title, anchor, tag("p", f"{told}, with them {yardstick.text(found.reference)}: {verdict}."))


def weights(found: Findings) -> Markup | None:
    if found.model is None or not found.model.lines:
        return None
    parts: list[str] = []
    for block in dict.fromkeys(lines.block for lines in found.model.lines):
        mine = [lines for lines in found.model.lines if lines.block == block]
        drawn = (picture(figures.weight_figure(x), f"{x.tensor} of {block} over depth") for x in mine)
        parts += [tag("h3", block), tag("div", *drawn, class_="many")]
    return section("Weights over depth", "weights", tag("p", _WEIGHT_WORDS), *parts)


def _missing(found: Findings) -> Markup:
    return tag("p", f"Not measured: {found.unmeasured}.", class_="missing")
