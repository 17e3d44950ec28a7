"""One module a file format: each turns a file into rows with line numbers."""
