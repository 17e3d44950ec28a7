"""Samples drafted from documents and from production, and their review."""
