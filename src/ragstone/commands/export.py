"""`ragstone export`: a finished run in other tools."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ragstone.commands.options import CONFIG, settings_from, with_options
from ragstone.commands.output import say
from ragstone.formatting import counted

if TYPE_CHECKING:
    from ragstone.export.facts import FinishedRun

_RUN = click.argument("run", type=click.Path(path_type=Path), required=False)
_TEXTS = click.option(
    "--texts", is_flag=True, help="Also send questions, answers and messages, with known secrets redacted."
)


@click.group(name="export")
def command() -> None:
    """Send a finished run to another tool: scores, intervals, the verdict, and who judged.

    Questions, answers and messages stay here unless you add --texts. A score that is not applicable or failed is never
    sent as a number. Exits with 7 if the other side can't be reached or refuses.

    \b
    Examples:
      ragstone export otel ragstone-run
    """


@command.command(name="otel")
@_RUN
@with_options((_TEXTS, CONFIG))
def otel(run: Path | None, texts: bool, **flags: object) -> None:
    """Send each score of RUN as an event gen_ai.evaluation.result over OTLP/HTTP  [default: the run in the config]

    Where to, and with which credentials, is in OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_EXPORTER_OTLP_HEADERS and the other
    standard variables. A collector can't be asked what it has: exporting twice sends each event twice, with the same
    log.record.uid.

    \b
    Example:
      OTEL_EXPORTER_OTLP_ENDPOINT=http://localhost:4318 ragstone export otel ragstone-run
    """
    from ragstone.export.otel import export_otel

    sent = export_otel(_finished(run, texts, flags), os.environ)
    parts = [counted(sent.scored, "score")]
    parts += [f"{sent.not_applicable:,} not applicable"] if sent.not_applicable else []
    parts += [f"{sent.failed:,} failed"] if sent.failed else []
    say(
        f"Sent {counted(sent.events, 'event')} of {counted(sent.samples, 'sample')} to {sent.where}: "
        f"{', '.join(parts)}."
    )


def _finished(run: Path | None, texts: bool, flags: dict[str, object]) -> FinishedRun:
    from ragstone.export.facts import read_finished
    from ragstone.report.redact import Redactor
    from ragstone.usecases.known_secrets import export_secrets, known_secrets

    settings = settings_from(flags)
    secrets = (*known_secrets(os.environ, settings), *export_secrets(os.environ))
    return read_finished(run, settings, Redactor(secrets), texts=texts)
