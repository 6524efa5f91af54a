"""What is looked at in a trained tagger: its forms on test sentences, its attention and a weight over depth."""

from copy import deepcopy
from fractions import Fraction
from math import inf
from time import process_time
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call

from anydepth.block.block import ContinuousBlock
from anydepth.data.sentences import Sentences
from anydepth.data.table import IGNORED
from anydepth.depth.times import Instant, Side
from anydepth.errors import NumericalError
from anydepth.measure.evaluation import batches_of, evaluating, fitting, nfe_of
from anydepth.runs.folder import Run
from anydepth.surgery.resize import compress, set_solver
from anydepth.surgery.summary import summary
from anydepth_papers.judge.study import Study
from anydepth_papers.studies.frequent_tags import frequent_tag_answers

BASES = ("constant", "linear", "discontinuous")
SHOWN = 12
"""Words of the sentence whose attention is drawn."""
PASSES = 10
"""Of each form, to find the fastest: other work may run beside."""
COMPARED = 50
"""Sentences whose attention is compared over depth."""


def examine(study: Study, run: Run) -> dict[str, Any]:
    """A trained net in many forms, and what is drawn of it; answers are counted by test sentence."""
    model, dataset = run.model(), run.dataset(study.data)
    train, test = (cast("Sentences", dataset.part(part)) for part in ("train", "test"))
    order = np.argsort(test.lengths, kind="stable")
    known = set(run.facts.words)
    unknown = sum(word not in known for words in test.words for word in words)
    return {
        "words": test.lengths[order].tolist(),
        "counting": np.array(frequent_tag_answers(train, test))[order].tolist(),
        "unknown": 100 * unknown / int(test.lengths.sum()),
        "forms": {name: _seen(run, form, test) for name, form in forms_of(model).items()},
        "net": f"{summary(model).parameters:,} parameters, {block_of(model).extra_repr()}",
        "sizes": [block_of(model).size, block_of(model).steps],
        "attention": _attention_over_depth(model, run, test),
        "changes": attention_changes(model, run, test),
        "weight": _projected_weight(model),
    }


def named(basis: str, size: int, steps: int) -> str:
    """The name of a form."""
    return f"{basis}, K = {size}, N = {steps}"


def forms_of(model: nn.Module) -> dict[str, nn.Module]:
    """Projected onto every basis with the steps as trained, and shortened, with as many functions or fewer."""
    block = block_of(model)
    size, steps = block.size, block.steps or 1
    forms: dict[str, nn.Module] = {named("constant", size, steps): model}
    for basis in BASES:
        sizes = [k for k in halvings(size) if basis != "discontinuous" or k == 1 or k % 2 == 0]
        forms |= {named(basis, k, steps): compress(model, basis, k) for k in sizes if (basis, k) != ("constant", size)}
    for n in halvings(steps)[1:]:
        forms[named("constant", size, n)] = set_solver(deepcopy(model), steps=n)
        smaller = [k for k in halvings(size)[1:] if k >= n]
        forms |= {named("constant", k, n): compress(model, "constant", k, n) for k in smaller}
    return forms


def per_cent(one: dict[str, Any], right: list[int]) -> float:
    """Of all test words."""
    return 100 * sum(right) / sum(one["words"])


def block_of(model: nn.Module) -> ContinuousBlock:
    return cast("ContinuousBlock", model.block)


def halvings(size: int) -> list[int]:
    return [size // 2**i for i in range(size.bit_length())]


def _seen(run: Run, model: nn.Module, test: Sentences) -> dict[str, Any]:
    """Correct answers by sentence, from the shortest to the longest; what the form costs."""
    right: list[int] = []
    with evaluating(model):
        for inputs, targets in (fitting(model, batch) for batch in batches_of(test, run.facts, 200)):
            right += _right(model, inputs, targets)
    accuracy = 100 * sum(right) / int(test.lengths.sum())
    cost = {"parameters": summary(model).parameters, "evaluations": nfe_of(model)}
    return {"accuracy": accuracy, "right": right, **cost}


def _right(model: nn.Module, inputs: tuple[Tensor, ...], targets: Tensor) -> list[int]:
    """Outputs that are not finite are wrong."""
    try:
        outputs = model(*inputs)
    except NumericalError:
        return [0] * len(targets)
    is_right = (outputs.argmax(-1) == targets) & (targets != IGNORED) & outputs.isfinite().all(-1)
    return is_right.sum(-1).tolist()


def milliseconds(study: Study, run: Run) -> dict[str, float]:
    """Of processor time for a word in the batch of middle length, by form: the fastest of several passes, in turns."""
    batches = list(batches_of(run.dataset(study.data).part("test"), run.facts, 50))
    forms, times = forms_of(run.model()), {}
    inputs, targets = fitting(run.model(), batches[len(batches) // 2])
    for _ in range(PASSES):
        for name, form in forms.items():
            with evaluating(form):
                began = process_time()
                _right(form, inputs, targets)
                times[name] = min(process_time() - began, times.get(name, inf))
    return {name: 1000 * time / int((targets != IGNORED).sum()) for name, time in times.items()}


def _attention_over_depth(model: nn.Module, run: Run, test: Sentences) -> dict[str, Any]:
    """Attention between the words of the first long enough sentence, at four depths (Fig 1)."""
    place = next((i for i, words in enumerate(test.words) if len(words) >= SHOWN), 0)
    (tokens, mask), _ = test.batch(np.array([place]), run.facts)
    depths = [0.0, 0.25, 0.5, 1.0]
    maps = _attentions(model, tokens[:, :SHOWN], mask[:, :SHOWN], depths)
    rounded = [[[round(value, 4) for value in row] for row in one[0].tolist()] for one in maps]
    return {"words": test.words[place][:SHOWN], "depths": depths, "maps": rounded}


def attention_changes(model: nn.Module, run: Run, test: Sentences) -> dict[str, float]:
    """How far attention moves from step to step, and between two steps at random: total variation, averaged."""
    chosen = [i for i, words in enumerate(test.words) if len(words) >= SHOWN][:COMPARED] or [0]
    (tokens, mask), _ = test.batch(np.array(chosen), run.facts)
    tokens, mask = tokens[:, :SHOWN], mask[:, :SHOWN]
    steps = block_of(model).steps or 1
    maps = torch.stack(_attentions(model, tokens, mask, [i / steps for i in range(steps)]))
    apart = [[float((a - b).abs().sum(-1).mean()) / 2 for b in maps] for a in maps]
    neighbours = [apart[i][i + 1] for i in range(steps - 1)]
    pairs = [apart[i][j] for i in range(steps) for j in range(i)]
    return {"neighbours": float(np.mean(neighbours)), "pairs": float(np.mean(pairs))}


def _attentions(model: nn.Module, tokens: Tensor, mask: Tensor, depths: list[float]) -> list[Tensor]:
    """Attention of every sentence at each depth, averaged over heads: (B, T, T)."""
    block = block_of(model)
    with evaluating(model):
        states = cast("Tensor", block.trajectory(cast("Any", model).embed(tokens), depths, mask))
        return [_attention(block, depth, state, mask) for depth, state in zip(depths, states, strict=True)]


def _attention(block: ContinuousBlock, depth: float, state: Tensor, mask: Tensor) -> Tensor:
    theta = {f"unit.{name}": tensor for name, tensor in block.theta(depth).items()}
    return functional_call(_Attending(block.unit), theta, (state, mask)).mean(1)


class _Attending(nn.Module):
    """An encoder that gives its attention instead of its result."""

    def __init__(self, unit: nn.Module):
        super().__init__()
        self.unit = unit

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        return cast("Any", self.unit).attention(x, mask)


def _projected_weight(model: nn.Module) -> dict[str, Any]:
    """One component of the query matrix over depth: as trained, and projected onto fewer functions (Fig 2)."""
    quarter = max(1, block_of(model).size // 4)
    nets = {"as trained": model} | {
        f"onto {quarter} {basis}": compress(model, basis=basis, size=quarter) for basis in ("constant", "linear")
    }
    instants = [Instant(Fraction(2 * i + 1, 512), Side.RIGHT) for i in range(256)]
    lines = {name: _entry_over_depth(block_of(net), "query.weight", instants) for name, net in nets.items()}
    moved = {name: block_of(net).history[-1].errors for name, net in nets.items() if name != "as trained"}
    errors = {name: change.get("query.weight", 0.0) for name, change in moved.items()}
    return {"depths": [float(instant.time) for instant in instants], "lines": lines, "errors": errors}


def _entry_over_depth(block: ContinuousBlock, tensor: str, instants: list[Instant]) -> list[float]:
    reading = block.functions[tensor].reading(instants)
    entries = torch.stack([row[0, 0] for row in reading.rows(*block.held(tensor))]).tolist()
    return [round(entries[place], 5) for place in reading.index]
