"""The kinds of checks: one module per kind, in the order of the registry."""
