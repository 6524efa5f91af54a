"""What was changed in settings or rules after figures had been seen, study by study, oldest first."""

from anydepth_papers.changes import anodev2_changes, continuousnet_changes, proper_odes_changes, stateful_changes
from anydepth_papers.judge.experiment import Change

CHANGES: dict[str, tuple[Change, ...]] = (
    continuousnet_changes.CHANGES | proper_odes_changes.CHANGES | stateful_changes.CHANGES | anodev2_changes.CHANGES
)
"""By the name of the study."""
