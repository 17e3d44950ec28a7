"""Use cases: one module each, with clients and settings passed in by the entry points."""
