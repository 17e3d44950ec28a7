"""Publishes to GitHub: summary, comment and outputs. Nothing here can change a verdict
or stop the job."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager

from msgspec.structs import replace

from ragstone.errors import EXIT_PASS
from ragstone.github.annotations import annotations_on, error_annotation
from ragstone.github.api.client import GitHubApiError
from ragstone.github.api.commands import (
    Annotation,
    Level,
    output_path,
    print_annotations,
    write_outputs,
    write_summary,
)
from ragstone.github.api.comment_writer import SEVERAL_JOBS, CommentWriter, writer_of
from ragstone.github.api.posts import MAX_BODY_CHARACTERS, marker, post_comment
from ragstone.github.inputs import CommentMode
from ragstone.github.job import Job
from ragstone.github.job_report import Report
from ragstone.github.outputs import output_values
from ragstone.pipeline.notify import notify
from ragstone.settings.variables import Variables

_MAX_SUMMARY = 250_000
"""Characters, of at most four bytes each."""
_ROOM = 1_000
"""Characters of a comment that are reserved for markers and a note."""
_SHARED = "Several jobs comment here, and one that failed is shown. Give each its own `comment-id`."

_NO_COMMENT = (
    "the token can't write to pull requests. For a pull request from a fork that is expected, and the workflow_run "
    "workflow in docs/github-action.md posts the comment. Otherwise give the job `permissions: pull-requests: write`."
)


def publish(job: Job, report: Report) -> None:
    """Write the summary, what is posted, and outputs and annotations for the runner."""
    notices: list[str] = []
    comment_url = ""
    path = output_path(job.environ, "GITHUB_STEP_SUMMARY")
    if not report.is_empty:
        with _noting(notices, "Can't write the job summary"):
            if not write_summary(path, report.markdown(_MAX_SUMMARY)):
                notices.append("The job summary is full: the report was not added.")
        with _noting(notices, "No comment", _NO_COMMENT):
            comment_url = _comment(job, report, notices)
    webhook = job.inputs.notify
    if job.plan.notifies and webhook is not None and not report.passed:
        title = job.redact(report.title)
        problem = notify(webhook.get_secret_value(), title, link=job.event.run_url)
        if problem is not None:
            notices.append(problem)
    with _noting(notices, "Can't write the outputs"):
        values = output_values(report, comment_url)
        write_outputs(output_path(job.environ), values)
    annotations = []
    if report.error is not None:
        annotation = error_annotation(report.error, job.places)
        message = job.redact(annotation.message)
        annotations.append(replace(annotation, message=message))
    warnings, notes = report.warnings, (*notices, *report.notes)
    for level, texts in ((Level.WARNING, warnings), (Level.NOTICE, notes)):
        shown = map(job.redact, texts)
        annotations += [Annotation(level, text, "Ragstone") for text in shown]
    document, policy = report.document, report.policy
    if document is not None and policy is not None and job.inputs.annotations:
        # The document is redacted. GitHub shows the first ones of each level.
        annotations += annotations_on(document, policy, job.places)
    print_annotations(annotations, job.out)


@contextmanager
def _noting(notices: list[str], what: str, permission: str = "") -> Iterator[None]:
    """Turn a failure, or a refusal of GitHub, into a notice: nothing that is published
    can change the verdict."""
    try:
        yield
    except GitHubApiError as api_error:
        why = "GitHub refused it."
        if api_error.lacks_permission:
            why = permission
        notices.append(f"{what}: {why} {api_error}")
    except OSError as error:
        notices.append(f"{what}: {error.strerror}.")


def _comment(job: Job, report: Report, notices: list[str]) -> str:
    """Comment on the pull request, depending on the mode. Returns the comment's
    address, "" if there is none.

    An existing comment is always updated; what a pull request changes about the gate
    always makes one. Of several jobs with one `comment-id`, one that failed is shown.
    """
    mode = job.inputs.comment
    if report.pull_request is None or mode is CommentMode.OFF:
        return ""
    if job.api is None:
        notices.append("No comment: there is no GitHub token.")
        return ""
    only_failures = mode is CommentMode.FAILURES
    only_update = only_failures and report.passed and not report.changes
    mark = marker(job.inputs.comment_id)
    writer = _writer(job)

    def body_for(existing: str) -> str | None:
        before = writer_of(existing)
        is_shared = before is not None and before.is_other_job(writer)
        if is_shared and report.exit_code == EXIT_PASS:
            notices.append(_SHARED)
            return None
        if only_update and not existing:
            return None
        text = report.markdown(MAX_BODY_CHARACTERS - _ROOM)
        if is_shared:
            return f"{replace(writer, job=SEVERAL_JOBS).marker}> [!NOTE]\n> {_SHARED}\n\n{text}"
        return writer.marker + text

    return post_comment(job.api, report.pull_request, mark, body_for)


def _writer(job: Job) -> CommentWriter:
    variables, inputs, event = Variables(job.environ), job.inputs, job.event
    identity = (
        event.workflow or "",
        variables.get("GITHUB_JOB"),
        variables.get("GITHUB_ACTION"),
        inputs.working_directory,
        inputs.config or "",
        inputs.artifact_name,
    )
    attempt = variables.get("GITHUB_RUN_ATTEMPT")
    return CommentWriter(
        commit=event.report_sha,
        job=hashlib.sha256("\0".join(identity).encode()).hexdigest()[:16],
        run_id=event.run_id,
        attempt=int(attempt) if attempt.isdecimal() else 1,
    )
