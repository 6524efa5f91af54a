"""What a side is to reach: a ratio to the case's base, or that of another side."""

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any

GOALS: dict[tuple[str, str], float | str] = {
    ("small field", "anydepth*"): 0.15,
    ("small field, inference", "anydepth"): 0.12,
    ("small field, inference", "anydepth, own class"): 0.12,
    ("small field, inference", "anydepth frozen*"): "anydepth",
    ("adaptive field", "anydepth*"): 0.6,
    ("gated field", "anydepth"): 0.88,
    ("other field", "anydepth"): 0.88,
    ("other field", "anydepth, ad.compile"): 0.6,
    ("encoder", "anydepth"): 1.0,
    ("encoder, inference", "anydepth"): 0.95,
    ("encoder, inference", "anydepth frozen"): 0.9,
    ("inference *, one image", "anydepth"): 1.0,
    ("inference *, one image", "anydepth frozen"): 0.75,
    ("inference *px", "anydepth frozen*"): "anydepth",
    ("checkpoint", "checkpoint"): 1.35,
}
"""By patterns for case and side; a name means: no slower than that side."""


def with_goals(case: str, sides: Mapping[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The rows of a case, those that have a goal with it."""
    found = {}
    for side, row in sides.items():
        goal = next((g for (c, s), g in GOALS.items() if fnmatchcase(case, c) and fnmatchcase(side, s)), None)
        if isinstance(goal, str):
            goal = sides[goal]["ratio"] if goal in sides else None
        found[side] = row if goal is None else {**row, "goal": goal}
    return found


def is_met(row: Mapping[str, Any]) -> bool:
    return row["ratio"] <= row["goal"]
