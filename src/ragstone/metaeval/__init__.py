"""The meta-evaluation: how good a judge is, measured against people."""
