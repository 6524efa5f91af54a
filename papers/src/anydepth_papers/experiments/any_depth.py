"""Any-depth training against nets trained for each depth, and against other ways to one net for all of them.

Every net but the specialists has 8 steps of Euler's method. Each is looked at with 1, 2, 4 and 8 evaluations of the
unit per block: with fewer steps, with and without projection to as many constants; a net with LayerDrop is made shorter
in four ways. Of several forms with the same budget the one with the highest accuracy on validation images counts. All
are recalibrated on training images.
"""

from copy import deepcopy
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import nn

from anydepth.deploy.sweeps.budget import Budget
from anydepth.deploy.sweeps.per_block import fit_blocks
from anydepth.errors import BudgetError
from anydepth.runs.folder import Run
from anydepth.surgery.resize import compress, set_solver
from anydepth.surgery.summary import summary
from anydepth.zoo.models.resnet import ResNet
from anydepth_papers.experiments import EXPERIMENTS
from anydepth_papers.judge.experiment import Claim, ClaimVerdict, Experiment, Findings
from anydepth_papers.judge.rules import Judgement, better, computed, no_worse, not_run, undecided
from anydepth_papers.judge.study import Study
from anydepth_papers.judge.wording import spread
from anydepth_papers.nets.depth_nets import (
    CONSTANTS,
    DROPPED,
    GROWN,
    HATS,
    KINETIC,
    LONGER,
    NETS,
    NO_DISTILL,
    NO_SANDWICH,
    RESNETS,
    SMOKE_IMAGES,
    STALL,
    TIED,
    depth_config,
)
from anydepth_papers.nets.image_nets import Exam, uses_depth
from anydepth_papers.nets.resnets import shortened

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BUDGETS = (1, 2, 4, 8)
"""Evaluations of the unit per block."""
MARGIN = 0.5
"""Points that a form may be below the net trained for it."""
COST = 2.0
"""Times the evaluations of training one net."""
WHOLE, BLOCKS = "one size for all", "sizes per block"
RIVALS = {
    CONSTANTS: "the sandwich rule on the plain ResNet",
    DROPPED: "LayerDrop",
    GROWN: "refinement alone",
    TIED: "weight-tied initialisation",
    KINETIC: "the kinetic penalty",
    LONGER: "the same evaluations spent on longer training",
    NO_DISTILL: "labels in the place of distillation",
    NO_SANDWICH: "random forms in the place of the sandwich",
}
COLUMNS = (
    "net",
    "evaluations per block",
    "as it is (%)",
    "recalibrated (%)",
    "ms per image",
    "parameters",
    "training",
    "seeds",
)
Found = dict[str, dict[int, Any]]


def claims_of(names: tuple[str, ...]) -> dict[tuple[str, Any], Claim]:
    """Rivals are compared by the mean over 1, 2 and 4 evaluations; all recalibrated, over seeds."""
    each = {
        ("specialist", n): Claim(
            f"With {n} evaluations a block the any-depth net is at most {MARGIN:g} points below a ResNet trained so",
            "ours",
        )
        for n in BUDGETS
    }
    rivals = {
        ("rival", name): Claim(f"With 1, 2 and 4 evaluations a block it is above {words}, in the mean", "ours")
        for name, words in RIVALS.items()
        if name in names
    }
    last = {("cost", 0): Claim(f"It takes at most {COST:g} times the evaluations of training one net", "ours")}
    if STALL in names:
        last["stall", 0] = Claim(
            f"Grown when the loss stalls, a net is at most {MARGIN:g} points below one grown at set steps", "ours"
        )
    last["blocks", 0] = Claim(
        "At equal parameters, sizes per block are above one size for all (ResNet-8 halved)", "ours"
    )
    return each | rivals | last


def run(study: Study) -> Findings:
    names = tuple(study.settings["nets"])
    study.plan(2 * len(names) * len(study.seeds))
    found: Found = {name: {seed: _found(study, name, seed) for seed in study.seeds} for name in names}
    verdicts = tuple(ClaimVerdict(claim, *judged_on(found, key[0], key[1])) for key, claim in claims_of(names).items())
    return Findings(COLUMNS, tuple(_rows(found)), verdicts, lambda: _draw(found), _notes(study))


def _found(study: Study, name: str, seed: int) -> dict[str, Any]:
    config = depth_config(name, seed, study.settings)
    title = "depth-" + "".join(c if c.isalnum() else "-" for c in name.lower())
    trained = study.piece(f"train-{title}-{seed}", lambda: _trained(study.trained(title, config)))
    looks = study.piece(f"look-{title}-{seed}", lambda: _look(study, name, study.trained(title, config)))
    return looks | {"training": trained["evaluations"]}


def _trained(run: Run) -> dict[str, Any]:
    """The last epoch; a plain ResNet has the evaluations that stochastic depth is expected to take."""
    last, model = [line for line in run.metrics() if line["kind"] == "epoch"][-1], run.model()
    return last | ({"evaluations": round(last["step"] * sum(model.chances))} if isinstance(model, ResNet) else {})


def _look(study: Study, name: str, run: Run) -> dict[str, Any]:
    """Every form on validation images; those that are best within a budget also on test images."""
    exam, model = Exam(study, run), run.model()
    made = {"as trained": model} if name in RESNETS.values() else forms_of(model)
    found: dict[str, Any] = {form: exam.validated(each) for form, each in made.items()}
    looks: dict[str, Any] = {"forms": found, "blocks": study.settings["blocks"]}
    for form in {_best(looks, n) for n in BUDGETS if _within(looks, n)}:
        found[form] |= _kept(exam(made[form]))
    if name == RESNETS[8]:
        looks["sizes"] = {how: _kept(exam(each)) for how, each in _halved(study, run, model).items()}
    return looks


def forms_of(model: nn.Module) -> dict[str, nn.Module]:
    """What is looked at in a net that is to be good at every depth."""
    if isinstance(model, ResNet):
        layers = model.config["layers"]
        short = {f"{way} to {n}": form for n in BUDGETS if n < layers for way, form in shortened(model, n).items()}
        return {"as trained": model, **short}
    steps = [n for n in BUDGETS if n < summary(model).nfe / len(summary(model).rows)]
    fewer: dict[str, nn.Module] = {f"euler x {n}": set_solver(deepcopy(model), steps=n) for n in steps}
    constants = {f"euler x {n}, {n} constants": compress(model, basis="constant", size=n, steps=n) for n in steps}
    return {"as trained": model, **fewer, **constants}


def _halved(study: Study, run: Run, model: nn.Module) -> dict[str, nn.Module]:
    """Half of the functions in every block, and shapes per block with as many parameters."""
    whole = compress(model, size=4)
    try:
        fitted = fit_blocks(run, Budget(max_params=summary(whole).parameters), study.data)
    except BudgetError:
        return {WHOLE: whole, BLOCKS: whole}
    return {WHOLE: whole, BLOCKS: fitted.model}


def _kept(seen: dict[str, Any]) -> dict[str, Any]:
    again = seen["recalibrated"]["accuracy"]
    names = ("evaluations", "milliseconds", "parameters")
    return {"accuracy": again, "as it is": seen["accuracy"]} | {key: seen[key] for key in names}


def at(one: dict[str, Any], budget: int) -> dict[str, Any]:
    """The form within a budget with the highest accuracy on validation images."""
    return one["forms"][_best(one, budget)]


def _best(one: dict[str, Any], budget: int) -> str:
    return max(_within(one, budget), key=lambda form: one["forms"][form]["validation"])


def _within(one: dict[str, Any], budget: int) -> list[str]:
    return [form for form, seen in one["forms"].items() if seen["evaluations"] <= budget * one["blocks"]]


def judged_on(found: Found, kind: str, which: Any) -> tuple[str, Judgement]:
    if kind == "specialist":
        return _compared(found, HATS, RESNETS[which], (which,), MARGIN)
    if kind == "rival":
        return _compared(found, HATS, which, (1, 2, 4), None)
    if kind == "stall":
        return _compared(found, STALL, GROWN, (8,), MARGIN)
    if kind == "blocks":
        mine, its = ([one["sizes"][how]["accuracy"] for one in found[RESNETS[8]].values()] for how in (BLOCKS, WHOLE))
        return f"{spread(mine)} against {spread(its)} %", better(mine, its, paired=True)
    ratio = [found[HATS][seed]["training"] / found[RESNETS[8]][seed]["training"] for seed in found[HATS]]
    text = f"{max(ratio):.2f} times the evaluations" if ratio else ""
    return text, computed(max(ratio) <= COST, text) if ratio else not_run("no seed has both nets yet")


def _compared(
    found: Found, mine: str, other: str, budgets: tuple[int, ...], margin: float | None
) -> tuple[str, Judgement]:
    seeds = sorted(set(found[mine]) & set(found[other]))
    values = [
        [float(np.mean([at(found[name][seed], n)["accuracy"] for n in budgets])) for seed in seeds]
        for name in (mine, other)
    ]
    told = f"{spread(values[0])} against {spread(values[1])} %"
    ours, theirs = values
    judgement = better(ours, theirs, paired=True) if margin is None else no_worse(ours, theirs, margin, paired=True)
    return told, _idle(found, mine) or judgement


def _idle(found: Found, name: str) -> Judgement | None:
    """Undecided where a net with all of its evaluations is not more than 5 points above ResNet-1; else None."""
    shallow = {seed: at(one, 1)["accuracy"] for seed, one in found[RESNETS[1]].items()}
    if uses_depth(found, name, shallow, lambda one: at(one, max(BUDGETS))["accuracy"]):
        return None
    return undecided(f"{name}: not known to be 5 points above {RESNETS[1]}: decides nothing on depth")


def _rows(found: Found) -> list[tuple[Any, ...]]:
    rows = []
    for name, seeds in found.items():
        budgets = [n for n in BUDGETS if name not in RESNETS.values() or RESNETS[n] == name]
        for n in budgets:
            seen = [at(one, n) for one in seeds.values()]
            times = [one["milliseconds"] for one in seen if one["milliseconds"] is not None]
            training = int(np.mean([one["training"] for one in seeds.values()]))
            means = (round(float(np.mean([one[key] for one in seen])), 2) for key in ("as it is", "accuracy"))
            figures = (*means, min(times, default=None))
            rows.append((name, n, *figures, max(one["parameters"] for one in seen), training, len(seen)))
    return rows


def _notes(study: Study) -> tuple[str, ...]:
    used = study.settings
    return (
        f"Data: {used['data']}; channels {used['channels']}, {used['steps']} steps of the optimiser with a batch of "
        f"{used['batch']}, {used['longer']} for the net trained longer; {used['images']} test images; specialists are "
        "trained with the number of steps that they run with.",
        "Evaluations are those of units for one image in each block; training: of units, in all passes of a training.",
        "Accuracy is that of the form chosen on validation images, the mean over seeds; milliseconds of the processor, "
        "a batch of 100, the least of five passes.",
        f"Control: claims on depths decide something only if the net with {max(BUDGETS)} evaluations is more than 5 "
        f"points above {RESNETS[1]}.",
        "LayerDrop: a ResNet with stochastic depth, survival 0.5 at the end; the kinetic penalty is 0.03, and no rate, "
        "weight or penalty was tuned for these nets.",
    )


def _draw(found: Found) -> "Figure":
    import matplotlib.pyplot as plt

    figure, place = plt.subplots(figsize=(7, 4.4), constrained_layout=True)
    for name, seeds in found.items():
        if name not in RESNETS.values():
            values = [np.mean([at(one, n)["accuracy"] for one in seeds.values()]) for n in BUDGETS]
            place.plot(BUDGETS, values, "o-", markersize=4, linewidth=2.5 if name == HATS else 1, label=name)
    alone = [np.mean([at(one, n)["accuracy"] for one in found[RESNETS[n]].values()]) for n in BUDGETS]
    place.plot(BUDGETS, alone, "D", color="#111111", label="ResNets, one for each")
    place.set(xlabel="evaluations of the unit per block", ylabel="test accuracy, recalibrated (%)", xscale="log")
    place.set_xticks(BUDGETS, [str(n) for n in BUDGETS])
    place.grid(alpha=0.25)
    place.legend(fontsize=7)
    return figure


_ALL = [*NETS]
_SOME = [HATS, CONSTANTS, GROWN, LONGER, DROPPED, *RESNETS.values()]
_SMOKE: dict[str, Any] = SMOKE_IMAGES | {
    "steps": 6,
    "longer": 9,
    "grows": [1, 2, 4],
    "batch": 32,
    "warmup": 0,
    "images": 32,
    "recalibration": 2,
    "blocks": 2,
    "nets": _ALL,
}
_MNIST: dict[str, Any] = {
    "data": {"name": "mnist", "limit": 4000, "validation": 2000},
    "channels": [4, 8],
    "pool": 7,
    "crop": 2,
    "batch": 128,
    "warmup": 20,
    "steps": 480,
    "longer": 720,
    "grows": [120, 240, 360],
    "images": 4000,
    "recalibration": 10,
    "blocks": 2,
    "nets": _ALL,
}
"""At most a minute of one thread per net."""
_CIFAR: dict[str, Any] = {
    "data": {"name": "cifar10", "limit": 15_000, "validation": 2000},
    "channels": [16, 32],
    "pool": 8,
    "crop": 4,
    "flip": True,
    "batch": 128,
    "warmup": 100,
    "steps": 1404,
    "longer": 2106,
    "grows": [351, 702, 1053],
    "images": 10_000,
    "recalibration": 20,
    "blocks": 2,
    "nets": _SOME,
}
_BIG = {"steps": 7000, "longer": 10_500, "grows": [1750, 3500, 5250]}


def _at_full_size(settings: dict[str, Any]) -> dict[str, Any]:
    data = {"name": settings["data"]["name"], "validation": 5000}
    return settings | {"data": data, "nets": _ALL, "images": 10_000} | _BIG


for _name, _title, _cpu in (("any-depth", "MNIST", _MNIST), ("any-depth-cifar10", "CIFAR-10", _CIFAR)):
    _small = _SMOKE | {"nets": _cpu["nets"]}
    EXPERIMENTS.add(
        _name,
        Experiment(
            "Any-depth training against a net for every depth",
            f"anydepth; {_title}",
            {"smoke": _small, "cpu": _cpu, "paper": _at_full_size(_cpu)},
            run,
        ),
    )
