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
CHANGES: dict[str, tuple[Change, ...]] = {
    "one-net": (_THESE_NETS, depth_gate("Claims on budgets", "As above.")),
    "any-depth": (_STATISTICS,),
    "any-depth-cifar10": (_STATISTICS,),
}
