"""How many calls judging takes, what is in them, and what a second run costs."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from ragstone.golden.sample import Sample
from ragstone.judge.collect import collect_judgements
from ragstone.judge.judgements import JudgementKind, Judgements, Statement
from ragstone.judge.protocol import Call, Ledger
from ragstone.metrics.registry import select_metrics
from ragstone.metrics.score import Scored
from ragstone.system.response import Context, Response

SAMPLE = Sample("q1", "When was the Vell bridge opened?", reference="It was opened in 1931 by R. Okafor.")
CONTEXTS = tuple(Context(f"Context number {rank} about the bridge.") for rank in range(7))
RESPONSE = Response("q1", "It was opened in 1931.", CONTEXTS)
HEADLINE = frozenset(
    {JudgementKind.STATEMENTS, JudgementKind.SUPPORT, JudgementKind.CONTEXT_USE, JudgementKind.REVERSE_QUESTIONS}
)


async def judged(
    judge: Any, sample: Sample = SAMPLE, response: Response = RESPONSE, repeat: int = 0, needs: Any = HEADLINE
) -> tuple[Judgements, Ledger]:
    call = Call(sample.id, repeat)
    return await collect_judgements(judge, sample, response, needs, call), call.ledger


@pytest.mark.parametrize("name", ["openai:gpt-4o-mini", "openai-compatible:llama", "anthropic:claude-haiku-4-5"])
def test_the_headline_metrics_take_four_chat_calls_whatever_the_number_of_contexts(world: Any, name: str) -> None:
    judgements, ledger = world.run(judged(world.judge(name)))
    assert sorted(world.fake.kinds()) == ["answer", "contexts", "questions", "verdicts"]
    assert len(world.fake.embeddings) == (1 if name.startswith("openai:") else 0)
    assert ledger.calls == 4 + len(world.fake.embeddings)
    metrics = select_metrics(("faithfulness", "context_recall"))
    assert [metric.score(SAMPLE, RESPONSE, judgements) for metric in metrics] == [Scored(1.0)] * 2


def test_a_second_run_makes_no_call_and_moves_no_judgement(world: Any, tmp_path: Path) -> None:
    cache = tmp_path / "judgements.sqlite"
    first = world.judge(cache=cache)
    first_judgements, _ = world.run(judged(first))
    world.run(first.close())
    requests = len(world.fake.seen)
    second_judgements, ledger = world.run(judged(world.judge(cache=cache)))
    assert second_judgements == first_judgements
    assert len(world.fake.seen) == requests
    assert (ledger.calls, ledger.cached_calls, ledger.cost_usd) == (0, 5, 0.0)  # four of chat, one of embeddings


def test_an_answer_that_is_judged_twice_at_the_same_time_is_paid_once(world: Any, tmp_path: Path) -> None:
    """As when two versions of a system give the same answer in the same job."""
    judge = world.judge(cache=tmp_path / "judgements.sqlite")

    async def twice() -> list[tuple[Judgements, Ledger]]:
        return list(await asyncio.gather(judged(judge), judged(judge)))

    (one, paid), (other, free) = world.run(twice())
    assert one == other
    assert len(world.fake.chats) == 4
    assert paid.cached_calls + free.cached_calls == 5


def test_a_verdict_outlives_a_change_of_the_answers_other_statements(world: Any, tmp_path: Path) -> None:
    judge = world.judge(cache=tmp_path / "judgements.sqlite")
    old = [Statement("s1", "The bridge was opened in 1932."), Statement("s2", "It is made of steel.")]
    new = [Statement("s1", "It is painted grey."), Statement("s2", old[0].text), Statement("s3", "It has a toll.")]
    old_table = world.run(judge.support(CONTEXTS, old, call=Call("q1")))
    world.fake.seen.clear()
    call = Call("q1")
    new_table = world.run(judge.support(CONTEXTS, new, call=call))
    assert [seen.asked["verdicts"] for seen in world.fake.chats] == [["s1", "s3"]]
    assert old[0].text not in world.fake.chats[0].data.partition("statements")[2]
    first, cached_support = old_table.supports[0], new_table.supports[1]
    assert (cached_support.verdict, cached_support.supported_by, cached_support.quote) == (
        first.verdict,
        first.supported_by,
        first.quote,
    )
    assert (call.ledger.calls, call.ledger.cached_calls) == (1, 0)
    smaller_table = world.run(judge.support(CONTEXTS[:2], old, call=Call("q1")))
    assert [seen.asked["verdicts"] for seen in world.fake.chats[1:]] == [["s1", "s2"]]
    assert len(smaller_table.supports) == 2


def test_judgements_against_one_reference_share_its_statements_even_when_they_start_together(world: Any) -> None:
    needs = HEADLINE | {JudgementKind.REFERENCE_MATCH}
    world.fake.delay_s = 0.01
    judgements, ledger = world.run(judged(world.judge(), needs=needs))
    lists = [seen for seen in world.fake.chats if seen.asked.get("reference_statements") == ["*"]]
    assert len(lists) == 1
    assert judgements.reference_match.reference_statements == judgements.context_use.reference_statements
    assert ledger.calls == 6


def test_repeats_are_judged_independently_and_once_each(world: Any, tmp_path: Path) -> None:
    judge = world.judge(cache=tmp_path / "judgements.sqlite")
    for repeat in (0, 1, 0, 1):
        world.run(judge.support(CONTEXTS, [Statement("s1", "It opened.")], call=Call("q1", repeat)))
    assert len(world.fake.chats) == 2


def test_another_model_or_parameter_or_prompt_never_reads_the_same_entry(world: Any, tmp_path: Path) -> None:
    cache = tmp_path / "judgements.sqlite"
    for settings in (
        {"name": "openai:gpt-4o-mini"},
        {"name": "openai:gpt-4o"},
        {"name": "openai:gpt-4o", "parameters": {"temperature": 1}},
        {"name": "openai-compatible:gpt-4o"},
    ):
        judge = world.judge(cache=cache, **settings)
        world.run(judge.statements("Q?", "An answer.", call=Call("q1")))
    assert len(world.fake.chats) == 4


def test_texts_that_run_together_have_different_keys(world: Any, tmp_path: Path) -> None:
    judge = world.judge(cache=tmp_path / "judgements.sqlite")
    for question, answer in (("ab", "c"), ("a", "bc"), ("abc", " "), ("a\0b", "c")):
        world.run(judge.statements(question, answer, call=Call("q1")))
    assert len(world.fake.chats) == 4


def test_a_reference_is_split_once_for_all_runs_that_share_a_cache(world: Any, tmp_path: Path) -> None:
    """Whatever the run, the repeat, the contexts and the answer."""
    needs = frozenset({JudgementKind.CONTEXT_USE, JudgementKind.REFERENCE_MATCH})
    for at in range(1, 4):
        judge = world.judge(cache=tmp_path / "judgements.sqlite")
        contexts = tuple(Context(f"Run {at}, context {rank}.") for rank in range(at))
        response = Response("q1", f"It was opened in 193{at}.", contexts)
        world.run(judged(judge, response=response, repeat=at, needs=needs))
        world.run(judge.close())
    asked = [seen.asked["reference_statements"] for seen in world.fake.chats if "reference_statements" in seen.asked]
    assert sorted(asked) == [["*"], *[["r1"]] * 5]
