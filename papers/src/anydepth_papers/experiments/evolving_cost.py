"""What evolving the kernels costs: CPU time of a training step and of an answer, the sides taking turns."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from time import process_time
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from anydepth.surgery.blocks import blocks_of
from anydepth.zoo.parts import build
from anydepth_papers.bench.sides import answer, training_step
from anydepth_papers.experiments import EXPERIMENTS
from anydepth_papers.judge.experiment import Claim, ClaimVerdict, Experiment, Findings
from anydepth_papers.judge.rules import Judgement, better, near, no_worse
from anydepth_papers.judge.study import Study
from anydepth_papers.judge.wording import spread
from anydepth_papers.models.anode import AnodeNetwork
from anydepth_papers.recipes.anodev2 import block_options

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SIDES = {"baseline": "one step", "anode": "2 steps", "config2": "2 steps", "anode-5": "5 steps", "config1": "5 steps"}
"""The nets, and their steps."""
EVOLVES = ("config1", "config2")
NEGLIGIBLE = 5.0
"""Per cent of a training step."""
TIMES, ABOUT = 5.0, 1.0
"""How much longer a block of five steps takes than one residual unit, and how far from that is roughly that."""
CLAIMS = {
    "config2": Claim(
        "Configuration two: evolving makes a training step at most 5 % longer than that of ANODE",
        "A section 4",
        "negligible",
    ),
    "config1": Claim(
        "Configuration one: evolving makes a training step at most 5 % longer than five steps with kernels that stay",
        "A section 4",
        "negligible",
    ),
    "block": Claim(
        "A block of configuration one takes roughly 5 times as long as a residual unit: 4 to 6",
        "A section 2.2",
        "N_t = 5",
    ),
    "cheaper": Claim(
        "A training step of configuration two is shorter than one of configuration one", "A section 3.2", "much less"
    ),
}


@dataclass(frozen=True)
class Settings:
    """The network, images of a batch, and rounds in which the sides take turns."""

    layout: str
    batch: int
    rounds: int


SETTINGS = {
    "smoke": Settings("resnet4", 2, 1),
    "cpu": Settings("resnet10", 128, 5),
    "paper": Settings("resnet10", 256, 15),
}
Times = dict[str, dict[str, float]]


def run(study: Study) -> Findings:
    study.plan(len(study.seeds))
    found: list[Times] = [
        study.piece(f"times-{seed}", lambda s=seed: times_of(s, study.settings)) for seed in study.seeds
    ]
    rows = tuple(_row(name, found) for name in SIDES)
    columns = ("net", "steps", "training step (ms)", "times the baseline", "first block, answering (ms)", "times")
    settings: Settings = study.settings
    notes = (
        f"{settings.layout}, batch {settings.batch}, one thread, gradients with checkpoints as in the paper.",
        f"Medians of the CPU time of {settings.rounds} rounds in which all sides take turns, once for every seed.",
        "`anode-5`: five steps with kernels that stay and batch norm per step.",
        "The first block answers without gradients, in evaluation mode.",
        "The margin of 5 % was chosen when an earlier benchmark (4 % longer, batch 128) was known.",
    )
    return Findings(columns, rows, verdicts_of(found), lambda: _draw(found), notes)


def network(variant: str, layout: str, seed: int) -> AnodeNetwork:
    torch.manual_seed(seed)
    options = block_options(layout, "config1" if variant == "anode-5" else variant)
    if variant == "anode-5":
        options["weights"] = options["weights"] | {"conv*.weight": {"basis": "constant", "size": 1}}
    net = build("anode", layout=layout, **options)
    assert isinstance(net, AnodeNetwork)
    for block in blocks_of(net).values():
        block.set_gradient("checkpoint", options["steps"])
    return net


def times_of(seed: int, settings: Settings) -> Times:
    """Median milliseconds of every side, of a training step and of its first block."""
    nets = {name: network(name, settings.layout, seed) for name in SIDES}
    x = torch.randn(settings.batch, 3, 32, 32).to(memory_format=torch.channels_last)
    steps = _in_turns({name: training_step(net, net.parameters(), x) for name, net in nets.items()}, settings.rounds)
    blocks = {name: next(iter(blocks_of(net).values())) for name, net in nets.items()}
    state = torch.randn(settings.batch, 16, 32, 32).to(memory_format=torch.channels_last)
    answers = _in_turns({name: answer(block.eval(), state) for name, block in blocks.items()}, settings.rounds)
    return {name: {"step": steps[name], "block": answers[name]} for name in SIDES}


def _in_turns(runs: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Median milliseconds of CPU time, which waiting for other processes does not lengthen; the first round is lost."""
    spent: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(rounds + 1):
        for name, run in runs.items():
            began = process_time()
            run()
            spent[name].append(1e3 * (process_time() - began))
    return {name: float(np.median(times[1:])) for name, times in spent.items()}


def _row(name: str, found: list[Times]) -> tuple[Any, ...]:
    def mean(key: str, side: str = name) -> float:
        return float(np.mean([one[side][key] for one in found]))

    ratios = {key: mean(key) / mean(key, "baseline") for key in ("step", "block")}
    return name, SIDES[name], mean("step"), ratios["step"], mean("block"), ratios["block"]


def verdicts_of(found: list[Times]) -> tuple[ClaimVerdict, ...]:
    judged = {
        "config2": _longer(found, "config2", "anode"),
        "config1": _longer(found, "config1", "anode-5"),
        "block": _block(found),
        "cheaper": _cheaper(found),
    }
    return tuple(ClaimVerdict(claim, *judged[name]) for name, claim in CLAIMS.items())


def _longer(found: list[Times], side: str, base: str) -> tuple[str, Judgement]:
    more = [100 * (one[side]["step"] / one[base]["step"] - 1) for one in found]
    judgement = no_worse([-value for value in more], [0.0] * len(more), NEGLIGIBLE, paired=True, unit="%")
    return f"{spread(more)} % longer", judgement


def _block(found: list[Times]) -> tuple[str, Judgement]:
    times = [one["config1"]["block"] / one["baseline"]["block"] for one in found]
    return f"{spread(times)} times", near(times, TIMES, ABOUT, unit="times")


def _cheaper(found: list[Times]) -> tuple[str, Judgement]:
    one, two = ([times[name]["step"] for times in found] for name in EVOLVES)
    return f"{spread(two, 0)} against {spread(one, 0)} ms", better(one, two, paired=True, unit="ms longer")


def _draw(found: list[Times]) -> "Figure":
    import matplotlib.pyplot as plt

    figure, place = plt.subplots(figsize=(6.5, 3.6), constrained_layout=True)
    for x, name in enumerate(SIDES):
        values = [one[name]["step"] / one["baseline"]["step"] for one in found]
        colour = "#0b6e99" if name in EVOLVES else "#c2571a"
        place.plot([x] * len(values), values, "o", color=colour, alpha=0.8)
    place.set_xticks(range(len(SIDES)), [f"{name}\n{steps}" for name, steps in SIDES.items()])
    place.set(ylabel="training step, times the baseline", ylim=(0, None))
    place.grid(alpha=0.25, axis="y")
    return figure


EXPERIMENTS.add(
    "evolving-cost",
    Experiment("What evolving the kernels costs", "ANODEV2, sections 2.2, 3.2, 4", SETTINGS, run, seeds=5),
)
