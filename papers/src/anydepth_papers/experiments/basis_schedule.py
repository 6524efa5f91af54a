"""Constants or hats, fixed depth or refinement: what makes a net compressible (Stateful ODE-Nets, Table 4, Fig 4a)?"""

from typing import TYPE_CHECKING, Any

import numpy as np
from torch import nn

from anydepth.surgery.blocks import blocks_of
from anydepth.surgery.resize import compress
from anydepth.zoo.models.image_network import ImageNetwork
from anydepth_papers.experiments import EXPERIMENTS
from anydepth_papers.judge.experiment import Claim, ClaimVerdict, Experiment, Findings
from anydepth_papers.judge.rules import Judgement, better, not_run
from anydepth_papers.judge.study import Study
from anydepth_papers.judge.wording import spread
from anydepth_papers.nets.image_nets import SETTINGS, Exam, common_seeds, trained_steps, waiting
from anydepth_papers.nets.stateful_nets import BASIS_SCHEDULE
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

ABOUT = {title: about for title, about, _, _ in BASIS_SCHEDULE}
CONTROL = "narrow-depth-1"
NETS = ("constants-fixed", "constants-refined", "hats-fixed", "hats-refined")
TIED = "constants-tied"
WORDS = ("constants", "hats", "fixed", "refined")
HALF, BOTH = "half of K", "half of K and N"
LINES = (
    ("constants-refined", "constants", "#2a7f4f"),
    ("hats-refined", "hats", "#0b6e99"),
    ("hats-refined", "constants", "#c2571a"),
)
"""The lines of Fig 4a, in its colours."""
CURVE = (2, 3, 4)
"""Numbers of functions at which nets trained on hats and on constants are compared."""
CLAIMS = {
    "configurations": Claim(
        "Halved in functions and steps, refined hats lose fewer points than constants of fixed depth (over seeds)",
        "S Table 4, c1 and c2",
        "92.4 -> 91.8 against 94.1 -> 60.5 %",
    ),
    "schedule": Claim(
        "Refinement alone saves points with half of the functions, over both bases (over seeds)",
        "S Table 4, which changes both",
    ),
    "basis": Claim(
        "Hats alone save points with half of the functions, over both schedules (over seeds)",
        "S Table 4, which changes both",
    ),
    "tied": Claim(
        "Control: refined constants lose fewer points than constants that are only equal at the start (over seeds)",
        "ours",
    ),
    "trained on constants": Claim(
        "Trained on constants, nets are less compressible than trained on hats: K = 2, 3, 4 (refined, over seeds)",
        "S Fig 4a, green and blue",
        "slightly less compressible",
    ),
    "onto constants": Claim(
        "Trained on hats, constants are the better basis to project onto: K = 2, 3, 4 (refined, over seeds)",
        "S Fig 4a, red and blue",
        "even further improved",
    ),
}
"""Rule: `better` of the points lost as they are, paired by seed."""


def run(study: Study) -> Findings:
    found = looked_at(study, (*NETS, TIED, CONTROL), look)
    missing = [title for title in (*NETS, TIED, CONTROL) if not found[title]]
    if missing:
        return waiting(tuple(CLAIMS.values()), COLUMNS, [ABOUT[title] for title in missing])
    verdicts = tuple(ClaimVerdict(claim, *_judged(found, key)) for key, claim in CLAIMS.items())
    return Findings(COLUMNS, rows_of(found, ABOUT), verdicts, lambda: _draw(found), (_SETTING, *NOTES))


_SETTING = (
    "At cpu scale the campaign's recipe on CIFAR-10 with 16-32 channels and midpoint. Halving projects 8 constants "
    "onto 4 and 9 hats onto 5, and takes 4 steps for 8."
)


def look(model: nn.Module, exam: Exam) -> dict[str, Any]:
    """As trained, halved, and with few functions: of constants, and of hats where it was trained on them."""
    assert isinstance(model, ImageNetwork)
    size, steps = next(iter(blocks_of(model).values())).size, trained_steps(model)
    if size == 1:
        return as_trained(model, exam)
    half, fewer = (size + 1) // 2, max(1, steps // 2)
    forms = {"as trained": model, HALF: compress(model, size=half), BOTH: compress(model, size=half, steps=fewer)}
    bases = (
        {"constants": "constant", "hats": "linear"} if model.config["basis"] == "linear" else {"constants": "constant"}
    )
    for name, basis in bases.items():
        forms |= {f"{name}, K = {k}": compress(model, basis, k) for k in CURVE if k < size}
    return looked(exam, forms)


def _judged(found: Found, key: str) -> tuple[str, Judgement]:
    """Points lost by what should lose more and by what should lose less, seed by seed."""
    seeds = common_seeds(found, *NETS, TIED, CONTROL)
    if not seeds:
        return "", not_run("no seed has all nets yet")
    more, less = np.array([_compared(found, key, seed) for seed in seeds]).T.tolist()
    told = f"{spread(more)} against {spread(less)} points lost"
    return told, _depth(found) or better(more, less, paired=True)


def _compared(found: Found, key: str, seed: int) -> tuple[float, float]:
    few = {way: [f"{way}, K = {k}" for k in _few(found, seed)] for way in ("constants", "hats")}
    halved = {title: _lost(found, title, seed, HALF) for title in (*NETS, TIED)}
    mean = {word: float(np.mean([halved[title] for title in NETS if word in title])) for word in WORDS}
    hats = {way: _lost(found, "hats-refined", seed, *forms) for way, forms in few.items()}
    pairs = {
        "configurations": (_lost(found, "constants-fixed", seed, BOTH), _lost(found, "hats-refined", seed, BOTH)),
        "schedule": (mean["fixed"], mean["refined"]),
        "basis": (mean["constants"], mean["hats"]),
        "tied": (halved[TIED], halved["constants-refined"]),
        "trained on constants": (_lost(found, "constants-refined", seed, *few["constants"]), hats["hats"]),
        "onto constants": (hats["hats"], hats["constants"]),
    }
    return pairs[key]


def _few(found: Found, seed: int) -> list[int]:
    """The sizes that both refined nets were brought to."""
    forms = [found[title][seed]["forms"] for title in ("hats-refined", "constants-refined")]
    return [k for k in CURVE if all(f"constants, K = {k}" in one for one in forms)]


def _lost(found: Found, title: str, seed: int, *names: str) -> float:
    forms = found[title][seed]["forms"]
    return forms["as trained"]["accuracy"] - float(np.mean(accuracies_of([forms[name] for name in names])))


def _depth(found: Found) -> Judgement | None:
    """The first net that does not use its depth, if any."""
    return next((blocked for title in NETS if (blocked := depth_of(found, title, CONTROL)) is not None), None)


def _draw(found: Found) -> "Figure":
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4), constrained_layout=True)
    for x, title in enumerate((*NETS, TIED)):
        colour = "#0b6e99" if "refined" in title else "#c2571a"
        for one in found[title].values():
            left.plot(
                [x - 0.15, x + 0.15], accuracies_of([one["forms"][f] for f in ("as trained", BOTH)]), "o-", color=colour
            )
    left.set_xticks(range(len(NETS) + 1), [title.replace("-", ",\n") for title in (*NETS, TIED)], fontsize=8)
    left.set_title("As trained, and with half of K and N", fontsize=9)
    for title, way, colour in LINES:
        there = [k for k in CURVE if f"{way}, K = {k}" in next(iter(found[title].values()))["forms"]]
        values = [
            np.mean(accuracies_of([one["forms"][f"{way}, K = {k}"] for one in found[title].values()])) for k in there
        ]
        right.plot(there, values, "o-", color=colour, label=f"{title}, onto {way}")
    right.set_title("Fewer functions, steps as trained (Fig 4a)", fontsize=9)
    right.set_xlabel("K")
    right.locator_params("x", integer=True)
    right.legend(fontsize=8)
    for place in (left, right):
        place.set_ylabel("test accuracy as it is (%)")
        place.grid(alpha=0.25, axis="y")
    return figure


EXPERIMENTS.add(
    "basis-schedule",
    Experiment("Constants or hats, fixed depth or refinement", "Stateful ODE-Nets, Table 4, Fig 4a", SETTINGS, run),
)
