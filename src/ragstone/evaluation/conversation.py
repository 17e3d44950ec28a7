"""Asks the turns of one conversation, in order and over one session."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import replace
from typing import TypeVar
from uuid import uuid4

from ragstone.golden.sample import ConversationTurn, Message, Sample, turn_id
from ragstone.system.response import (
    Context,
    ConversationSoFar,
    Response,
    System,
    session_of,
)

MAX_EARLIER_CONTEXTS = 200
"""Maximum number of contexts of earlier turns, the newest ones, to judge an answer
with."""

MAX_EARLIER_CHARACTERS = 2_000_000
"""Maximum number of characters of earlier messages, and of earlier contexts, to store
with an answer; the newest ones are stored."""

_Text = TypeVar("_Text", Message, Context)
Ask = Callable[[System, Sample], Awaitable[Response]]


def with_earlier_turns(turns: Sequence[Sample]) -> list[Sample]:
    """Every turn of a conversation up to the last of `turns`. A turn that is not among
    them is made from the history of the last one: its question, without labels."""
    by_number = {_turn_of(sample).number: sample for sample in turns}
    last = by_number[max(by_number)]
    last_turn = _turn_of(last)
    # With the system's own answers, the history has only the user's messages.
    messages_per_turn = 1 if last_turn.own_history else 2
    samples: list[Sample] = []
    for number in range(1, last_turn.number + 1):
        start = len(last.history) - messages_per_turn * (last_turn.number - number)
        samples.append(
            by_number.get(number)
            or Sample(
                turn_id(last_turn.id, number),
                last.history[start].text,
                history=last.history[:start],
                turn=replace(last_turn, number=number),
            )
        )
    return samples


async def ask_in_order(
    system: System, turns: Sequence[Sample], ask: Ask, *, keeps_contexts: bool
) -> AsyncGenerator[tuple[Sample, Response], None]:
    """Ask the turns of one conversation, including those before `turns`, and yield each
    of `turns` with its response; or ask one sample that is no turn.

    All are asked in one session. Where a turn is asked with the system's own answers,
    they replace those in its history. With `keeps_contexts`, its answer is judged with
    the contexts of earlier turns, too.
    """
    if turns[0].turn is None:
        yield turns[0], await ask(system, turns[0])
        return
    session_id = uuid4().hex
    messages: list[Message] = []
    contexts: dict[Context, None] = {}
    failed_turns: list[int] = []
    async with session_of(system) as session:
        for sample in with_earlier_turns(turns):
            turn, history = _turn_of(sample), sample.history
            if turn.own_history:
                before_first_turn = len(history) - (turn.number - 1)
                history = (*history[:before_first_turn], *messages)
            turn_in_session = replace(turn, session=session_id)
            response = await ask(
                session, replace(sample, history=history, turn=turn_in_session)
            )
            earlier = _newest(tuple(contexts)[-MAX_EARLIER_CONTEXTS:])
            # A stored answer comes with the conversation that it was given in.
            so_far = response.so_far or ConversationSoFar(
                _newest(history), earlier, tuple(failed_turns)
            )
            if not keeps_contexts:
                so_far = replace(so_far, contexts=())
            elif not so_far.contexts:
                so_far = replace(so_far, contexts=earlier)
            if sample in turns:
                yield sample, replace(response, so_far=so_far)
            messages.append(Message("user", sample.question))
            if response.failure is None:
                messages.append(Message("assistant", response.answer))
            else:
                failed_turns.append(turn.number)
            contexts.update(dict.fromkeys(response.contexts))


def _newest(texts: tuple[_Text, ...]) -> tuple[_Text, ...]:
    """As many of the last `texts` as have at most MAX_EARLIER_CHARACTERS together."""
    characters = 0
    for index in reversed(range(len(texts))):
        characters += len(texts[index].text)
        if characters > MAX_EARLIER_CHARACTERS:
            return texts[index + 1 :]
    return texts


def _turn_of(sample: Sample) -> ConversationTurn:
    assert sample.turn is not None  # noqa: S101 - a sample of a conversation
    return sample.turn
