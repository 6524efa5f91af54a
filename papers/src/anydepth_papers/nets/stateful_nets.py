"""Nets that the studies of Stateful ODE-Nets need beside the campaign's, in the campaign's form: declared, not trained.

They share the campaign's recipe. Those of 16-32 channels have half of its width, so that the five nets of basis and
schedule can be trained in about 8 hours of two cores per seed.
"""

from collections.abc import Callable
from typing import Any

from anydepth.runs.config import ModelSettings

STEPS = 8


def _net(channels: list[int], basis: str, size: int, steps: int, scheme: str, **options: Any) -> ModelSettings:
    shape = {"basis": basis, "size": size, "steps": steps, "scheme": scheme, "scale": 1.0}
    return ModelSettings(name="image", options={"channels": channels, "first_stitch": False, **shape, **options})


def _narrow(basis: str, size: int, steps: int, **options: Any) -> ModelSettings:
    return _net([16, 32], basis, size, steps, "midpoint", **options)


Row = tuple[str, str, Callable[[], ModelSettings], bool]
"""Title, what it is, its model, and whether it grows: as in the campaign."""

SCHEMES: tuple[Row, ...] = (
    (
        "hats-euler",
        "hats grown 1, 2, 3, 5, trained with Euler",
        lambda: _net([16, 32, 64], "linear", 1, 1, "euler"),
        True,
    ),
)
"""The other net of Fig 3; about 36 minutes of two cores."""
BASIS_SCHEDULE: tuple[Row, ...] = (
    ("narrow-depth-1", "one constant, one step of midpoint: the control", lambda: _narrow("constant", 1, 1), False),
    ("hats-refined", "hats grown 2, 3, 5, 9 with midpoint (c1)", lambda: _narrow("linear", 2, 1), True),
    ("constants-refined", "constants grown 1, 2, 4, 8 with midpoint", lambda: _narrow("constant", 1, 1), True),
    (
        "constants-fixed",
        "8 constants, 8 steps of midpoint from the start (c2)",
        lambda: _narrow("constant", 8, STEPS),
        False,
    ),
    ("hats-fixed", "9 hats, 8 steps of midpoint from the start", lambda: _narrow("linear", 9, STEPS), False),
    (
        "constants-tied",
        "8 constants that are equal at the start, 8 steps of midpoint: the control for refinement",
        lambda: _narrow("constant", 8, STEPS, init="shared"),
        False,
    ),
)
"""Basis by schedule, and two controls: about 24 minutes, 44 minutes (grown) and 2.1 hours (fixed) of two cores."""
LATER = SCHEMES + BASIS_SCHEDULE
