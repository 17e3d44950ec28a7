"""`ragstone init`."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ragstone.cli.options import option
from ragstone.cli.output import say
from ragstone.printable import shell_word, shown_name

if TYPE_CHECKING:
    from ragstone.pipeline.init import Written
    from ragstone.pipeline.survey.look import Survey
    from ragstone.pipeline.survey.proposal import Proposal

_OTHERS = 3
"""Number of further proposals that are named."""


@click.command(name="init")
@click.argument("directory", type=click.Path(path_type=Path, file_okay=False), default=".")
@option(
    "--entrypoint", value="WHERE", help="Entrypoint of your system  [default: what the source of DIRECTORY suggests]"
)
@option(
    "--probe",
    is_flag=True,
    help="Also ask services on this machine's usual ports for /openapi.json (one GET each), and the chosen one a "
    "question, in the usual forms until it answers.",
)
def command(directory: Path, entrypoint: str | None, probe: bool) -> None:
    """Write ragstone.toml, thresholds.toml, a starter golden set and a workflow into DIRECTORY.

    Looks for an entrypoint and a golden set in DIRECTORY, and says what it found. Source code is parsed, never run.
    Overwrites nothing; adds ragstone-run/ to .gitignore. On a terminal, asks for the entrypoint.
    """
    from ragstone.pipeline.init import PLACEHOLDER, write_starter
    from ragstone.pipeline.survey.look import survey
    from ragstone.pipeline.survey.proposal import Proposal

    say(f"In {shown_name(str(directory.resolve()))}:")
    found = survey(directory, probe=probe)
    nothing = Proposal(PLACEHOLDER, "nothing was found", 9)
    chosen = next(iter(found.proposals), nothing)
    known = (directory / "ragstone.toml").exists()
    say(_found(found, chosen if entrypoint is None else None, probe))
    if entrypoint is None and not known and sys.stdin.isatty() and sys.stdout.isatty():
        entrypoint = click.prompt("Entrypoint of your RAG system", default=chosen.entrypoint)
    if entrypoint is not None and entrypoint != chosen.entrypoint:
        chosen = next(
            (one for one in found.proposals if one.entrypoint == entrypoint), Proposal(entrypoint, "it was named", 0)
        )
    if probe:
        chosen, line = _probed(chosen, found)
        say(line)
    result = write_starter(directory, proposal=chosen, found=found)
    say(_next(directory, result, None if chosen is nothing else chosen))


def _probed(chosen: Proposal, found: Survey) -> tuple[Proposal, str]:
    """The proposal with the settings that its service describes or answers with, and a line that says so."""
    from ragstone.pipeline.survey.openapi import described_at
    from ragstone.pipeline.survey.shapes import answered_shape, usual_paths
    from ragstone.system.entrypoint import recognised

    named = recognised(chosen.entrypoint)
    if named is None or not (named.kind.is_address or (chosen.rank > 8 and found.ports)):
        return chosen, "asked  nothing: no service was found or named"
    chosen = (described_at(chosen.entrypoint) if named.kind.is_address else None) or chosen
    why = ""
    for one in [chosen] if named.kind.is_address else usual_paths(found.ports):
        answered, said = answered_shape(one, os.environ)
        if answered is not None:
            return answered, f"asked  {answered.entrypoint}: {said}"
        why = why or f"asked  {one.entrypoint} ({one.why}): {said}"
    return chosen, why


def _found(found: Survey, chosen: Proposal | None, probe: bool) -> str:
    """What was found; of entrypoints nothing, if none is proposed."""
    from ragstone.pipeline.survey.python_code import GLUE_FILE
    from ragstone.report.templates import render_text_template

    return render_text_template(
        "init_found.txt.j2",
        __package__,
        found=found,
        chosen=chosen,
        others=[one for one in found.proposals if one != chosen and one.glue is None][:_OTHERS],
        described=any("/openapi.json" in one.why for one in found.proposals),
        probe=probe,
        glue_file=GLUE_FILE,
    )


def _next(directory: Path, result: Written, chosen: Proposal | None) -> str:
    """What was written, and what to do now."""
    from ragstone.pipeline.init import GOLDEN, is_starter
    from ragstone.report.templates import render_text_template
    from ragstone.settings.load import read_text
    from ragstone.system.entrypoint import parse_entrypoint

    kept = read_text(directory / "ragstone.toml") if "ragstone.toml" in result.kept else None
    entrypoint = None if chosen is None else chosen.entrypoint
    return render_text_template(
        "init.txt.j2",
        __package__,
        result=result,
        folder="" if directory.resolve() == Path.cwd() else shell_word(os.path.relpath(directory)),
        kept=kept,
        entrypoint=entrypoint,
        starter=GOLDEN if is_starter(directory / GOLDEN) else "",
        service=entrypoint is not None and kept is None and parse_entrypoint(entrypoint).kind.is_address,
    )
