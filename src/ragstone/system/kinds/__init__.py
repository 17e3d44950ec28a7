"""The kinds of entrypoints: one module each."""
