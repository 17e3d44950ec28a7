"""Where the runs of a branch are kept, beside what the CI platforms keep themselves."""
