"""Continuous-depth modules for PyTorch."""
