"""`ragstone monitor`: the command, the message to a webhook, and the summary and issue of a job on GitHub."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, Literal

import click
import httpx2

from ragstone._version import __version__
from ragstone.cli.context import run_context, run_to_end
from ragstone.cli.options import (
    CONFIG,
    OUTPUT,
    SCORING,
    option,
    output_format,
    setting,
    settings_from,
    with_options,
)
from ragstone.cli.output import say, write_text
from ragstone.errors import EXIT_GATE_FAILED, ConfigError
from ragstone.evaluation.redact import Redactor
from ragstone.evaluation.rounds.context import RunContext
from ragstone.github.api.client import GitHubApi, GitHubApiError, RetryPolicy
from ragstone.github.api.commands import output_path, write_summary
from ragstone.github.api.event import load_event
from ragstone.github.api.posts import MAX_BODY, IssueStep, follow_up
from ragstone.github.inputs import read_variables
from ragstone.github.publish import close_quietly
from ragstone.judge.llm.transport import retry_after_s
from ragstone.judge.providers import find_provider
from ragstone.tools.monitor.alerts_file import ALERTS_FILE, AlertsTable, read_alerts_file
from ragstone.tools.monitor.outcome import Monitored
from ragstone.tools.monitor.report import headline, monitor_json, monitor_markdown, monitor_message, monitor_text
from ragstone.tools.monitor.watch import monitor

URL = "RAGSTONE_WEBHOOK_URL"
SECRET = "RAGSTONE_WEBHOOK_SECRET"  # noqa: S105 - the name of a variable
ATTEMPTS = 4
Format = Literal["json", "slack", "teams"]

_TIMEOUT_S = 20.0
_MAX_PAUSE_S = 30.0
_THIS_MACHINE = ("localhost", "127.0.0.1", "::1")


def webhook_body(form: Format, text: str, facts: Mapping[str, Any]) -> bytes:
    """The body of a message: `facts` with the `text`, or what Slack's or Teams' incoming webhooks take."""
    body: dict[str, Any]
    if form == "slack":
        # Slack's mrkdwn: https://docs.slack.dev/messaging/formatting-message-text/#escaping
        body = {"text": text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")}
    elif form == "teams":
        block = {"type": "TextBlock", "text": text.replace("\n", "\n\n"), "wrap": True}
        card = {"type": "AdaptiveCard", "version": "1.4", "body": [block]}
        kind = "application/vnd.microsoft.card.adaptive"
        body = {"type": "message", "attachments": [{"contentType": kind, "content": card}]}
    else:
        body = {"schema_version": 1, "text": text, **facts}
    return json.dumps(body, ensure_ascii=True, allow_nan=False).encode("ascii")


def signature(secret: str, timestamp: str, body: bytes) -> str:
    """The value of ``X-Ragstone-Signature``: HMAC-SHA256 (hex) of timestamp, a full stop, and the body."""
    return "sha256=" + hmac.new(secret.encode(), timestamp.encode() + b"." + body, hashlib.sha256).hexdigest()


def post(
    environ: Mapping[str, str], body: bytes, *, now: Callable[[], datetime], sleep: Callable[[float], None]
) -> str | None:
    """Post `body` to the webhook in the environment. Returns why it could not be delivered; None if it was.

    Tried 4 times, unless the receiver refuses. Redirects are not followed. Raises ConfigError for an address that is
    neither https nor of this machine.
    """
    address = _checked(environ.get(URL, "").strip())
    headers = {"Content-Type": "application/json", "User-Agent": f"ragstone/{__version__}"}
    headers["X-Ragstone-Delivery"] = hashlib.sha256(body).hexdigest()[:32]
    secret = environ.get(SECRET, "").strip()
    problem = ""
    for attempt in range(ATTEMPTS):
        if secret:
            stamp = str(int(now().timestamp()))
            headers |= {"X-Ragstone-Timestamp": stamp, "X-Ragstone-Signature": signature(secret, stamp, body)}
        pause = 2.0**attempt
        try:
            with (
                httpx2.Client(timeout=_TIMEOUT_S, follow_redirects=False, trust_env=False) as client,
                client.stream("POST", address, headers=headers, content=body) as reply,
            ):
                status, wait = reply.status_code, retry_after_s(reply.headers)
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            problem = type(error).__name__
        else:
            if 200 <= status < 300:
                return None
            problem = f"it answered {status}"
            if status != 429 and status < 500:
                break
            pause = pause if wait is None else wait
        if attempt < ATTEMPTS - 1:
            sleep(min(_MAX_PAUSE_S, pause))
    return f"Webhook delivery failed: {problem}."


def _checked(address: str) -> str:
    with suppress(httpx2.InvalidURL):
        url = httpx2.URL(address)
        if url.host and (url.scheme == "https" or (url.scheme == "http" and url.host in _THIS_MACHINE)):
            return address
    raise ConfigError(f"{URL} is not an https address.", hint="http is for this machine only.")


_ROOM = 500


def publish_monitored(
    found: Monitored,
    environ: Mapping[str, str],
    redact: Redactor,
    say: Callable[[str], None],
    *,
    patience: RetryPolicy | None = None,
) -> None:
    """Write the job summary; open, update or close the issue. What GitHub refuses is said, and changes nothing.

    Raises ConfigError outside a job on GitHub.
    """
    event, inputs = load_event(environ), read_variables(environ)
    token = inputs.github_token
    redact.add(token.get_secret_value())
    text = redact(monitor_markdown(found))
    try:
        if (path := output_path(environ, "GITHUB_STEP_SUMMARY")) is not None and not write_summary(path, [text]):
            say("The job summary is full: the report was not added.")
    except OSError as error:
        say(f"Can't write the job summary: {error.strerror}.")
    if not token.get_secret_value():
        say("No issue was opened: GITHUB_TOKEN is not set.")
        return
    api = GitHubApi(token, repository=event.repository, api_url=event.api_url, patience=patience or RetryPolicy())
    which = "" if inputs.comment_id == "default" else f" ({inputs.comment_id})"
    run = f"[run {event.run_id}]({event.run_url})"
    body = f"Found by {run}.\n\n{text}"
    try:
        result = follow_up(
            api,
            f"monitor-{inputs.comment_id}",
            failing=found.failing,
            may_open=True,
            title=f"Ragstone{which}: production has become worse",
            body=body if len(body) <= MAX_BODY - _ROOM else f"Found by {run}: {redact(headline(found))}",
            recovery=f"All alerts have ended: {run}.",
        )
    except GitHubApiError as problem:
        what = "give the job `permissions: issues: write`. " if problem.lacks_permission else ""
        say(redact(f"Can't update the issue: {what}{problem}"))
    else:
        if result.step is not IssueStep.NOTHING:
            say(f"The issue {result.url} was {result.step}.")
    finally:
        close_quietly(api)


@click.command(name="monitor")
@click.argument("logs", nargs=-1, metavar="[LOG...]")
@option("--alerts", value="FILE", help="Rules: logs, columns, windows, alerts  [default: alerts.toml, if it exists]")
@option(
    "--state",
    value="FILE",
    default=Path("ragstone-monitor.sqlite"),
    help="The state between jobs: what was counted already.",
)
@option(
    "--out", value="DIR", default=Path("ragstone-monitored"), help="Folder for the scored samples, one run per window."
)
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
    judge = find_provider(settings.judge.name.partition(":")[0])
    with run_context(settings) as context:
        if table.sample.size and judge is not None and judge.api is not None:
            context.say(
                f"The interactions drawn for scoring go to {settings.judge.name} as they were logged: personal data is "
                "replaced in drafts only."
            )
        notify = partial(_notify, table.webhook.format, context) if os.environ.get(URL, "").strip() else None
        job = monitor(
            paths, table, settings, context,
            state_file=state, out=out.absolute(), where=str(file), notify=notify, drafts=drafts,
        )  # fmt: skip
        found = run_to_end(job)
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
    text, facts = monitor_message(found)
    problem = post(context.environ, webhook_body(form, context.redact(text), facts), now=context.now, sleep=time.sleep)
    if problem is not None:
        context.say(problem)
    return problem is None
