"""Publishes what a monitor found in a job on GitHub: summary, and an issue while an alert fails."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ragstone.ci.github.client import GitHubApi, GitHubApiError, RetryPolicy
from ragstone.ci.github.command_files import output_path, write_summary
from ragstone.ci.github.event import load_event
from ragstone.ci.github.issue import IssueStep, follow_up
from ragstone.ci.github.posts import MAX_BODY
from ragstone.job.inputs import read_variables
from ragstone.job.publish import close_quietly
from ragstone.run.redact import Redactor
from ragstone.tools.monitor.outcome import Monitored
from ragstone.tools.monitor.report import headline, monitor_markdown

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
