"""People label answers of a run."""
