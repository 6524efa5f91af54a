"""Measures of outputs and trajectories: what verdicts and step controllers compare."""
