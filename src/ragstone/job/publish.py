"""Publishes to GitHub: summary, comment, issue and outputs. Nothing here can change a verdict or stop the job."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from ragstone.ci.comments import post_comment
from ragstone.ci.github.check_runs import MAX_SUMMARY, create_check_run
from ragstone.ci.github.client import GitHubApi, GitHubApiError
from ragstone.ci.github.comment import KIND, GitHubComments
from ragstone.ci.github.event import Event
from ragstone.ci.github.issue import IssueResult, IssueStep, follow_up
from ragstone.ci.github.outputs import output_path, write_outputs
from ragstone.ci.github.posts import MAX_BODY, marker
from ragstone.ci.github.shared_comment import CommentBusyError, update_shared_comment
from ragstone.ci.github.summary import write_summary
from ragstone.errors import EXIT_PASS, ConfigError, RagstoneError
from ragstone.gate.verdict import Action, Status
from ragstone.job.gates import GatesOfJob
from ragstone.job.inputs import CommentMode
from ragstone.job.not_affected import NotAffected
from ragstone.job.plan import IssueMode
from ragstone.report import wording
from ragstone.report.escape import markdown_fence
from ragstone.report.gates import (
    NOT_AFFECTED,
    GateRow,
    clipped,
    merged_rows,
    read_rows,
    render_gates,
    row_texts,
)
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

    `view`, and `said`, the text of the error, are already redacted. `unaffected`: there was nothing to evaluate.
    """

    view: ReportView | None = None
    error: RagstoneError | None = None
    said: str = ""
    templates: Templates | None = None
    preface: str = ""
    unaffected: NotAffected | None = None

    @property
    def passed(self) -> bool:
        return self.unaffected is not None or (self.view is not None and self.view.passed)

    @property
    def verdict(self) -> str:
        """As the output `verdict` has it."""
        return "not-affected" if self.unaffected is not None else str(self.status)

    @property
    def exit_code(self) -> int:
        """The exit code that goes with it."""
        if self.error is not None:
            return self.error.exit_code
        return self.view.exit_code if self.view is not None else EXIT_PASS

    @property
    def status(self) -> Status:
        if self.unaffected is not None:
            return Status.PASS
        return self.view.status if self.view is not None else Status.ERROR

    @property
    def unchanged_pass(self) -> bool:
        """Passed, with nothing of interest to a reader."""
        if self.view is None or self.view.status is not Status.PASS or self.view.worst or self.view.failures:
            return False
        if any(row.change is not None and abs(row.change) >= _NOTABLE for row in self.view.metrics):
            return False
        return all(check.status is Status.PASS for check in self.view.checks if check.action is Action.BLOCK)

    def markdown(self, limit: int) -> str:
        """At most `limit` characters, with the user's template if there is a working one."""
        if self.unaffected is not None:
            return self.unaffected.markdown()
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
    mark = marker(KIND, comment_id)
    body = report.markdown(MAX_BODY - _ROOM - len(mark))
    try:
        posted = post_comment(GitHubComments(api, number), mark, body, only_update=only_update)
    except GitHubApiError as api_error:
        published.notices.append(_no_comment(api_error))
    else:
        published.comment_url = posted.url if posted is not None else ""


def tell_row(
    api: GitHubApi, row: GateRow, number: int, names: Mapping[str, bool], file: str, published: Published
) -> None:
    """Put the row of a gate into the comment that it shares with other gates, on pull request `number`."""
    mark = marker("gates", hashlib.sha256(file.encode()).hexdigest()[:16])

    def change(contents: Sequence[str]) -> str:
        rows = merged_rows(*map(read_rows, contents), [row])
        return render_gates(rows, names, limit=MAX_BODY - _ROOM - len(mark))

    def holds(content: str) -> bool:
        # A later attempt of this job may have written its own.
        return any(one.gate == row.gate and one.age >= row.age for one in read_rows(content))

    try:
        published.comment_url = update_shared_comment(api, number, mark, change, holds=holds).url
    except GitHubApiError as api_error:
        published.notices.append(_no_comment(api_error))
    except CommentBusyError as busy:
        published.notices.append(f"The gates' comment lacks this one: {busy}. The job summary has the report.")


def row_of(report: Report, event: Event, gates: GatesOfJob | None, own: str, *, code: int) -> GateRow:
    """The row of a gate in the shared comment: of this job's run, or of the run that this job reports."""
    followed = event.upstream
    details: tuple[str, ...] = ()
    if report.unaffected is not None:
        reason = clipped(report.unaffected.carried)
    elif report.view is not None:
        reason, details = row_texts(report.view)
        reason = clipped(f"In the fork's own run: {reason}") if followed is not None else reason
    else:
        reason = clipped(report.said)
    return GateRow(
        gate=own,
        verdict=NOT_AFFECTED if report.unaffected is not None else report.status.value,
        reason=reason,
        details=details,
        code=code,
        sharing=gates.sharing if gates is not None else 1,
        run_id=followed.run_id if followed is not None else event.run_id,
        attempt=1 if followed is not None else event.attempt,
        sha=followed.head_sha if followed is not None else event.report_sha,
        url=event.url_of(followed.run_id) if followed is not None else event.run_url,
    )


def tell_check(api: GitHubApi, report: Report, event: Event, own: str, code: int, published: Published) -> None:
    """Report the gate as a check run of its own on the commit; a token that can't is a notice."""
    try:
        create_check_run(
            api,
            f"Ragstone: {own}",
            event.report_sha,
            "failure" if code else "success" if report.passed else "neutral",
            title=_check_title(report),
            summary=report.markdown(MAX_SUMMARY),
            url=event.run_url,
            external_id=f"{own}/{event.run_id}",
        )
    except GitHubApiError as api_error:
        if api_error.lacks_permission:
            published.notices.append(
                "No check run of its own for this gate: the token can't write checks (`permissions: checks: write`). "
                "The job's own check has the same result."
            )
        else:
            published.notices.append(f"No check run of its own for this gate: {api_error}")


def _check_title(report: Report) -> str:
    if report.unaffected is not None:
        return f"Not affected. {report.unaffected.carried}"
    if report.view is not None:
        return wording.STATUS_TITLES[report.view.status]
    return "No verdict"


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
        what = "give the job `permissions: issues: write`. " if api_error.lacks_permission else ""
        published.notices.append(f"Can't update the issue: {what}{api_error}")
    else:
        if published.issue.step is not IssueStep.NOTHING:
            published.notices.append(f"The issue {published.issue.url} was {published.issue.step}.")


def tell_outputs(values: Mapping[str, str], environ: Mapping[str, str], published: Published) -> None:
    try:
        for name in write_outputs(output_path(environ), values):
            published.notices.append(f"The output '{name}' is too long and was left empty.")
    except OSError as error:
        published.notices.append(f"Can't write the outputs: {error.strerror}.")


def _no_comment(api_error: GitHubApiError) -> str:
    if api_error.lacks_permission:
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
