"""ContinuousBlock: a unit made continuous in depth, its passes, its state and its form."""
