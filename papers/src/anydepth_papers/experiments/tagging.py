"""The continuous transformer as a tagger, compressed and shortened (Stateful ODE-Nets, Figs 1, 2, 5, 6)."""

from collections.abc import Callable
from typing import Any

import numpy as np

from anydepth.recipes import RECIPES
from anydepth.runs.config import RunConfig
from anydepth.runs.override import override
from anydepth.surgery.summary import summary
from anydepth.zoo.models.tagger import Tagger
from anydepth_papers.experiments import EXPERIMENTS
from anydepth_papers.judge.experiment import Claim, ClaimVerdict, Experiment, Findings
from anydepth_papers.judge.rules import (
    Judgement,
    all_of,
    computed,
    instance_groups_better,
    instance_groups_no_worse,
    not_run,
    undecided,
)
from anydepth_papers.judge.study import Study
from anydepth_papers.judge.wording import points, spread
from anydepth_papers.studies.tagged import BASES, block_of, examine, halvings, milliseconds, named, per_cent
from anydepth_papers.studies.tagged_figure import draw

LITTLE = 0.5
"""Points that "nearly maintained", "about as well" and "no significant loss" allow."""
SMOOTH = 0.5
"""From step to step attention moves by at most this share of what two steps at random differ by; a walk in a straight
line through 16 steps has 0.18, steps that have nothing to do with each other have 1."""
DEEPER = 5.0
"""Points that a net must be above a net of depth 1 trained from scratch: else it decides nothing about depth."""
NO_DEPTH = ("counting", "saved", "german")
"""Claims that are not about depth."""
CLAIMS = {
    "counting": Claim("The continuous transformer tags better than counting words does (this net)", "ours"),
    "half": Claim(
        f"Half of the basis functions: at most {LITTLE} points lost (this net)", "S Fig 5a", "nearly maintained"
    ),
    "one": Claim("One function loses accuracy (this net)", "S Fig 5a", "albeit losing accuracy"),
    "saved": Claim(
        "64 functions to 1 save 98 % of the parameters without the embedding, 98.3 % and 32 % of all for German",
        "S Figs 5a, 6a",
        "98 %; 98.3 % and 32 %",
    ),
    "hats": Claim(
        "Constants are better than hats to project onto, on average over K (this net)", "S Fig 5a", "slightly"
    ),
    "discontinuous": Claim(
        f"Discontinuous lines do as well as constants, to {LITTLE} points on average over K (this net)",
        "S Fig 5a",
        "approximately as well",
    ),
    "shortened": Claim(
        "Shortening with projection to K = N beats shortening alone, on average over N (this net)",
        "S section 7.3, Fig 5b",
    ),
    "reduced": Claim(
        f"For N <= K, reducing K costs nothing: at most {LITTLE} points for every N and K (this net)",
        "S section 7.3, Fig 5b",
        "no significant loss",
    ),
    "attention": Claim(
        f"Attention varies smoothly over depth: neighbouring steps differ by at most {SMOOTH:g} of what two steps at "
        "random do (this net)",
        "S Fig 1",
        "a smoothly varying attention matrix",
    ),
    "german": Claim("German-HDT behaves alike", "S Fig 6", "a picture"),
}
COLUMNS = ("basis", "K", "N", "accuracy (%)", "evaluations", "processor ms per word", "parameters")
_SMOKE = [
    *("model.options.width=8", "training.steps=12", "training.batch=8", "refine.at=[3,6]", "schedule.warmup=4"),
    *("data.name=treebank", "data.options.folder=tiny"),
]


def config_for(scale: str, seed: int) -> RunConfig:
    recipe = RECIPES["stateful-gum" if scale == "paper" else "gum"]()
    return override(recipe, [*(_SMOKE if scale == "smoke" else ()), f"seed={seed}"])


def shallow_config(scale: str, seed: int) -> RunConfig:
    """The control: the same training with one function and one step all the time."""
    return override(config_for(scale, seed), ["refine.at=[]"])


def run(study: Study) -> Findings:
    study.plan(4 * len(study.seeds))
    if study.scale == "smoke":
        write_tiny_treebank(study)
    found = []
    for seed in study.seeds:
        config = config_for(study.scale, seed)
        study.piece(f"train-{seed}", lambda c=config: study.trained("tagger", c).metrics()[-1])
        seen = study.piece(f"examine-{seed}", lambda c=config: examine(study, study.trained("tagger", c)))
        times = study.piece(f"processor-time-{seed}", lambda c=config: milliseconds(study, study.trained("tagger", c)))
        shallow = study.piece(f"shallow-{seed}", lambda s=seed: _shallow(study, s))
        found.append(seen | {"times": times, "shallow": shallow})
    rows = (*(_row(found, name) for name in sorted(found[0]["forms"], key=_place)), _shallow_row(found))
    return Findings(COLUMNS, rows, verdicts_on(found), lambda: draw(found), _notes(found[0]))


def _shallow(study: Study, seed: int) -> dict[str, Any]:
    run = study.trained("tagger-shallow", shallow_config(study.scale, seed))
    told = summary(run.model())
    return {"accuracy": run.metrics()[-1]["test_accuracy"], "evaluations": told.nfe, "parameters": told.parameters}


def _shallow_row(found: list[dict[str, Any]]) -> tuple[Any, ...]:
    seen = [one["shallow"] for one in found]
    accuracy = spread([one["accuracy"] for one in seen])
    name = "constant, trained from scratch"
    return (name, "1", "1", accuracy, seen[0]["evaluations"], None, seen[0]["parameters"])


def _place(name: str) -> tuple[int, int, int]:
    """Of a form in the table: by basis, falling steps and functions."""
    basis, size, steps = name.split(", ")
    return BASES.index(basis), -int(steps[4:]), -int(size[4:])


def _row(found: list[dict[str, Any]], name: str) -> tuple[Any, ...]:
    seen = [one["forms"][name] for one in found]
    basis, size, steps = name.split(", ")
    time = round(min(one["times"][name] for one in found), 4)
    accuracy = spread([one["accuracy"] for one in seen])
    return (basis, size[4:], steps[4:], accuracy, seen[0]["evaluations"], time, seen[0]["parameters"])


def _notes(first: dict[str, Any]) -> tuple[str, ...]:
    errors = ", ".join(f"{100 * error:.0f} % {name}" for name, error in first["weight"]["errors"].items())
    return (
        f"The net: {first['net']}. Accuracy in per cent of test words, mean (lowest to highest) over the seeds, read "
        "after training. Claims about this net count test words, those of a sentence together.",
        "Rows with K as trained and fewer steps are shortened alone; the others are projected onto K functions.",
        "Nothing is recalibrated: the net has layer norms, which keep no statistics.",
        f"Control: claims about depth decide something only if the net is more than {DEEPER:g} points above a net of "
        "one function and one step that was trained as long from scratch.",
        f"Counting words alone gives {per_cent(first, first['counting']):.2f} % ({first['unknown']:.1f} % of the test "
        "words are not in the training part).",
        f"The query matrix projected (Fig 2) is this far from the trained one, relatively, over depth: {errors}.",
    )


def _right(one: dict[str, Any], *names: str) -> list[int]:
    """Correct answers by sentence, of several forms together."""
    return np.sum([one["forms"][name]["right"] for name in names], axis=0).tolist()


def _mean(found: list[dict[str, Any]], *names: str) -> str:
    return points([float(np.mean([one["forms"][name]["accuracy"] for name in names])) for one in found])


def verdicts_on(found: list[dict[str, Any]]) -> tuple[ClaimVerdict, ...]:
    size, steps = found[0]["sizes"]
    trained, half, one = (named("constant", k, steps) for k in (size, size // 2 or 1, 1))
    judged = {
        "counting": _counting(found, trained),
        "half": _no_worse(found, half, trained),
        "one": _better(found, (trained,), (one,)),
        "saved": _saved(),
        "hats": _better(found, *(_middle(basis, size, steps) for basis in ("constant", "linear"))),
        "discontinuous": _alike(found, *(_middle(basis, size, steps) for basis in ("constant", "discontinuous"))),
        "shortened": _better(found, *_shortened(size, steps)),
        "reduced": _reduced(found, size, steps),
        "attention": _attention(found),
        "german": ("`anydepth train stateful-hdt` trains it", not_run("cost: the treebank and days of two cores")),
    }
    blocked = _depth_of(found, trained)
    return tuple(
        ClaimVerdict(claim, told, judgement if blocked is None or key in NO_DEPTH else blocked)
        for key, claim in CLAIMS.items()
        for told, judgement in [judged[key]]
    )


def _depth_of(found: list[dict[str, Any]], trained: str) -> Judgement | None:
    """Undecided where a net does not use its depth; else None."""
    gains = [one["forms"][trained]["accuracy"] - one["shallow"]["accuracy"] for one in found]
    if min(gains) > DEEPER:
        return None
    return undecided(f"{points(gains)} points above a net of depth 1 trained from scratch: decides nothing on depth")


Judged = tuple[str, Judgement]
Forms = tuple[str, ...]


def _middle(basis: str, size: int, steps: int) -> Forms:
    """Forms with fewer functions, but more than one."""
    return tuple(named(basis, k, steps) for k in halvings(size)[1:-1]) or (named(basis, 1, steps),)


def _shortened(size: int, steps: int) -> tuple[Forms, Forms]:
    """With projection to K = N, and alone."""
    fewer = [n for n in halvings(steps)[1:] if n < size] or [1]
    return tuple(named("constant", n, n) for n in fewer), tuple(named("constant", size, n) for n in fewer)


def _each(found: list[dict[str, Any]], rule: Callable[[dict[str, Any]], Judgement]) -> Judgement:
    """Of every net that was trained."""
    judged = [rule(one) for one in found]
    return judged[0] if len(judged) == 1 else all_of(*judged)


def _better(found: list[dict[str, Any]], mine: Forms, other: Forms) -> Judged:
    def rule(one: dict[str, Any]) -> Judgement:
        sizes = [len(mine) * words for words in one["words"]]
        return instance_groups_better(_right(one, *mine), _right(one, *other), sizes)

    return f"{_mean(found, *mine)} % ({'; '.join(mine)}) against {_mean(found, *other)} %", _each(found, rule)


def _no_worse(found: list[dict[str, Any]], mine: str, other: str) -> Judged:
    def rule(one: dict[str, Any]) -> Judgement:
        return instance_groups_no_worse(_right(one, mine), _right(one, other), one["words"], LITTLE)

    return f"{_mean(found, mine)} % ({mine}) against {_mean(found, other)} % ({other})", _each(found, rule)


def _alike(found: list[dict[str, Any]], mine: Forms, other: Forms) -> Judged:
    def rule(one: dict[str, Any]) -> Judgement:
        sizes = [len(mine) * words for words in one["words"]]
        here, there = _right(one, *mine), _right(one, *other)
        ways = ((here, there), (there, here))
        return all_of(*(instance_groups_no_worse(a, b, sizes, LITTLE) for a, b in ways))

    return f"{_mean(found, *mine)} % ({'; '.join(mine)}) against {_mean(found, *other)} %", _each(found, rule)


def _counting(found: list[dict[str, Any]], trained: str) -> Judged:
    def rule(one: dict[str, Any]) -> Judgement:
        return instance_groups_better(_right(one, trained), one["counting"], one["words"])

    told = f"{_mean(found, trained)} % against {per_cent(found[0], found[0]['counting']):.2f} %"
    return told, _each(found, rule)


def _reduced(found: list[dict[str, Any]], size: int, steps: int) -> Judged:
    """Every N and K with N <= K below the trained size, beside the trained size with the same N."""
    pairs = [(n, k) for n in halvings(steps) for k in halvings(size)[1:] if n <= k] or [(1, 1)]
    judged = [_no_worse(found, named("constant", k, n), named("constant", size, n)) for n, k in pairs]
    told = "; ".join(f"N = {n}, K = {k}: {_gain(found, n, k, size)}" for n, k in pairs)
    return f"points gained: {told}", all_of(*(judgement for _, judgement in judged))


def _gain(found: list[dict[str, Any]], steps: int, fewer: int, size: int) -> str:
    forms = named("constant", fewer, steps), named("constant", size, steps)
    return points([one["forms"][forms[0]]["accuracy"] - one["forms"][forms[1]]["accuracy"] for one in found])


def _saved() -> Judged:
    """At the paper's sizes: 53 and 57 tags, 100,000 German words."""
    net = Tagger(words=1, classes=57, width=128, size=1)
    one, head = (
        block_of(net).counts()[0],
        sum(p.numel() for part in (net.norm, net.classifier) for p in part.parameters()),
    )
    without = 1 - (one + head) / (64 * one + head)
    whole = 1 - (100_000 * 128 + one + head) / (100_000 * 128 + 64 * one + head)
    text = f"{100 * without:.1f} % without the embedding, {100 * whole:.1f} % of all for German"
    return text, computed(abs(without - 0.983) < 0.005 and abs(whole - 0.32) < 0.01, text)


def _attention(found: list[dict[str, Any]]) -> Judged:
    shares = [one["changes"]["neighbours"] / max(one["changes"]["pairs"], 1e-12) for one in found]
    told = f"{points(shares)} of what two steps at random differ by"
    return told, computed(max(shares) <= SMOOTH, told)


def write_tiny_treebank(study: Study) -> None:
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
