"""Smoothing the campaign's ResNets: nets that have learnt CIFAR-10, at most a quarter of their training later.

Claims are about these nets, over test images: each is given the treatment of the study `smoothing` and then run with
half of its steps, half of its size and both, recalibrated on augmented training images.
"""

from typing import Any

from anydepth.runs.folder import Run
from anydepth.surgery.resnet_blocks import as_blocks
from anydepth.train.smoothing import Smoothing
from anydepth.zoo.models.resnet import ResNet
from anydepth_papers.experiments import EXPERIMENTS
from anydepth_papers.experiments.smoothing import FORMS, MARGIN, NONE, SHARE, WHOLE, halved, smooth_within
from anydepth_papers.judge.experiment import Claim, ClaimVerdict, Experiment, Findings
from anydepth_papers.judge.rules import instance_no_worse
from anydepth_papers.judge.study import Study
from anydepth_papers.nets.image_nets import (
    SETTINGS,
    Exam,
    found_net,
    is_done,
    setting_of,
    unpacked,
    waits_for,
)

NAMES = {"resnet-4": "ResNet with 4 units a stage", "resnet": "ResNet with 8 units a stage"}
"""The campaign's ResNets that have units to spare."""
LOSSES = {"half the steps": MARGIN, "half the size": MARGIN, "as it is": 0.5}
"""Points that a form of the smoothed net may lose against the net as it was."""
CLAIMS = {
    (name, form): Claim(f"This {title}, smoothed for a quarter of its training, loses at most {told}", "ours")
    for name, title in NAMES.items()
    for form, told in {
        "half the steps": f"{MARGIN:g} point with half the steps",
        "half the size": f"{MARGIN:g} point with half the size",
        "as it is": "0.5 points as it is",
    }.items()
}
COLUMNS = ("net", "treatment", "form", "accuracy (%)", "parameters", "evaluations")


def run(study: Study) -> Findings:
    study.plan(len(NAMES))
    seed = study.seeds[0]
    found: dict[str, Any] = {}
    for name in NAMES:
        key = f"{name}-{seed}"
        if study.scale != "cpu" or is_done(study, name, seed) or study.has(key):
            found[name] = study.piece(key, lambda n=name: _look(study, found_net(study, n, seed), seed))
    verdicts = tuple(_verdict(found, name, form, claim) for (name, form), claim in CLAIMS.items())
    return Findings(COLUMNS, tuple(_rows(found)), verdicts, None, _notes())


def _look(study: Study, run: Run, seed: int) -> dict[str, Any]:
    exam, resnet = Exam(study, run), run.model()
    assert isinstance(resnet, ResNet)
    whole = as_blocks(resnet).eval()
    trained = [line["step"] for line in run.metrics() if line["kind"] == "epoch"][-1]
    spent = int(SHARE * trained * resnet.config["layers"] * len(resnet.config["channels"]))
    smooth, took = smooth_within(spent, whole, Smoothing(epochs=1, seed=seed), run, study)
    nets = {NONE: whole, WHOLE: smooth}
    looks = {how: {form: _kept(exam(made)) for form, made in halved(net).items()} for how, net in nets.items()}
    return {"looks": looks, "evaluations": {NONE: 0, WHOLE: took}}


def _kept(seen: dict[str, Any]) -> dict[str, Any]:
    again = seen["recalibrated"]
    return {"accuracy": again["accuracy"], "answers": again["answers"], "parameters": seen["parameters"]}


def _verdict(found: dict[str, Any], name: str, form: str, claim: Claim) -> ClaimVerdict:
    if name not in found:
        return ClaimVerdict(claim, "", waits_for({name: {}}, name))
    after, before = found[name]["looks"][WHOLE][form], found[name]["looks"][NONE]["as it is"]
    judged = instance_no_worse(unpacked(after["answers"]), unpacked(before["answers"]), LOSSES[form])
    return ClaimVerdict(claim, f"{after['accuracy']:.2f} against {before['accuracy']:.2f} %", judged)


def _rows(found: dict[str, Any]) -> list[tuple[Any, ...]]:
    return [
        (NAMES[name], how, form, round(looks[form]["accuracy"], 2), looks[form]["parameters"], one["evaluations"][how])
        for name, one in found.items()
        for how, looks in one["looks"].items()
        for form in FORMS
    ]


def _notes() -> tuple[str, ...]:
    return (
        setting_of(),
        "Evaluations: of units, in all passes of the smoothing, the teacher's among them; a quarter of those of the "
        "training. Nothing was tuned for these nets.",
    )


EXPERIMENTS.add(
    "smoothing-campaign",
    Experiment("Smoothing the campaign's ResNets", "anydepth; CIFAR-10", SETTINGS, run, seeds=1),
)
