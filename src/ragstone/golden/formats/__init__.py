"""One module per file format: each turns a file into rows with line numbers."""
