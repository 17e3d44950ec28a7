"""Citations that an LLM judges: by the prompt of support with the cited contexts alone, counted and cached."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ragstone.golden.sample import Sample
from ragstone.judge.collect import collect_judgements
from ragstone.judge.judgements import CitationTable, JudgementFailure, JudgementKind
from ragstone.judge.protocol import Call, Ledger
from ragstone.system.response import Context, Response

CONTEXTS = (Context("On cats: they sleep."), Context("On dogs: they bark."), Context("On cows: they eat."))
ANSWER = "Cats sleep all day [1]. Dogs bark at night [2][3]. Cows eat grass."
NEEDS = frozenset({JudgementKind.CITATIONS})


def judged(world: Any, judge: Any, ledger: Ledger, answer: str = ANSWER) -> Any:
    response = Response("q1", answer, CONTEXTS)
    call = Call("q1", ledger=ledger)
    return world.run(collect_judgements(judge, Sample("q1", "Which?"), response, NEEDS, call)).citations


def test_only_cited_contexts_are_shown_and_no_verdict_is_paid_twice(world: Any, tmp_path: Path) -> None:
    judge = world.judge(cache=tmp_path / "cache.sqlite")
    ledger = Ledger()
    table = judged(world, judge, ledger)
    assert isinstance(table, CitationTable)
    # The fake model supports everything: one call for [1], one for [2][3], and one for each of these alone.
    assert [item.supported for item in table.statements] == [True, True, False]
    assert len(world.fake.chats) == ledger.calls == 4
    shown = [[context.text in chat.data for context in CONTEXTS] for chat in world.fake.chats]
    assert shown == [[True, False, False], [False, True, True], [False, True, False], [False, False, True]]
    assert ledger.cost_usd
    assert judged(world, judge, ledger) == table
    assert (ledger.calls, ledger.cached_calls) == (4, 4)


def test_an_answer_without_citations_costs_nothing(world: Any) -> None:
    ledger = Ledger()
    table = judged(world, world.judge(), ledger, "Cats sleep all day.")
    assert [item.supported for item in table.statements] == [False]
    assert ledger.calls == len(world.fake.chats) == 0


def test_a_reply_that_can_not_be_read_fails_the_judgement(world: Any) -> None:
    world.fake.fill = lambda _schema, _data: {}
    assert isinstance(judged(world, world.judge(), Ledger()), JudgementFailure)
