"""What a report recommends: chosen on validation data where there is some, told with its value on the part shown."""

from anydepth.measure.form_curves import Compressed, SolverPoint
from anydepth.report.advice import cheapest, smallest
from anydepth.report.findings import Findings, Measured


def chosen_solver(found: Findings) -> SolverPoint | None:
    """The cheapest solver that is close where one chooses, as it is on the part that is shown."""
    chooser = _chooser(found)
    if chooser is None or chooser.score is None or found.measured is None:
        return None
    best = cheapest(chooser.grid, found.yardstick, chooser.score.value)
    same = (point for point in found.measured.grid.points if best is not None and _key(point) == _key(best))
    return next(same, None)


def chosen_form(found: Findings) -> Compressed | None:
    """The smallest form that is close where one chooses, as it is on the part that is shown."""
    chooser = _chooser(found)
    if chooser is None or chooser.score is None or found.measured is None:
        return None
    best = smallest(chooser.curve, found.yardstick, chooser.score.value)
    same = (point for point in found.measured.curve.points if best is not None and point.label == best.label)
    return next(same, None)


def on_which(found: Findings) -> str:
    """Where the choice was made, if not on the part that is shown."""
    return " on validation data" if found.choosing is not None else ""


def _chooser(found: Findings) -> Measured | None:
    return found.choosing or found.measured


def _key(point: SolverPoint) -> tuple[str, float | int]:
    """An adaptive solver may take other steps on other examples."""
    return point.scheme, point.steps if point.rtol is None else point.rtol
