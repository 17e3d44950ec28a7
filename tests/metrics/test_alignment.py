"""Which contexts answers draw on: the three metrics, edge by edge, and the warning."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest

from ragstone.evaluation.gather import Gathering
from ragstone.evaluation.record import Answer, SampleRecord
from ragstone.golden.sample import Sample
from ragstone.judge.collect import collect_judgements
from ragstone.judge.judgements import (
    JudgementFailure,
    JudgementKind,
    Judgements,
    Statement,
    StatementList,
    Support,
    SupportTable,
    Verdict,
)
from ragstone.judge.offline import OfflineJudge
from ragstone.judge.protocol import Call
from ragstone.metrics.alignment import UsedContexts, used_contexts
from ragstone.metrics.registry import select_metrics
from ragstone.metrics.score import Failed, NotApplicable, Score, Scored
from ragstone.system.response import Context, Response
from tests.gate.conftest import make_manifest
from tests.metrics.judged import statements, table

SAMPLE = Sample("a", "Who built the lighthouse?")
NAMES = ("top_context_used", "context_utilization", "context_utilization_ranked")


def judged(*supported_by: list[int]) -> Judgements:
    """One statement per list: the contexts, from 1, that support it; none if it is empty."""
    claims = StatementList(statements("s", len(supported_by)), abstains=False)
    return Judgements(statements=claims, support=SupportTable(table("s", supported_by)))


def scores(judgements: Judgements, texts: list[str], sample: Sample = SAMPLE) -> list[Score]:
    response = Response("a", "an answer", tuple(Context(text) for text in texts))
    return [metric.score(sample, response, judgements) for metric in select_metrics(NAMES)]


def values(judgements: Judgements, texts: list[str]) -> list[float]:
    found = scores(judgements, texts)
    assert all(isinstance(one, Scored) for one in found), found
    return [one.value for one in found if isinstance(one, Scored)]


CLAIM = StatementList((Statement("s1", "a claim"),), abstains=False)
CONTRADICTED = Judgements(CLAIM, SupportTable((Support("s1", Verdict.CONTRADICTED, ("c1",)),)))


@pytest.mark.parametrize(
    ("judgements", "texts", "expected"),
    [
        (judged([2], [3, 2], []), ["w", "x", "y", "z"], [0.0, 0.5, (1 / 2 + 2 / 3) / 2]),
        (judged([1], [1]), ["x", "y"], [1.0, 0.5, 1.0]),
        (judged([], []), ["x", "y"], [0.0, 0.0, 0.0]),
        # A context that comes twice counts once at its best rank: rank 4 has the text of rank 1.
        (judged([4]), ["the  text", "x", "y", "the text\n"], [1.0, 1 / 3, 1.0]),
        (judged([3], [4]), ["x", "y", "z", "z"], [0.0, 1 / 3, 1 / 3]),
        (judged([1], [2]), ["", "x"], [0.0, 0.5, 0.5]),  # one without text is never used
        (CONTRADICTED, ["x"], [0.0, 0.0, 0.0]),
        (judged([9]), ["x"], [0.0, 0.0, 0.0]),  # not a context that was returned
    ],
)
def test_contexts_that_an_answer_draws_on(judgements: Judgements, texts: list[str], expected: list[float]) -> None:
    assert values(judgements, texts) == pytest.approx(expected)


def test_the_note_names_the_ranks() -> None:
    assert scores(judged([2], [3, 2]), ["w", "x", "y", "z"])[0] == Scored(0.0, note="draws on rank 2, 3 of 4")
    assert used_contexts(["", " ", "x"], ["c2"]).used == ()


@pytest.mark.parametrize(
    ("sample", "judgements", "texts"),
    [
        (SAMPLE, Judgements(statements=StatementList((), abstains=True)), ["x"]),
        (SAMPLE, Judgements(statements=CLAIM), []),
        (Sample("a", "?", answerable=False), judged([1]), ["x"]),
    ],
    ids=["abstains", "no contexts", "unanswerable"],
)
def test_where_there_is_nothing_to_draw_on(sample: Sample, judgements: Judgements, texts: list[str]) -> None:
    assert {type(one) for one in scores(judgements, texts, sample)} == {NotApplicable}
    needs = [metric.needs(sample) for metric in select_metrics(NAMES)]
    assert sample.answerable or needs == [frozenset()] * 3


def test_they_ask_for_the_judgements_of_faithfulness_and_no_others() -> None:
    (faithfulness,) = select_metrics(["faithfulness"])
    assert {metric.needs(SAMPLE) for metric in select_metrics(NAMES)} == {faithfulness.needs(SAMPLE)}


def test_failed_or_mismatched_verdicts_are_failed_scores() -> None:
    statements = StatementList((Statement("s1", "a claim"), Statement("s2", "another")), abstains=False)
    one = SupportTable((Support("s1", Verdict.SUPPORTED, ("c1",)),))
    assert all(isinstance(found, Failed) for found in scores(Judgements(statements, one), ["x"]))
    refused = Judgements(statements, JudgementFailure("refused"))
    assert scores(refused, ["x"]) == [Failed("judge", "refused")] * 3
    assert scores(Judgements(), ["x"]) == [Failed("judge", "no statements were given")] * 3


def test_a_stored_run_knows_the_contexts_of_its_first_answers() -> None:
    judge = OfflineJudge()
    golden = (Sample("a", "When did the mill open?"), Sample("b", "Who owns the inn?"))
    texts = ("Tolls ended in 1968.", "The mill opened in May 1931.", "The mill opened  in May 1931.")
    answers = {"a": "The mill opened in May 1931.", "b": "I don't know."}
    records = []
    for sample in golden:
        response = Response(sample.id, answers[sample.id], tuple(Context(text) for text in texts))
        call = Call(sample.id)
        needs = frozenset({JudgementKind.STATEMENTS, JudgementKind.SUPPORT})
        judgements = asyncio.run(collect_judgements(judge, sample, response, needs, call))
        records.append(SampleRecord(sample, (Answer(response, (judgements,)),), {}))
    gathering = Gathering(make_manifest())
    for record in records:
        gathering.add(record, "here")
    used = gathering.scores(Path("run")).system.used_contexts
    assert used == {"a": UsedContexts(ranks=(0, 1), used=(1,))}


@pytest.mark.parametrize("seed", range(10))
def test_random_tables_agree_with_the_definitions(seed: int) -> None:
    draw = random.Random(seed)
    texts = [draw.choice("abcde") for _ in range(draw.randint(1, 6))]
    table = [[rank for rank in range(1, len(texts) + 1) if draw.random() < 0.3] for _ in range(draw.randint(1, 4))]
    named = {texts[rank - 1] for by in table for rank in by}
    distinct = list(dict.fromkeys(texts))
    hits = [text in named for text in distinct]
    precision = [sum(hits[: rank + 1]) / (rank + 1) for rank, hit in enumerate(hits) if hit]
    expected = [float(texts[0] in named), sum(hits) / len(hits), sum(precision) / len(precision) if precision else 0.0]
    assert values(judged(*table), texts) == pytest.approx(expected)
