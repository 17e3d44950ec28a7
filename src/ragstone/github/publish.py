"""Publishes to GitHub: summary, comment and outputs. Nothing here can change a verdict
or stop the job."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from contextlib import contextmanager

from msgspec.structs import replace

from ragstone.github.annotations import annotations_on, error_annotation
from ragstone.github.api.blocks import Block, is_settled, joined, others_beside
from ragstone.github.api.client import GitHubApiError
from ragstone.github.api.commands import (
    Annotation,
    Level,
    output_path,
    print_annotations,
    write_outputs,
    write_summary,
)
from ragstone.github.api.posts import MAX_BODY, marker, post_comment
from ragstone.github.inputs import DEFAULT_ARTIFACT, CommentMode
from ragstone.github.job import Job
from ragstone.github.job_report import Report
from ragstone.github.outputs import output_values
from ragstone.pipeline.notify import notify
from ragstone.settings.variables import Variables

_SUMMARY_LIMITS = (400_000, 200_000, MAX_BODY, 20_000)
_ROOM = 1_000
"""Characters of a body that are reserved for markers, headings and footer."""

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
            # With less detail if it would be too large.
            renderings = map(report.markdown, _SUMMARY_LIMITS)
            if path is not None and not write_summary(path, renderings):
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
        annotations.append(error_annotation(report.error, job.places))
    warnings, notes = report.warnings, (*notices, *report.notes)
    for level, texts in ((Level.WARNING, warnings), (Level.NOTICE, notes)):
        annotations += [Annotation(level, text, "Ragstone") for text in texts]
    annotations = [
        replace(annotation, message=job.redact(annotation.message))
        for annotation in annotations
    ]
    document, policy = report.document, report.policy
    if document is not None and policy is not None and job.inputs.annotations:
        # The document is redacted.
        of_verdict = annotations_on(document, policy, job.places)
        annotations = [*of_verdict, *annotations]
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
    always makes one.
    """
    mode = job.inputs.comment
    if report.pull_request is None or mode is CommentMode.OFF:
        return ""
    if job.api is None:
        notices.append("No comment: there is no GitHub token.")
        return ""
    is_quiet = mode is CommentMode.FAILURES and report.passed
    only_update = is_quiet and not report.changes
    mark = marker(job.inputs.comment_id)
    block = _block(job)

    def body_for(existing: str) -> str | None:
        nonlocal block
        others = others_beside(block, existing)
        if only_update and (others or not existing):
            return None
        room = MAX_BODY - _ROOM - len(mark) - sum(len(other.marked) for other in others)
        block = replace(block, text=report.markdown(room))
        return joined(block, others)

    return post_comment(
        job.api,
        report.pull_request,
        mark,
        body_for,
        lambda body: is_settled(block, body),
    )


def _block(job: Job) -> Block:
    """This job's part, without its text, of a comment that it may share with others."""
    variables = Variables(job.environ)
    inputs, event = job.inputs, job.event
    name = variables.get("GITHUB_JOB") or "gate"
    places = [inputs.working_directory, inputs.config or "", inputs.artifact_name]
    own = [event.workflow or "", name, variables.get("GITHUB_ACTION"), *places]
    label = [
        name,
        *(place for place in places if place not in ("", ".", DEFAULT_ARTIFACT)),
    ]
    attempt = variables.get("GITHUB_RUN_ATTEMPT")
    return Block(
        commit=event.report_sha,
        writer=hashlib.sha256("\0".join(own).encode()).hexdigest()[:16],
        run_id=event.run_id,
        attempt=int(attempt) if attempt.isdecimal() else 1,
        label=re.sub(r"[^\w./ -]|--", "_", " ".join(label))[:100],
        text="",
    )
