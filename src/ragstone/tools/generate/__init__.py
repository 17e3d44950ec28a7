"""Golden sets: drafts from documents, questions changed by rule, review, and a report
on a set's health."""
