"""What was changed in settings or rules after figures had been seen, study by study, oldest first."""

from anydepth.reproduce.experiment import Change

CHANGES: dict[str, tuple[Change, ...]] = {}
"""By the name of the study."""
