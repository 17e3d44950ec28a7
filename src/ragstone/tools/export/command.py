"""`ragstone export`: a finished run in other tools."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ragstone.commands.options import CONFIG, PATH, option, settings_from, with_options
from ragstone.commands.output import say
from ragstone.errors import ExportError
from ragstone.formatting import counted

if TYPE_CHECKING:
    from ragstone.tools.export.facts import FinishedRun
    from ragstone.tools.export.tracker import Exported

_RUN = click.argument("run", type=PATH, required=False)
_TEXTS = option("--texts", is_flag=True, help="Also send questions, answers and messages, with known secrets redacted.")

MAX_EXPORT_S = 900
MAX_EXPORT_BYTES = 4 * 1024**3
"""Limits for an export. The other side may send without end, and the tools' own clients read all of it."""


@contextmanager
def _bounded() -> Iterator[None]:
    def late(*_: object) -> None:
        raise ExportError(f"the other side did not take everything within {MAX_EXPORT_S} s.", hint="Export again.")

    if os.name == "posix":
        import resource

        resource.setrlimit(resource.RLIMIT_DATA, (MAX_EXPORT_BYTES, resource.RLIM_INFINITY))
        signal.signal(signal.SIGALRM, late)
        signal.setitimer(signal.ITIMER_REAL, MAX_EXPORT_S, 1)  # again: clients catch what they don't know, and retry
    try:
        yield
    except MemoryError:
        raise ExportError("the other side sent more than fits into memory.") from None
    finally:
        if os.name == "posix":
            # An interpreter that is ending has given up its handlers: the next alarm would kill it, and the exit code.
            signal.setitimer(signal.ITIMER_REAL, 0)


@click.group(name="export")
def command() -> None:
    """Send a finished run to another tool: scores, intervals, the verdict, and who judged.

    Questions, answers and messages stay here unless you add --texts. A score that is not applicable or failed is never
    sent as a number. Exits with 7 if the other side can't be reached or refuses.

    \b
    Examples:
      ragstone export otel ragstone-run
      ragstone export mlflow ragstone-run --experiment shop-search
      ragstone export wandb ragstone-run --project shop-search
    """


@command.command(name="otel", short_help="To OpenTelemetry: an event for each score.")
@_RUN
@with_options((_TEXTS, CONFIG))
def otel(run: Path | None, texts: bool, **flags: object) -> None:
    """Send each score of RUN as an event gen_ai.evaluation.result over OTLP/HTTP.

    Without RUN, the run that the config names is meant. Where to, and with which credentials, is in
    OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_EXPORTER_OTLP_HEADERS and the other standard variables. A collector can't be asked
    what it has: exporting twice sends each event twice, with the same log.record.uid.

    \b
    Example:
      OTEL_EXPORTER_OTLP_ENDPOINT=http://localhost:4318 ragstone export otel ragstone-run
    """
    from ragstone.metrics.score import Failed, NotApplicable, Scored
    from ragstone.tools.export.otel import export_otel

    found = _finished(run, texts, flags)
    with _bounded():
        sent = export_otel(found, os.environ)
    parts = [counted(sent.scores[Scored], "score")]
    words = {NotApplicable: "not applicable", Failed: "failed"}
    parts += [f"{sent.scores[kind]:,} {word}" for kind, word in words.items() if sent.scores[kind]]
    say(
        f"Sent {counted(sent.scores.total(), 'event')} of {counted(sent.samples, 'sample')} to {sent.where}: "
        f"{', '.join(parts)}."
    )


@command.command(name="mlflow", short_help="To MLflow: a run, with a table of samples.")
@_RUN
@option(
    "--experiment",
    value="NAME",
    help="The experiment, created if it does not exist  [default: as in MLFLOW_EXPERIMENT_NAME, else ragstone]",
)
@with_options((_TEXTS, CONFIG))
def mlflow(run: Path | None, experiment: str | None, texts: bool, **flags: object) -> None:
    """Write RUN as a run of MLflow: parameters, figures, verdict, samples.

    Without RUN, the run that the config names is meant. The tracking server is in MLFLOW_TRACKING_URI, with the
    credentials that MLflow's client reads. Exporting again brings the same run of MLflow up to date, and never makes a
    second one.

    \b
    Example:
      MLFLOW_TRACKING_URI=http://localhost:5000 ragstone export mlflow ragstone-run
    """
    from ragstone.tools.export.mlflow import export_mlflow

    settings = settings_from(flags)
    found = _finished(run, texts, flags)
    with _bounded():
        done = export_mlflow(found, settings, os.environ, experiment=experiment, now=lambda: datetime.now(UTC))
    _tell(found, done)


@command.command(name="wandb", short_help="To Weights & Biases: a run, with a table of samples.")
@_RUN
@option("--project", value="NAME", help="The project  [default: as in WANDB_PROJECT, else ragstone]")
@option("--entity", value="NAME", help="The user or team  [default: as in WANDB_ENTITY, else that of the key]")
@with_options((_TEXTS, CONFIG))
def wandb(run: Path | None, project: str | None, entity: str | None, texts: bool, **flags: object) -> None:
    """Write RUN as a run of Weights & Biases: config, figures, verdict, samples.

    Without RUN, the run that the config names is meant. The key is in WANDB_API_KEY, or that of `wandb login`; with
    WANDB_MODE=offline, the run is written to a folder for `wandb sync`. Exporting again brings the same run up to date,
    and never makes a second one.

    \b
    Example:
      WANDB_MODE=offline ragstone export wandb ragstone-run
    """
    from ragstone.tools.export.wandb import export_wandb

    found = _finished(run, texts, flags)
    with _bounded():
        done = export_wandb(found, settings_from(flags), os.environ, project=project, entity=entity)
    _tell(found, done)


def _tell(found: FinishedRun, done: Exported) -> None:
    samples = counted(found.run.manifest.counts.total, "sample")
    say(
        {
            "new": f"Exported: {samples}, {done.where}",
            "updated": f"Updated: {samples}, {done.where}",
            "same": f"Already exported, and nothing has changed: {done.where}",
            "waiting": f"Nothing was sent. Send it with: wandb sync {done.where}",
        }[done.state]
    )


def _finished(run: Path | None, texts: bool, flags: dict[str, object]) -> FinishedRun:
    from ragstone.project.known_secrets import export_secrets, known_secrets
    from ragstone.run.redact import Redactor
    from ragstone.tools.export.facts import read_finished

    settings = settings_from(flags)
    secrets = (*known_secrets(os.environ, settings), *export_secrets(os.environ))
    return read_finished(run, settings, Redactor(secrets), texts=texts)
