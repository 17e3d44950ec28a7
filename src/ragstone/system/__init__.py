"""Reaching the system under test through an entrypoint."""
