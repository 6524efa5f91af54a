"""Changes of studies of anydepth's own claims, after figures had been seen, oldest first."""

from anydepth_papers.changes.shared import SECOND
from anydepth_papers.judge.experiment import Change

_STATISTICS = Change(
    SECOND,
    "In the nets of hats the batch statistics have a constant for every step; before, they were five hats as well.",
    "In a trial on validation images, before the study was first run, a net of five hats with eight steps could not "
    "follow statistics that jump from step to step.",
    "The trial: MNIST, seed 100, which is not judged: 43.3 % of validation images with eight steps.",
)
CHANGES: dict[str, tuple[Change, ...]] = {"any-depth": (_STATISTICS,), "any-depth-cifar10": (_STATISTICS,)}
