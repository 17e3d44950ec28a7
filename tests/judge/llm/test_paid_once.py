"""A reply is stored when it arrives, also one to a call that was sent before a stop."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ragstone.judge.judgements import Statement
from ragstone.judge.llm import scheduler
from ragstone.judge.protocol import Call, JudgementFailed, Ledger
from ragstone.system.response import Context

REAL = scheduler.Clock()
ANSWER = "It was opened in 1931."
CONTEXTS = [Context(ANSWER)]
STATEMENTS = [Statement("s1", ANSWER)]

Ask = Callable[[Any, Call], Any]
ASKED: dict[str, Ask] = {
    "statements": lambda judge, call: judge.statements("When?", ANSWER, call=call),
    "support": lambda judge, call: judge.support(CONTEXTS, STATEMENTS, call=call),
    "context use": lambda judge, call: judge.context_use("When?", None, ANSWER, CONTEXTS, call=call),
    "a reference": lambda judge, call: judge.context_use("When?", "In 1931.", ANSWER, CONTEXTS, call=call),
    "a match": lambda judge, call: judge.reference_match("When?", "In 1931.", STATEMENTS, ANSWER, call=call),
    "questions": lambda judge, call: judge.reverse_questions("When?", ANSWER, n=3, call=call),
    "similarity": lambda judge, call: judge.answer_similarity(ANSWER, ["In 1931."], call=call),
    "relevance": lambda judge, call: judge.context_relevance("When?", [Context("A b. C d.")], call=call),
}


async def stopped(judge: Any, ask: Ask, arrived: Callable[[], bool]) -> Ledger:
    """Ask, be cancelled when the request has arrived, and close the judge."""
    call = Call("q1")
    task = asyncio.create_task(ask(judge, call))
    while not arrived():  # noqa: ASYNC110 - at the server, in its own thread
        await asyncio.sleep(0.005)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await judge.close()
    spent: Ledger = judge.budget.spent
    return spent


@pytest.mark.parametrize("name", ASKED)
def test_the_reply_to_a_call_that_was_stopped_is_stored_and_counted(world: Any, tmp_path: Path, name: str) -> None:
    cache, ask = tmp_path / "judgements.sqlite", ASKED[name]
    world.fake.delay_s = 0.2
    spent = world.run(stopped(world.judge(cache=cache, clock=REAL), ask, lambda: len(world.fake.seen) == 1))
    assert spent.calls == 1
    assert spent.cost_usd is not None
    assert spent.cost_usd > 0
    world.fake.delay_s = 0.0
    first = [seen.body for seen in world.fake.seen]
    call = Call("q1")
    world.run(ask(world.judge(cache=cache), call))
    assert not [seen for seen in world.fake.seen[1:] if seen.body in first]
    assert len(world.fake.chats) == (name != "similarity")
    assert call.ledger.cached_calls == 1
    requests_before = len(world.fake.seen)
    world.run(ask(world.judge(cache=cache), call))
    assert len(world.fake.seen) == requests_before


def test_questions_are_stored_before_they_are_compared(world: Any, refuse: Any, tmp_path: Path) -> None:
    cache = tmp_path / "judgements.sqlite"

    world.fake.always = lambda seen: refuse(400, "no")(seen) if "input" in seen.body else None
    with pytest.raises(JudgementFailed):
        world.run(ASKED["questions"](world.judge(cache=cache), Call("q1")))
    world.fake.always = None
    judgement = world.run(ASKED["questions"](world.judge(cache=cache), Call("q1")))
    assert len(judgement.similarities) == 3
    assert len(world.fake.chats) == 1


def test_the_parts_of_a_judgement_are_stored_one_by_one(world: Any, tmp_path: Path) -> None:
    cache = tmp_path / "judgements.sqlite"
    statements = [Statement(f"s{at}", f"Statement {at}.") for at in range(1, 121)]

    def ask(judge: Any, call: Call) -> Any:
        return judge.support(CONTEXTS, statements, call=call)

    world.fake.delay_s = 0.1
    world.run(stopped(world.judge(cache=cache, clock=REAL), ask, lambda: len(world.fake.seen) >= 2))
    world.fake.delay_s = 0.0
    table = world.run(ask(world.judge(cache=cache), Call("q1")))
    assert len(table.supports) == 120
    bodies = [json.dumps(seen.body) for seen in world.fake.seen]
    assert len(bodies) == len(set(bodies))


def test_of_a_reply_with_a_part_of_what_was_asked_only_the_rest_is_asked_again(world: Any, tmp_path: Path) -> None:
    cache = tmp_path / "judgements.sqlite"

    def ask(judge: Any, call: Call) -> Any:
        return judge.support(CONTEXTS, [Statement("s1", "One."), Statement("s2", "Two.")], call=call)

    def half(seen: Any) -> str:
        filled = world.fake.fill(seen.schema, seen.data)
        return json.dumps({name: items[:1] if isinstance(items, list) else items for name, items in filled.items()})

    world.fake.script.append(half)
    world.fake.delay_s = 0.1
    world.run(stopped(world.judge(cache=cache, clock=REAL), ask, lambda: len(world.fake.seen) >= 2))
    world.fake.delay_s = 0.0
    world.run(ask(world.judge(cache=cache), Call("q1")))
    assert len(world.fake.seen) == 2


@pytest.mark.parametrize("said", ["nothing of use", ""])
def test_a_reply_without_values_is_not_stored(world: Any, tmp_path: Path, said: str) -> None:
    cache = tmp_path / "judgements.sqlite"
    world.fake.script.extend([lambda _seen: said, lambda _seen: said])
    with pytest.raises(JudgementFailed):
        world.run(ASKED["statements"](world.judge(cache=cache), Call("q1")))
    world.run(ASKED["statements"](world.judge(cache=cache), Call("q1")))
    assert len(world.fake.seen) == 3


def test_a_fresh_call_stores_nothing(world: Any, tmp_path: Path) -> None:
    judge = world.judge(cache=tmp_path / "judgements.sqlite")
    for fresh in (True, True, False, False):
        world.run(judge.statements("When?", ANSWER, call=Call("q1", fresh=fresh)))
    assert len(world.fake.seen) == 3


@pytest.mark.parametrize("name", ["statements", "similarity"])
def test_a_call_that_is_not_answered_is_given_up(
    world: Any, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ragstone.judge.llm.scheduler.DRAIN_S", 0.05)
    world.fake.delay_s = 30.0
    judge = world.judge(cache=tmp_path / "judgements.sqlite", clock=REAL)
    spent = world.run(stopped(judge, ASKED[name], lambda: len(world.fake.seen) == 1))
    assert spent.calls == 0


def test_a_second_interruption_waits_for_nothing(world: Any, tmp_path: Path) -> None:
    world.fake.delay_s = 30.0
    judge = world.judge(cache=tmp_path / "judgements.sqlite", clock=REAL)

    async def twice() -> None:
        stopping = asyncio.create_task(stopped(judge, ASKED["statements"], lambda: len(world.fake.seen) == 1))
        while not judge.filler.completer.calls.scheduler._cancelled_calls:  # noqa: ASYNC110 - until it is closing
            await asyncio.sleep(0.005)
        stopping.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(stopping, 4.0)

    world.run(twice())


def test_calls_that_wait_for_their_turn_are_not_sent_after_a_stop(world: Any, tmp_path: Path) -> None:
    world.fake.delay_s = 0.1
    judge = world.judge(cache=tmp_path / "judgements.sqlite", clock=REAL, concurrency=2)

    async def many(judge: Any, call: Call) -> None:
        await asyncio.gather(*(judge.statements("When?", f"In {year}.", call=call) for year in range(20)))

    sent = world.run(stopped(judge, many, lambda: len(world.fake.seen) == 2)).calls
    assert len(world.fake.seen) == sent == 2
