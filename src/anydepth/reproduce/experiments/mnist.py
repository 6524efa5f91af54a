"""MNIST: a net of hats grown with RK4, and a ResNet of the same unit; both run and compressed otherwise."""

from copy import deepcopy
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import nn

from anydepth.data.table import Table
from anydepth.errors import NumericalError
from anydepth.recipes import RECIPES
from anydepth.report.collect import without_blocks
from anydepth.reproduce import EXPERIMENTS
from anydepth.reproduce.experiment import Claim, Experiment, Findings, Verdict
from anydepth.reproduce.judging import mean_and_range, points
from anydepth.reproduce.study import Study
from anydepth.surgery.blocks import blocks_of
from anydepth.surgery.resize import compress, set_solver
from anydepth.surgery.summary import summary
from anydepth.train.config import RunConfig, read_config
from anydepth.train.evaluate import evaluate
from anydepth.train.override import override
from anydepth.train.runs import Run

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_RESNET = {"basis": "constant", "size": 8, "steps": 8, "scheme": "euler", "scale": 8}
_TINY = ["data.limit=200", "data.validation=100", "training.epochs=2", "refine.at=[1]", "schedule.warmup=0"]
SOLVERS = [(scheme, steps) for scheme in ("euler", "midpoint", "rk4_38") for steps in (4, 8, 16)]
NETS = ("grown", "resnet")
PROJECTED, ALONE = "with projection", "without"
FEW = 2000
"""Test images that the curves are drawn from."""


def grown_net(scale: str) -> RunConfig:
    """The continuous net."""
    recipe = RECIPES["stateful-mnist" if scale == "paper" else "stateful-mnist-cpu"]()
    digits = ["data.name=digits", "data.crop=0", "model.options.pool=4", "model.options.channels=[4]", *_TINY]
    return override(recipe, digits) if scale == "smoke" else recipe


def resnet(scale: str) -> RunConfig:
    """The control: Euler, fixed depth, scale = steps; a quarter of the epochs, each of which is as deep as the last."""
    config = grown_net(scale)
    options = config.model.options | _RESNET
    epochs = max(1, (config.training.epochs or 4) // 4)
    plain = config.plain() | {"refine": {}, "model": config.plain()["model"] | {"options": options}}
    return override(read_config(plain), [f"training.epochs={epochs}"])


def run(study: Study) -> Findings:
    study.plan(2 * len(NETS) * len(study.seeds))
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in NETS}
    for seed in study.seeds:
        for name, make in zip(NETS, (grown_net, resnet), strict=True):
            config = override(make(study.scale), [f"seed={seed}"])
            study.piece(f"train-{name}-{seed}", lambda n=name, c=config: study.trained(n, c).metrics()[-1])
            examined = study.piece(
                f"examine-{name}-{seed}", lambda n=name, c=config: examine(study, study.trained(n, c))
            )
            found[name].append(examined)
    rows = tuple((net, how, *mean_and_range([one[how] for one in found[net]])) for net in NETS for how in _SHOWN)
    notes = (
        "Test accuracy in per cent on all test images, read after training; nothing was chosen on them. `half` halves "
        "the basis functions and the steps. The ResNet trains for a quarter of the epochs. The curves of the figure "
        f"are on the first {FEW:,} test images."
    )
    columns = ("net", "run as", "mean", "lowest", "highest")
    return Findings(columns, rows, _verdicts(found), lambda: _draw(found), notes)


_SHOWN = (
    *("trained", "half", "half, functions only", "half, interpolated", "half the steps only", "identity"),
    *(f"{scheme} x {steps}" for scheme, steps in SOLVERS),
)


def examine(study: Study, run: Run) -> dict[str, Any]:
    """Accuracy of one trained net, run and compressed in many ways."""
    model, test = run.model(), run.dataset(study.data).part("test")
    block = next(iter(blocks_of(model).values()))
    size, steps = block.size, block.steps or 1
    half, fewer = max(1, size // 2), max(1, steps // 2)
    found: dict[str, Any] = {
        "trained": _accuracy(run, model, test),
        "half": _accuracy(run, compress(model, size=half, steps=fewer), test),
        "half, functions only": _accuracy(run, compress(model, size=half), test),
        "half, interpolated": _accuracy(run, compress(model, size=half, method="interpolate"), test),
        "half the steps only": _accuracy(run, set_solver(deepcopy(model), steps=fewer), test),
        "identity": _accuracy(run, without_blocks(model), test),
        "parameters": summary(model).parameters,
        "parameters at half": summary(compress(model, size=half)).parameters,
    }
    for scheme, count in SOLVERS:
        found[f"{scheme} x {count}"] = _accuracy(run, set_solver(deepcopy(model), scheme=scheme, steps=count), test)
    few = test.take(np.arange(min(FEW, len(test))))
    found["curve"] = {
        basis: {str(k): _accuracy(run, compress(model, basis=basis, size=k), few) for k in range(1, size + 1)}
        for basis in ("constant", "linear")
    }
    found["shortened"] = {
        str(n): {
            PROJECTED: _accuracy(run, compress(model, basis="constant", size=n, steps=n, scheme="euler"), few),
            ALONE: _accuracy(run, set_solver(deepcopy(model), scheme="euler", steps=n), few),
        }
        for n in range(1, steps + 1)
    }
    return found


def _accuracy(run: Run, model: nn.Module, test: Table) -> float | None:
    try:
        return round(evaluate(model, test, run.facts, run.config.evaluation.batch).value, 3)
    except NumericalError:
        return None


def _verdicts(found: dict[str, list[dict[str, Any]]]) -> tuple[Verdict, ...]:
    nets, controls = found["grown"], found["resnet"]

    def drops(how: str, among: list[dict[str, Any]]) -> list[float]:
        return [one["trained"] - (one[how] or 0.0) for one in among]

    solvers = {f"{s} x {n}": max(drops(f"{s} x {n}", nets)) for s, n in SOLVERS}
    worst = max(solvers, key=lambda how: solvers[how])
    accuracy = [one["trained"] for one in nets]
    return (
        Verdict(
            Claim("MNIST with 12 channels, grown with RK4: 99.4 %", "S Table 2", "99.4 % (99.3-99.6), 90 epochs"),
            f"{points(accuracy)} % with {nets[0]['parameters']:,} parameters",
            min(accuracy) >= 99.2,
        ),
        Verdict(
            Claim("Half of the basis functions and steps cost little", "S Table 2", "99.4 -> 99.2 %"),
            f"lost {points(drops('half', nets))} points; the ResNet {points(drops('half', controls))}",
            max(drops("half", nets)) <= 0.3,
        ),
        Verdict(
            Claim(
                "The trained net runs with other schemes and step counts", "C Fig 9, Table 1", "0.2 to 1.4 points lost"
            ),
            f"Euler, midpoint and RK4-3/8 with 4 to 16 steps lose at most {solvers[worst]:.2f} points ({worst})",
            max(solvers.values()) <= 0.5,
        ),
        Verdict(
            Claim("The blocks do the work", "control", ""),
            f"as the identity the blocks lose {points(drops('identity', nets))} points",
            min(drops("identity", nets)) >= 5,
        ),
        Verdict(
            Claim("A net trained with Euler at fixed depth does not compress", "S Fig 3, Table 4 c2", "94.1 -> 60.5 %"),
            f"half of the functions: ResNet loses {points(drops('half, functions only', controls))} points, "
            f"the grown net {points(drops('half, functions only', nets))}",
            min(drops("half, functions only", controls)) > max(drops("half, functions only", nets)),
        ),
        Verdict(
            Claim("Projection beats interpolation", "S section 5", ""),
            f"half of the functions: projected {points(drops('half, functions only', nets))} points lost, "
            f"interpolated {points(drops('half, interpolated', nets))}",
            sum(drops("half, functions only", nets)) <= sum(drops("half, interpolated", nets)),
        ),
        _shortening(nets),
    )


def _shortening(nets: list[dict[str, Any]]) -> Verdict:
    gains = {
        steps: float(
            np.mean([(one["shortened"][steps][PROJECTED] or 0) - (one["shortened"][steps][ALONE] or 0) for one in nets])
        )
        for steps in list(nets[0]["shortened"])[:-1]
    }
    told = ", ".join(f"{steps}: {gain:+.1f}" for steps, gain in gains.items())
    return Verdict(
        Claim("Shortening with projection to K = N constants beats shortening alone", "S section 7.3", "a picture"),
        f"hats trained with RK4, run by N Euler steps; points gained by projecting at N = {told}",
        bool(gains) and float(np.mean(list(gains.values()))) > 0,
    )


def _draw(found: dict[str, list[dict[str, Any]]]) -> "Figure":
    import matplotlib.pyplot as plt

    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(13, 4), constrained_layout=True)
    colours = {"grown": "#0b6e99", "resnet": "#c2571a"}
    for net, seeds in found.items():
        for scheme, style in (("euler", "o-"), ("midpoint", "s--"), ("rk4_38", "D:")):
            values = [np.mean([one[f"{scheme} x {n}"] or 0.0 for one in seeds]) for n in (4, 8, 16)]
            left.plot((4, 8, 16), values, style, color=colours[net], label=f"{net}, {scheme}")
        for basis, style in (("linear", "o-"), ("constant", "s--")):
            curve = seeds[0]["curve"][basis]
            values = [np.mean([one["curve"][basis][k] or 0.0 for one in seeds]) for k in curve]
            middle.plot([int(k) for k in curve], values, style, color=colours[net], label=f"{net} onto {basis}")
        steps = seeds[0]["shortened"]
        for how, style in ((PROJECTED, "o-"), (ALONE, "s--")):
            values = [np.mean([one["shortened"][n][how] or 0.0 for one in seeds]) for n in steps]
            right.plot([int(n) for n in steps], values, style, color=colours[net], label=f"{net}, {how}")
    for place, title, label in (
        (left, "Other solvers", "steps"),
        (middle, "Fewer basis functions", "functions K"),
        (right, "Shortened to N Euler steps", "steps N"),
    ):
        place.set(title=title, xlabel=label, ylabel="test accuracy (%)")
        place.grid(alpha=0.25)
        place.legend(fontsize=7)
    return figure


EXPERIMENTS.add(
    "mnist",
    Experiment(
        "One net at many depths, solvers and sizes",
        "Stateful ODE-Nets, Table 2 and Figs 3, 4; ContinuousNet, Fig 9",
        {"smoke": None, "cpu": None, "paper": None},
        run,
        seeds=1,
    ),
)
