"""Judges measured: labels by people, the judge compared with them, a judge fitted to
them, labelled data sets."""
