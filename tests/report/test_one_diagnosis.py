"""No two sentences of a report contradict each other, whatever the scores and the facts of the samples are."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragstone.evaluation.scores import RunScores
from ragstone.formatting import figure
from ragstone.gate.accepted import offers
from ragstone.gate.decide import decide_gate
from ragstone.gate.policy import policy_from_mapping
from ragstone.gate.question_changes import MIN_BROKEN
from ragstone.gate.sample_change import JudgedAnswer, SampleChange
from ragstone.gate.verdict import CHANGE_KINDS, LEVEL_KINDS, MIN_SAMPLES, Action, Side, Status
from ragstone.report.document import document_of
from ragstone.report.parts import Document
from ragstone.report.render import render
from tests.gate.conftest import build_run, make_manifest

NAMES = ("faithfulness", "answer_correctness", "context_recall", "mrr")
RULES = {"min": 0.6, "max_drop": 0.05}
POLICIES = [
    policy_from_mapping({"gate": {"inconclusive": how}, "metrics": dict.fromkeys(NAMES, RULES)})
    for how in ("fail", "warn")
]
POLICIES.append(policy_from_mapping({"metrics": {name: {**RULES, "action": "warn"} for name in NAMES}}))
answers = st.builds(
    JudgedAnswer,
    abstains=st.booleans(),
    statement_count=st.just(3),
    unsupported_count=st.integers(0, 3),
    contradicted_count=st.integers(0, 1),
    reference_statement_count=st.just(2),
    stated_count=st.integers(0, 2),
    is_in_foreign_language=st.sampled_from([False, False, True]),
)
judged = st.builds(
    SampleChange,
    is_compared=st.just(True),
    has_lost_evidence=st.booleans(),
    evidence_ranks_lower=st.booleans(),
    is_low_evidence_unused=st.booleans(),
    has_outdated_ids=st.booleans(),
    is_answer_truncated=st.booleans(),
    answer=answers,
    baseline_answer=answers,
)
changes = st.one_of(judged, judged, judged, st.just(SampleChange(is_compared=True, has_failed=True)))
cases = st.tuples(
    st.integers(3, 40),
    st.lists(changes, min_size=1, max_size=4),
    st.lists(st.sampled_from([0.0, 0.0, -0.04, -0.3, -0.9, 0.1]), min_size=4, max_size=4),
    st.integers(1, 4),
    st.sampled_from(POLICIES),
    st.booleans(),
)


def scores(n: int, falls: Sequence[float], every: int) -> RunScores:
    """Scores of `n` samples, of which every so-manieth fell in each metric by as much as is given."""
    levels = (1.0, 0.9, 0.8, 1.0)
    columns = {
        name: [min(1.0, max(0.0, levels[i % 4] + (fall if i % every == 0 else 0.0))) for i in range(n)]
        for name, fall in zip(NAMES, falls, strict=True)
    }
    return build_run(columns, manifest=make_manifest())


Case = tuple[int, list[SampleChange], list[float], int, Any, bool]


@settings(max_examples=15)
@given(cases)
def test_no_two_sentences_contradict_each_other(case: Case) -> None:
    assert_no_contradiction(case)


def assert_no_contradiction(case: Case) -> None:
    n, known, falls, every, policy, compared = case

    def changes_of(ids: Sequence[str], _: Collection[str]) -> Mapping[str, SampleChange]:
        return {name: known[int(name[1:]) % len(known)] for name in ids}

    now, before = scores(n, falls, every), scores(n, [0.0] * 4, 1)
    verdict = decide_gate(now, before if compared else None, policy, changes_of=changes_of)
    report = document_of(verdict, now, before if compared else None)
    said = {name: " ".join(render(report, name).split()) for name in ("md", "text", "junit", "html")}
    for text in said.values():
        assert_one_side(text, report)
        assert_counts_add_up(text, report)
    for check in verdict.checks:
        row = next((one for one in report.metrics if (one.metric, one.slice) == (check.metric, check.slice)), None)
        if check.kind in LEVEL_KINDS and row is not None and row.interval is not None and row.check == check.name:
            span = f"interval {figure(row.interval.low)} to {figure(row.interval.high)}"
            assert "interval" not in check.reason or span in check.reason
    below = {(one.metric, one.slice) for one in verdict.checks if one.kind in LEVEL_KINDS and one.status is Status.FAIL}
    blocking = [one for one in verdict.checks if one.action is Action.BLOCK]
    assert not any((one.metric, one.slice) in below for one in offers(blocking, policy.gate))


def assert_one_side(text: str, report: Document) -> None:
    """The side that is named first is that of the causes, and nothing says that it is fine."""
    found = report.explanation.attribution
    first = next(iter(re.findall(r"Look at (retrieval|generation) first", text)), None)
    assert set(re.findall(r"Look at (\w+) first", text)) <= {first}
    assert not ("Retrieval dropped" in text and "retrieval did not" in text)
    assert not ("Generation dropped" in text and "generation did not" in text)
    for broke, fine in (("retrieval", "generation"), ("generation", "retrieval")):
        if first == broke:
            assert f"{broke} did not" not in text
            assert f"Only {fine} is" not in text
            assert ("answers got worse." if broke == "retrieval" else "retrieval broke.") not in text
    if found is None:
        assert first is None
        return
    assert first in (None, found.side)
    diagnosis = report.explanation.diagnosis
    if diagnosis is not None and diagnosis.side is not None:
        assert found.side is diagnosis.side
    if found.cause is not None:
        assert found.cause.count >= MIN_BROKEN
        assert found.side in (found.cause.side, Side.BOTH, Side.UNCLEAR)


def assert_counts_add_up(text: str, report: Document) -> None:
    """Causes, what became of the evidence, and line one count the same."""
    line = re.search(r"Causes: (\d+) of (\d+): ([^.<\"]*)", text)
    if line is not None:
        rest = sum(int(one) for one in re.findall(r"; (\d+)", line[3]))
        assert int(line[1]) + rest == int(line[2])
        assert int(line[2]) >= MIN_SAMPLES
    assert all(int(one) >= MIN_BROKEN for one in re.findall(r"(?:retrieved|lower) for (\d+) of", text))
    shown = re.search(r"4 of 5 losses of ([\d.]+) points", text)
    loss = re.search(r"A drop of ([\d.]+) in a mean would be caught 4 times in 5", text)
    if shown is not None and loss is not None:
        assert float(shown[1]) / 100 >= float(loss[1]) - 0.005
    worse = any(one.kind in CHANGE_KINDS and one.status is Status.FAIL for one in report.checks)
    assert not (worse and "Nothing is shown to be worse" in text)
    assert report.verdict.status is not Status.INCONCLUSIVE or "othing is shown to be worse" not in text


@pytest.mark.heavy
@settings(max_examples=300)
@given(cases)
def test_no_two_sentences_of_many_reports_contradict_each_other(case: Case) -> None:
    assert_no_contradiction(case)


def test_text_reports_say_what_to_do_about_every_cause() -> None:
    kinds = [
        SampleChange(is_compared=True, has_lost_evidence=True),
        SampleChange(is_compared=True, answer=JudgedAnswer(statement_count=2, unsupported_count=1)),
    ]

    def changes_of(ids: Sequence[str], _: Collection[str]) -> Mapping[str, SampleChange]:
        return {name: kinds[int(name[1:]) % 2] for name in ids}

    now, before = scores(40, [-0.9] * 4, 1), scores(40, [0.0] * 4, 1)
    report = document_of(decide_gate(now, before, POLICIES[0], changes_of=changes_of), now, before)
    assert report.explanation.diagnosis is not None
    assert len(report.explanation.diagnosis.counts) == 2
    for name in ("text", "md"):
        said = " ".join(render(report, name).split())
        for cause in report.explanation.diagnosis.counts:
            assert f"To do ({cause.title}): {' '.join(cause.action.split())}" in said.replace("&#8203;", "")
