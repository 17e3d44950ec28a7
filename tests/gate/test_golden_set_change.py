"""What became of the baseline's questions in the golden set."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from ragstone.evaluation.scores import MetricScores, RunScores, SampleFacts, without_drafts
from ragstone.gate.comparability import with_ids_of
from ragstone.gate.findings import Level
from ragstone.gate.golden_set_change import GoldenSetChange, golden_set_change, golden_set_finding
from tests.gate.conftest import make_manifest

Asked = Mapping[str, str]
"""The question of each id; what follows a colon is its reference."""


def run(asked: Asked, *, drafts: tuple[str, ...] = (), group: str | None = None) -> RunScores:
    samples = {}
    for name, text in asked.items():
        question, _, reference = text.partition(":")
        parts = (question, reference, "", "", "", "")
        samples[name] = SampleFacts(
            content_hash=f"{text} {group}", parts=parts, draft=name in drafts, group=group, question=question
        )
    scores = {"faithfulness": MetricScores(dict.fromkeys(asked, 1.0))}
    return RunScores("run", scores, samples, manifest=make_manifest())


def change(now: RunScores, then: RunScores) -> GoldenSetChange:
    current, drafts = without_drafts(now)
    baseline, renamed = with_ids_of(current, then)
    return golden_set_change(current, baseline, renamed=renamed, drafts=drafts)


THEN = {"a": "Why?", "b": "When?", "c": "Where?", "d": "Who?"}


@pytest.mark.parametrize(
    ("now", "counts"),
    [
        (THEN, ()),
        ({"a": "Why?", "b": "When?"}, ("2 gone",)),
        ({**THEN, "a": "Why now?"}, ("1 reworded",)),
        ({**THEN, "a": "Why?:Because."}, ("1 relabelled",)),
        ({**THEN, "e": "How?"}, ("1 new",)),
        ({**THEN, "a": "When?", "b": "Why?"}, ("2 under the id of another",)),
        ({"x": "Why?", "b": "When?", "c": "Where?", "d": "Who?"}, ()),
        ({"a": "When?", "c": "Where?", "d": "Who?"}, ("1 gone", "1 under the id of another")),
        ({**THEN, "a": "When?", "b": "Whence?"}, ("1 reworded", "1 under the id of another")),
    ],
    ids=["same", "gone", "reworded", "relabelled", "new", "swapped", "renamed", "took the id", "pushed along"],
)
def test_each_question_of_the_baseline_counts_once(now: Asked, counts: tuple[str, ...]) -> None:
    assert change(run(now), run(THEN)).counts == counts


def test_drafts_are_told_from_those_that_are_gone() -> None:
    assert change(run({"a": "Why?", "b": "When?", "c": "Where?"}, drafts=("a",)), run(THEN)).counts == (
        "1 gone",
        "1 turned into a draft",
    )
    renamed = run({"x": "Why?", "b": "When?", "c": "Where?", "d": "Who?"}, drafts=("x",))
    assert change(renamed, run(THEN)).counts == ("1 turned into a draft",)


def test_a_group_alone_is_no_other_label() -> None:
    assert change(run(THEN, group="g"), run(THEN)).counts == ()


def test_a_sample_that_a_limit_left_out_is_not_gone() -> None:
    now = run({"a": "Why?"})
    assert now.manifest is not None
    golden = now.manifest.golden.model_copy(update={"samples": 1, "limited": True})
    limited = replace(now, manifest=now.manifest.model_copy(update={"golden": golden}))
    assert change(limited, run(THEN)).counts == ()


def test_the_sentence_counts_the_questions_first() -> None:
    assert str(GoldenSetChange(gone=18, reworded=4)) == "18 questions are gone, 4 reworded."
    assert str(GoldenSetChange(relabelled=1, drafts=2)) == "1 question is relabelled, 2 turned into drafts."
    assert str(GoldenSetChange()) == ""


def test_it_stands_beside_line_one_if_the_baseline_is_touched() -> None:
    assert [finding.level for finding in golden_set_finding(GoldenSetChange(gone=1))] == [Level.ALERT]
    assert [finding.level for finding in golden_set_finding(GoldenSetChange(new=9))] == [Level.FACT]
    assert golden_set_finding(GoldenSetChange()) == ()
