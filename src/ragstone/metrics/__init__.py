"""Metrics: pure functions from a sample, its response and its judgements to a score."""
