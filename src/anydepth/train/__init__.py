"""Training: configuration, loop, growth, runs."""
