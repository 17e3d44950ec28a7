"""Stores for the runs of a branch, beside those that CI platforms have."""
