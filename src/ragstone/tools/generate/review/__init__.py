"""A person's review of drafts."""
