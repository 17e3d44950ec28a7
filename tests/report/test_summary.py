"""What every report shows first: the same parts in the same order, cut to one room."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from html import unescape

import pytest
from msgspec.structs import replace

from ragstone.gate.findings import Level
from ragstone.gate.verdict import Action, Attribution, CauseCount, Changed, Check, CheckKind, Side, Status
from ragstone.report.document import check_part
from ragstone.report.html import render_html
from ragstone.report.markdown import render_markdown
from ragstone.report.parts import Document, FindingPart
from ragstone.report.render import FORMATS, Format, render
from ragstone.report.summary import (
    GATE_CHANGE_PREFIX,
    MAX_LINES,
    SUMMARY_LIMITS,
    SummaryLimits,
    cut,
    cut_summary,
    summary_of,
)
from ragstone.report.terminal import render_text
from tests.report.conftest import helpdesk_report, with_findings

ALERT = "18 questions are gone, 4 reworded."


def busy() -> Document:
    """A failed run with one of everything."""
    report = helpdesk_report()
    coverage = Check("coverage", CheckKind.COVERAGE, Status.FAIL, Action.BLOCK, "Too few samples have a score.", n=60)
    alert = FindingPart("golden_set", Level.ALERT, ALERT)
    return replace(
        report,
        checks=(check_part(coverage), *report.checks),
        findings=(*report.findings, alert),
        metrics=report.metrics,
    )


def plain(text: str) -> str:
    return " ".join(unescape(re.sub(r"<[^>]*>|[*\\`]|\[-|-\]|\{\+|\+\}", "", text)).split())


STARTS: Mapping[str, Callable[[Document], str]] = {
    "md": lambda report: render_markdown(report, limit=65_000, templates=None).partition("<details>")[0],
    "html": lambda report: render_html(report).partition("<main>")[2].partition("<details")[0],
    "text": lambda report: render_text(report, verbose=False, width=80),
}


@pytest.mark.parametrize("form", STARTS)
def test_every_format_starts_with_the_same_parts_in_the_same_order(form: str) -> None:
    text = plain(STARTS[form](busy()))
    parts = (
        "Faithfulness fell from 0.89 to 0.80",
        ALERT,
        "Too few samples have a score.",
        "Look at retrieval first.",
        "was version 1 in the baseline",
        "0.89 → 0.80",
        "2 more metrics held.",
        "Which port does the gateway listen on by default?",
        "8080. It also opens port 9090",
        "issing from the contexts:",
    )
    places = [text.find(part) for part in parts]
    assert -1 not in places, parts[places.index(-1)]
    assert places == sorted(places)


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("status", [Status.PASS, Status.FAIL])
def test_an_alert_is_in_every_format_whatever_the_verdict(status: Status, form: Format) -> None:
    assert ALERT in render(with_findings(helpdesk_report(status), Level.ALERT, ALERT), form)


def test_an_alert_stands_directly_below_line_one() -> None:
    report = with_findings(helpdesk_report(Status.PASS), Level.ALERT, ALERT)
    for text in (start(report) for start in STARTS.values()):
        assert plain(text).partition(report.verdict.fact)[2].lstrip(" ⚠️!-").startswith(ALERT)


def test_an_alert_that_line_one_has_is_not_repeated() -> None:
    report = with_findings(helpdesk_report(Status.PASS), Level.ALERT, ALERT)
    report = replace(report, verdict=replace(report.verdict, headline=f"{ALERT} {report.verdict.headline}"))
    assert report.alerts == ()


def test_findings_repeat_neither_line_one_nor_the_row_of_a_metric() -> None:
    report = helpdesk_report()
    reasons = {
        "questions": (None, "12 of 60 questions got worse, none better (at most 5 % may)."),
        "collapse": ("faithfulness", "Faithfulness is shown to be less than half of its floor."),
        "answers": (None, "30 of 60 answers are broken."),
    }
    checks = tuple(
        check_part(Check(name, CheckKind.ANSWERS, Status.FAIL, Action.BLOCK, reason, metric=metric))
        for name, (metric, reason) in reasons.items()
    )
    headline = f"{report.verdict.headline} 12 of 60 questions got worse, none better."
    report = replace(report, checks=checks, verdict=replace(report.verdict, headline=headline))
    assert summary_of(report).findings == ["30 of 60 answers are broken."]


def test_a_report_with_too_much_to_say_is_cut_to_the_fold() -> None:
    long = [f"{number}: {'the index lacks a document; ' * 20}" for number in range(30)]
    gate = [f"{GATE_CHANGE_PREFIX}lowers metrics.metric_{number}.min from 0.85 to 0.8." for number in range(30)]
    summary = summary_of(with_findings(busy(), Level.WARNING, *long, *gate))
    assert summary.fits(MAX_LINES)
    assert summary.warnings_omitted + len(summary.warnings) == 31, "what changes the gate is one sentence"
    assert "lowers metrics.metric_0.min" in summary.warnings[1]
    assert {*long[len(summary.warnings) :], *gate} <= {*summary.folded}


@pytest.mark.parametrize("limits", SUMMARY_LIMITS)
def test_a_long_change_of_the_gate_hides_no_other(limits: SummaryLimits) -> None:
    accepted = f"{GATE_CHANGE_PREFIX}accepts a drop of faithfulness of up to 0.05 (a1): {'half the latency ' * 100}."
    changed = [
        f"{GATE_CHANGE_PREFIX}changes {key} from one to two."
        for key in ("system.entrypoint", "the judge", "run.repeats")
    ]
    report = with_findings(busy(), Level.WARNING, accepted, *changed, *[accepted] * 30)
    sentence = cut_summary(report, limits).warnings[-1]
    for change in (
        "accepts a drop of faithfulness",
        "changes system.entrypoint",
        "changes the judge",
        "changes run.repeats",
    ):
        assert change in sentence


@pytest.mark.parametrize(
    ("text", "length", "shown"),
    [
        ("short", 10, "short"),
        ("short", 5, "short"),
        ("Abc. defghij", 9, "Abc."),
        ("Ab. cdefghij", 9, "Ab.…"),
        ("One sentence. Another one.", 20, "One sentence."),
        ("More than a half of it; a third and a quarter.", 40, "More than a half of it."),
        ("More than a half of it: a third and a quarter.", 40, "More than a half of it."),
        ("A sentence that is long. Label: a third, a quarter.", 40, "A sentence that is long."),
        ("one two three four", 12, "one two…"),
        ("unbreakable", 6, "unbre…"),
    ],
)
def test_sentences_are_cut_where_they_can_be(text: str, length: int, shown: str) -> None:
    assert cut(text, length) == shown


def test_that_the_code_changed_is_no_news_and_no_label_stands_alone() -> None:
    lost = Changed("corpus", f"31 documents with another text; {'x' * 200}")
    report = helpdesk_report()
    changes = (lost, Changed("code", "1f3c9aa → 7d2e0b1"))
    report = replace(report, explanation=replace(report.explanation, changes=changes))
    for limits in SUMMARY_LIMITS:
        since = cut_summary(report, limits).since
        assert "1f3c9aa" not in since
        assert not since.endswith("baseline.")


CAUSE = CauseCount("invented", "invented", Side.GENERATION, "Look at the prompt.", "", ("a",))


@pytest.mark.parametrize(
    ("attribution", "look", "action"),
    [
        (Attribution(Side.RETRIEVAL, "so it is."), "Look at retrieval first.", ""),
        (Attribution(Side.BOTH, "so it is.", CAUSE), "Look at retrieval and generation.", CAUSE.action),
        (Attribution(Side.UNCLEAR, "so it is."), "", ""),
        (None, "", "The first one: q-059 (golden/helpdesk.jsonl:60)."),
    ],
)
def test_where_to_look_first(attribution: Attribution | None, look: str, action: str) -> None:
    report = helpdesk_report()
    report = replace(report, explanation=replace(report.explanation, attribution=attribution))
    summary = summary_of(report)
    assert (summary.look, summary.action) == (look, action)
    broken = FindingPart("step_changes", Level.ALERT, "It broke.", "turn 3")
    summary = summary_of(replace(report, findings=(broken,)))
    assert (summary.look, summary.action) == ("Look at turn 3 first.", "")
