"""Reports: one document, rendered as text, Markdown, HTML, JSON and JUnit XML."""
