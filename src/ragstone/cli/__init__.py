"""The command line, one module a command: parsing and printing, no logic."""

from ragstone.cli.main import cli

__all__ = ["cli"]
