"""What was changed in settings or rules after figures had been seen, study by study, oldest first."""

from anydepth_papers.changes import (
    anodev2_changes,
    continuousnet_changes,
    own_changes,
    proper_odes_changes,
    stateful_changes,
)
from anydepth_papers.judge.experiment import Change

_PAPERS = (continuousnet_changes, proper_odes_changes, stateful_changes, anodev2_changes, own_changes)
CHANGES: dict[str, tuple[Change, ...]] = {name: told for paper in _PAPERS for name, told in paper.CHANGES.items()}
"""By the name of the study."""
