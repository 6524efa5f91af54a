"""How far a model can change and stay close: computed, then said in a sentence."""

from collections.abc import Sequence

from anydepth.measure.form_curves import Compressed, CompressionCurve, SolverGrid, SolverPoint
from anydepth.report.yardstick import Yardstick


def cheapest(grid: SolverGrid, yardstick: Yardstick, reference: float) -> SolverPoint | None:
    """The solver with the fewest evaluations that is close; of equals, the best."""
    close = [point for point in grid.points if yardstick.is_close(point.value, reference)]
    return min(close, key=lambda p: (p.nfe, yardstick.lost(p.value, reference)), default=None)


def smallest(curve: CompressionCurve, yardstick: Yardstick, reference: float) -> Compressed | None:
    """The fewest parameters that are close, fewer than the model has; of equals, the fewest evaluations."""
    close = [p for p in curve.points if p.parameters < curve.parameters and yardstick.is_close(p.value, reference)]
    return min(close, key=lambda p: (p.parameters, p.nfe, yardstick.lost(p.value, reference)), default=None)


def solver_verdict(grid: SolverGrid, yardstick: Yardstick, reference: float, nfe: int, ending: str = "") -> str:
    """With which solvers the same weights stay close, and which to take."""
    others = [point for point in grid.points if not point.is_trained]
    close = [point for point in others if yardstick.is_close(point.value, reference)]
    trained = next((point.label for point in grid.points if point.is_trained), "the solvers they have")
    if not close:
        return (
            f"None of {len(others)} other solvers comes within {yardstick.margin} of {yardstick.base}: "
            f"these weights belong to {trained}."
        )
    fits, fails = [], []
    for scheme, points in grid.by_scheme().items():
        ranges = close_ranges(points, yardstick, reference)
        if ranges:
            fits.append(f"{scheme} with {ranges}" + ("" if fits else " steps"))
        else:
            fails.append(scheme)
    kept = sum(yardstick.is_close(point.value, reference) for point in grid.adaptive)
    if kept:
        fits.append(f"{grid.adaptive[0].scheme} with {kept} of {len(grid.adaptive)} tolerances")
    told = f"The same weights stay within {yardstick.margin} of {yardstick.base}: {_listed(fits)}"
    told += f"; never with {_listed(fails)}." if fails else "."
    return told + ending


def cheapest_told(best: SolverPoint | None, yardstick: Yardstick, nfe: int, where: str = "") -> str:
    """A sentence about the solver to take, if it is cheaper than the model's own."""
    if best is None or best.nfe >= nfe:
        return ""
    return (
        f" The cheapest of them{where}, {best.label}, takes {best.nfe:,} unit evaluations instead of {nfe:,} "
        f"({yardstick.text(best.value)})."
    )


def close_ranges(points: Sequence[SolverPoint], yardstick: Yardstick, reference: float) -> str:
    """The tested numbers of steps that are close, neighbours drawn together: "2 to 8 and 16"."""
    ranges: list[list[int]] = []
    was_close = False
    for point in points:
        is_close = yardstick.is_close(point.value, reference)
        if is_close and was_close:
            ranges[-1].append(point.steps)
        elif is_close:
            ranges.append([point.steps])
        was_close = is_close
    return _listed([str(r[0]) if len(r) == 1 else f"{r[0]} to {r[-1]}" for r in ranges])


def compression_verdict(curve: CompressionCurve, yardstick: Yardstick, best: Compressed | None, where: str = "") -> str:
    """About the smallest form that was chosen."""
    if best is None:
        return f"No smaller form of these weights comes within {yardstick.margin} of {yardstick.base}{where}."
    share = 100 * best.parameters / curve.parameters
    chosen = f" (chosen{where})" if where else ""
    return (
        f"Without data or retraining, {best.label}{chosen} keeps {yardstick.text(best.value)} "
        f"with {best.parameters:,} of {curve.parameters:,} parameters ({share:.0f} %)."
    )


def _listed(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}" if parts else ""
