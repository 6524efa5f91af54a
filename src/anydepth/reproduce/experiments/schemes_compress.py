"""Does training with RK4 rather than Euler make a net more compressible? (Stateful ODE-Nets, Fig 3)."""

from typing import TYPE_CHECKING, Any

import numpy as np
from torch import nn

from anydepth.reproduce import EXPERIMENTS
from anydepth.reproduce.experiment import Claim, Experiment, Findings, Verdict
from anydepth.reproduce.judging import RULE, differences, is_above, spread
from anydepth.reproduce.nets import COLOUR, SETTINGS, TITLE, Exam, accuracy, examined, setting_of, trained_steps
from anydepth.reproduce.study import Study
from anydepth.surgery.blocks import blocks_of
from anydepth.surgery.resize import compress

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NETS = ("hats-rk4", "hats-euler")
FORMS = ("trained", "half of K", "half of K and N", "a quarter of K", "a quarter of K and N")
Found = dict[str, list[dict[str, Any]]]


def run(study: Study) -> Findings:
    found = examined(study, NETS, look)
    rows = tuple(
        (
            TITLE[net],
            form,
            float(np.mean([one[form] for one in seeds])),
            float(np.mean(_lost(seeds, form))),
            min(_lost(seeds, form)),
            max(_lost(seeds, form)),
        )
        for net, seeds in found.items()
        for form in FORMS
    )
    columns = ("net", "form", "accuracy (%)", "points lost", "least", "most")
    first = found["hats-rk4"][0]
    notes = f"{setting_of(study)} K and N: {first['sizes']} hats with {first['steps']} steps. {RULE}"
    return Findings(columns, rows, _verdicts(found), lambda: _draw(found), notes)


def look(model: nn.Module, exam: Exam) -> dict[str, Any]:
    """Accuracy with half and a quarter of the cells, with the steps of training and with as few."""
    size, steps = next(iter(blocks_of(model).values())).size, trained_steps(model)
    halves, quarter = ((size - 1) // 2 + 1, max(1, steps // 2)), ((size - 1) // 4 + 1, max(1, steps // 4))
    plans = {
        name: plan
        for words, (k, n) in (("half", halves), ("a quarter", quarter))
        for name, plan in ((f"{words} of K", (k, steps)), (f"{words} of K and N", (k, n)))
    }
    return {
        "sizes": [size, halves[0], quarter[0]],
        "steps": [steps, halves[1], quarter[1]],
        "trained": accuracy(exam(model)),
        **{name: accuracy(exam(compress(model, size=k, steps=n))) for name, (k, n) in plans.items()},
    }


def _lost(seeds: list[dict[str, Any]], form: str) -> list[float]:
    return [one["trained"] - one[form] for one in seeds]


def _verdicts(found: Found) -> tuple[Verdict, ...]:
    rk4, euler = found["hats-rk4"], found["hats-euler"]
    return tuple(
        Verdict(
            Claim(f"Trained with RK4 a net loses less at {form} than with Euler", "S Fig 3", "a picture"),
            f"{spread(_lost(rk4, form))} points lost with RK4, {spread(_lost(euler, form))} with Euler",
            is_above(differences(_lost(euler, form), _lost(rk4, form))),
        )
        for form in FORMS[1:]
    )


def _draw(found: Found) -> "Figure":
    import matplotlib.pyplot as plt

    shares = ("as trained", "half", "a quarter")
    figure, places = plt.subplots(1, 2, figsize=(9, 3.8), sharey=True, constrained_layout=True)
    for place, tail in zip(places, ("of K", "of K and N"), strict=True):
        forms = ("trained", f"half {tail}", f"a quarter {tail}")
        for net, seeds in found.items():
            values = np.array([[one[form] for one in seeds] for form in forms])
            place.plot(shares, values.mean(axis=1), "o-", color=COLOUR[net], label=f"trained with {net[5:]}")
            place.fill_between(shares, values.min(axis=1), values.max(axis=1), color=COLOUR[net], alpha=0.15)
        place.grid(alpha=0.25)
        place.legend(fontsize=8)
    places[0].set(ylabel="test accuracy (%)", title="Fewer basis functions")
    places[1].set_title("Fewer basis functions and steps")
    return figure


EXPERIMENTS.add(
    "schemes-compress",
    Experiment("Compressing nets trained with RK4 and with Euler", "Stateful ODE-Nets, Fig 3", SETTINGS, run),
)
