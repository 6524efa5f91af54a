"""Callbacks and hooks for the training loops of others: Lightning, Accelerate, transformers. Each needs its package."""
