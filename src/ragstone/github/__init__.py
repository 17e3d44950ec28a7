"""Everything that knows GitHub."""
