"""The campaign: long trainings that the studies at real scale share, run one after another in the background."""
