"""Depth per example: a coarse answer first, refined only where it is unsure."""
