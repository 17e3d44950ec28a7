"""Publishes to GitHub: summary, comment, issue and outputs. Nothing here can change a verdict or stop the job."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace

from ragstone.errors import EXIT_PASS, ConfigError, RagstoneError
from ragstone.gate.findings import Level as FindingLevel
from ragstone.gate.verdict import Action, Status
from ragstone.github.annotations import annotations_on, error_annotation
from ragstone.github.api.blocks import Block, joined, others_beside
from ragstone.github.api.client import GitHubApi, GitHubApiError
from ragstone.github.api.commands import Annotation, Level, output_path, print_annotations, write_outputs, write_summary
from ragstone.github.api.posts import COMMENT, MAX_BODY, IssueStep, follow_up, marker, post_comment
from ragstone.github.api.reviewed import ReviewedBase
from ragstone.github.inputs import DEFAULT_ARTIFACT, CommentMode
from ragstone.github.job import Job
from ragstone.github.plan import IssueMode
from ragstone.report.escape import line, markdown_fence, markdown_inline
from ragstone.report.parts import Document
from ragstone.report.render import render
from ragstone.report.templates import Templates
from ragstone.settings.variables import Variables

_SUMMARY_LIMITS = (400_000, 200_000, MAX_BODY, 20_000)
_NOTABLE = 0.005
"""A change in a mean that is visible at two digits."""

_ROOM = 1_000
"""Characters of a body that are reserved for markers, headings and footer."""


@dataclass(frozen=True, slots=True)
class Report:
    """What to publish: the document of a verdict, or the error instead of one.

    `document`, and `said`, the text of the error, are already redacted.
    """

    document: Document | None = None
    error: RagstoneError | None = None
    said: str = ""
    templates: Templates | None = None
    preface: str = ""

    @property
    def passed(self) -> bool:
        return self.document is not None and self.document.verdict.passed

    @property
    def exit_code(self) -> int:
        if self.error is not None:
            return self.error.exit_code
        return self.document.verdict.exit_code if self.document is not None else EXIT_PASS

    @property
    def status(self) -> Status:
        return self.document.verdict.status if self.document is not None else Status.ERROR

    @property
    def title(self) -> str:
        return line(self.document.verdict.headline if self.document is not None else f"No verdict. {self.said}", 200)

    @property
    def unchanged_pass(self) -> bool:
        """Passed, with nothing of interest to a reader."""
        document = self.document
        if document is None or document.verdict.status is not Status.PASS:
            return False
        if document.samples.worst or document.samples.failures or document.texts(FindingLevel.ALERT):
            return False
        if any(row.change is not None and abs(row.change) >= _NOTABLE for row in document.metrics):
            return False
        return all(check.status is Status.PASS for check in document.checks if check.action is Action.BLOCK)

    def markdown(self, limit: int) -> str:
        """At most `limit` characters, with the user's template if there is a working one."""
        if self.document is None:
            said = markdown_fence(self.said[:4_000])
            return f"{self.preface}## 🚫 Ragstone: no verdict\n\n{said}\n"
        room = limit - len(self.preface)
        try:
            text = render(self.document, "md", limit=room, templates=self.templates)
        except ConfigError:
            # The run has already reported it when the template was first used; the comment is still posted.
            text = render(self.document, "md", limit=room)
        return self.preface + text


def warning_of(base: ReviewedBase) -> str:
    """The first lines of a report that shows no notes, if the base of its change doesn't count as reviewed."""
    return "" if base.sentence is None else f"> [!WARNING]\n> {markdown_inline(base.sentence)}\n\n"


class Publisher:
    """Publishes the report of one job. `notices` say what could not be done, and why."""

    def __init__(self, job: Job, report: Report, notices: Iterable[str] = ()) -> None:
        self.notices = list(notices)
        self.comment_url = ""
        self._job = job
        self._report = report

    def write_summary(self) -> None:
        """Write the job summary, with less detail if it would be too large."""
        path = output_path(self._job.environ, "GITHUB_STEP_SUMMARY")
        try:
            if path is not None and not write_summary(path, map(self._report.markdown, _SUMMARY_LIMITS)):
                self.notices.append("The job summary is full: the report was not added.")
        except OSError as error:
            self.notices.append(f"Can't write the job summary: {error.strerror}.")

    def comment(self, number: int | None) -> None:
        """Comment on pull request `number`, depending on the mode."""
        job = self._job
        if number is None or job.plan.comment is CommentMode.OFF:
            return
        if job.api is None:
            self.notices.append("No comment: there is no GitHub token.")
            return
        with self._or_say("No comment", _NO_COMMENT):
            self._post_comment(job.api, number)

    def follow_up_issue(self) -> None:
        job, report, event = self._job, self._report, self._job.event
        if job.plan.issue is IssueMode.OFF or job.api is None:
            return
        own = job.inputs.comment_id
        body = f"The run [{event.run_id}]({event.run_url}) did not pass.\n\n"
        with self._or_say("Can't update the issue", "give the job `permissions: issues: write`."):
            done = follow_up(
                job.api,
                own,
                failing=not report.passed,
                may_open=job.plan.issue is IssueMode.OPEN,
                title=f"Ragstone{'' if own == 'default' else f' ({own})'}: {report.title}",
                body=body + report.markdown(MAX_BODY - _ROOM - len(body)),
                recovery=f"The gate passes again: [run {event.run_id}]({event.run_url}).",
            )
            if done.step is not IssueStep.NOTHING:
                self.notices.append(f"The issue {done.url} was {done.step}.")

    def finish(self, outputs: Mapping[str, str]) -> None:
        job, report = self._job, self._report
        try:
            for name in write_outputs(output_path(job.environ), outputs):
                self.notices.append(f"The output '{name}' is too long and was left empty.")
        except OSError as error:
            self.notices.append(f"Can't write the outputs: {error.strerror}.")
        found = [Annotation(Level.WARNING, warning, "Ragstone") for warning in job.warnings]
        found += [Annotation(Level.NOTICE, notice, "Ragstone") for notice in (*self.notices, *job.notes)]
        if report.error is not None:
            found.insert(0, error_annotation(report.error, job.places))
        found = [replace(one, message=job.redact(one.message)) for one in found]
        if report.document is not None and job.policy is not None and job.inputs.annotations:
            found[:0] = annotations_on(report.document, job.policy, job.places)
        print_annotations(found, job.out)

    @contextmanager
    def _or_say(self, what: str, permission: str) -> Iterator[None]:
        """Turn a refusal of GitHub into a notice: nothing that is published can change the verdict."""
        try:
            yield
        except GitHubApiError as api_error:
            self.notices.append(
                f"{what}: {permission if api_error.lacks_permission else 'GitHub refused it.'} {api_error}"
            )

    def _post_comment(self, api: GitHubApi, number: int) -> None:
        """An existing comment is always updated; what a pull request changes about the gate always makes one."""
        report, mode = self._report, self._job.plan.comment
        quiet = (mode is CommentMode.FAILURES and report.passed) or (
            mode is CommentMode.CHANGES and report.unchanged_pass
        )
        only_update = quiet and not self._job.gate_changes
        mark = marker(COMMENT, self._job.inputs.comment_id)

        def body_for(existing: str) -> str | None:
            others = others_beside(_block(self._job, ""), existing)
            if only_update and (others or not existing):
                return None
            room = MAX_BODY - _ROOM - len(mark) - sum(map(len, others))
            return joined(_block(self._job, report.markdown(room)), others)

        posted = post_comment(api, number, mark, body_for)
        self.comment_url = posted.url if posted is not None else ""


def _block(job: Job, text: str) -> Block:
    """What this job says in a comment that it may share with others."""
    variables = Variables(job.environ)
    inputs, event = job.inputs, job.event
    name = variables.get("GITHUB_JOB") or "gate"
    places = [inputs.working_directory, inputs.config or "", inputs.artifact_name]
    own = [event.workflow or "", name, variables.get("GITHUB_ACTION"), *places]
    label = [name, *(place for place in places if place not in ("", ".", DEFAULT_ARTIFACT))]
    attempt = variables.get("GITHUB_RUN_ATTEMPT")
    return Block(
        commit=event.report_sha,
        writer="\0".join(own),
        run_id=event.run_id,
        attempt=int(attempt) if attempt.isdecimal() else 1,
        label=re.sub(r"[^\w./ -]|--", "_", " ".join(label))[:100],
        text=text,
    )


_NO_COMMENT = (
    "the token can't write to pull requests. For a pull request from a fork that is expected, and the workflow_run "
    "workflow in docs/github-action.md posts the comment. Otherwise give the job `permissions: pull-requests: write`."
)


def close_quietly(api: GitHubApi | None) -> None:
    if api is not None:
        with suppress(Exception):
            api.close()
