"""The history of the main branch: listed, added to, and as a page."""
