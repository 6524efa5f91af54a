"""Commands that this package adds to anydepth."""
