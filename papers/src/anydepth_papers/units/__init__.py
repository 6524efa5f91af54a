"""Units of the papers' studies."""
