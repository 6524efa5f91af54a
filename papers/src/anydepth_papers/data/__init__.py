"""Datasets of the papers' studies."""
