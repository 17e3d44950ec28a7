"""Which contexts answers draw on: the three metrics, edge by edge, and the warning."""

from __future__ import annotations

from pathlib import Path

import pytest

from ragstone.evaluation.gather import ScoreCollector
from ragstone.evaluation.record import Answer, SampleRecord
from ragstone.golden.sample import Sample
from ragstone.judge.judgements import (
    JudgementFailure,
    Judgements,
    Statement,
    StatementList,
    Support,
    SupportTable,
    Verdict,
)
from ragstone.metrics.alignment import UsedContexts
from ragstone.metrics.registry import select_metrics
from ragstone.metrics.score import Failed, NotApplicable, Score, Scored
from ragstone.system.response import Context, Response
from tests.gate.conftest import make_manifest
from tests.metrics.judged import outcome, score, statements, table

SAMPLE = Sample("a", "Who built the lighthouse?")
NAMES = ("top_context_used", "context_utilization", "context_utilization_ranked")


def judged(*supported_by: list[int]) -> Judgements:
    """One statement per list: the contexts, from 1, that support it; none if it is empty."""
    claims = StatementList(statements("s", len(supported_by)), abstains=False)
    return Judgements(statements=claims, support=SupportTable(table("s", supported_by)))


CLAIM = StatementList((Statement("s1", "a claim"),), abstains=False)
CONTRADICTED = Judgements(CLAIM, SupportTable((Support("s1", Verdict.CONTRADICTED, ("c1",)),)))


def scores(judgements: Judgements, texts: list[str], sample: Sample = SAMPLE) -> list[float | type[Score]]:
    response = Response("a", "an answer", tuple(Context(text) for text in texts))
    return [outcome(score(name, sample, response, judgements)) for name in NAMES]


@pytest.mark.parametrize(
    ("judgements", "texts", "expected"),
    [
        (judged([2], [3, 2], []), ["w", "x", "y", "z"], [0.0, 0.5, (1 / 2 + 2 / 3) / 2]),
        # A context that comes twice counts once at its best rank: rank 4 has the text of rank 1.
        (judged([4]), ["the  text", "x", "y", "the text\n"], [1.0, 1 / 3, 1.0]),
        (judged([2]), [f"{'same ' * 8}{end}" for end in "xy"], [0.0, 0.5, 0.5]),  # another text after eight words
        (judged([1], [2]), ["", "x"], [0.0, 0.5, 0.5]),  # one without text is never used
        (CONTRADICTED, ["x"], [0.0, 0.0, 0.0]),
        (judged([9]), ["x"], [0.0, 0.0, 0.0]),  # not a context that was returned
        (Judgements(StatementList((), abstains=True)), ["x"], [NotApplicable] * 3),
        (Judgements(statements=CLAIM), [], [NotApplicable] * 3),
        (Judgements(statements=CLAIM, support=SupportTable(table("s", [[1], [1]]))), ["x"], [Failed] * 3),
        (Judgements(CLAIM, JudgementFailure("refused")), ["x"], [Failed] * 3),
    ],
)
def test_contexts_that_an_answer_draws_on(
    judgements: Judgements, texts: list[str], expected: list[float | type[Score]]
) -> None:
    assert scores(judgements, texts) == pytest.approx(expected)
    faithfulness, *others = select_metrics(["faithfulness", *NAMES])
    assert {metric.needs(SAMPLE) for metric in others} == {faithfulness.needs(SAMPLE)}


@pytest.mark.parametrize(
    ("supported_by", "note"),
    [
        (list(range(2, 12)), "draws on rank 2, 3, 4, 5, 6, 7, 8, 9, 10, 11 of 11"),
        (list(range(1, 12)), "draws on rank 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 and 1 more of 11"),
        ([], "none of 11 contexts supports the answer"),
    ],
)
def test_the_note_names_the_ranks(supported_by: list[int], note: str) -> None:
    response = Response("a", "an answer", tuple(Context(letter) for letter in "abcdefghijk"))
    found = score("top_context_used", SAMPLE, response, judged(supported_by))
    assert isinstance(found, Scored)
    assert found.note == note


def test_an_unanswerable_sample_draws_on_nothing() -> None:
    sample = Sample("a", "?", answerable=False)
    assert scores(judged([1]), ["x"], sample) == [NotApplicable] * 3
    assert {metric.needs(sample) for metric in select_metrics(NAMES)} == {frozenset()}


def test_a_stored_run_knows_the_contexts_of_its_first_answers() -> None:
    contexts = tuple(map(Context, ("Tolls ended in 1968.", "The mill opened.", "The mill  opened.")))
    abstains = Judgements(StatementList((), abstains=True))
    gathering = ScoreCollector(make_manifest())
    for name, judgements in (("a", judged([3])), ("b", abstains)):
        answer = Answer(Response(name, "It opened.", contexts), (judgements,))
        gathering.add(SampleRecord(Sample(name, "When did the mill open?"), (answer,), {}), "here")
    used = gathering.scores(Path("run")).system.used_contexts
    assert used == {"a": UsedContexts(distinct=(0, 1), used=(1,))}
