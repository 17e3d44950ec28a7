"""The history of a main branch: one line per run, in one file that is stored with the
baseline."""
