"""`ragstone init`."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from ragstone.cli.options import option
from ragstone.cli.output import say
from ragstone.printable import shell_word, shown_name


@click.command(name="init")
@click.argument(
    "directory", type=click.Path(path_type=Path, file_okay=False), default="."
)
@option(
    "--entrypoint",
    value="WHERE",
    help="Entrypoint of your system  [default: what the source of DIRECTORY suggests]",
)
def command(directory: Path, entrypoint: str | None) -> None:
    """Write ragstone.toml, thresholds.toml, a starter golden set and a workflow into
    DIRECTORY.

    Looks for an entrypoint and a golden set in DIRECTORY, and says what it found.
    Source code is parsed, never run. Overwrites nothing; adds ragstone-run/ to
    .gitignore. On a terminal, asks for the entrypoint.
    """
    from ragstone.pipeline.init.entrypoints import Proposal
    from ragstone.pipeline.init.survey import STARTER, survey
    from ragstone.pipeline.init.write import PLACEHOLDER, write_starter
    from ragstone.report.templates import read_template, render_text_template
    from ragstone.settings.load import read_text
    from ragstone.system.entrypoint import shown_entrypoint

    say(f"In {shown_name(str(directory.resolve()))}:")
    config = directory / "ragstone.toml"
    is_old = config.exists()
    survey_result = survey(directory)
    unknown = Proposal(PLACEHOLDER, "")
    proposal = survey_result.proposal or unknown
    is_terminal = sys.stdin.isatty() and sys.stdout.isatty()
    if entrypoint is None and not is_old and is_terminal:
        entrypoint = click.prompt(
            "Entrypoint of your RAG system", default=proposal.entrypoint
        )
    if entrypoint is not None and entrypoint != proposal.entrypoint:
        proposal = Proposal(entrypoint, "")
    result = write_starter(directory, proposal, survey_result)
    questions = directory / STARTER
    made_up = read_template("starter/golden.jsonl", "ragstone.pipeline.init")
    is_made_up = questions.exists() and read_text(questions) == made_up
    folder = os.path.relpath(directory)
    has_address = "://" in proposal.entrypoint
    say(
        render_text_template(
            "init.txt.j2",
            __package__,
            survey=survey_result,
            result=result,
            proposal=proposal,
            is_unknown=proposal == unknown,
            is_old=is_old,
            config=read_text(config),
            folder="" if folder == "." else shell_word(folder),
            starter=STARTER if is_made_up else "",
            address=shown_entrypoint(proposal.entrypoint) if has_address else "",
        )
    )
