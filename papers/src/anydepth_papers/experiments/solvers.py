"""The same weights with other schemes and other numbers of steps (ContinuousNet, Fig 9, Table 1, section 5.3)."""

from copy import deepcopy
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import nn

from anydepth.surgery.blocks import blocks_of
from anydepth.surgery.resize import set_solver
from anydepth.zoo.models.resnet import ResNet
from anydepth_papers.experiments import EXPERIMENTS
from anydepth_papers.judge.experiment import ClaimVerdict, Experiment, Findings
from anydepth_papers.judge.study import Study
from anydepth_papers.nets.image_nets import COLOUR, SETTINGS, TITLE, Exam, examined, setting_of, trained_steps, waiting
from anydepth_papers.nets.resnets import as_blocks, shortened
from anydepth_papers.studies.form_tables import accuracies_of, as_trained, time_of
from anydepth_papers.studies.solver_claims import CLAIMS, OWN, Grid, judged

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NETS = ("rk4", "euler", "resnet", "resnet-1")
"""The last one is the net that does not use depth."""
HALF = "resnet-4"
"""What a user would train instead of halving a net."""
STEPS = {
    "rk4": {
        "rk4": (1 / 8, 1 / 4, 3 / 8, 1 / 2, 3 / 4, 1, 5 / 4, 3 / 2, 2),
        "rk4_38": (6 / 32, 11 / 32, 1 / 2, 1),
        "midpoint": (1 / 4, 1 / 2, 1),
        "euler": (1 / 4, 1 / 2, 1),
    },
    "euler": {
        "euler": (1 / 8, 1 / 4, 3 / 8, 1 / 2, 5 / 8, 3 / 4, 1, 5 / 4, 3 / 2, 2, 5 / 2, 3),
        "midpoint": (1 / 2, 1),
        "rk4": (1 / 2, 1),
    },
}
"""Schemes to run a net with and steps, as shares of its own, by the scheme that it was trained with."""
COLUMNS = ("net", "form", "accuracy (%)", "recalibrated (%)", "evaluations", "ms per image", "seeds")


def run(study: Study) -> Findings:
    found = examined(study, NETS, look, plain=True)
    missing = [name for name in NETS if not found[name]]
    if missing:
        return waiting(tuple(CLAIMS.values()), COLUMNS, missing)
    grid = Grid(found)
    if not grid.seeds:
        return waiting(tuple(CLAIMS.values()), COLUMNS, tuple(OWN))
    verdicts = tuple(ClaimVerdict(claim, *judged(grid, name)) for name, claim in CLAIMS.items())
    found |= examined(study, (HALF,), as_trained, plain=True)
    notes = (
        setting_of(),
        "The Euler net and the ResNets are trained at fixed depth, as in section 5.1; only the RK4 net is refined.",
        "Shorter ResNets: units skipped; steps stretched; neighbours merged; weights projected onto hats. All are "
        "listed; where one of them is compared, it is the one with the highest accuracy on validation images. The "
        f"{TITLE[HALF]} was trained from scratch.",
        "Claims of kind `instance` are about each trained net by itself, over its 10,000 test images.",
    )
    return Findings(COLUMNS, tuple(_rows(found)), verdicts, lambda: _draw(grid), notes)


def look(model: nn.Module, exam: Exam) -> dict[str, Any]:
    """A net with other schemes and steps; a ResNet also made shorter."""
    short = model if isinstance(model, ResNet) else None
    blocks = as_blocks(short).eval() if short else model
    trained, scheme = trained_steps(blocks), next(iter(blocks_of(blocks).values())).scheme.name
    forms = {"as trained": model} if trained == 1 else _forms(blocks, trained, STEPS[scheme])
    if short and trained > 1:
        forms |= {f"{way} to {n}": form for n in (trained // 2, trained // 4) for way, form in _short(short, n)}
    return {"trained": trained, "forms": {name: exam(form, choosing=" to " in name) for name, form in forms.items()}}


def _forms(blocks: nn.Module, trained: int, schemes: dict[str, tuple[float, ...]]) -> dict[str, nn.Module]:
    steps = {scheme: sorted({max(1, round(trained * share)) for share in shares}) for scheme, shares in schemes.items()}
    return {f"{s} x {n}": set_solver(deepcopy(blocks), scheme=s, steps=n) for s, of in steps.items() for n in of}


def _short(resnet: ResNet, layers: int) -> list[tuple[str, nn.Module]]:
    return [(way, form.eval()) for way, form in shortened(resnet, layers).items()]


def _rows(found: dict[str, dict[int, Any]]) -> list[tuple[Any, ...]]:
    rows = []
    for net, seeds in found.items():
        for form in sorted(next(iter(seeds.values()))["forms"], key=_place) if seeds else ():
            seen = [one["forms"][form] for one in seeds.values()]
            accuracies = [float(np.mean(accuracies_of(seen, again))) for again in (False, True)]
            rows.append((TITLE[net], form, *accuracies, seen[0]["evaluations"], time_of(seen), len(seen)))
    return rows


def _place(form: str) -> tuple[str, int]:
    """Forms of one kind beside each other, by their number of steps."""
    kind, _, steps = form.rpartition(" ")
    return kind, int(steps) if steps.isdigit() else 0


def _draw(grid: Grid) -> "Figure":
    import matplotlib.pyplot as plt

    figure, places = plt.subplots(1, len(OWN), figsize=(12, 4), sharey=True, constrained_layout=True)
    for place, net in zip(places, OWN, strict=True):
        _draw_net(place, grid, net)
    places[0].set_ylabel("test accuracy (%)")
    return figure


def _draw_net(place: "Axes", grid: Grid, net: str) -> None:
    styles = {"euler": "o", "midpoint": "s", "rk4": "^", "rk4_38": "D"}
    for scheme, marker in styles.items():
        steps = grid.steps(net, scheme)
        is_own = scheme == OWN[net]
        for again, line in ((False, "-"), (True, ":")):
            values = [np.mean(grid.accuracies(net, f"{scheme} x {n}", again)) for n in steps]
            shade = {"color": COLOUR[net] if is_own else "#8a8a8a", "alpha": 1.0 if is_own else 0.7}
            label = f"{scheme}{', recalibrated' if again else ''}"
            if steps:
                place.plot(steps, values, marker + line, **shade, markersize=4, label=label)
    place.axvline(grid.trained(net), color="black", linewidth=0.8, linestyle=":")
    place.set(title=f"{TITLE[net]}, trained with {OWN[net]}", xlabel="steps N", xscale="log")
    ticks = grid.steps(net, OWN[net])
    place.set_xticks(ticks, [str(n) for n in ticks])
    place.minorticks_off()
    place.grid(alpha=0.25)
    place.legend(fontsize=7, title="run with")


EXPERIMENTS.add(
    "solvers",
    Experiment("The same weights with other solvers", "ContinuousNet, Fig 9 and Table 1, section 5.3", SETTINGS, run),
)
