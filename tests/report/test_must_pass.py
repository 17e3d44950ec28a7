"""Must-pass samples in each report: named once, and what is said of them is true."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from ragstone.evaluation.scores import MetricScores, RunScores, SampleFacts
from ragstone.gate.decide import decide_gate
from ragstone.gate.policy import policy_from_mapping
from ragstone.report.document import document_of
from ragstone.report.parts import Document
from ragstone.report.render import Format, render


def must_pass_report(values: dict[str, float], must: list[str]) -> Document:
    run = RunScores("run", {"faithfulness": MetricScores(values)}, {key: SampleFacts(question=key) for key in values})
    policy = policy_from_mapping({"metrics": {"faithfulness": {"min": 0.5}}, "must_pass": must})
    return document_of(decide_gate(run, None, policy), run)


VALUES = {f"q{number}": 1.0 for number in range(40)}


FAILED = must_pass_report({**VALUES, "refunds": 0.2, "returns": 0.1}, ["refunds", "returns", "q1", "q2"])


@pytest.mark.parametrize(
    ("form", "row"), [("text", "refunds: Faithfulness"), ("md", "refunds | fail | 1 | Faithfulness"), ("html", "")]
)
def test_a_failed_sample_is_named_in_the_title_and_the_rest_counted(form: Format, row: str) -> None:
    text = render(FAILED, form).replace("**", "")
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
    assert [sample.id for sample in FAILED.samples.worst] == ["returns", "refunds"]


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
