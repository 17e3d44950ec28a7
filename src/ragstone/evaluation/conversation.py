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
"""Contexts of earlier turns that an answer is judged with: the newest."""

MAX_EARLIER_CHARACTERS = 2_000_000
"""Characters of earlier messages, and of earlier contexts, that are kept with an
answer: those of the newest."""

_Text = TypeVar("_Text", Message, Context)
Ask = Callable[[System, Sample], Awaitable[Response]]


def with_earlier_turns(turns: Sequence[Sample]) -> list[Sample]:
    """Every turn up to the last of `turns`. The others are made from its history: their
    question alone, with what came before it."""
    wanted = {_turn_of(sample).number: sample for sample in turns}
    last = wanted[max(wanted)]
    place = _turn_of(last)
    # Messages a turn: the question, and perhaps the reference.
    length = 1 if place.own_history else 2
    samples: list[Sample] = []
    for number in range(1, place.number + 1):
        start = len(last.history) - length * (place.number - number)
        samples.append(
            wanted.get(number)
            or Sample(
                turn_id(place.id, number),
                last.history[start].text,
                history=last.history[:start],
                turn=replace(place, number=number),
            )
        )
    return samples


async def ask_in_order(
    system: System, turns: Sequence[Sample], ask: Ask, *, keeps_contexts: bool
) -> AsyncGenerator[tuple[Sample, Response], None]:
    """Ask `turns`, which are of one conversation, and the turns before them; each of
    `turns` with its response. Or one sample that is no turn.

    A turn is asked in the session of its conversation, with the system's own answers
    where it gets them. `keeps_contexts`: its answer is judged with the contexts of
    earlier turns.
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
            place, history = _turn_of(sample), sample.history
            if place.own_history:
                before_first_turn = len(history) - (place.number - 1)
                history = (*history[:before_first_turn], *messages)
            own_place = replace(place, session=session_id)
            response = await ask(
                session, replace(sample, history=history, turn=own_place)
            )
            earlier = _newest(tuple(contexts)[-MAX_EARLIER_CONTEXTS:])
            # A stored answer has what was there before it.
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
                failed_turns.append(place.number)
            contexts.update(dict.fromkeys(response.contexts))


def _newest(texts: tuple[_Text, ...]) -> tuple[_Text, ...]:
    """The newest of `texts`, which have at most MAX_EARLIER_CHARACTERS together."""
    characters = 0
    for place in reversed(range(len(texts))):
        characters += len(texts[place].text)
        if characters > MAX_EARLIER_CHARACTERS:
            return texts[place + 1 :]
    return texts


def _turn_of(sample: Sample) -> ConversationTurn:
    assert sample.turn is not None  # noqa: S101 - of a conversation
    return sample.turn
