"""Markdown loses detail before it grows too long, and never half a table."""

from __future__ import annotations

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from ragstone.gate.findings import Level
from ragstone.gate.verdict import Status
from ragstone.report.markdown import utf16_length
from ragstone.report.parts import Document, FailedSamplePart, FailurePart, StatementPart
from ragstone.report.render import render
from tests.report.conftest import Text, helpdesk_report, with_findings, with_samples
from tests.report.test_escape import parser


def huge(report: Document, times: int = 30) -> Document:
    """The same report of a run in which everything is wrong, at length."""
    sample = report.samples.worst[0]
    loud = replace(
        sample,
        question=sample.question * 40,
        answer=sample.answer * 200,
        unsupported=tuple(StatementPart(f"{number} " + "is not so | " * 60, "unsupported") for number in range(30)),
        missing=("it should say so " * 60,) * 30,
    )
    failed = tuple(FailedSamplePart(f"sample-{number}", None) for number in range(500))
    report = with_samples(
        report,
        worst=tuple(replace(loud, id=f"{sample.id}-{number}") for number in range(times)),
        failures=tuple(FailurePart("judge", f"reason {number} " * 50, (), failed) for number in range(times)),
    )
    return replace(
        with_findings(report, Level.NOTE, *["a long note " * 60] * times),
        verdict=replace(report.verdict, reason="a long reason " * 400),
        metrics=tuple(replace(row, slice=f"slice-{number}") for number in range(times) for row in report.metrics),
        checks=report.checks * times,
        run=replace(report.run, reproduce=("ragstone gate " + "x" * 5000,)),
    )


HUGE = huge(helpdesk_report())


def check_tables(markdown: str) -> None:
    tokens = parser().parse(markdown)
    kinds = [token.type for token in tokens]
    assert kinds.count("table_open") == kinds.count("table_close")
    columns = 0
    for kind in kinds:
        if kind == "tr_open":
            columns = 0
        columns += kind in {"th_open", "td_open"}
        if kind == "tr_close":
            assert columns in {3, 5, 6}
    opened = sum(token.content.count("<details>") for token in tokens if token.type == "html_block")
    closed = sum(token.content.count("</details>") for token in tokens if token.type == "html_block")
    assert opened == closed


@settings(max_examples=3, deadline=None, phases=(Phase.explicit, Phase.generate))
@given(st.integers(min_value=2_000, max_value=70_000))
def test_a_huge_report_fits_any_limit_with_whole_tables(limit: int) -> None:
    markdown = render(HUGE, "md", limit=limit)
    assert utf16_length(markdown) <= limit
    assert "Blocked" in markdown.splitlines()[0]
    check_tables(markdown)


def test_a_limit_too_small_for_a_verdict_is_refused() -> None:
    with pytest.raises(ValueError, match="too small"):
        render(HUGE, "md", limit=100)


def test_what_was_left_out_is_said() -> None:
    markdown = render(HUGE, "md", limit=16_000)
    assert "more rows left out" in markdown
    assert "more samples are in the HTML report" in markdown
    assert "more reasons" in markdown


@pytest.mark.parametrize("nasty", ["$", "abcdef0", "`"])
def test_text_that_grows_when_escaped_costs_detail_and_not_the_report(nasty: str) -> None:
    report = huge(helpdesk_report(text=Text(question=nasty * 3000, answer=nasty * 9000)))
    worst = tuple(
        replace(
            sample,
            unsupported=(StatementPart(nasty * 2000, "unsupported"),) * 30,
            missing=(nasty * 2000,) * 30,
            tags=(nasty * 99,) * 9,
        )
        for sample in report.samples.worst
    )
    checks = tuple(replace(check, reason=nasty * 2000) for check in report.checks)
    report = with_findings(with_samples(report, worst=worst), Level.NOTE, *[nasty * 2000] * 60)
    markdown = render(replace(report, checks=checks), "md")
    assert markdown.startswith("## ❌ Blocked: ")
    check_tables(markdown)


def test_the_words_that_contradict_a_statement_are_shown() -> None:
    report = helpdesk_report(Status.FAIL)
    bad = StatementPart("It costs €9.", "contradicted", quote="costs @everyone 11 euros")
    first, *others = report.samples.worst
    report = with_samples(report, worst=(replace(first, unsupported=(bad,), detailed=True), *others))
    assert "11 euros" in render(report, "md")
    assert "11 euros" in render(report, "html")
    assert "11 euros" in render(report, "text")
    assert "11 euros" in render(report, "json")
    assert "@everyone" not in render(report, "md")
