"""JUnit XML: one test case per check, and one per sample that got worse or failed."""

from __future__ import annotations

from collections import Counter

from ragstone.report.escape import clip, markup
from ragstone.report.html_page import html_environment
from ragstone.report.parts import Document
from ragstone.report.templates import PACKAGE

MAX_FAILED = 1000
"""Samples without a score that have a case of their own; the others have the same
reasons."""


def render_junit(report: Document) -> str:
    """The report as JUnit XML.

    Suite ``checks``: a failed blocking check is a failure; a warning, or an
    inconclusive check that does not block, is skipped with its reason; an error is an
    error. Alerts and warnings of the verdict are skipped too. Suite ``samples``: a
    sample that got worse is a failure if the gate failed and skipped otherwise; a
    sample without a score is an error.
    """
    names: Counter[str] = Counter()

    def case_name(name: str) -> str:
        """`name`, numbered where it repeats: readers of JUnit keep one case per
        name."""
        name = xml_line(name)
        names[name] += 1
        if names[name] == 1:
            return name
        return f"{name} ({names[name]})"

    template = html_environment(PACKAGE).get_template("junit.xml.j2")
    body = template.render(report=report, case_name=case_name, max_failed=MAX_FAILED)
    return f'<?xml version="1.0" encoding="utf-8"?>\n{body}\n'


def xml_line(text: str, length: int = 300) -> str:
    """`text` for an attribute."""
    return clip(" ".join(markup(text).split()), length)


html_environment(PACKAGE).filters.update(
    xml_line=xml_line, xml_text=lambda text: clip(markup(text), 4_000)
)
