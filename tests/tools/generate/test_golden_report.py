"""`ragstone golden`: one report on a golden set, for people and for programs."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ragstone.evaluation.scores import MetricScores, RunScores, SampleFacts
from ragstone.golden.sample import ConversationTurn, GoldenSet, GoldenSize, Review, Sample
from ragstone.history.codes import compact_scores
from ragstone.history.file import History, write_history
from ragstone.tools.generate.golden_report import check_references, golden_report, records_of
from tests.cli.project import Completed, ragstone, write_rows
from tests.history import seasons

METRICS = ("faithfulness", "hallucination", "answer_correctness")
Score = Callable[[int, str, str], float | None]
"""A score by run, question and metric."""


def golden_of(n: int) -> GoldenSet:
    return GoldenSet(tuple(Sample(f"q{i}", f"Question {i}?", reference="Yes.") for i in range(n)))


def history_of(golden: GoldenSet, runs: int, score: Score, **fields: Callable[[int], object]) -> History:
    history = History()
    for number in range(runs):
        metrics = {}
        for metric in METRICS:
            values = {sample.id: score(number, sample.id, metric) for sample in golden}
            scored = {name: value for name, value in values.items() if value is not None}
            metrics[metric] = MetricScores(scored, version="1")
        facts = {sample.id: SampleFacts(content_hash=sample.content_hash()) for sample in golden}
        scores = compact_scores(RunScores("run", metrics, facts), METRICS)
        given: dict[str, Any] = {name: value(number) for name, value in fields.items()}
        history = history.with_run(seasons.line(number, metrics=METRICS, **given), scores)
    return history


def score_of(number: int, name: str, metric: str) -> float | None:
    """A score in a run: q1 is never right, q2 flips, q3 was broken twice, q4 is new, q5 makes things up."""
    if name == "q4" and number < 27:
        return None
    if metric == "hallucination":
        return 1.0 if name == "q5" else 0.0
    was_broken = 10 <= number < 20 or number > 25
    is_wrong = name == "q1" or (name == "q2" and number % 3 == 0) or (name == "q3" and was_broken)
    return 0.2 if is_wrong and metric == "answer_correctness" else 1.0


def test_the_history_names_questions_that_nothing_answers_and_that_flip() -> None:
    golden = golden_of(10)
    records = records_of(history_of(golden, 30, score_of), golden)
    assert records.runs == 30
    assert records.never_answered == ["q1", "q5"]
    assert records.always_answered == ["q0", "q6", "q7", "q8", "q9"]
    assert records.flip_flopped == [("q2", 19, 29)]


def test_too_few_runs_drafts_and_another_judge_say_nothing() -> None:
    golden = golden_of(3)
    assert records_of(History(), golden).always_answered == []
    assert records_of(history_of(golden, 4, score_of), golden).never_answered == []
    drafts = GoldenSet(
        tuple(Sample(sample.id, sample.question, reference="Yes.", review=Review("draft")) for sample in golden)
    )
    assert records_of(history_of(golden, 30, score_of), drafts).never_answered == []
    history = history_of(golden, 30, score_of, judge_key=lambda number: ("a" if number < 27 else "b") * 16)
    assert records_of(history, golden).never_answered == []


def test_repeats_are_named_and_samples_counted_by_tag() -> None:
    golden = GoldenSet(
        (
            Sample("a", "How long may shoes be returned?", reference="30 days.", tags=("shoes",), group="g"),
            Sample("b", "how long may shoes be returned", reference="30 days.", tags=("shoes", "easy"), group="g"),
            Sample("c", "How long may the shoes be returned?", reference="30 days."),
            Sample("d", "Who invented mail?", answerable=False, review=Review("draft")),
            Sample("e", "How long may 12 shoes be returned?", tags=("easy",)),
        )
    )
    report = golden_report(golden, ())
    assert (report.samples, report.drafts, report.unanswerable) == (5, 1, 1)
    assert (report.without_reference, report.groups) == (1, 1)
    assert report.tags == {"(no tag)": 2, "easy": 2, "shoes": 2}
    exact, near = report.repeats
    assert (exact.first, exact.second, exact.similarity) == ("a", "b", 1.0)
    assert (near.first, near.second) == ("a", "c")
    assert 0.7 <= near.similarity < 1.0


@pytest.mark.parametrize(
    ("group", "turns", "question", "is_repeat"),
    [
        ("g", (None, None), "How long may the shoes be returned?", False),
        ("g", (None, None), "How long may shoes be returned?", True),
        ("h", (None, None), "How long may the shoes be returned?", True),
        ("g", (ConversationTurn("g", 1, 2), ConversationTurn("g", 2, 2)), "How long may shoes be returned?", False),
    ],
    ids=["nearly the same in a group", "the same in a group", "nearly the same in another", "in a later turn"],
)
def test_what_counts_as_one_already_is_no_repeat(group: str, turns: Any, question: str, is_repeat: bool) -> None:
    first = Sample("a", "How long may shoes be returned?", group="g", turn=turns[0])
    second = Sample("b", question, group=group, turn=turns[1])
    assert bool(golden_report(GoldenSet((first, second)), ()).repeats) is is_repeat


def corpus(folder: Path) -> Path:
    (folder / "sub").mkdir(parents=True)
    (folder / "sub" / "travel.md").write_text("# Travel\n\nThe daily allowance\nis 28 euros.\n", encoding="utf-8")
    (folder / "leave-7.txt").write_text("Leave is 20 days.", encoding="utf-8")
    (folder / "logo.png").write_bytes(b"x")
    return folder


def test_an_id_names_a_document_by_its_path_or_a_part_of_it(tmp_path: Path) -> None:
    named = ["sub/travel.md", "travel.md", "Travel", "./docs/sub/travel.md#allowance", "travel.md:3", "travel-chunk-4"]
    ids = dict.fromkeys([*named, "leave-7", "trav", "hotel.md"], 1.0)
    samples = [Sample("a", "?", relevant_ids={**ids, "gone.md": 0.0})]
    references = check_references(samples, corpus(tmp_path / "docs"))
    assert references.missing_ids == [("a", "trav"), ("a", "hotel.md")]


def test_passages_that_no_document_holds_are_missing_and_unknown_ids_are_no_news(tmp_path: Path) -> None:
    samples = [
        Sample("a", "?", reference_contexts=("The daily allowance is 28 euros",), relevant_ids={"4711": 1.0}),
        Sample("b", "?", reference_contexts=("The daily allowance is 30 euros",)),
    ]
    references = check_references(samples, corpus(tmp_path / "docs"))
    assert references.missing_passages == [("b", "The daily allowance is 30 euros")]
    assert (references.ids_checked, references.missing_ids) == (False, [])


def run_golden(folder: Path, *arguments: str, exit_code: int = 0) -> Completed:
    return ragstone(["golden", "golden.jsonl", *arguments], folder, exit_code=exit_code)


def test_the_command_says_all_of_it_once_and_strict_has_a_code(tmp_path: Path) -> None:
    golden = golden_of(40)
    write_rows(
        tmp_path / "golden.jsonl",
        [{"id": sample.id, "question": sample.question, "reference": sample.reference} for sample in golden],
    )
    write_history(tmp_path / "history.jsonl", history_of(golden, 30, score_of))
    corpus(tmp_path / "docs")
    done = run_golden(tmp_path, "--history", "history.jsonl", "--corpus", "docs", "--strict")
    lines = done.stdout.splitlines()
    assert lines[0] == "40 samples; 0 unanswerable, 0 without a reference."
    assert any("shows a loss of 0." in line for line in lines)
    assert "Same or nearly the same question: none" in lines
    assert "Never answered: repair reference or documents: 2" in lines
    assert "  q2, 19 of 29 times" in lines
    assert "  and 30 more (--format json lists all)" in lines
    document = json.loads(run_golden(tmp_path, "--history", "history.jsonl", "--format", "json").stdout)
    assert document["records"]["never_answered"] == ["q1", "q5"]
    assert document["samples"] == 40
    assert 0.0 < document["shows"]["faithfulness"] < 1.0
    write_rows(tmp_path / "golden.jsonl", [{"id": "a", "question": "Why so?"}, {"id": "b", "question": "why so"}])
    run_golden(tmp_path, "--strict", exit_code=3)
    run_golden(tmp_path)


def test_a_missing_history_and_an_empty_corpus_are_errors(tmp_path: Path) -> None:
    write_rows(tmp_path / "golden.jsonl", [{"id": "a", "question": "Why?"}])
    (tmp_path / "docs").mkdir()
    assert "there is no such history" in run_golden(tmp_path, "--history", "none.jsonl", exit_code=2).stderr
    assert "there is no document to read" in run_golden(tmp_path, "--corpus", "docs", exit_code=2).stderr


def test_drafts_are_not_counted_and_a_group_counts_as_one() -> None:
    samples = golden_of(40).samples
    pairs = [replace(sample, group=f"pair-{place // 2}") for place, sample in enumerate(samples)]
    drafts = [replace(sample, review=Review("draft")) for sample in samples[20:]]
    assert GoldenSet(tuple(pairs)).size() == GoldenSize(sample_count=40, group_count=20)
    assert GoldenSet((*samples[:20], *drafts)).size() == GoldenSize(sample_count=20, group_count=20)
