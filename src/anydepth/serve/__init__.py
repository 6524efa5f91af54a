"""Serving: a small HTTP server around the depth controller."""
