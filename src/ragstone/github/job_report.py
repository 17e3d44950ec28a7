"""What a job has to say: made once by evaluating, then published."""

from __future__ import annotations

from msgspec import Struct

from ragstone.errors import EXIT_PASS, ConfigError, RagstoneError
from ragstone.evaluation.directory import RunDirectory
from ragstone.gate.policy import Policy
from ragstone.gate.verdict import Status
from ragstone.golden.sample import Texts
from ragstone.pipeline.gate import REPORT_FILES
from ragstone.report.escape import escape_terminal_line, markdown_fence
from ragstone.report.parts import Document
from ragstone.report.render import Format, render
from ragstone.report.templates import Templates


class Report(Struct, frozen=True):
    """The outcome of a gate, as a document, or the error instead of one; neither if
    there is nothing to post.

    `document` and `error_text` are already redacted; `notes` and `warnings` become
    annotations, and are not redacted yet.
    """

    document: Document | None = None
    exit_code: int = EXIT_PASS
    error: RagstoneError | None = None
    error_text: str = ""
    preface: str = ""
    templates: Templates | None = None
    policy: Policy | None = None
    """What it was decided by."""
    run: RunDirectory | None = None
    """The run that was decided on, if there was something to run."""
    notes: Texts = ()
    warnings: Texts = ()
    changes: Texts = ()
    """What a pull request changes about the gate."""
    pull_request: int | None = None
    """The number of the pull request to comment on."""
    baseline_run_id: int | None = None
    directory: str = ""
    """The place of the run, relative to the workspace."""

    @property
    def is_empty(self) -> bool:
        return self.document is None and self.error is None

    @property
    def passed(self) -> bool:
        return self.document is not None and self.document.verdict.passed

    @property
    def status(self) -> Status:
        document = self.document
        return Status.ERROR if document is None else document.verdict.status

    def file(self, form: Format) -> str:
        """The report in a format, relative to the workspace; "" if there is none."""
        if self.document is None or not self.directory:
            return ""
        return f"{self.directory}/{REPORT_FILES[form]}"

    @property
    def title(self) -> str:
        document = self.document
        headline = f"No verdict. {self.error_text}"
        return escape_terminal_line(
            headline if document is None else document.verdict.headline, 200
        )

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
