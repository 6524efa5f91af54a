"""The campaign: long trainings that the studies at real scale share, run one after another in the background."""

from pathlib import Path

NETS = Path("papers/evidence/nets")
"""Where the nets are kept, seen from the repository's root."""
