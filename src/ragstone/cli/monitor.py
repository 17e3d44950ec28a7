"""`ragstone monitor`: logged interactions of an application in production."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

import click

from ragstone.cli.context import run_context, run_until_done
from ragstone.cli.options import (
    CONFIG,
    OUTPUT,
    option,
    output_format,
    setting,
    settings_from,
)
from ragstone.cli.output import check_output, say, write_text
from ragstone.errors import ConfigError
from ragstone.evaluation.directory import HISTORY
from ragstone.judge.providers import find_provider
from ragstone.pipeline.gate_request import read_policy
from ragstone.pipeline.notify import NOTIFY, notify
from ragstone.tools.monitor.monitor import MonitorPlan, monitor
from ragstone.tools.monitor.report import headline, monitor_markdown, monitor_text
from ragstone.tools.monitor.window import period_before


@click.command(name="monitor")
@click.argument("logs", nargs=-1, required=True, metavar="LOG...")
@option(
    "--since",
    value="TIME",
    default="1d",
    help="Length of the window in whole hours, days or weeks, such as 6h, 1d or 1w.",
)
@option(
    "--until",
    value="TIME",
    help="Latest end of the window, such as 2026-11-29  [default: now]",
)
@option(
    "--history",
    value="FILE",
    help="The history  [default: [run] history in ragstone.toml, else in --out]",
)
@option(
    "--out",
    value="DIR",
    default=Path("ragstone-monitored"),
    help="Folder for the runs of the judged samples.",
)
@option(
    "--drafts",
    value="FILE",
    help="Add the questions with bad answers to this JSON Lines file, as drafts of golden samples.",
)
@CONFIG
@setting("thresholds")
@setting("judge")
@setting("metrics", help="Metrics to compute  [default: those that need no reference]")
@output_format("text", "md", what="Report format.")
@OUTPUT
def command(
    logs: tuple[str, ...],
    since: str,
    until: str | None,
    out: Path,
    drafts: Path | None,
    format_name: str,
    output: Path | None,
    history: Path | None,
    **flags: object,
) -> int:
    """Judge a window of logged interactions, and compare it with the windows before it.

    LOG is a file or a glob: JSON Lines (also compressed), a JSON list, CSV, TSV,
    Parquet, or traces (OTLP JSON). The window becomes a line of the history. The limits
    are in [monitor] of thresholds.toml. Exits with 1 if a limit is exceeded.

    \b
    Examples:
      ragstone monitor 'logs/*.jsonl*'
      ragstone monitor interactions.jsonl --since 1w --drafts drafts.jsonl
      ragstone monitor traces.jsonl --judge openai:gpt-5.4-mini --format md -o monitor.md
    """
    settings = settings_from(flags)
    policy = read_policy(settings)
    if history is None:
        history = settings.path_or_none(settings.run.history) or out / HISTORY
    for path in filter(None, (history, drafts, output)):
        check_output(path)
    period = period_before(_parse_time(until), since)
    plan = MonitorPlan(logs, period, policy, history, out.absolute(), drafts)
    provider = find_provider(settings.judge.name.partition(":")[0])
    with run_context(settings) as context:
        if policy.monitor.sample and provider is not None and provider.api is not None:
            context.say(
                f"A random sample of the logged answers goes to {settings.judge.name}, without the personal data that "
                "rules find."
            )
        monitored = run_until_done(monitor(plan, settings, context))
        render = monitor_text if format_name == "text" else monitor_markdown
        text = context.redact(render(monitored))
        address = os.environ.get(NOTIFY, "").strip()
        if address and monitored.verdict.exit_code:
            problem = notify(address, context.redact(headline(monitored)))
            if problem is not None:
                context.say(problem)
    if output is not None:
        write_text(output, text)
    elif format_name == "text":
        say(text.rstrip("\n"))
    else:
        click.echo(text, nl=False)
    return monitored.verdict.exit_code


def _parse_time(text: str | None) -> datetime:
    """The time that --until names, in UTC unless it says otherwise; by default, now.
    Raises ConfigError."""
    if text is None:
        return datetime.now(UTC)
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        hint = "Write a date such as 2026-11-29, or a time such as 2026-11-29T06:00Z."
        raise ConfigError(
            f"'{text}' is not a date or a time.", where="--until", hint=hint
        ) from None
    return time.replace(tzinfo=UTC) if time.tzinfo is None else time
