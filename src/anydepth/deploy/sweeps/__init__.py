"""Sweeps: one trained model in every affordable form, and the form that fits a budget."""
