"""Which contexts answers draw on: the three metrics, edge by edge, and the warning."""

from __future__ import annotations

import asyncio
import random

import pytest

from ragstone.evaluation.record import Answer, SampleRecord
from ragstone.evaluation.serialise import record_and_facts_from_line, record_to_line
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

SAMPLE = Sample("a", "Who built the lighthouse?")
NAMES = ("top_context_used", "context_utilization", "context_utilization_ranked")


def judged(*supported_by: list[int]) -> Judgements:
    """One statement per list: the contexts, from 1, that support it; none if it is empty."""
    statements = tuple(Statement(f"s{rank}", "a claim") for rank in range(1, len(supported_by) + 1))
    return Judgements(
        statements=StatementList(statements, abstains=False),
        support=SupportTable(
            tuple(
                Support(
                    statement.id,
                    Verdict.SUPPORTED if by else Verdict.UNSUPPORTED,
                    tuple(f"c{one}" for one in by),
                )
                for statement, by in zip(statements, supported_by, strict=True)
            )
        ),
    )


def scores(judgements: Judgements, texts: list[str], sample: Sample = SAMPLE) -> list[Score]:
    response = Response("a", "an answer", tuple(Context(text) for text in texts))
    return [metric.score(sample, response, judgements) for metric in select_metrics(NAMES)]


def values(judgements: Judgements, texts: list[str]) -> list[float]:
    found = scores(judgements, texts)
    assert all(isinstance(one, Scored) for one in found), found
    return [one.value for one in found if isinstance(one, Scored)]


def test_an_answer_that_draws_on_ranks_two_and_three() -> None:
    assert values(judged([2], [3, 2], []), ["w", "x", "y", "z"]) == [0.0, 0.5, pytest.approx((1 / 2 + 2 / 3) / 2)]
    assert scores(judged([2], [3, 2]), ["w", "x", "y", "z"])[0] == Scored(0.0, note="draws on rank 2, 3 of 4")


def test_an_answer_that_draws_on_the_first_context() -> None:
    assert values(judged([1], [1]), ["x", "y"]) == [1.0, 0.5, 1.0]
    assert values(judged([1]), ["x"]) == [1.0, 1.0, 1.0]


def test_an_answer_that_no_context_supports() -> None:
    assert values(judged([], []), ["x", "y"]) == [0.0, 0.0, 0.0]
    assert scores(judged([]), ["x", "y"])[0] == Scored(0.0, note="none of 2 contexts supports the answer")


def test_a_context_that_comes_twice_counts_once_at_its_best_rank() -> None:
    # The judge names rank 4, which has the text of rank 1: the first context is used, and one of three.
    assert values(judged([4]), ["the  text", "x", "y", "the text\n"]) == [1.0, pytest.approx(1 / 3), 1.0]
    assert values(judged([3], [4]), ["x", "y", "z", "z"]) == [0.0, pytest.approx(1 / 3), pytest.approx(1 / 3)]


def test_a_context_without_text_is_never_used() -> None:
    assert values(judged([1], [2]), ["", "x"]) == [0.0, 0.5, 0.5]
    assert used_contexts(["", " ", "x"], ["c2"]).used == ()


def test_only_supported_statements_and_known_contexts_count() -> None:
    contradicted = Judgements(
        statements=StatementList((Statement("s1", "a claim"),), abstains=False),
        support=SupportTable((Support("s1", Verdict.CONTRADICTED, ("c1",)),)),
    )
    assert values(contradicted, ["x"]) == [0.0, 0.0, 0.0]
    assert values(judged([9]), ["x"]) == [0.0, 0.0, 0.0]


def test_an_answer_that_abstains_draws_on_nothing() -> None:
    found = scores(Judgements(statements=StatementList((), abstains=True)), ["x"])
    assert found == [NotApplicable("the answer abstains, so it draws on no context")] * 3


def test_without_contexts_there_is_nothing_to_draw_on() -> None:
    statements = Judgements(statements=StatementList((Statement("s1", "a claim"),), abstains=False))
    assert scores(statements, []) == [NotApplicable("no contexts were returned")] * 3


def test_an_unanswerable_sample_asks_for_no_judgement() -> None:
    sample = Sample("a", "?", answerable=False)
    assert scores(judged([1]), ["x"], sample) == [NotApplicable("the sample is unanswerable")] * 3
    assert [metric.needs(sample) for metric in select_metrics(NAMES)] == [frozenset()] * 3


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
    facts = [record_and_facts_from_line(record_to_line(record), "here")[1] for record in records]
    assert [one.answers[0].used for one in facts] == [UsedContexts(ranks=(0, 1), used=(1,)), None]


@pytest.mark.parametrize("seed", range(20))
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
