"""Markdown loses detail before it grows too long, and never half a table."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from ragstone.gate.verdict import Status
from ragstone.report.markdown import LEVELS, length, wrapped
from ragstone.report.parts import FailedSamplePart, FailurePart, ReportView, StatementPart
from ragstone.report.render import render
from tests.report.conftest import Text, view_of
from tests.report.test_escape import parser


def huge(view: ReportView, times: int = 30) -> ReportView:
    """The same report of a run in which everything is wrong, at length."""
    sample = view.worst[0]
    loud = replace(
        sample,
        question=sample.question * 40,
        answer=sample.answer * 200,
        unsupported=tuple(StatementPart(f"{number} " + "is not so | " * 60, "unsupported") for number in range(30)),
        missing=("it should say so " * 60,) * 30,
    )
    failed = tuple(FailedSamplePart(f"sample-{number}", None) for number in range(500))
    return replace(
        view,
        metrics=tuple(replace(row, slice=f"slice-{number}") for number in range(times) for row in view.metrics),
        checks=view.checks * times,
        worst=tuple(replace(loud, id=f"{sample.id}-{number}") for number in range(times)),
        failures=tuple(FailurePart("judge", f"reason {number} " * 50, (), failed) for number in range(times)),
        notes=("a long note " * 60,) * times,
        reason="a long reason " * 400,
        reproduce=("ragstone gate " + "x" * 5000,),
    )


HUGE = huge(view_of())


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
            assert columns in {3, 5, 7}
    opened = sum(token.content.count("<details>") for token in tokens if token.type == "html_block")
    closed = sum(token.content.count("</details>") for token in tokens if token.type == "html_block")
    assert opened == closed


@settings(max_examples=3, deadline=None, phases=(Phase.explicit, Phase.generate))
@given(st.integers(min_value=2_000, max_value=70_000))
def test_a_huge_report_fits_any_limit_with_whole_tables(limit: int) -> None:
    markdown = render(HUGE, "md", limit=limit)
    assert length(markdown) <= limit
    assert "Blocked" in markdown.splitlines()[0]
    check_tables(markdown)


def test_an_ordinary_report_keeps_all_its_detail() -> None:
    assert render(view_of(), "md") == render(view_of(), "md", limit=10**9)


def test_what_was_left_out_is_said() -> None:
    markdown = render(HUGE, "md", limit=16_000)
    assert "more rows left out" in markdown
    assert "more samples are in the HTML report" in markdown
    assert "more reasons" in markdown


def test_a_limit_too_small_for_a_verdict_is_refused() -> None:
    with pytest.raises(ValueError, match="too small"):
        render(HUGE, "md", limit=100)


def test_each_level_shows_less_than_the_one_before() -> None:
    shown = [(level.rows, level.worst, level.text, level.groups, level.checks) for level in LEVELS]
    assert all(a >= b for more, less in pairwise(shown) for a, b in zip(more, less, strict=True))


def test_length_counts_as_the_strictest_reader_does() -> None:
    assert length("aé漢") == 3
    assert length("😀") == 2
    assert length("\ud800") == 1


def test_long_lines_are_folded_for_a_fence() -> None:
    assert max(map(len, wrapped("word " * 100).splitlines())) <= 100
    assert wrapped("a\nb\n\nc") == "a\nb\n\nc"


@pytest.mark.parametrize("nasty", ["$", "abcdef0", "`"])
def test_text_that_grows_when_escaped_costs_detail_and_not_the_report(nasty: str) -> None:
    view = huge(view_of(text=Text(question=nasty * 3000, answer=nasty * 9000)))
    worst = tuple(
        replace(
            sample,
            unsupported=(StatementPart(nasty * 2000, "unsupported"),) * 30,
            missing=(nasty * 2000,) * 30,
            tags=(nasty * 99,) * 9,
        )
        for sample in view.worst
    )
    notes = (nasty * 2000,) * 60
    checks = tuple(replace(check, reason=nasty * 2000) for check in view.checks)
    markdown = render(replace(view, worst=worst, notes=notes, checks=checks), "md")
    assert markdown.startswith("## ❌ Blocked: ")
    check_tables(markdown)


def test_the_words_that_contradict_a_statement_are_shown() -> None:
    view = view_of(Status.FAIL)
    bad = StatementPart("It costs €9.", "contradicted", quote="costs @everyone 11 euros")
    view = replace(view, worst=(replace(view.worst[0], unsupported=(bad,), detailed=True), *view.worst[1:]))
    assert "11 euros" in render(view, "md")
    assert "11 euros" in render(view, "html")
    assert "11 euros" in render(view, "text")
    assert "11 euros" in render(view, "json")
    assert "@everyone" not in render(view, "md")
