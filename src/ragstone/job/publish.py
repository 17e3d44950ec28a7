"""Publishes to GitHub: summary, comment, issue and outputs. Nothing here can change a verdict or stop the job."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from ragstone.errors import ConfigError, RagstoneError
from ragstone.gate.verdict import Action, Status
from ragstone.github.client import ApiErrorKind, GitHubApi, GitHubApiError
from ragstone.github.comment import post_comment
from ragstone.github.event import Event
from ragstone.github.issue import IssueResult, IssueStep, follow_up
from ragstone.github.outputs import is_output_name, metric_output, output_path, write_outputs
from ragstone.github.posts import MAX_BODY, marker
from ragstone.github.summary import write_summary
from ragstone.job.inputs import CommentMode
from ragstone.job.plan import IssueMode
from ragstone.metrics.registry import METRICS
from ragstone.report.escape import markdown_fence
from ragstone.report.parts import ReportView
from ragstone.report.render import render
from ragstone.report.templates import Templates

_SUMMARY_LIMITS = (400_000, 200_000, MAX_BODY, 20_000)
_NOTABLE = 0.005
"""A change in a mean that is visible at two digits."""

_ROOM = 200
"""Characters of a body that are reserved for marker and footer."""


@dataclass(frozen=True, slots=True)
class Report:
    """What to publish: the view of a verdict, or the error instead of one.

    `view`, and `said`, the text of the error, are already redacted.
    """

    view: ReportView | None = None
    error: RagstoneError | None = None
    said: str = ""
    templates: Templates | None = None
    preface: str = ""

    @property
    def passed(self) -> bool:
        return self.view is not None and self.view.passed

    @property
    def status(self) -> Status:
        return self.view.status if self.view is not None else Status.ERROR

    @property
    def unchanged_pass(self) -> bool:
        """Passed, with nothing of interest to a reader."""
        if self.view is None or self.view.status is not Status.PASS or self.view.worst or self.view.failures:
            return False
        if any(row.change is not None and abs(row.change) >= _NOTABLE for row in self.view.metrics):
            return False
        return all(check.status is Status.PASS for check in self.view.all_checks if check.action is Action.BLOCK)

    def markdown(self, limit: int) -> str:
        """At most `limit` characters, with the user's template if there is a working one."""
        if self.view is None:
            said = markdown_fence(self.said[:4_000])
            return f"{self.preface}## 🚫 Ragstone: no verdict\n\n{said}\n"
        room = limit - len(self.preface)
        try:
            text = render(self.view, "md", limit=room, templates=self.templates)
        except ConfigError:
            # The run has already reported it when the template was first used; the comment is still posted.
            text = render(self.view, "md", limit=room)
        return self.preface + text


@dataclass(slots=True)
class Published:
    """The result of publishing. `notices` say what could not be done, and why."""

    comment_url: str = ""
    issue: IssueResult | None = None
    notices: list[str] = field(default_factory=list)


def tell_summary(report: Report, environ: Mapping[str, str], published: Published) -> None:
    """Write the job summary, with less detail if it would be too large."""

    def renderings() -> Iterator[str]:
        for limit in _SUMMARY_LIMITS:
            yield report.markdown(limit)

    path = output_path(environ, "GITHUB_STEP_SUMMARY")
    try:
        if path is not None and not write_summary(path, renderings()):
            published.notices.append("The job summary is full: the report was not added.")
    except OSError as error:
        published.notices.append(f"Can't write the job summary: {error.strerror}.")


def tell_comment(
    api: GitHubApi,
    report: Report,
    number: int,
    mode: CommentMode,
    comment_id: str,
    published: Published,
) -> None:
    """Comment on pull request `number`, depending on `mode`. An existing comment is always updated."""
    if mode is CommentMode.OFF:
        return
    only_update = (mode is CommentMode.FAILURES and report.passed) or (
        mode is CommentMode.CHANGES and report.unchanged_pass
    )
    body = report.markdown(MAX_BODY - _ROOM - len(marker("comment", comment_id)))
    try:
        posted = post_comment(api, number, comment_id, body, only_update=only_update)
    except GitHubApiError as api_error:
        published.notices.append(_no_comment(api_error))
    else:
        published.comment_url = posted.url if posted is not None else ""


def tell_issue(
    api: GitHubApi,
    report: Report,
    event: Event,
    mode: IssueMode,
    comment_id: str,
    published: Published,
) -> None:
    """Open, update or close the sticky issue."""
    if mode is IssueMode.OFF:
        return
    which = "" if comment_id == "default" else f" ({comment_id})"
    body = f"The run [{event.run_id}]({event.run_url}) did not pass.\n\n"
    try:
        published.issue = follow_up(
            api,
            comment_id,
            failing=not report.passed,
            may_open=mode is IssueMode.OPEN,
            title=f"Ragstone{which}: the RAG quality gate does not pass",
            body=body + report.markdown(MAX_BODY - _ROOM - len(body)),
            recovery=f"The gate passes again: [run {event.run_id}]({event.run_url}).",
        )
    except GitHubApiError as api_error:
        what = "give the job `permissions: issues: write`. " if api_error.kind is ApiErrorKind.REFUSED else ""
        published.notices.append(f"Can't update the issue: {what}{api_error}")
    else:
        if published.issue.step is not IssueStep.NOTHING:
            published.notices.append(f"The issue {published.issue.url} was {published.issue.step}.")


def output_values(
    report: Report, *, baseline_run_id: int | None, run_directory: str, files: Mapping[str, str], comment_url: str
) -> dict[str, str]:
    """All outputs as strings; unknown ones are empty."""
    values = {
        "verdict": str(report.status),
        "passed": "true" if report.passed else "false",
        **{metric_output(name): "" for name in METRICS if "@" not in name},
        "coverage": "",
        "cost-usd": "",
        "baseline-run-id": str(baseline_run_id or ""),
        "run-directory": run_directory,
        "report-json": files.get("json", ""),
        "report-markdown": files.get("md", ""),
        "comment-url": comment_url,
    }
    view = report.view
    if view is not None:
        for row in view.metrics:
            name = metric_output(row.metric)
            if row.slice is None and row.score is not None and is_output_name(name):
                values[name] = f"{row.score:.6g}"
        values["coverage"] = _coverage(view)
        if view.cost is not None and view.cost.usd is not None:
            values["cost-usd"] = f"{view.cost.usd:.6f}"
    return values


def tell_outputs(values: Mapping[str, str], environ: Mapping[str, str], published: Published) -> None:
    try:
        for name in write_outputs(output_path(environ), values):
            published.notices.append(f"The output '{name}' is too long and was left empty.")
    except OSError as error:
        published.notices.append(f"Can't write the outputs: {error.strerror}.")


def _coverage(view: ReportView) -> str:
    shares = [row.n / (row.n + row.failed) for row in view.metrics if row.slice is None and row.n + row.failed > 0]
    return f"{min(shares):.6g}" if shares else ""


def _no_comment(api_error: GitHubApiError) -> str:
    if api_error.kind is ApiErrorKind.REFUSED:
        return (
            "No comment: the token can't write to pull requests. For a pull request from a fork that is expected, and "
            "the workflow_run workflow in docs/github-action.md posts the comment. Otherwise give the job "
            f"`permissions: pull-requests: write`. {api_error}"
        )
    return f"No comment: GitHub refused it. {api_error}"


def close_quietly(api: GitHubApi | None) -> None:
    """Close the connection, ignoring errors."""
    if api is not None:
        with suppress(Exception):
            api.close()
