"""`ragstone init`."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from ragstone.commands.output import say

DEFAULT_ENTRYPOINT = "python:my_package.rag:answer"


@click.command(name="init")
@click.argument("directory", type=click.Path(path_type=Path, file_okay=False), default=".")
@click.option("--entrypoint", metavar="WHERE", help=f"Entrypoint of your system  [default: {DEFAULT_ENTRYPOINT}]")
def command(directory: Path, entrypoint: str | None) -> None:
    """Write ragstone.toml, thresholds.toml, a starter golden set and a workflow into DIRECTORY.

    Overwrites nothing. On a terminal, asks for the entrypoint.
    """
    from ragstone.usecases.init import write_starter

    if entrypoint is None and sys.stdin.isatty() and sys.stdout.isatty():
        entrypoint = click.prompt("Entrypoint of your RAG system", default=DEFAULT_ENTRYPOINT)
    result = write_starter(directory, entrypoint=entrypoint or DEFAULT_ENTRYPOINT)
    for place in result.written:
        say(f"wrote  {place}")
    for place in result.kept:
        say(f"kept   {place} (already exists)")
    say("Next: add your own questions to golden/golden.jsonl, then run `ragstone check`.")
