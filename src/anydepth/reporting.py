"""How long work says how far it is."""

from collections.abc import Callable

Report = Callable[[str, float], None]
"""Told what is going on, and which share of it is done."""
