"""Experiments; each file registers its own."""
