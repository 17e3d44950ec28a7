"""`ragstone init`."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from ragstone.cli.options import option
from ragstone.cli.output import say
from ragstone.printable import shell_word


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
    from ragstone.gate.policy_table import DEFAULT_METRICS
    from ragstone.pipeline.init.entrypoints import Proposal
    from ragstone.pipeline.init.survey import STARTER, survey
    from ragstone.pipeline.init.write import PLACEHOLDER, write_starter
    from ragstone.pipeline.judge_agreement import published_agreement
    from ragstone.report.templates import read_template, render_text_template
    from ragstone.settings.load import read_text
    from ragstone.system.entrypoint import shown_entrypoint

    survey_result = survey(directory)
    placeholder = Proposal(PLACEHOLDER, "")
    proposal = survey_result.proposal or placeholder
    is_other = entrypoint not in (None, proposal.entrypoint)
    say(
        render_text_template(
            "init_found.txt.j2",
            __package__,
            directory=str(directory.resolve()),
            found=survey_result,
            proposal=None if is_other else survey_result.proposal,
            is_named=entrypoint is not None,
        )
    )
    config = directory / "ragstone.toml"
    config_text = read_text(config) if config.exists() else None
    is_at_terminal = sys.stdin.isatty() and sys.stdout.isatty()
    if entrypoint is None and config_text is None and is_at_terminal:
        entrypoint = click.prompt(
            "Entrypoint of your RAG system", default=proposal.entrypoint
        )
    if entrypoint is not None and entrypoint != proposal.entrypoint:
        proposal = Proposal(entrypoint, "")
    result = write_starter(directory, proposal, survey_result)
    # Read after writing: the golden set may be the one that was just written.
    golden_file = directory / STARTER
    made_up_questions = read_template("starter/golden.jsonl", "ragstone.pipeline.init")
    is_made_up = golden_file.exists() and read_text(golden_file) == made_up_questions
    is_here = directory.resolve() == Path.cwd()
    is_address = "://" in proposal.entrypoint
    say(
        render_text_template(
            "init.txt.j2",
            __package__,
            result=result,
            proposal=proposal,
            is_unknown=proposal == placeholder,
            folder=None if is_here else shell_word(os.path.relpath(directory)),
            config_text=config_text,
            agreement=published_agreement("offline", DEFAULT_METRICS),
            starter=STARTER if is_made_up else None,
            address=shown_entrypoint(proposal.entrypoint) if is_address else None,
        )
    )
