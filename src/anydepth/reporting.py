"""How long work says how far it is."""

from collections.abc import Callable

Report = Callable[[str, float], None]
"""Called with the present work in words, and the share of it that is done."""
