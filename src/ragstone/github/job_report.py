"""The report of a job: made by evaluating, then published."""

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

_MAX_TITLE_CHARACTERS = 200
_MAX_ERROR_CHARACTERS = 4_000


class Report(Struct, frozen=True):
    """The outcome of a gate: a document, or the error that ended it. It has neither if
    there is nothing to post."""

    document: Document | None = None
    """Redacted."""
    exit_code: int = EXIT_PASS
    error: RagstoneError | None = None
    error_text: str = ""
    """The text of the error, redacted."""
    preface: str = ""
    """Markdown that stands before the document."""
    templates: Templates | None = None
    policy: Policy | None = None
    """The policy that was decided by."""
    run: RunDirectory | None = None
    """The run that was decided on, if the system was evaluated."""
    notes: Texts = ()
    """Notices, not redacted yet."""
    warnings: Texts = ()
    """Not redacted yet."""
    changes: Texts = ()
    """What a pull request changes about the gate."""
    pull_request: int | None = None
    """The number of the pull request to comment on."""
    baseline_run_id: int | None = None
    """The id of the baseline's run on GitHub."""
    directory: str = ""
    """The run directory, relative to the workspace; empty if there is none."""

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

    def file(self, report_format: Format) -> str:
        """The path of the report in a format, relative to the workspace; empty if there
        is none."""
        if self.document is None or not self.directory:
            return ""
        return f"{self.directory}/{REPORT_FILES[report_format]}"

    @property
    def title(self) -> str:
        """The verdict in one line."""
        headline = f"No verdict. {self.error_text}"
        if self.document is not None:
            headline = self.document.verdict.headline
        return escape_terminal_line(headline, _MAX_TITLE_CHARACTERS)

    def markdown(self, max_characters: int) -> str:
        """The report as Markdown, by the user's template if it works."""
        if self.document is None:
            error = markdown_fence(self.error_text[:_MAX_ERROR_CHARACTERS])
            return f"{self.preface}## 🚫 Ragstone: no verdict\n\n{error}\n"
        limit = max_characters - len(self.preface)
        try:
            text = render(self.document, "md", limit=limit, templates=self.templates)
        except ConfigError:
            # The template doesn't work, which the run has reported when it wrote its
            # files.
            text = render(self.document, "md", limit=limit)
        return self.preface + text
