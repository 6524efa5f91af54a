"""The continuous transformer as a tagger, compressed and shortened (Stateful ODE-Nets, Figs 1, 2, 5, 6)."""

from copy import deepcopy
from fractions import Fraction
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
from torch import Tensor
from torch.func import functional_call

from anydepth.block.block import ContinuousBlock
from anydepth.data.frequent_tags import frequent_tag_accuracy
from anydepth.data.sentences import Sentences
from anydepth.depth.times import Instant, Side
from anydepth.errors import NumericalError
from anydepth.recipes import RECIPES
from anydepth.reproduce import EXPERIMENTS
from anydepth.reproduce.experiment import Claim, Experiment, Findings, Verdict
from anydepth.reproduce.judging import mean_and_range, points
from anydepth.reproduce.study import Study
from anydepth.surgery.resize import compress, set_solver
from anydepth.surgery.summary import summary
from anydepth.train.config import RunConfig
from anydepth.train.evaluate import evaluate, evaluating
from anydepth.train.override import override
from anydepth.train.runs import Run

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BASES = ("constant", "linear", "discontinuous")
SHOWN = 12
"""Words of the sentence whose attention is drawn."""
_SMOKE = [
    *("model.options.width=8", "training.steps=12", "training.batch=8", "refine.at=[3,6]", "schedule.warmup=4"),
    *("data.name=treebank", "data.options.folder=tiny"),
]


def config_for(scale: str, seed: int) -> RunConfig:
    recipe = RECIPES["stateful-gum" if scale == "paper" else "gum"]()
    return override(recipe, [*(_SMOKE if scale == "smoke" else ()), f"seed={seed}"])


def run(study: Study) -> Findings:
    study.plan(2 * len(study.seeds))
    if study.scale == "smoke":
        _write_tiny_treebank(study)
    found = []
    for seed in study.seeds:
        config = config_for(study.scale, seed)
        study.piece(f"train-{seed}", lambda c=config: study.trained("tagger", c).metrics()[-1])
        found.append(study.piece(f"examine-{seed}", lambda c=config: examine(study, study.trained("tagger", c))))
    rows = tuple(
        (
            what,
            key,
            *mean_and_range([one[what][key] for one in found]),
            f"{found[0]['parameters'].get(f'{what} {key}', 0):,}",
        )
        for what in (*(f"onto {basis}" for basis in BASES), "steps, with projection", "steps alone")
        for key in found[0][what]
    )
    first = found[0]
    notes = (
        "Accuracy in per cent of test words, read after training. The first column says what was done to the trained "
        "net: its weights projected onto K functions of a basis with the steps as trained, or shortened to N Euler "
        f"steps, with or without projection onto K = N constants. The net: {first['net']}; trained in "
        f"{first['seconds'] / 60:.0f} minutes. Counting words alone gives {first['baseline']:.2f} % "
        f"({first['unknown']:.1f} % of the test words are not in the training part)."
    )
    columns = ("change", "K or N", "mean", "lowest", "highest", "parameters")
    return Findings(columns, rows, _verdicts(found), lambda: _draw(found), notes)


def examine(study: Study, run: Run) -> dict[str, Any]:
    """Accuracy of one trained net in many forms, and what is drawn of it."""
    model, dataset = run.model(), run.dataset(study.data)
    train, test = (cast("Sentences", dataset.part(part)) for part in ("train", "test"))
    block = _block(model)
    sizes = _halvings(block.size)
    parameters: dict[str, int] = {}

    def accuracy(net: torch.nn.Module) -> float | None:
        try:
            return round(evaluate(net, test, run.facts, run.config.evaluation.batch).value, 3)
        except NumericalError:
            return None

    def curve(what: str, forms: dict[int, torch.nn.Module]) -> dict[str, float | None]:
        parameters.update({f"{what} {key}": summary(net).parameters for key, net in forms.items()})
        return {str(key): accuracy(net) for key, net in forms.items()}

    known = set(run.facts.words)
    found: dict[str, Any] = {"trained": accuracy(model), "baseline": round(frequent_tag_accuracy(train, test), 3)}
    for basis in BASES:
        fitting = [size for size in sizes if basis != "discontinuous" or size == 1 or size % 2 == 0]
        found[f"onto {basis}"] = curve(
            f"onto {basis}", {size: compress(model, basis=basis, size=size) for size in fitting}
        )
    steps = _halvings(block.steps or 1)
    found["steps, with projection"] = curve(
        "steps, with projection", {n: compress(model, basis="constant", size=n, steps=n) for n in steps}
    )
    found["steps alone"] = curve("steps alone", {n: set_solver(deepcopy(model), steps=n) for n in steps})
    epochs = [line for line in run.metrics() if line["kind"] == "epoch"]
    return found | {
        "parameters": parameters,
        "unknown": 100 * sum(word not in known for words in test.words for word in words) / int(test.lengths.sum()),
        "net": f"{summary(model).parameters:,} parameters, {block.extra_repr()}",
        "in block": block.counts()[0],
        "seconds": epochs[-1]["seconds"],
        "attention": _attention_over_depth(model, run, test),
        "weight": _projected_weight(model),
    }


def _block(model: torch.nn.Module) -> ContinuousBlock:
    return cast("ContinuousBlock", model.block)


def _halvings(size: int) -> list[int]:
    return [size // 2**i for i in range(size.bit_length())]


def _attention_over_depth(model: torch.nn.Module, run: Run, test: Sentences) -> dict[str, Any]:
    """Attention between the words of the first long enough sentence, at four depths (Fig 1)."""
    place = next((i for i, words in enumerate(test.words) if len(words) >= SHOWN), 0)
    (tokens, mask), _ = test.batch(np.array([place]), run.facts)
    tokens, mask = tokens[:, :SHOWN], mask[:, :SHOWN]
    depths = [0.0, 0.25, 0.5, 1.0]
    block = _block(model)
    with evaluating(model):
        states = cast("Tensor", block.trajectory(cast("Any", model).embed(tokens), depths, mask))
        maps = [_attention(block, depth, state, mask) for depth, state in zip(depths, states, strict=True)]
    return {"words": test.words[place][:SHOWN], "depths": depths, "maps": maps}


def _attention(block: ContinuousBlock, depth: float, state: Tensor, mask: Tensor) -> list[list[float]]:
    unit = _Attending(block.unit)
    theta = {f"unit.{name}": tensor for name, tensor in block.theta(depth).items()}
    weights = functional_call(unit, theta, (state, mask))
    return [[round(value, 4) for value in row] for row in weights[0].mean(0).tolist()]


class _Attending(torch.nn.Module):
    """An encoder that gives its attention instead of its result."""

    def __init__(self, unit: torch.nn.Module):
        super().__init__()
        self.unit = unit

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        return cast("Any", self.unit).attention(x, mask)


def _projected_weight(model: torch.nn.Module) -> dict[str, Any]:
    """One component of the query matrix over depth: as trained, and projected onto fewer functions (Fig 2)."""
    quarter = max(1, _block(model).size // 4)
    nets = {"as trained": model} | {
        f"onto {quarter} {basis}": compress(model, basis=basis, size=quarter) for basis in ("constant", "linear")
    }
    instants = [Instant(Fraction(2 * i + 1, 512), Side.RIGHT) for i in range(256)]
    lines = {name: _entry_over_depth(_block(net), "query.weight", instants) for name, net in nets.items()}
    return {"depths": [float(instant.time) for instant in instants], "lines": lines}


def _entry_over_depth(block: ContinuousBlock, tensor: str, instants: list[Instant]) -> list[float]:
    reading = block.functions[tensor].reading(instants)
    entries = torch.stack([row[0, 0] for row in reading.rows(*block.held(tensor))]).tolist()
    return [round(entries[place], 5) for place in reading.index]


def _verdicts(found: list[dict[str, Any]]) -> tuple[Verdict, ...]:
    largest = next(iter(found[0]["onto constant"]))
    half, smallest = str(int(largest) // 2 or 1), "1"
    gains = [one["trained"] - one["baseline"] for one in found]

    def drops(what: str, key: str) -> list[float]:
        return [one["trained"] - (one[what].get(key) or 0.0) for one in found]

    middle = [key for key in found[0]["onto linear"] if key not in (largest, smallest)] or [smallest]
    mean = {basis: _mean(found, f"onto {basis}", middle) for basis in BASES}
    shorter = [key for key in found[0]["steps alone"] if key != largest]
    better = [_mean(found, "steps, with projection", [n]) - _mean(found, "steps alone", [n]) for n in shorter]
    over = f"mean accuracy over K = {', '.join(middle)}: constant {mean['constant']:.2f}"
    kept = found[0]["parameters"]
    share = 100 * (1 - (found[0]["in block"] / int(largest)) / found[0]["in block"])
    return (
        Verdict(
            Claim("The continuous transformer tags better than counting words", "S section 7.3"),
            f"{points([one['trained'] for one in found])} % against {found[0]['baseline']:.2f} %: "
            f"{points(gains)} points more",
            min(gains) >= 3,
        ),
        Verdict(
            Claim("Half of the basis functions cost almost nothing", "S Fig 5a", "nearly maintained"),
            f"K {largest} -> {half}: {points(drops('onto constant', half))} points lost, "
            f"{kept[f'onto constant {largest}']:,} -> {kept[f'onto constant {half}']:,} parameters",
            max(drops("onto constant", half)) <= 0.5,
        ),
        Verdict(
            Claim("One function saves nearly all of the block, at a loss of accuracy", "S Fig 5a", "98 % of K = 64"),
            f"K {largest} -> 1: {share:.1f} % of the block's parameters saved, "
            f"{points(drops('onto constant', smallest))} points lost",
            min(drops("onto constant", smallest)) > 0,
        ),
        Verdict(
            Claim("Constants beat hats as the target of projection", "S Fig 5a", "slightly"),
            f"{over}, linear {mean['linear']:.2f} %",
            mean["constant"] >= mean["linear"],
        ),
        Verdict(
            Claim("Discontinuous pieces do about as well as constants", "S Fig 5a", "approximately as well"),
            f"{over}, discontinuous {mean['discontinuous']:.2f} %",
            abs(mean["constant"] - mean["discontinuous"]) <= 0.5,
        ),
        Verdict(
            Claim("Shortening with projection to K = N beats shortening alone", "S Fig 5b"),
            "points gained by projecting at N = "
            + ", ".join(f"{key}: {gain:+.2f}" for key, gain in zip(shorter, better, strict=True)),
            sum(better) > 0 and min(better) > -0.1,
        ),
        Verdict(
            Claim("German-HDT behaves alike", "S Fig 6", "98.3 % smaller at K = 1"),
            "not run: `anydepth train stateful-hdt` needs the treebank and days of two cores",
            None,
        ),
    )


def _mean(found: list[dict[str, Any]], what: str, keys: list[str]) -> float:
    """Over seeds and those keys that are there."""
    return float(np.mean([one[what][key] or 0.0 for one in found for key in keys if key in one[what]]))


def _draw(found: list[dict[str, Any]]) -> "Figure":
    import matplotlib.pyplot as plt

    figure = plt.figure(figsize=(13, 8), constrained_layout=True)
    top, bottom = cast("Any", figure.subfigures(2, 1, height_ratios=(1.2, 1)))
    compressed, shortened, weight = top.subplots(1, 3)
    styles = {"constant": ("o-", "#c2571a"), "linear": ("s--", "#0b6e99"), "discontinuous": ("D:", "#2a7f4f")}
    for basis, (style, colour) in styles.items():
        _curve(compressed, found, f"onto {basis}", style, colour, basis)
    for what, style, colour in (("steps, with projection", "o-", "#c2571a"), ("steps alone", "s--", "#0b6e99")):
        _curve(shortened, found, what, style, colour, what)
    for place, title, label in (
        (compressed, "Projected onto K functions", "K"),
        (shortened, "Shortened to N steps", "N"),
    ):
        place.axhline(found[0]["baseline"], color="grey", linewidth=1, linestyle=":", label="counting words")
        place.set(title=title, xlabel=label, ylabel="test accuracy (%)")
        place.set_xscale("log", base=2)
        place.xaxis.set_major_formatter("{x:g}")
        place.grid(alpha=0.25)
        place.legend(fontsize=8)
    shown = found[0]["weight"]
    for (name, line), (_, colour) in zip(shown["lines"].items(), styles.values(), strict=True):
        weight.plot(shown["depths"], line, color=colour, label=name, linewidth=1.2)
    weight.set(title="One entry of the query matrix", xlabel="depth t")
    weight.grid(alpha=0.25)
    weight.legend(fontsize=8)
    seen = found[0]["attention"]
    largest = max(max(row) for values in seen["maps"] for row in values)
    for place, depth, values in zip(bottom.subplots(1, 4), seen["depths"], seen["maps"], strict=True):
        place.imshow(values, cmap="Blues", vmin=0, vmax=largest)
        place.set_title(f"attention at t = {depth:g}")
        place.set_xticks(range(len(seen["words"])), seen["words"], rotation=90, fontsize=7)
        place.set_yticks(range(len(seen["words"])), seen["words"], fontsize=7)
    return figure


def _curve(place: Any, found: list[dict[str, Any]], what: str, style: str, colour: str, label: str) -> None:
    keys = list(found[0][what])
    values = [np.mean([one[what][key] or 0.0 for one in found]) for key in keys]
    place.plot([int(key) for key in keys], values, style, color=colour, label=label)


def _write_tiny_treebank(study: Study) -> None:
    """A made-up language for the smoke scale: the ending of a word gives its tag."""
    random = np.random.default_rng(0)
    root = study.folder / "data" / "tiny"
    root.mkdir(parents=True, exist_ok=True)
    for part, count in (("train", 60), ("dev", 20), ("test", 20)):
        lines = []
        for _ in range(count):
            for place in range(int(random.integers(3, 15))):
                stem, kind = int(random.integers(30)), int(random.integers(4))
                cells = (str(place + 1), f"{stem}{'abcd'[kind]}", "_", "X", "ABCD"[kind], *"_____")
                lines.append("\t".join(cells))
            lines.append("")
        (root / f"made-ud-{part}.conllu").write_text("\n".join(lines) + "\n")
    study.data = study.folder / "data"


EXPERIMENTS.add(
    "tagging",
    Experiment(
        "The continuous transformer, compressed and shortened",
        "Stateful ODE-Nets, section 7.3, Figs 1, 2, 5, 6",
        {"smoke": None, "cpu": None, "paper": None},
        run,
        seeds=1,
    ),
)
