"""One module per file format. Each reads a file into rows with line numbers, or into a
document that holds the rows."""
