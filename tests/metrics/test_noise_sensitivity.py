"""Noise sensitivity, edge by edge, and against its definition on random tables."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from ragstone.golden.sample import Sample
from ragstone.judge.judgements import (
    ContextUse,
    ContextUsefulness,
    JudgementFailure,
    JudgementKind,
    Judgements,
    ReferenceMatch,
    StatementList,
    SupportTable,
)
from ragstone.metrics.registry import select_metrics
from ragstone.metrics.score import Failed, NotApplicable, Score, Scored
from ragstone.system.response import Context, Response
from tests.metrics.judged import statements, table

SAMPLE = Sample("a", "Who built the lighthouse?", reference="Ada Brown built it in 1871.")


def judged(right: list[bool], answer_in: list[list[int]], reference_in: list[list[int]], contexts: int) -> Judgements:
    """`right` says which statements of the answer the reference supports; the rest, which contexts support what."""
    answer, reference = statements("s", len(right)), statements("r", len(reference_in))
    return Judgements(
        statements=StatementList(answer, abstains=False),
        support=SupportTable(table("s", answer_in)),
        context_use=ContextUse(
            tuple(ContextUsefulness(f"c{rank}", useful=True) for rank in range(1, contexts + 1)),
            against_reference=True,
            reference_statements=reference,
            attributions=table("r", reference_in),
        ),
        reference_match=ReferenceMatch(
            reference, table("s", [[1] if yes else [] for yes in right]), table("r", [[] for _ in reference])
        ),
    )


def scores(judgements: Judgements, contexts: int = 2, sample: Sample = SAMPLE) -> tuple[Score, Score]:
    """In the relevant and in the irrelevant form."""
    response = Response("a", "an answer", tuple(Context(f"text {rank}") for rank in range(contexts)))
    relevant, irrelevant = select_metrics(["noise_sensitivity"])
    assert (relevant.info.name, irrelevant.info.name) == (
        "noise_sensitivity_relevant",
        "noise_sensitivity_irrelevant",
    )
    return relevant.score(sample, response, judgements), irrelevant.score(sample, response, judgements)


def values(judgements: Judgements, contexts: int = 2) -> tuple[float, float]:
    relevant, irrelevant = scores(judgements, contexts)
    assert isinstance(relevant, Scored)
    assert isinstance(irrelevant, Scored)
    return relevant.value, irrelevant.value


@pytest.mark.parametrize(
    ("right", "answer_in", "reference_in", "contexts", "expected"),
    [
        # c1 holds the reference. s1 is right; s2 is wrong and from c1; s3 wrong and from c2; s4 invented.
        ([True, False, False, False], [[1], [1], [2], []], [[1]], 2, (0.25, 0.25)),
        ([False], [[1, 2]], [[1]], 2, (1.0, 0.0)),  # both kinds of contexts support it: it counts once
        ([False], [[]], [[]], 0, (0.0, 0.0)),  # nothing misled
    ],
)
def test_a_wrong_statement_counts_where_its_context_is(
    right: list[bool],
    answer_in: list[list[int]],
    reference_in: list[list[int]],
    contexts: int,
    expected: tuple[float, float],
) -> None:
    assert values(judged(right, answer_in, reference_in, contexts), contexts) == expected


def test_the_metric_follows_its_definition_on_random_tables() -> None:
    draw = random.Random(3)
    for _ in range(200):
        contexts, claims, facts = draw.randint(1, 5), draw.randint(1, 6), draw.randint(1, 4)

        def some(rows: int, contexts: int = contexts) -> list[list[int]]:
            return [[c for c in range(1, contexts + 1) if draw.random() < 0.4] for _ in range(rows)]

        right = [draw.random() < 0.5 for _ in range(claims)]
        answer_in, reference_in = some(claims), some(facts)
        relevant = {context for row in reference_in for context in row}
        wrong = [set(row) for row, yes in zip(answer_in, right, strict=True) if not yes]
        expected = (
            sum(bool(row & relevant) for row in wrong) / claims,
            sum(bool(row) and not row & relevant for row in wrong) / claims,
        )
        assert values(judged(right, answer_in, reference_in, contexts), contexts) == pytest.approx(expected)


@pytest.mark.parametrize(
    "sample", [replace(SAMPLE, reference=None), replace(SAMPLE, answerable=False)], ids=["no reference", "unanswerable"]
)
def test_it_applies_to_answerable_samples_with_a_reference(sample: Sample) -> None:
    for metric in select_metrics(["noise_sensitivity"]):
        assert metric.needs(sample) == frozenset()
        assert isinstance(metric.excuse(sample), NotApplicable)
    assert all(isinstance(one, NotApplicable) for one in scores(Judgements(), sample=sample))


@pytest.mark.parametrize("missing", ["statements", "support", "context_use", "reference_match"])
def test_a_missing_judgement_fails_the_score(missing: str) -> None:
    found = judged([False], [[1]], [[1]], contexts=2)
    other_statements = SupportTable(table("s", [[1], [2]]))
    gaps = [None, JudgementFailure("timed out"), *([other_statements] if missing == "support" else [])]
    for gap in gaps:
        assert all(isinstance(one, Failed) for one in scores(replace(found, **{missing: gap})))  # type: ignore[arg-type]
    silent = Judgements(statements=StatementList((), abstains=True))
    assert all(isinstance(one, NotApplicable) for one in scores(silent))


@pytest.mark.parametrize(("right", "value"), [([True], 0.0), ([True, False, False, False], 0.75), ([False], 1.0)])
def test_the_plain_share_counts_wrong_statements_whatever_misled(right: list[bool], value: float) -> None:
    (metric,) = select_metrics(["noise_sensitivity_any"])
    found = judged(right, [[]] * len(right), [[]], contexts=0)
    only = Judgements(statements=found.statements, reference_match=found.reference_match)
    rated = metric.score(SAMPLE, Response("a", "an answer"), only)
    assert isinstance(rated, Scored)
    assert rated.value == value
    assert f"{right.count(False)} of {len(right)}" in (rated.note or "")
    assert metric.info.lower_is_better
    assert metric.needs(SAMPLE) == {JudgementKind.STATEMENTS, JudgementKind.REFERENCE_MATCH}
    silent = Judgements(statements=StatementList((), abstains=True))
    assert isinstance(metric.score(SAMPLE, Response("a", "x"), silent), NotApplicable)
    assert isinstance(metric.score(SAMPLE, Response("a", "x"), replace(found, reference_match=None)), Failed)
