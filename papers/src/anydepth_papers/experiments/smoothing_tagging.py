"""A transformer encoder that was trained by hand, imported, smoothed, and compressed: tags for words.

The encoder is PyTorch's own, trained in a plain loop that knows nothing of blocks. It is imported by `from_layers`,
which changes no output, smoothed for a quarter of its training's evaluations, and looked at in every form.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from anydepth.data.dataset import Dataset
from anydepth.data.order import Draw
from anydepth.data.order import batches as batches_of_epoch
from anydepth.data.table import IGNORED, Batch, Table
from anydepth.deploy.smooth import smooth_on
from anydepth.measure.evaluation import batches_of
from anydepth.surgery.from_layers import from_layers
from anydepth.train.smoothing import Smoothing, smoothing_forms
from anydepth.zoo.models.tagger import positions
from anydepth_papers.experiments import EXPERIMENTS
from anydepth_papers.experiments.tagging import write_tiny_treebank
from anydepth_papers.judge.experiment import Claim, ClaimVerdict, Experiment, Findings
from anydepth_papers.judge.rules import better, no_worse
from anydepth_papers.judge.study import Study
from anydepth_papers.judge.wording import spread

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHARE, MARGIN = 0.25, 1.0
"""Of the evaluations of the training; points."""
SMALLER = ("half the steps", "half the size", "half of both")
CLAIMS = {
    **{
        ("loses", form): Claim(
            f"Smoothed for a quarter of its training, a tagger loses at most {MARGIN:g} point with {form}", "ours"
        )
        for form in SMALLER
    },
    **{("gains", form): Claim(f"Smoothed, a tagger is above the imported one with {form}", "ours") for form in SMALLER},
}
COLUMNS = ("form", "evaluations", "as imported (%)", "smoothed (%)", "seeds")


class HandMade(nn.Module):
    """A tagger as anyone would write it: embedding, encoder layers in a list, classifier."""

    def __init__(self, words: int, classes: int, width: int, layers: int):
        super().__init__()
        self.embedding = nn.Embedding(words, width, padding_idx=0)
        nn.init.normal_(self.embedding.weight, std=width**-0.5)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(width, 2, 2 * width, dropout=0.1, batch_first=True, norm_first=True)
            for _ in range(layers)
        )
        self.norm, self.classifier = nn.LayerNorm(width), nn.Linear(width, classes)

    def forward(self, tokens: Tensor, mask: Tensor) -> Tensor:
        x = self.embedding(tokens)
        x = x + positions(tokens.shape[1], x.shape[-1], x.device) * x.shape[-1] ** -0.5
        for layer in self.layers:
            x = layer(x, src_key_padding_mask=~mask)
        return self.classifier(self.norm(x))


def run(study: Study) -> Findings:
    study.plan(len(study.seeds))
    if study.scale == "smoke":
        write_tiny_treebank(study)
    found = [study.piece(f"smoothed-{seed}", lambda s=seed: _smoothed(study, s)) for seed in study.seeds]
    verdicts = tuple(_verdict(found, kind, form, claim) for (kind, form), claim in CLAIMS.items())
    return Findings(COLUMNS, tuple(_rows(found)), verdicts, lambda: _draw(found), _notes(study, found))


def _smoothed(study: Study, seed: int) -> dict[str, Any]:
    settings = study.settings
    dataset = Dataset(settings["data"], settings["options"], study.data)
    table, test, facts = dataset.part("train"), dataset.part("test"), dataset.facts()
    torch.manual_seed(seed)
    made = HandMade(len(facts.words) + 2, len(facts.labels), settings["width"], settings["layers"])

    def some(first: int, count: int) -> list[Batch]:
        plans: list[Any] = []
        while len(plans) < count:
            plans += batches_of_epoch(Draw(seed, first + len(plans)), len(table), settings["batch"], _lengths(table))
        return [table.batch(plan, facts) for plan in plans[:count]]

    _train(made, some(0, settings["steps"]), settings["lr"], seed)
    model = from_layers(made.eval(), where="layers")
    steps = [form.steps or settings["layers"] for form in smoothing_forms(model)]
    cost = 2 * settings["layers"] + float(np.mean(steps))
    healing = some(10**6, max(1, int(SHARE * settings["steps"] * settings["layers"] / cost)))
    judged = list(batches_of(test, facts, 200))
    chosen = Smoothing(epochs=1, seed=seed, lr=settings["smoothing_lr"])
    _, report = smooth_on(model, lambda number: healing, judged, healing[:2], None, None, chosen, True, classes=True)
    rows = {row.form: [row.before, row.after] for row in report.rows}
    return {"rows": rows, "spent": report.evaluations, "roughness": list(report.roughness)}


def _lengths(table: Table) -> Any:
    return cast("Any", table).lengths


def _train(model: nn.Module, batches: Sequence[Batch], lr: float, seed: int) -> None:
    """A plain loop."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, len(batches))
    model.train()
    torch.manual_seed(seed)
    for batch in batches:
        scores = model(*batch.inputs)
        optimizer.zero_grad()
        cross_entropy(scores.flatten(0, 1), batch.targets.flatten(), ignore_index=IGNORED).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()


def _form(study_rows: dict[str, Any], form: str) -> str:
    """The name of a form among the rows, whose first is the model as it is."""
    layers = int(next(iter(study_rows)).split(":")[1].split(",")[0])
    size, steps = (layers if form == "half the steps" else layers // 2), layers
    steps = layers if form == "half the size" else layers // 2
    return f"constant:{size}, euler x {steps}"


def _values(found: list[dict[str, Any]], form: str | None, place: int) -> list[float]:
    names = [next(iter(one["rows"])) if form is None else _form(one["rows"], form) for one in found]
    return [one["rows"][name][place] or 0.0 for one, name in zip(found, names, strict=True)]


def _verdict(found: list[dict[str, Any]], kind: str, form: str, claim: Claim) -> ClaimVerdict:
    mine = _values(found, form, 1)
    its = _values(found, None if kind == "loses" else form, 0)
    judged = no_worse(mine, its, MARGIN, paired=True) if kind == "loses" else better(mine, its, paired=True)
    return ClaimVerdict(claim, f"{spread(mine)} against {spread(its)} %", judged)


def _rows(found: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    def mean(form: str, place: int) -> float:
        return round(float(np.mean([one["rows"][form][place] or 0.0 for one in found])), 2)

    return [(form, form.rpartition(" ")[2], mean(form, 0), mean(form, 1), len(found)) for form in found[0]["rows"]]


def _notes(study: Study, found: list[dict[str, Any]]) -> tuple[str, ...]:
    rough = ", ".join(f"{before:.2f} -> {after:.2f}" for before, after in (one["roughness"] for one in found))
    return (
        f"{study.settings['layers']} encoder layers of width {study.settings['width']}, trained for "
        f"{study.settings['steps']} steps with a batch of {study.settings['batch']}; per cent of test words.",
        f"Relative change of kernels from layer to layer, aligned, before and after smoothing: {rough}.",
        "Nothing was tuned for these nets; the encoder has layer norms, so that nothing is recalibrated.",
    )


def _draw(found: list[dict[str, Any]]) -> "Figure":
    """Every form before and after, the seeds as dots."""
    import matplotlib.pyplot as plt

    forms = list(found[0]["rows"])
    figure, axes = plt.subplots(figsize=(7, 1 + 0.3 * len(forms)), constrained_layout=True)
    for place, (label, colour) in enumerate((("as imported", "#c2571a"), ("smoothed", "#0b6e99"))):
        values = np.array([[one["rows"][form][place] or 0.0 for one in found] for form in forms])
        axes.plot(values, range(len(forms)), ".", color=colour, alpha=0.5)
        axes.plot(values.mean(1), range(len(forms)), "-", color=colour, label=label)
    axes.set_yticks(range(len(forms)), forms)
    axes.invert_yaxis()
    axes.set(xlabel="test accuracy (%)", title="A tagger trained by hand, in other forms")
    axes.grid(alpha=0.25)
    axes.legend(fontsize=8)
    return figure


_SMOKE: dict[str, Any] = {
    "data": "treebank",
    "options": {"folder": "tiny"},
    "width": 8,
    "layers": 4,
    "steps": 12,
    "batch": 8,
    "lr": 3e-3,
    "smoothing_lr": 0.02,
}
_CPU: dict[str, Any] = {
    "data": "ud-english-gum",
    "options": {},
    "width": 64,
    "layers": 8,
    "steps": 1200,
    "batch": 32,
    "lr": 1e-3,
    "smoothing_lr": 0.02,
}
EXPERIMENTS.add(
    "smoothing-tagging",
    Experiment(
        "A transformer encoder trained by hand, imported and smoothed",
        "anydepth; UD English-GUM",
        {"smoke": _SMOKE, "cpu": _CPU, "paper": _CPU | {"width": 128, "steps": 10_000}},
        run,
    ),
)
