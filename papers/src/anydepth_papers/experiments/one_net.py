"""One net for every budget, against a net trained for each: is an any-depth net worth anyone's while?

One net of hats, grown while it trained, is run in other forms with 1, 2, 4 and 8 evaluations of the unit per block. It
is compared with ResNets trained for just that budget, and with a ResNet of 8 units a stage, trained with and without
stochastic depth, that is made shorter without training. Of several forms with the same budget the one with the highest
accuracy on validation images counts; all are recalibrated on augmented training images.
"""

from copy import deepcopy
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import nn

from anydepth.surgery.resize import compress, set_solver
from anydepth.zoo.models.resnet import ResNet
from anydepth_papers.campaign.declared import EPOCHS, GROWS_AT
from anydepth_papers.experiments import EXPERIMENTS
from anydepth_papers.judge.experiment import Claim, ClaimVerdict, Experiment, Findings
from anydepth_papers.judge.rules import (
    Judgement,
    better,
    computed,
    instance_better,
    instance_no_worse,
    no_worse,
    undecided,
)
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
    unpacked,
    waiting,
    waits_for,
)
from anydepth_papers.nets.resnets import shortened
from anydepth_papers.studies.form_tables import depth_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ONE, STOCHASTIC, PLAIN = "hats-midpoint", "stochastic", "resnet"
BUDGETS = (1, 2, 4, 8)
"""Evaluations of the unit per block."""
SPECIALIST = {1: "resnet-1", 2: "resnet-2", 4: "resnet-4", 8: "resnet"}
NAMES = (ONE, "resnet-1", "resnet-2", "resnet-4", PLAIN, STOCHASTIC)
STAGES = {"euler": 1, "midpoint": 2, "rk4": 4}
THESE = "these two: "
"""Claims about the nets of the first seed that has both, over the test images; the others are over seeds."""
MARGIN = 1.0
"""Points that the one net may be below a net trained for the budget."""


def _evaluations(n: int) -> str:
    return "1 evaluation" if n == 1 else f"{n} evaluations"


CLAIMS = {
    **{
        ("specialist", n): Claim(
            f"With {_evaluations(n)} a block the one net is at most {MARGIN:g} point below a ResNet trained for them",
            "ours",
        )
        for n in BUDGETS
    },
    **{
        (STOCHASTIC, n): Claim(
            f"With {_evaluations(n)} a block the one net is above a ResNet with stochastic depth made as short", "ours"
        )
        for n in BUDGETS[:-1]
    },
    **{
        (PLAIN, n): Claim(f"With {_evaluations(n)} a block the one net is above a plain ResNet made as short", "ours")
        for n in BUDGETS[:-1]
    },
    **{
        (f"{THESE}specialist", n): Claim(
            f"With {_evaluations(n)} a block this net is at most {MARGIN:g} point below this ResNet trained for them",
            "ours",
        )
        for n in BUDGETS
    },
    **{
        (f"{THESE}{STOCHASTIC}", n): Claim(
            f"With {_evaluations(n)} a block this net is above this ResNet with stochastic depth made as short", "ours"
        )
        for n in BUDGETS[:-1]
    },
    **{
        (f"{THESE}{PLAIN}", n): Claim(
            f"With {_evaluations(n)} a block this net is above this plain ResNet made as short", "ours"
        )
        for n in BUDGETS[:-1]
    },
    ("cost", 0): Claim("Training the one net takes fewer evaluations than training a net for every budget", "ours"),
}
COLUMNS = ("net", "form", "evaluations", "as it is (%)", "recalibrated (%)", "ms per image", "parameters", "seeds")
Found = dict[str, dict[int, Any]]


def run(study: Study) -> Findings:
    found = examined(study, NAMES, look, plain=True)
    if not found[ONE]:
        return waiting(tuple(CLAIMS.values()), COLUMNS, [name for name in NAMES if not found[name]])
    verdicts = tuple(verdict_on(found, kind, n, claim) for (kind, n), claim in CLAIMS.items())
    return Findings(COLUMNS, tuple(rows_on(found)), verdicts, lambda: drawn(found), _notes(found))


def look(model: nn.Module, exam: Exam) -> dict[str, Any]:
    """Every form of a net, by its name: what it costs and how accurate it is."""
    forms = _resnet_forms(model) if isinstance(model, ResNet) else _forms(model)
    return {"forms": {name: exam(form, choosing=True) for name, form in forms.items()}}


def _forms(model: nn.Module) -> dict[str, nn.Module]:
    """The net as trained, and with every scheme and number of steps of a budget, projected to as many constants as
    steps or not."""
    forms: dict[str, nn.Module] = {"as trained": model}
    for scheme, stages in STAGES.items():
        for steps in (n // stages for n in BUDGETS if n >= stages):
            forms[f"{scheme} x {steps}"] = set_solver(deepcopy(model), scheme=scheme, steps=steps)
            if steps < trained_steps(model):
                small = compress(model, basis="constant", size=steps, steps=steps, scheme=scheme)
                forms[f"{scheme} x {steps}, {steps} constants"] = small
    return forms


def _resnet_forms(model: ResNet) -> dict[str, nn.Module]:
    layers = model.config["layers"]
    if layers < max(BUDGETS) and model.config["survival"] == 1 and layers in SPECIALIST:
        return {"as trained": model}
    short = {f"{way} to {n}": form for n in BUDGETS if n < layers for way, form in shortened(model, n).items()}
    return {"as trained": model, **short}


def per_block(one: dict[str, Any], form: str, blocks: int = 3) -> float:
    """Evaluations of the unit per block."""
    return one["forms"][form]["evaluations"] / blocks


def best(one: dict[str, Any], budget: int, blocks: int) -> str | None:
    """The form within a budget with the highest accuracy on validation images."""
    fits = [name for name in one["forms"] if per_block(one, name, blocks) <= budget]
    return max(fits, key=lambda name: one["forms"][name]["validation"], default=None)


def _blocks(found: Found) -> int:
    """How many blocks the nets have: one step of Euler makes one evaluation in each."""
    return next(iter(found[ONE].values()))["forms"]["euler x 1"]["evaluations"]


def _at(found: Found, name: str, seed: int, budget: int) -> dict[str, Any] | None:
    form = best(found[name][seed], budget, _blocks(found))
    return None if form is None else found[name][seed]["forms"][form]["recalibrated"]


def verdict_on(found: Found, kind: str, budget: int, claim: Claim) -> ClaimVerdict:
    if kind == "cost":
        return ClaimVerdict(claim, *_cost())
    of_these, kind = kind.startswith(THESE), kind.removeprefix(THESE)
    other = SPECIALIST[budget] if kind == "specialist" else kind
    seeds = common_seeds(found, ONE, other)
    if not seeds:
        return ClaimVerdict(claim, "", waits_for(found, ONE, other))
    pairs = [(_at(found, ONE, seed, budget), _at(found, other, seed, budget)) for seed in seeds]
    kept = [(seed, mine, its) for seed, (mine, its) in zip(seeds, pairs, strict=True) if mine and its]
    if not kept:
        return ClaimVerdict(claim, "", undecided("no form is as cheap"))
    told, judgement = (_judged_on_images if of_these else _judged_over_seeds)(kind, kept)
    return ClaimVerdict(claim, told, depth_of(found, ONE, "resnet-1") or judgement)


Pair = tuple[int, dict[str, Any], dict[str, Any]]
"""A seed, and what is seen of the one net and of the other with a budget."""


def _judged_over_seeds(kind: str, kept: list[Pair]) -> tuple[str, Judgement]:
    mine, its = [one["accuracy"] for _, one, _ in kept], [one["accuracy"] for _, _, one in kept]
    each = ", ".join(f"{a - b:+.2f} (seed {seed})" for (seed, _, _), a, b in zip(kept, mine, its, strict=True))
    told = f"{spread(mine)} against {spread(its)} %, points apart {each}"
    return told, _judged(kind, mine, its)


def _judged(kind: str, mine: list[float], its: list[float]) -> Judgement:
    if kind == "specialist":
        return no_worse(mine, its, MARGIN, paired=True)
    return better(mine, its, paired=True)


def _judged_on_images(kind: str, kept: list[Pair]) -> tuple[str, Judgement]:
    """The nets of the first seed beside each other on the test images: about these two nets only."""
    _, mine, its = kept[0]
    right, other = (unpacked(one["answers"]) for one in (mine, its))
    judged = instance_no_worse(right, other, MARGIN) if kind == "specialist" else instance_better(right, other)
    return f"{mine['accuracy']:.2f} against {its['accuracy']:.2f} %", judged


def _cost() -> tuple[str, Judgement]:
    """Evaluations of the unit per block and example, summed over the epochs."""
    grown = sum(2 * 2 ** sum(epoch >= at for at in GROWS_AT) for epoch in range(EPOCHS))
    each = EPOCHS * sum(BUDGETS)
    text = f"{grown} against {each} evaluations per block and training image over {EPOCHS} epochs: {grown / each:.2f}"
    return text, computed(grown < each, text)


def rows_on(found: Found) -> list[tuple[Any, ...]]:
    rows = []
    for name in NAMES:
        if found[name]:
            forms = next(iter(found[name].values()))["forms"]
            rows += [_row(found, name, form) for form in sorted(forms, key=lambda f: (forms[f]["evaluations"], f))]
    return rows


def _row(found: Found, name: str, form: str) -> tuple[Any, ...]:
    seen = [one["forms"][form] for one in found[name].values()]
    mean = {key: float(np.mean([one[key] for one in seen])) for key in ("evaluations", "accuracy")}
    times = [one["milliseconds"] for one in seen if one["milliseconds"] is not None]
    again = float(np.mean([one["recalibrated"]["accuracy"] for one in seen]))
    figures = (
        int(mean["evaluations"]),
        round(mean["accuracy"], 2),
        round(again, 2),
        round(min(times), 3) if times else None,
    )
    return (TITLE[name], form, *figures, seen[0]["parameters"], len(seen))


def _notes(found: Found) -> tuple[str, ...]:
    seeds = {TITLE[name]: sorted(found[name]) for name in NAMES}
    return (
        setting_of(),
        "Evaluations are those of residual units for one image in all blocks; the two stitches are not counted.",
        "skipped: units left out; stretched: units left out and the others' steps longer; merged: neighbours averaged, "
        "steps longer; projected: projected onto hats.",
        "Milliseconds: of the processor, one thread, a batch of 100, the least of five passes.",
        "Control: the one net as trained is more than 5 points above a ResNet with 1 unit a stage; else it need not "
        "use its depth, and decides nothing about budgets.",
        f"Seeds that are done: {'; '.join(f'{name} {known}' for name, known in seeds.items())}.",
    )


def drawn(found: Found) -> "Figure":
    import matplotlib.pyplot as plt

    figure, places = plt.subplots(1, 2, figsize=(11, 4.2), sharey=True, constrained_layout=True)
    for place, cost, label in zip(
        places, ("evaluations", "milliseconds"), ("evaluations of the unit per image", "ms per image"), strict=True
    ):
        for name in (ONE, STOCHASTIC, PLAIN):
            if found[name]:
                _curve(place, found, name, cost)
        _specialists(place, found, cost)
        place.set(xlabel=label)
        place.set_xscale("log", base=2)
        place.xaxis.set_major_formatter("{x:g}")
        place.grid(alpha=0.25)
    budgets = [n * _blocks(found) for n in (*BUDGETS, 2 * BUDGETS[-1])]
    places[0].set_xticks(budgets, [str(n) for n in budgets])
    places[0].set_ylabel("test accuracy, recalibrated (%)")
    places[0].legend(fontsize=8)
    return figure


def _curve(place: "Axes", found: Found, name: str, cost: str) -> None:
    """The chosen forms of a net for every budget, the mean over seeds."""
    budgets = [n for n in (*BUDGETS, 2 * BUDGETS[-1]) if n <= BUDGETS[-1] or name == ONE]
    points = []
    for budget in budgets:
        seen = [one["forms"][best(one, budget, _blocks(found)) or "as trained"] for one in found[name].values()]
        points.append(np.mean([(one[cost], one["recalibrated"]["accuracy"]) for one in seen], axis=0))
    place.plot(*np.transpose(points), "o-", color=COLOUR[name], label=f"{TITLE[name]}: one net", markersize=4)


def _specialists(place: "Axes", found: Found, cost: str) -> None:
    for number, name in enumerate(SPECIALIST.values()):
        for one in found[name].values():
            seen = one["forms"]["as trained"]
            label = "ResNets, one for each budget" if number == 0 and one is next(iter(found[name].values())) else None
            place.plot(seen[cost], seen["recalibrated"]["accuracy"], "D", color="#111111", markersize=5, label=label)


EXPERIMENTS.add(
    "one-net", Experiment("One net for every budget, against a net for each", "anydepth; CIFAR-10", SETTINGS, run)
)
