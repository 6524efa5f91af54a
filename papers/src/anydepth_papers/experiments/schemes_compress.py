"""Does training with RK4 rather than a lower order make a net more compressible? (Stateful ODE-Nets, Fig 3)."""

from typing import TYPE_CHECKING, Any

import numpy as np
from torch import nn

from anydepth.surgery.blocks import blocks_of
from anydepth.surgery.resize import compress
from anydepth_papers.experiments import EXPERIMENTS
from anydepth_papers.judge.experiment import Claim, ClaimVerdict, Experiment, Findings
from anydepth_papers.judge.rules import Judgement, better, not_run
from anydepth_papers.judge.study import Study
from anydepth_papers.judge.wording import spread
from anydepth_papers.nets.image_nets import (
    COLOUR,
    SETTINGS,
    TITLE,
    Exam,
    common_seeds,
    examined,
    setting_of,
    trained_steps,
    waiting,
)
from anydepth_papers.studies.form_tables import (
    COLUMNS,
    NOTES,
    Found,
    accuracies_of,
    as_trained,
    depth_of,
    looked,
    looked_at,
    rows_of,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RK4, OTHERS, CONTROL = "hats-rk4", ("hats-euler", "hats-midpoint"), "resnet-1"
FORMS = {
    "functions": ("half of K", "a quarter of K"),
    "functions and steps": ("half of K and N", "a quarter of K and N"),
}
CLAIMS = {
    (other, what): Claim(
        f"Trained with RK4 a net loses less with half and a quarter of the {what} than with {other[5:]} (over seeds)",
        "S Fig 3" if other == "hats-euler" else "ours",
        "a picture" if other == "hats-euler" else "",
    )
    for other in OTHERS
    for what in FORMS
}
"""Rule: `better` of the points lost on average over the two forms, as they are, paired by seed."""
_TITLE = TITLE | {"hats-euler": "hats (Euler)"}
_COLOUR = COLOUR | {"hats-euler": "#c2571a"}


def run(study: Study) -> Findings:
    found = examined(study, (RK4, "hats-midpoint"), look) | looked_at(study, ("hats-euler",), look)
    found |= examined(study, (CONTROL,), as_trained)
    if not found[RK4] or not any(found[other] for other in OTHERS):
        return waiting(tuple(CLAIMS.values()), COLUMNS, [RK4, *OTHERS])
    verdicts = tuple(ClaimVerdict(claim, *_judged(found, *key)) for key, claim in CLAIMS.items())
    shape = next(iter(found[RK4].values()))
    notes = (setting_of(), *NOTES, f"K and N: {shape['sizes']} hats with {shape['steps']} steps.", _COST)
    return Findings(COLUMNS, rows_of(found, _TITLE), verdicts, lambda: _draw(found), notes)


_COST = "With the same steps RK4 makes four evaluations where Euler makes one: the nets do not cost the same."


def look(model: nn.Module, exam: Exam) -> dict[str, Any]:
    """With half and a quarter of the cells, with the steps of training and with as few."""
    size, steps = next(iter(blocks_of(model).values())).size, trained_steps(model)
    sizes = [size, (size + 1) // 2, max(2, (size + 3) // 4)]
    counts = [steps, max(1, steps // 2), max(1, steps // 4)]
    forms: dict[str, nn.Module] = {"as trained": model}
    for words, k, n in zip(("half", "a quarter"), sizes[1:], counts[1:], strict=True):
        forms[f"{words} of K"] = compress(model, size=k)
        forms[f"{words} of K and N"] = compress(model, size=k, steps=n)
    return {"sizes": sizes, "steps": counts} | looked(exam, forms)


def _judged(found: Found, other: str, what: str) -> tuple[str, Judgement]:
    seeds = common_seeds(found, RK4, other)
    if not seeds:
        return "", not_run(f"waiting for the campaign: {_TITLE[other]}")
    lost = {net: [_lost(found[net][seed], what) for seed in seeds] for net in (RK4, other)}
    told = f"{spread(lost[RK4])} points lost with RK4, {spread(lost[other])} with {other[5:]}"
    blocked = depth_of(found, RK4, CONTROL) or depth_of(found, other, CONTROL)
    return told, blocked or better(lost[other], lost[RK4], paired=True)


def _lost(one: dict[str, Any], what: str) -> float:
    left = accuracies_of([one["forms"][form] for form in FORMS[what]])
    return one["forms"]["as trained"]["accuracy"] - float(np.mean(left))


def _draw(found: Found) -> "Figure":
    import matplotlib.pyplot as plt

    shares = ("as trained", "half", "a quarter")
    figure, places = plt.subplots(1, 2, figsize=(9, 3.8), sharey=True, constrained_layout=True)
    for place, what in zip(places, FORMS, strict=True):
        for net in (name for name in (RK4, *OTHERS) if found[name]):
            forms = ("as trained", *FORMS[what])
            values = np.array([accuracies_of([one["forms"][f] for f in forms]) for one in found[net].values()])
            place.plot(shares, values.mean(0), "o-", color=_COLOUR[net], label=f"trained with {net[5:]}")
            place.fill_between(shares, values.min(0), values.max(0), color=_COLOUR[net], alpha=0.15)
        place.set_title(f"Fewer {what}")
        place.grid(alpha=0.25)
        place.legend(fontsize=8)
    places[0].set_ylabel("test accuracy as it is (%)")
    return figure


EXPERIMENTS.add(
    "schemes-compress",
    Experiment("Compressing nets trained with RK4, midpoint and Euler", "Stateful ODE-Nets, Fig 3", SETTINGS, run),
)
