"""What a job has to say: made once by evaluating, then published."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ragstone.errors import ConfigError, RagstoneError
from ragstone.evaluation.directory import RunDirectory
from ragstone.gate.policy import Policy
from ragstone.gate.verdict import Status
from ragstone.github.api.reviewed import ReviewedBase
from ragstone.report.escape import line, markdown_fence, markdown_inline
from ragstone.report.parts import Document
from ragstone.report.render import render
from ragstone.report.templates import Templates


@dataclass(frozen=True, slots=True)
class Report:
    """The document of a verdict, or the error instead of one; neither if there is
    nothing to post.

    `document`, and `error_text`, are already redacted. `policy` is what the document
    was decided by. `notes` and `warnings` become annotations, and are not redacted yet;
    `changes` are what a pull request changes about the gate.
    """

    document: Document | None = None
    error: RagstoneError | None = None
    error_text: str = ""
    exit_code: int = 0
    preface: str = ""
    templates: Templates | None = None
    policy: Policy | None = None
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    changes: tuple[str, ...] = ()
    pull_request: int | None = None
    """The number of the pull request to comment on."""
    baseline_run_id: int | None = None
    run: RunDirectory | None = None
    """The run directory, which the container hands over before `directory` is known."""
    reports: tuple[Path, ...] = ()
    directory: str = ""
    """The place of the run, relative to the workspace."""
    files: Mapping[str, str] = field(default_factory=dict)
    """The reports in it by format, relative to the workspace."""

    @property
    def is_empty(self) -> bool:
        return self.document is None and self.error is None

    @property
    def passed(self) -> bool:
        return self.document is not None and self.document.verdict.passed

    @property
    def status(self) -> Status:
        return (
            self.document.verdict.status if self.document is not None else Status.ERROR
        )

    @property
    def title(self) -> str:
        if self.document is None:
            return line(f"No verdict. {self.error_text}", 200)
        return line(self.document.verdict.headline, 200)

    def markdown(self, limit: int) -> str:
        """At most `limit` characters, with the user's template if there is a working
        one."""
        if self.document is None:
            return f"{self.preface}## 🚫 Ragstone: no verdict\n\n{markdown_fence(self.error_text[:4_000])}\n"
        room = limit - len(self.preface)
        try:
            text = render(self.document, "md", limit=room, templates=self.templates)
        except ConfigError:
            # The run has already reported it when the template was first used; the
            # comment is still posted.
            text = render(self.document, "md", limit=room)
        return self.preface + text


def warning_of(base: ReviewedBase) -> str:
    """The first lines of a report that shows no notes, if the base of its change
    doesn't count as reviewed."""
    return (
        ""
        if base.sentence is None
        else f"> [!WARNING]\n> {markdown_inline(base.sentence)}\n\n"
    )
