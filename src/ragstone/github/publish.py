"""Publishes a report to GitHub: summary, comment, outputs and annotations. Nothing here
can change a verdict or stop the job."""

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

# Of at most four bytes each, so that the summary stays under GitHub's limit.
_MAX_SUMMARY_CHARACTERS = 250_000
# Of a comment, for its markers and a note.
_RESERVED_CHARACTERS = 1_000
_SHARED_NOTE = "Several jobs comment here, and one that failed is shown. Give each its own `comment-id`."

_NO_COMMENT = (
    "the token can't write to pull requests. For a pull request from a fork that is expected, and the workflow_run "
    "workflow in docs/github-action.md posts the comment. Otherwise give the job `permissions: pull-requests: write`."
)


def publish(job: Job, report: Report) -> None:
    """Write the summary, the comment, the message to the webhook, the outputs and the
    annotations."""
    notices: list[str] = []
    comment_url = ""
    path = output_path(job.environ, "GITHUB_STEP_SUMMARY")
    if not report.is_empty:
        with _errors_as_notices(notices, "Can't write the job summary"):
            if not write_summary(path, report.markdown(_MAX_SUMMARY_CHARACTERS)):
                notices.append("The job summary is full: the report was not added.")
        with _errors_as_notices(notices, "No comment", _NO_COMMENT):
            comment_url = _comment(job, report, notices)
    webhook = job.inputs.notify
    if job.plan.notifies and webhook is not None and not report.passed:
        title = job.redact(report.title)
        problem = notify(webhook.get_secret_value(), title, link=job.event.run_url)
        if problem is not None:
            notices.append(problem)
    with _errors_as_notices(notices, "Can't write the outputs"):
        values = output_values(report, comment_url)
        write_outputs(output_path(job.environ), values)
    annotations = []
    if report.error is not None:
        annotation = error_annotation(report.error, job.places)
        message = job.redact(annotation.message)
        annotations.append(replace(annotation, message=message))
    texts = [(Level.WARNING, text) for text in report.warnings]
    texts += [(Level.NOTICE, text) for text in (*notices, *report.notes)]
    for level, text in texts:
        annotations.append(Annotation(level, job.redact(text), "Ragstone"))
    document = report.document
    policy = report.policy
    if document is not None and policy is not None and job.inputs.annotations:
        # After the others, of which GitHub shows the first ones of each level. The
        # document is redacted already.
        annotations += annotations_on(document, policy, job.places)
    print_annotations(annotations, job.out)


@contextmanager
def _errors_as_notices(
    notices: list[str], problem: str, permission_hint: str = ""
) -> Iterator[None]:
    """Turn an error within the block into a notice that begins with `problem`. If the
    token lacks a permission, the notice has the hint."""
    try:
        yield
    except GitHubApiError as api_error:
        reason = "GitHub refused it."
        if api_error.lacks_permission:
            reason = permission_hint
        notices.append(f"{problem}: {reason} {api_error}")
    except OSError as error:
        notices.append(f"{problem}: {error.strerror}.")


def _comment(job: Job, report: Report, notices: list[str]) -> str:
    """Comment on the pull request, depending on the input `comment`. Returns the
    comment's address, "" if nothing was posted.

    An existing comment is always updated, unless it is of another job on the same
    commit and this one passed: of several jobs with one `comment-id`, one that failed
    is shown. With `failures`, a comment is created only if the gate doesn't pass or a
    pull request changes it.
    """
    mode = job.inputs.comment
    if report.pull_request is None or mode is CommentMode.OFF:
        return ""
    if job.api is None:
        notices.append("No comment: there is no GitHub token.")
        return ""
    is_uneventful = report.passed and not report.changes
    may_create = mode is not CommentMode.FAILURES or not is_uneventful
    mark = marker(job.inputs.comment_id)
    writer = _writer(job)

    def body_for(existing: str) -> str | None:
        earlier_writer = writer_of(existing)
        is_shared = earlier_writer is not None and earlier_writer.is_other_job(writer)
        if is_shared and report.exit_code == EXIT_PASS:
            notices.append(_SHARED_NOTE)
            return None
        if not existing and not may_create:
            return None
        text = report.markdown(MAX_BODY_CHARACTERS - _RESERVED_CHARACTERS)
        if is_shared:
            return f"{replace(writer, job=SEVERAL_JOBS).marker}> [!NOTE]\n> {_SHARED_NOTE}\n\n{text}"
        return writer.marker + text

    return post_comment(job.api, report.pull_request, mark, body_for)


def _writer(job: Job) -> CommentWriter:
    """This job, as the writer of a comment."""
    variables = Variables(job.environ)
    inputs = job.inputs
    event = job.event
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
