"""The nets that the image studies share, and how a study looks at one of them.

At cpu scale they are the campaign's: nets that have learnt CIFAR-10. A study takes those that are done, and says which
it is waiting for. At smoke scale they are tiny and trained at once; at paper scale they are the recipes'.
"""

from base64 import b64decode, b64encode
from collections.abc import Callable, Sequence
from copy import deepcopy
from time import process_time
from typing import Any

import numpy as np
import torch
from torch import nn

from anydepth.data.table import Batch
from anydepth.deploy.recalibrate import recalibrate, training_batches
from anydepth.errors import NumericalError
from anydepth.measure.evaluation import batches_of, evaluating, fitting, nfe_of
from anydepth.recipes import RECIPES
from anydepth.runs.config import ModelSettings, RunConfig
from anydepth.runs.folder import Run, open_run
from anydepth.runs.override import override
from anydepth.surgery.blocks import blocks_of
from anydepth.surgery.resnet_blocks import as_blocks
from anydepth.surgery.summary import summary
from anydepth.zoo.models.resnet import ResNet
from anydepth_papers.campaign.declared import nets
from anydepth_papers.campaign.status import state_of
from anydepth_papers.judge.experiment import Claim, ClaimVerdict, Findings
from anydepth_papers.judge.rules import Judgement, not_run
from anydepth_papers.judge.study import Study
from anydepth_papers.nets.image_configs import image_config

CAMPAIGN = {
    "rk4": "constants-rk4",
    "euler": "constants-euler",
    "tied": "constants-euler-tied",
    "resnet": "resnet-8",
    "resnet-1": "resnet-1",
    "resnet-2": "resnet-2",
    "resnet-4": "resnet-4",
    "stochastic": "resnet-8-stochastic",
    "hats-rk4": "hats-rk4",
    "hats-midpoint": "hats-midpoint",
}
"""Nets of the studies, and their titles in the campaign."""
RECIPE = {
    "rk4": "continuousnet-cifar10",
    "euler": "continuousnet-cifar10-euler",
    "tied": "continuousnet-cifar10-euler",
    "hats-rk4": "stateful-cifar10-deep",
    "hats-midpoint": "stateful-cifar10-deep",
}
"""Their recipes at paper scale."""
CHANGED = {
    "tied": ("model.options.init=shared",),
    "hats-midpoint": ("model.options.scheme=midpoint",),
}
"""What is changed in the recipe."""
TITLE = {
    "rk4": "ContinuousNet (RK4)",
    "euler": "ContinuousNet (Euler)",
    "tied": "ContinuousNet (Euler, tied start)",
    "resnet": "ResNet",
    "resnet-1": "ResNet with 1 unit a stage",
    "resnet-2": "ResNet with 2 units a stage",
    "resnet-4": "ResNet with 4 units a stage",
    "stochastic": "ResNet with stochastic depth",
    "hats-rk4": "hats (RK4)",
    "hats-midpoint": "hats (midpoint)",
}
COLOUR = {
    "rk4": "#0b6e99",
    "euler": "#c2571a",
    "tied": "#8a6d3b",
    "resnet": "#5b5b5b",
    "resnet-1": "#9b9b9b",
    "resnet-2": "#9b9b9b",
    "resnet-4": "#9b9b9b",
    "stochastic": "#a0459b",
    "hats-rk4": "#0b6e99",
    "hats-midpoint": "#2a8a57",
}

SMOKE: dict[str, Any] = {
    "data": {"name": "digits", "limit": 64, "validation": 32},
    "epochs": 3,
    "at": [1, 2],
    "channels": [2],
    "pool": 4,
    "batch": 32,
    "warmup": 0,
    "images": 32,
    "recalibration": 2,
}
CPU: dict[str, Any] = {"images": 10_000, "recalibration": 40}
PAPER: dict[str, Any] = {"images": 10_000, "recalibration": 100}
SETTINGS = {"smoke": SMOKE, "cpu": CPU, "paper": PAPER}
"""`images`: how many of the test images are looked at; `recalibration`: training batches for batch statistics."""
SMOKE_SCALE = 4.0


def _small_options(name: str, steps: int) -> dict[str, Any]:
    """Options of a tiny net that has so many steps after training."""
    if name.startswith("hats"):
        return {"basis": "linear", "size": 2, "steps": 1, "scheme": name.removeprefix("hats-")}
    size = 1 if name == "rk4" else steps
    scheme = "rk4" if name == "rk4" else "euler"
    shape = {"basis": "constant", "size": size, "steps": size, "scheme": scheme, "scale": SMOKE_SCALE}
    start = {"init": "shared"} if name == "tied" else {}
    return {"unit": "skip_init_conv", "stitch_scale": SMOKE_SCALE / steps, "stitch_skip_init": True, **shape, **start}


def net_config(name: str, seed: int, scale: str) -> RunConfig:
    """A net at smoke or paper scale."""
    steps = 32 if scale == "paper" else 2 ** len(SMOKE["at"])
    if scale == "paper":
        changes = CHANGED.get(name, ())
        config = override(RECIPES[RECIPE.get(name, "resnet-cifar10")](), [f"seed={seed}", *changes])
        return config if name in RECIPE else _as_resnet(config, name, steps, [16, 32, 64], 8)
    grows = SMOKE["at"] if name in ("rk4", "hats-rk4", "hats-midpoint") else ()
    small = image_config(seed, SMOKE, grows, **_small_options(name, steps) if name in RECIPE else {})
    small = override(small, [f"evaluation.every={SMOKE['epochs']}", "evaluation.test=false", "evaluation.batch=100"])
    return small if name in RECIPE else _as_resnet(small, name, steps, SMOKE["channels"], SMOKE["pool"])


def _as_resnet(config: RunConfig, name: str, steps: int, channels: list[int], pool: int) -> RunConfig:
    """The same training of a plain ResNet."""
    layers = int(name.removeprefix("resnet-")) if name.startswith("resnet-") else steps
    options = {"channels": channels, "layers": layers, "pool": pool, "survival": 0.5 if name == "stochastic" else 1.0}
    return config.model_copy(update={"model": ModelSettings(name="resnet", options=options)})


def found_net(study: Study, name: str, seed: int) -> Run:
    """The trained net: the campaign's, or one that is trained now."""
    if study.scale == "cpu":
        return open_run(study.nets / f"{CAMPAIGN.get(name, name)}-{seed}")
    return study.trained(f"image-{name}", net_config(name, seed, study.scale))


def is_done(study: Study, name: str, seed: int) -> bool:
    """Whether the campaign has trained a net."""
    title = CAMPAIGN.get(name, name)
    net = next((net for net in nets() if net.title == title and net.seed == seed), None)
    return net is not None and state_of(net, study.nets).word == "done"


def model_of(run: Run) -> nn.Module:
    """A run's model; a plain ResNet as continuous blocks, which is the same function."""
    model = run.model()
    return as_blocks(model).eval() if isinstance(model, ResNet) else model


class Exam:
    """Looks at forms of a trained net: on test images, as they are and with batch statistics estimated anew."""

    def __init__(self, study: Study, run: Run):
        data = run.dataset(study.data)
        test, validation = (data.part(part).some(study.settings["images"]) for part in ("test", "validation"))
        self.batches = list(batches_of(test, run.facts, 500))
        self.validation = list(batches_of(validation, run.facts, 500))
        self._again: list[Batch] = training_batches(run, study.data)[: study.settings["recalibration"]]

    def __call__(self, model: nn.Module, choosing: bool = False) -> dict[str, Any]:
        """Accuracy (%), answers, evaluations of units per example, parameters, milliseconds per image; and accuracy
        and answers with batch statistics estimated anew on augmented training images.

        With `choosing`, also the accuracy of the recalibrated net on validation images, to choose a form by.
        """
        seen = self._seen(model) | {"parameters": summary(model).parameters, "milliseconds": self._time(model)}
        again = self._recalibrated(model)
        seen["recalibrated"] = self._seen(again)
        return seen | self._chosen_by(again) if choosing else seen

    def validated(self, model: nn.Module) -> dict[str, Any]:
        """Accuracy on validation images with batch statistics estimated anew, to choose a form by; and evaluations."""
        return self._chosen_by(self._recalibrated(model)) | {"evaluations": evaluations_of(model)}

    def _chosen_by(self, again: nn.Module) -> dict[str, float]:
        return {"validation": 100 * float(np.mean(self._answers(again, self.validation)))}

    def _recalibrated(self, model: nn.Module) -> nn.Module:
        """With batch statistics estimated anew; as it is where they are not finite."""
        try:
            return recalibrate(deepcopy(model), self._again)
        except NumericalError:
            return model

    def _seen(self, model: nn.Module) -> dict[str, Any]:
        right = self._answers(model, self.batches)
        return {"accuracy": 100 * float(np.mean(right)), "answers": packed(right), "evaluations": evaluations_of(model)}

    def _answers(self, model: nn.Module, batches: list[Batch]) -> list[bool]:
        with evaluating(model):
            pairs = (fitting(model, batch) for batch in batches)
            return [answer for inputs, targets in pairs for answer in self._right(model, inputs, targets)]

    def _right(self, model: nn.Module, inputs: tuple[torch.Tensor, ...], targets: torch.Tensor) -> list[bool]:
        """Outputs that are not finite are wrong."""
        try:
            outputs = model(*inputs)
        except NumericalError:
            return [False] * len(targets)
        return ((outputs.argmax(-1) == targets) & outputs.isfinite().all(-1)).tolist()

    def _time(self, model: nn.Module) -> float | None:
        """Of the processor, for an image in a batch of 100: the least of five passes; None: the net diverges."""
        inputs = tuple(x[:100] for x in fitting(model, self.batches[0]).inputs)
        times = []
        with evaluating(model):
            for _ in range(5):
                began = process_time()
                try:
                    model(*inputs)
                except NumericalError:
                    return None
                times.append(process_time() - began)
        return 1000 * min(times) / len(inputs[0])


def evaluations_of(model: nn.Module) -> int:
    """Evaluations of residual units for one example, those of stitches left out."""
    if isinstance(model, ResNet):
        return model.config["layers"] * len(model.config["channels"])
    return nfe_of(model)


def packed(right: Sequence[bool]) -> str:
    """Right and wrong answers as text."""
    return f"{len(right)}:{b64encode(np.packbits(np.asarray(right, bool)).tobytes()).decode()}"


def unpacked(text: str) -> list[bool]:
    count, _, bits = text.partition(":")
    return np.unpackbits(np.frombuffer(b64decode(bits), np.uint8))[: int(count)].astype(bool).tolist()


Look = Callable[[nn.Module, Exam], dict[str, Any]]


def examined(study: Study, names: Sequence[str], look: Look, plain: bool = False) -> dict[str, dict[int, Any]]:
    """What `look` finds in every net that is there, by name and then by seed; every look is a piece.

    A plain ResNet is looked at as continuous blocks, which is the same function, unless `plain` is asked for.
    """
    study.plan(len(names) * len(study.seeds))
    found: dict[str, dict[int, Any]] = {name: {} for name in names}
    for seed in study.seeds:
        for name in names:
            key, is_there = f"{name}-{seed}", study.scale != "cpu" or is_done(study, name, seed)
            if is_there or study.has(key):
                found[name][seed] = study.piece(key, lambda n=name, s=seed: _looked(study, n, s, look, plain))
    return found


def _looked(study: Study, name: str, seed: int, look: Look, plain: bool) -> dict[str, Any]:
    run = found_net(study, name, seed)
    return look(run.model() if plain else model_of(run), Exam(study, run))


def common_seeds(found: dict[str, dict[int, Any]], *names: str) -> list[int]:
    """Seeds for which all of these nets are there, so that they can be compared seed by seed."""
    return sorted(set.intersection(*(set(found[name]) for name in names)))


def waiting(claims: Sequence[Claim], columns: tuple[str, ...], missing: Sequence[str]) -> Findings:
    """What a study says while the nets that it needs are being trained."""
    verdicts = tuple(ClaimVerdict(claim, "", _not_yet(missing)) for claim in claims)
    return Findings(columns, (), verdicts, None, (setting_of(),))


def waits_for(found: dict[str, dict[int, Any]], *names: str) -> Judgement:
    """Not run: there is no seed yet for which all of these nets are trained."""
    return _not_yet([name for name in names if not found[name]] or names)


def _not_yet(names: Sequence[str]) -> Judgement:
    return not_run(f"waiting for the campaign: {', '.join(TITLE.get(name, name) for name in names)}")


def uses_depth(found: dict[str, dict[int, Any]], name: str, shallow: dict[int, float], of: Callable) -> bool | None:
    """Whether a net is more than 5 points above a net of depth 1 trained from scratch; None: that is not there.

    A net that is not decides nothing about depth.
    """
    seeds = sorted(set(found[name]) & set(shallow))
    if not seeds:
        return None
    return float(np.mean([of(found[name][seed]) - shallow[seed] for seed in seeds])) > 5


def trained_steps(model: nn.Module) -> int:
    """Steps of the first block."""
    return next(iter(blocks_of(model).values())).steps or 1


def setting_of() -> str:
    """How the nets were made, for the notes of a study."""
    return (
        "The nets are the campaign's: CIFAR-10, 45,000 training images, 16-32-64 channels, 27 epochs, N = 8; "
        "accuracy in per cent on all 10,000 test images; recalibrated: batch statistics estimated anew on augmented "
        "training images."
    )
