"""Verdicts: is a trained model an ODE, or tied to its solver?"""
