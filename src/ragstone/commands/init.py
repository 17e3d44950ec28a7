"""`ragstone init`."""

from __future__ import annotations

import sys
from pathlib import Path

import click

DEFAULT_ENTRYPOINT = "python:my_package.rag:answer"


@click.command(name="init")
@click.argument("directory", type=click.Path(path_type=Path, file_okay=False), default=".")
@click.option("--entrypoint", metavar="WHERE", help=f"How your system is reached  [default: {DEFAULT_ENTRYPOINT}]")
def command(directory: Path, entrypoint: str | None) -> None:
    """Write ragstone.toml, thresholds.toml, a starter golden set and a workflow into DIRECTORY.

    Overwrites nothing. Asks for the entrypoint on a terminal, and nothing anywhere else.
    """
    from ragstone.usecases.init import write_starter

    if entrypoint is None and sys.stdin.isatty() and sys.stdout.isatty():
        entrypoint = click.prompt("How is your RAG system reached?", default=DEFAULT_ENTRYPOINT)
    result = write_starter(directory, entrypoint=entrypoint or DEFAULT_ENTRYPOINT)
    for place in result.written:
        click.echo(f"wrote  {place}")
    for place in result.kept:
        click.echo(f"kept   {place} (it was there)")
    click.echo("Next: write your own questions into golden/golden.jsonl, then run `ragstone check`.")
