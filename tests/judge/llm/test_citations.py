"""Citations that an LLM judges: by the prompt of support with the cited contexts alone, counted and cached."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ragstone.golden.sample import Sample
from ragstone.judge.collect import collect_judgements
from ragstone.judge.judgements import CitationTable, JudgementKind
from ragstone.judge.protocol import Call, Ledger
from ragstone.system.response import Context, Response

CONTEXTS = (Context("On cats: they sleep."), Context("On dogs: they bark."), Context("On cows: they eat."))
ANSWER = "Cats sleep all day [1]. Dogs bark at night [2][3]. Cows eat grass."
NEEDS = frozenset({JudgementKind.CITATIONS})


def test_only_cited_contexts_are_shown_and_no_verdict_is_paid_twice(world: Any, tmp_path: Path) -> None:
    judge = world.judge(cache=tmp_path / "cache.sqlite")
    call = Call("q1", ledger=Ledger())
    response = Response("q1", ANSWER, CONTEXTS)

    def judged() -> Any:
        return world.run(collect_judgements(judge, Sample("q1", "Which?"), response, NEEDS, call)).citations

    table, ledger = judged(), call.ledger
    assert isinstance(table, CitationTable)
    # The fake model supports everything: one call for [1], one for [2][3], and one for each of these alone.
    assert [item.supported for item in table.statements] == [True, True, False]
    assert len(world.fake.chats) == ledger.calls == 4
    contexts_in_calls = [[context.text in chat.data for context in CONTEXTS] for chat in world.fake.chats]
    assert contexts_in_calls == [[True, False, False], [False, True, True], [False, True, False], [False, False, True]]
    assert ledger.cost_usd
    assert judged() == table
    assert (ledger.calls, ledger.cached_calls) == (4, 4)
