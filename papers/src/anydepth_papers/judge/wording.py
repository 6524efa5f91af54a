"""Figures of several seeds in words, for verdicts and tables."""

from collections.abc import Sequence

import numpy as np

RULES = {
    "better in the median": "Wilcoxon's exact signed-rank test of the differences seed by seed, two-sided, 5 %.",
    "better": "Holds if the 95 % interval of the difference over seeds is above 0; does not hold if it is below 0.",
    "no worse than": "Holds if the one-sided 95 % lower bound of the difference over seeds is above minus the "
    "margin; does not hold if the upper bound is below it.",
    "no worse in the median than": "Wilcoxon's exact signed-rank test of the differences plus the margin, one-sided, "
    "seed by seed, 5 %.",
    "within": "Holds if the 95 % interval of the mean over seeds is inside the margin; does not hold if it is outside.",
    "proportion at least": "Clopper and Pearson's 95 % interval of the share of nets against the stated share.",
    "instance, better": "About this trained net: McNemar's exact test over the test examples, 5 %.",
    "instance, no worse than": "About this trained net: Tango's one-sided 95 % bounds of the paired difference over "
    "the test examples against the margin.",
    "instance in groups, better": "About this trained net: Student's t of the differences, answers to one example "
    "taken together, two-sided, 5 %.",
    "instance in groups, no worse than": "About this trained net: one-sided 95 % bounds by Student's t, answers to one "
    "example taken together, against the margin.",
    "fewer failures": "Fisher's exact test of the numbers of nets that fail, two-sided, 5 %.",
    "computed": "A closed form, a count, an order, or a figure of just these networks: no interval; a tolerance "
    "stated beforehand decides.",
    "undecided": "The study ran, but cannot decide this.",
    "not run": "This was not run.",
}
"""What decides a claim of each kind; a kind may go on with its margin."""


def rules_of(kinds: str) -> str:
    """What decides a claim of this kind, or of these."""
    return " ".join(dict.fromkeys(_rule_of(kind) for kind in kinds.split(", and ")))


def _rule_of(kind: str) -> str:
    """Longer names first: "better in the median" is not "better"."""
    return next((RULES[name] for name in sorted(RULES, key=len, reverse=True) if kind.startswith(name)), "")


def spread(values: Sequence[float], digits: int = 2) -> str:
    """Mean, lowest and highest."""
    mean, low, high = (f"{value:.{digits}f}" for value in (np.mean(values), min(values), max(values)))
    return mean if low == high else f"{mean} ({low} to {high})"


def differences(a: Sequence[float], b: Sequence[float]) -> list[float]:
    """a - b, seed by seed."""
    return [x - y for x, y in zip(a, b, strict=True)]


def mean_and_range(values: Sequence[float | None]) -> tuple[float, float, float]:
    """Mean, lowest and highest as numbers; an accuracy that could not be had counts as 0."""
    numbers = [value or 0.0 for value in values]
    return float(np.mean(numbers)), min(numbers), max(numbers)


def points(values: Sequence[float]) -> str:
    """One number, or from the lowest to the highest."""
    low, high = f"{min(values):.2f}", f"{max(values):.2f}"
    return low if low == high else f"{low} to {high}"
