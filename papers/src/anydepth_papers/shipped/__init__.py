"""Trained nets that come with this package: `anydepth evaluate NAME`."""
