"""Reports: one view model, rendered as text, Markdown, HTML, JSON and JUnit XML."""
