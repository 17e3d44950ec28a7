"""The history of a main branch: one line a run, in one file that travels with the baseline."""
