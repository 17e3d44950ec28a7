"""`ragstone monitor`."""

from __future__ import annotations

import os
import time
from functools import partial
from pathlib import Path

import click

from ragstone.commands.context import run_context, run_to_end
from ragstone.commands.options import (
    CONFIG,
    OUTPUT,
    SCORING,
    option,
    output_format,
    setting,
    settings_from,
    with_options,
)
from ragstone.commands.output import say, write_text
from ragstone.errors import EXIT_GATE_FAILED, ConfigError
from ragstone.rounds.context import RunContext
from ragstone.tools.monitor.alerts_file import ALERTS_FILE, AlertsTable, read_alerts_file
from ragstone.tools.monitor.outcome import Monitored
from ragstone.tools.monitor.publish import publish_monitored
from ragstone.tools.monitor.report import monitor_json, monitor_markdown, monitor_message, monitor_text
from ragstone.tools.monitor.watch import monitor
from ragstone.tools.monitor.webhook import URL, Format, post, webhook_body

DEFAULT_STATE = "ragstone-monitor.sqlite"
DEFAULT_OUT = "ragstone-monitored"


@click.command(name="monitor")
@click.argument("logs", nargs=-1, metavar="[LOG...]")
@option("--alerts", value="FILE", help="Rules: logs, columns, windows, alerts  [default: alerts.toml, if it exists]")
@option("--state", value="FILE", default=DEFAULT_STATE, help="The state between jobs: what was counted already.")
@option("--out", value="DIR", default=DEFAULT_OUT, help="Folder for the scored samples, one run per window.")
@option(
    "--drafts", value="FILE", help="Add bad and unusual cases, as drafts of golden samples, to this JSON Lines file."
)
@with_options((CONFIG,), SCORING)
@setting("metrics", help="Metrics to compute  [default: those that need no reference]")
@option("--no-scores", is_flag=True, help="Only count; the judge scores no sample.")
@option("--github", is_flag=True, help="In a job on GitHub: write its summary; an issue while an alert fails.")
@output_format("text", "md", "json", what="Report format.")
@OUTPUT
def command(
    logs: tuple[str, ...],
    alerts: Path | None,
    state: Path,
    out: Path,
    drafts: Path | None,
    no_scores: bool,
    github: bool,
    form: str,
    output: Path | None,
    **flags: object,
) -> int:
    """Count logged interactions by day or week, score a sample, and compare with those before.

    LOG is a file or a glob: JSON Lines (also compressed, growing or rotated), a JSON list, CSV, TSV or Parquet. What
    was read before is not counted again. The exit code is 1 while an alert whose action is fail lasts.

    \b
    Examples:
      ragstone monitor 'logs/*.jsonl*'
      ragstone monitor interactions.jsonl --no-scores
      ragstone monitor --alerts alerts.toml --judge openai:gpt-5.4-mini --format md -o monitor.md
      ragstone monitor --drafts drafts.jsonl
    """
    settings = settings_from(flags)
    file = alerts if alerts is not None else settings.path(ALERTS_FILE)
    if alerts is not None and not alerts.exists():
        raise ConfigError("not found.", where=str(alerts))
    table = read_alerts_file(file) if file.exists() else AlertsTable()
    if no_scores:
        table = table.model_copy(update={"sample": table.sample.model_copy(update={"size": 0})})
    paths = logs or tuple(str(file.parent / path) for path in table.logs.paths)
    with run_context(settings) as context:
        notify = partial(_notify, table.webhook.format, context) if os.environ.get(URL, "").strip() else None
        found = run_to_end(
            monitor(
                paths,
                table,
                settings,
                context,
                state_file=state,
                out=out.absolute(),
                where=str(file),
                notify=notify,
                drafts=drafts,
            )
        )
        render = {"text": monitor_text, "md": monitor_markdown, "json": monitor_json}[form]
        text = context.redact(render(found))
        if github:
            publish_monitored(found, os.environ, context.redact, context.say)
    if output is None:
        if form == "text":
            say(text.rstrip("\n"))
        else:
            click.echo(text, nl=False)
    else:
        write_text(output, text)
    return EXIT_GATE_FAILED if found.failing else 0


def _notify(form: Format, context: RunContext, found: Monitored) -> bool:
    """Call the webhook; whether the message arrived."""
    text, facts = monitor_message(found)
    problem = post(context.environ, webhook_body(form, context.redact(text), facts), now=context.now, sleep=time.sleep)
    if problem is not None:
        context.say(problem)
    return problem is None
