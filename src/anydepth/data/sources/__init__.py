"""Datasets; each file registers its own."""
