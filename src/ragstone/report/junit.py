"""Renders the report as JUnit XML, with a test case for each check, and for each sample
that got worse or failed."""

from __future__ import annotations

from collections import Counter

from ragstone.report.escape import clip, escape_markup
from ragstone.report.html_page import html_environment
from ragstone.report.parts import Document
from ragstone.report.templates import PACKAGE

MAX_FAILED_SAMPLES = 1000
"""Maximum number of samples without a score that have a test case."""


def render_junit(report: Document) -> str:
    """Render the report as JUnit XML.

    In the suite ``checks``, a check that fails and blocks is a failure, and one in error
    is an error; a check that only warns, or is inconclusive without blocking, is skipped
    with its reason. Alerts and warnings are skipped cases too. In the suite ``samples``,
    a sample that got worse is a failure if the gate failed, else skipped; a sample
    without a score is an error.
    """
    cases_by_name: Counter[str] = Counter()

    def case_name(name: str) -> str:
        """Return `name`, with a number if it is not the first: readers of JUnit keep one
        case per name."""
        name = xml_line(name)
        cases_by_name[name] += 1
        if cases_by_name[name] == 1:
            return name
        return f"{name} ({cases_by_name[name]})"

    template = html_environment(PACKAGE).get_template("junit.xml.j2")
    body = template.render(
        report=report, case_name=case_name, max_failed=MAX_FAILED_SAMPLES
    )
    return f'<?xml version="1.0" encoding="utf-8"?>\n{body}\n'


def xml_line(text: str, length: int = 300) -> str:
    """Return `text` for an attribute: on one line, of at most `length` characters."""
    return clip(" ".join(escape_markup(text).split()), length)


# All HTML and XML templates of this package share one environment.
html_environment(PACKAGE).filters.update(
    xml_line=xml_line, xml_text=lambda text: clip(escape_markup(text), 4_000)
)
