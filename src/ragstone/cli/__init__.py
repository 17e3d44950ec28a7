"""The command line, one module a command: parsing and printing, no logic."""
