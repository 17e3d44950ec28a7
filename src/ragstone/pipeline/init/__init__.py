"""`ragstone init`: looks at a folder and writes files that fit it. Source is parsed,
never imported or run."""
