"""Faster ways to run a pass, found by the registry. Without this package every result is the same up to rounding."""
