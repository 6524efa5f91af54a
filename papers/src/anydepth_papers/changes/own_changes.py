"""Changes of studies of anydepth's own claims, after figures had been seen, oldest first."""

from anydepth_papers.changes.shared import SECOND, THIRD, depth_gate
from anydepth_papers.judge.experiment import Change

_STATISTICS = Change(
    SECOND,
    "In the nets of hats the batch statistics have a constant for every step; before, they were five hats as well.",
    "In a trial on validation images, before the study was first run, a net of five hats with eight steps could not "
    "follow statistics that jump from step to step.",
    "The trial: MNIST, seed 100, which is not judged: 43.3 % of validation images with eight steps.",
)
_THESE_NETS = Change(
    THIRD,
    "Claims about the nets of the first seed, over the test images, stand beside those over seeds.",
    "Three seeds of all six nets take about two days of one core; one seed of each can be judged as a pair of nets.",
    "The one net of seed 0, before any ResNet was trained: 88.50 % of the test images as trained, 88.60 % with three "
    "steps, statistics as they are.",
)
_LENGTH = Change(
    THIRD,
    "480 steps of the optimiser on MNIST instead of 240, and 720 instead of 360 for the net trained longer; on "
    "CIFAR-10 1404 steps on 15,000 images instead of 468 on 10,000.",
    "In a trial on validation images, before the study was first run, nets of hats in many forms had not learnt their "
    "task in 240 steps.",
    "The trial: MNIST, seed 100, which is not judged, per cent of validation images with 8, 4, 2 and 1 evaluations: "
    "91.5, 89.1, 85.7 and 85.1 after 240 steps, 95.7, 95.6, 95.2 and 94.2 after 480; a ResNet-8 95.9 and a ResNet-1 "
    "94.1 after 240. No figure on test images had been seen.",
)
_LOOKS = Change(
    THIRD,
    "Test images are only read for the forms that validation images choose, and of a specialist only the net as "
    "trained is looked at.",
    "The other accuracies on test images were not used.",
    "The study had not run.",
)
_DEPTH = (
    _STATISTICS,
    _LENGTH,
    _LOOKS,
    depth_gate("Claims on depths", "The study had not been run; the trials of the changes before."),
)
CHANGES: dict[str, tuple[Change, ...]] = {
    "one-net": (_THESE_NETS, depth_gate("Claims on budgets", "As above.")),
    "any-depth": _DEPTH,
    "any-depth-cifar10": _DEPTH,
}
