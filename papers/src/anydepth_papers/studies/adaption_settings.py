"""Settings of the studies of Algorithm 1 (Proper ODEs, section 5, Table 1): datasets, grids, controllers, seeds."""

from dataclasses import dataclass, replace

from anydepth_papers.judge.experiment import Claim
from anydepth_papers.nets.flows import CPU, LANDSCAPE, PAPER, SMOKE, SPHERES, Task
from anydepth_papers.studies.table_one import MOST_ACCURATE, TABLE, UNVARIED

CONTROLS = {
    "paper": ("control.name=paper",),
    "steady": ("control.name=steady",),
    UNVARIED: ("control.name=steady", "training.vary_steps=0"),
}
LOOKED_AT = 32
"""So many seeds, from 0 on, were looked at while `steady` and the rules were made: the studies take the next ones."""


@dataclass(frozen=True)
class Settings:
    """Tasks with their grids, and the controllers that are run; whether the settings are the published ones."""

    tasks: dict[str, Task]
    controllers: tuple[str, ...] = tuple(CONTROLS)
    is_published: bool = False

    @property
    def methods(self) -> tuple[str, ...]:
        return ("grid", MOST_ACCURATE, *self.controllers)


_BOTH = ("paper", "steady")
_FULL = {
    name: replace(PAPER[name], euler=steps) for name, steps in ((SPHERES, (32, 64, 128)), (LANDSCAPE, (16, 32, 64)))
}
_DIGITS = ("data.name=digits", "data.limit=60", "training.batch=30", "training.steps=2", "evaluation.test=false")
SETTINGS = {
    "smoke": Settings({LANDSCAPE: SMOKE[LANDSCAPE]}),
    "cpu": Settings({name: CPU[name] for name in (SPHERES, LANDSCAPE)}),
    "paper": Settings({name: PAPER[name] for name in (SPHERES, LANDSCAPE)}),
}
IN_FULL = {
    "smoke": Settings({SPHERES: SMOKE[SPHERES]}, _BOTH, True),
    "cpu": Settings(_FULL, _BOTH, True),
    "paper": Settings({name: PAPER[name] for name in TABLE}, _BOTH, True),
}
"""The published settings; cpu scale searches fewer numbers of steps, on two of the datasets."""
ON_IMAGES = {
    "smoke": Settings(
        {"mnist": Task("digits", "proper-mnist-small", _DIGITS, (1, 2), together=False, tested=30)}, _BOTH
    ),
    "cpu": Settings(
        {
            "mnist": Task(
                "MNIST, small net",
                "proper-mnist-small",
                ("training.steps=2000", "evaluation.test=false"),
                (1, 2, 4, 8, 16),
                together=False,
                tested=2000,
            )
        },
        _BOTH,
    ),
    "paper": Settings({"mnist": PAPER["mnist"]}, _BOTH, True),
}
"""The published controllers on images: at cpu scale with a small net, long enough for Algorithm 1 to come down from the
59 steps that Hairer's rule begins with, by a tenth every 50 iterations."""
NOT_RUN = {
    "adaption-full": tuple(
        (
            Claim(f"{title}: evaluations and accuracies of Table 1", "P Table 1, Fig 5", f"{row.nfe:g} evaluations"),
            f"cost: about {hours} hours of one core a run",
        )
        for title, row, hours in (("MNIST", TABLE["mnist"], 6), ("CIFAR-10", TABLE["cifar10"], 13))
    )
}
"""At cpu scale."""
