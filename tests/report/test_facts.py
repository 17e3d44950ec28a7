"""The facts of a whole report, in the order in which a reader meets them, and how its figures and names are written."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any, Literal
from xml.etree import ElementTree

import pytest
from msgspec.structs import replace

import ragstone
from ragstone.evaluation.scores import MetricScores, RunScores, SampleFacts
from ragstone.gate.decide import decide_gate
from ragstone.gate.policy import policy_from_mapping
from ragstone.gate.speed_and_price import UsageChange
from ragstone.gate.verdict import Action, Changed, Check, CheckKind, Status
from ragstone.report.document import document_of
from ragstone.report.filters import PHRASES
from ragstone.report.parts import Document
from ragstone.report.render import FORMATS, Format, render
from ragstone.report.summary import summary_of
from tests.gate.conftest import build_run, make_manifest
from tests.gate.verdicts import verdict_of
from tests.report.conftest import helpdesk_report
from tests.report.runs import one_check

CASES: dict[str, dict[str, Any]] = {
    "fail": {"status": Status.FAIL},
    "inconclusive": {"status": Status.INCONCLUSIVE},
    "error": {"status": Status.ERROR},
    "first-run": {"status": Status.PASS, "first_run": True, "offline": True},
}
COST = ("openai gpt-x-mini", "24 ", "212 from the cache", "$0.03", "main@9d8c7b6", "48 of 60 samples")
REPEAT = ("git checkout 3f2c1e9a7b5d4c6e8f0a1b2c3d4e5f6a7b8c9d0e", "ragstone gate", "--golden=golden/helpdesk.jsonl")
FAILED = ("Blocked", "0.89", "0.80", "48 questions", "0.02")
ROWS = (
    *("Faithfulness", "0.91 [0.88, 0.96]", "−0.09", "≥ 0.85", "dropped"),
    *("0.84 [0.80, 0.88]", "−0.14", "≥ 0.75", "0.71 [0.65, 0.77]", "−0.15", "≥ 0.8", "below floor"),
    *("0.83 [0.77, 0.88]", "(warns)", "tone", "0.69", "not gated", "0.62 [0.48, 0.75]", "below floor"),
)
WORST = (
    *("port-default", "golden/helpdesk.jsonl:1", "Faithfulness 1.00 → 0.50", "Context recall 1.00 → 0.00"),
    *("contradicted", "The gateway listens on port 8080.", "missing", "The gateway listens on port 8443."),
    *("q-003", "golden/helpdesk.jsonl:4", "Faithfulness 0.80 → 0.20", "q-006"),
)
LOST = ("TimeoutError: no answer after 60 s", "q-059", "content filter", "q-058")
FACTS: dict[tuple[str, Format], tuple[str, ...]] = {
    ("fail", "text"): (
        *(*FAILED, "Look at retrieval first", "version 1", "0.04", *ROWS, "Coverage: 96.7 %", "960 ms"),
        *("48 of 60", *WORST, "q-012", *LOST, *COST[:4], "1 min 23 s", *COST[4:], *REPEAT, *FAILED),
    ),
    ("fail", "md"): (
        *(*FAILED, "Look at retrieval first", "version 1", "| ❌ Faithfulness | 0.89 → 0.80 | ≥ 0.85 · drop ≤ 0.02 |"),
        *("| ❌ Context recall | 0.71 | ≥ 0.8 |", "| ⚠️ Faithfulness · `lang:de` | 0.62 | ≥ 0.8 (warns) |"),
        *("2 more metrics held.", "1 more is not checked (tone 0.82 → 0.69)."),
        *("~~8443.~~ 8080. It also opens port 9090", "3 of 5 samples", *WORST, "2 more samples", *ROWS, *LOST),
        *("Drop: Faithfulness", "48", "Floor: Context recall", "58", "lang:de", "14", "1 min 23 s", *REPEAT, *COST),
    ),
    ("inconclusive", "text"): (
        *("Not blocked", "above or below 0.85", "0.84 [0.79, 0.89]", "−0.01"),
        *("floor unclear", "0.86 [0.82, 0.90]", "pass", *LOST, *COST[:4]),
    ),
    ("error", "text"): ("Blocked", "58 of 60", "96.7 %", "98 %", "pass", "✘ Coverage", "98 %", *LOST, *REPEAT),
    ("first-run", "text"): (
        *("Passed", "0.91 [0.88, 0.96]", "pass", "offline judge 1", "Faithfulness B (fair)", "First run", *LOST),
    ),
}


@pytest.mark.parametrize(("case", "form"), FACTS)
def test_a_report_has_its_facts_in_their_order(case: str, form: Format, monkeypatch: pytest.MonkeyPatch) -> None:
    grades = {"faithfulness": SimpleNamespace(letter="B", word="fair")}
    monkeypatch.setattr("ragstone.report.metrics.grade", grades.get)
    text = re.sub(r"</?\w+>|\*|\\|\u200b", "", render(helpdesk_report(**CASES[case]), form))
    text = " ".join(text.split())
    at = 0
    for fact in FACTS[case, form]:
        place = text.find(fact, at)
        assert place >= 0, f"{fact!r} is not after {text[max(0, at - 60) : at]!r}"
        at = place + len(fact)


USAGE = "1,340 tokens per answer (p95 1,340), $0.00025 (p95 $0.00025)"


def plain(text: str) -> str:
    return " ".join(re.sub(r"</?(b|span)>|\\", "", text).split())


REPORT = helpdesk_report(status=Status.PASS)
SILENT = replace(REPORT, run=replace(REPORT.run, usage=None))


@pytest.mark.parametrize("format", ["text", "md", "html"])
def test_what_an_answer_takes_is_in_every_report_or_that_it_is_not_reported(format: Format) -> None:
    assert USAGE in plain(render(REPORT, format))
    assert "tokens not reported" in plain(render(SILENT, format))


def test_what_only_some_answers_report_is_said() -> None:
    assert REPORT.run.usage is not None
    some = replace(REPORT.run.usage, reported=40, cost_mean_usd=None, cost_p95_usd=None)
    text = plain(render(replace(REPORT, run=replace(REPORT.run, usage=some)), "text"))
    assert "reported by 40 of 59 answers" in text


MARKS: dict[Format, str] = {
    "md": "(warns)",
    "json": '"action": "warn"',
    "junit": "warning",
    "html": "(warns)",
    "text": "(warns)",
}


@pytest.mark.parametrize("form", MARKS)
def test_a_check_that_only_warns_is_marked_so(form: Format) -> None:
    """JUnit has no word for a test case that passes and would not have mattered."""
    mark = MARKS[form]
    for status in Status:
        if (form, status) != ("junit", Status.PASS):
            assert mark in render(one_check(status, Action.WARN), form), status
            assert mark not in render(one_check(status, Action.BLOCK), form), status


def must_pass_report(values: dict[str, float], must: list[str]) -> Document:
    run = RunScores("run", {"faithfulness": MetricScores(values)}, {key: SampleFacts(question=key) for key in values})
    policy = policy_from_mapping({"metrics": {"faithfulness": {"min": 0.5}}, "must_pass": must})
    return document_of(decide_gate(run, None, policy), run)


VALUES = {f"q{number}": 1.0 for number in range(40)}


FAILED_SAMPLES = must_pass_report({**VALUES, "refunds": 0.2, "returns": 0.1}, ["refunds", "returns", "q1", "q2"])


@pytest.mark.parametrize(
    ("form", "row"), [("text", "refunds: Faithfulness"), ("md", "refunds | fail | 1 | Faithfulness"), ("html", "")]
)
def test_a_failed_sample_is_named_in_the_title_and_the_rest_counted(form: Format, row: str) -> None:
    text = render(FAILED_SAMPLES, form).replace("**", "")
    assert "2 must-pass samples failed: refunds, returns" in text
    assert "Must pass: refunds" in text
    assert "Must pass: returns" in text
    assert "2 of 4 samples" in text
    assert "Must pass: – " not in text
    if row:
        assert text.count(f"{row} is 0.20, required 0.50") == 1
        assert "()" not in text
    else:
        facts = text.partition('<ul class="facts">')[2].partition("</ul>")[0]
        assert facts.count("Must pass: refunds") == 1
    assert [sample.id for sample in FAILED_SAMPLES.samples.worst] == ["returns", "refunds"]


def test_all_that_pass_are_one_row() -> None:
    text = render(must_pass_report(VALUES, ["q1", "q2"]), "text")
    assert "✔ Must pass: 2 of 2 samples\n" in text
    assert "✔ Must pass: 1 of 1 sample\n" in render(must_pass_report(VALUES, ["q1"]), "text")


def test_junit_has_no_two_cases_of_one_name() -> None:
    long = "x" * 400
    values = {**VALUES, "refunds": 0.2, f"{long}1": 0.1, f"{long}2": 0.1}
    root = ElementTree.fromstring(render(must_pass_report(values, ["refunds", f"{long}1", f"{long}2", "q1"]), "junit"))
    for suite in root.iter("testsuite"):
        names = [case.get("name") for case in suite.iter("testcase")]
        assert len(names) == len(set(names))
    names = [case.get("name") for case in root.iter("testcase")]
    assert "Must pass: refunds" in names
    assert "Must pass" in names


NEVER = {
    "a plural of one": r"(?<![\d.,–])1 (?:more )?(?:samples|answers|checks|calls|warnings|metrics|scores|labels)\b",
    "two full stops": r"(?<=[a-z)%])\.\.(?![./])",
    "a unit without a space": r"\d(?:ms|%)(?![\w;])",
    "a percentage with two signs": r"% %",
    "markdown in plain text": r"`[a-z ]*",
    "more decimals than are needed": r"(?<![\d.])[01]\.\d{3,}(?!\d)",
}
N = 12


def scored(value: float, lost: int = 0) -> dict[str, dict[str, float]]:
    return {"faithfulness": {f"q{n}": 0.0 if n < lost else value for n in range(N)}}


VERDICTS = {
    "pass": (scored(0.9), scored(0.9), {"min": 0.5, "max_drop": 0.05}),
    "one lost": (scored(0.9, 1), scored(0.9), {"min": 0.875, "max_drop": 0.005}),
    "one sample": ({"faithfulness": {"q0": 0.1}}, {"faithfulness": {"q0": 0.9}}, {"min": 0.999, "max_drop": 0.1}),
    "fail": (scored(0.3), scored(0.9), {"min": 0.999, "max_drop": 0.005}),
}


@pytest.mark.parametrize("name", VERDICTS)
def test_reports_are_written_with_care(name: str) -> None:
    now, then, rule = VERDICTS[name]
    verdict = ragstone.compare(now, then, {"gate": {"min_coverage": 0.5}, "metrics": {"faithfulness": rule}})
    for form in FORMATS:
        text = readable(verdict.report(form), form)
        for what, pattern in NEVER.items():
            found = re.search(f".*{pattern}.*", text)
            assert not found, (form, what, found)


def readable(text: str, form: str) -> str:
    """A report as it is read: without what is code, or is for programs."""
    if form == "html":
        text = re.sub(r"<(style|script)\b.*?</\1>|<pre>.*?</pre>|<[^>]*>", " ", text, flags=re.DOTALL)
    if form == "md":
        text = re.sub(r"^```.*?^```$|`[^`\n]+`|<[^>]*>", " ", text, flags=re.DOTALL | re.MULTILINE)
    if form == "json":
        numbers = r"(?m)^.*\": -?[\d.e-]+,?$|^.*ragstone .*$"
        text = re.sub(numbers, "", text)
    return text.replace("0.999", "").replace("0.875", "").replace("0.005", "")  # thresholds, as they were written


@pytest.mark.parametrize("form", ["text", "md"])
def test_a_score_below_its_floor_is_not_rounded_onto_it(form: Literal["text", "md"]) -> None:
    verdict = ragstone.compare(scored(0.848), policy={"metrics": {"faithfulness": {"min": 0.85}}})
    text = verdict.report(form)
    assert "0.848" in text.splitlines()[0] + text.splitlines()[1]
    assert not re.search(r"Faithfulness\W+0\.85 ", text)


SAMPLES = 30


def run_with(**means: float) -> RunScores:
    return build_run({metric: [mean] * SAMPLES for metric, mean in means.items()}, manifest=make_manifest())


BEFORE = run_with(faithfulness=0.9, answer_relevancy=1.0, context_recall=0.8, tone=0.7)
LESS_RELEVANT = run_with(faithfulness=0.9, answer_relevancy=0.4, context_recall=0.8, tone=0.69)
UNFAITHFUL = run_with(faithfulness=0.5, answer_relevancy=1.0, context_recall=0.8, tone=0.6)
SCORES = "Faithfulness 0.90 and Context recall 0.80. 2 more are not checked (Answer relevancy 1.00, tone 0.70)."
ALL = "faithfulness answer_relevancy context_recall tone"


@pytest.mark.parametrize(
    ("now", "before", "checked", "said"),
    [
        (
            LESS_RELEVANT,
            BEFORE,
            "faithfulness",
            "Faithfulness 0.90. 3 more are not checked (Answer relevancy 1.00 → 0.40).",
        ),
        (
            UNFAITHFUL,
            BEFORE,
            "faithfulness context_recall",
            "1 more metric held. 2 more are not checked (tone 0.70 → 0.60).",
        ),
        (BEFORE, None, "faithfulness context_recall", SCORES),
        (BEFORE, BEFORE, "faithfulness context_recall", SCORES),
        (BEFORE, BEFORE, ALL, "Faithfulness 0.90, Answer relevancy 1.00, Context recall 0.80 and tone 0.70."),
        (
            run_with(faithfulness=0.9, hallucination=0.6),
            run_with(faithfulness=0.9, hallucination=0.1),
            "faithfulness",
            "Faithfulness 0.90. 1 more is not checked (Hallucination 0.10 → 0.60).",
        ),
    ],
    ids=["unchecked fell", "beside a loss", "no baseline", "no loss", "all are checked", "less is better"],
)
def test_what_is_said_of_metrics_without_row(now: RunScores, before: RunScores | None, checked: str, said: str) -> None:
    rules = {metric: {"max_drop": 0.02, "min": 0.1} for metric in checked.split()}
    policy = policy_from_mapping({"gate": {"only_named": True}, "metrics": rules})
    report = document_of(decide_gate(now, before, policy), now, before)
    assert summary_of(report).other_metrics == said
    for form in ("md", "html"):
        assert said.split(" (")[0] in " ".join(render(report, form).split())


@pytest.mark.parametrize("form", ["md", "html", "text"])
def test_so_is_one_of_the_whole_run_that_passes(form: Format) -> None:
    for action in (Action.WARN, Action.BLOCK):
        check = Check("system.latency_p95", CheckKind.LATENCY, Status.PASS, action, "fast", estimate=0.5, threshold=2.0)
        report = document_of(verdict_of(Status.PASS, "fine", [check]), RunScores("run", {}, {}))
        assert ("(warns)" in render(report, form)) is (action is Action.WARN)


def test_what_changed_is_one_line_and_so_is_what_an_answer_takes() -> None:
    assert PHRASES["changes"](REPORT) == PHRASES["usage_changes"](REPORT) == ""
    explanation = replace(
        REPORT.explanation,
        changes=(Changed("corpus", "another index"), Changed("code", "1 → 2"), Changed("policy", "other rules")),
        usage_changes=(
            UsageChange("latency_p50_s", 1.17, 4.17, 9),
            UsageChange("latency_p95_s", 1.28, 4.28, 9),
            UsageChange("tokens_mean", 1_000, 2_000, 9),
            UsageChange("cost_mean_usd", 0.001, 0.02, 9),
        ),
    )
    report = replace(REPORT, explanation=explanation)
    assert PHRASES["changes"](report) == "Changed since the baseline: corpus (another index); policy (other rules)."
    line = "Per answer: 1.17 s → 4.17 s (p95 1.28 s → 4.28 s), 1,000 → 2,000 tokens, $0.0010 → $0.020."
    assert PHRASES["usage_changes"](report) == line
