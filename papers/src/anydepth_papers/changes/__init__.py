"""What was changed in settings or rules after figures had been seen, study by study, oldest first."""

from anydepth_papers.changes import anodev2, continuousnet, proper_odes, stateful
from anydepth_papers.judge.experiment import Change

CHANGES: dict[str, tuple[Change, ...]] = (
    continuousnet.CHANGES | proper_odes.CHANGES | stateful.CHANGES | anodev2.CHANGES
)
"""By the name of the study."""
