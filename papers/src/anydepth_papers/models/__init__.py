"""Networks of the papers."""
