"""Asks the turns of one conversation, in order and over one session."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
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


def with_earlier_turns(turns: Sequence[Sample]) -> Iterator[tuple[Sample, bool]]:
    """Every turn up to the last of `turns`, and whether it is one of them. The others
    are made from its history."""
    wanted = {sample.turn.number: sample for sample in turns if sample.turn is not None}
    last = max(wanted)
    for number in range(1, last + 1):
        if number in wanted:
            yield wanted[number], True
        else:
            yield earlier_turn(wanted[last], number), False


def earlier_turn(sample: Sample, number: int) -> Sample:
    """The turn `number` before `sample`: its question alone, with what came before
    it."""
    place = _place(sample)
    length = (
        1 if place.own_history else 2
    )  # messages a turn: the question, and perhaps the reference
    start = len(sample.history) - length * (place.number - number)
    return Sample(
        turn_id(place.id, number),
        sample.history[start].text,
        history=sample.history[:start],
        turn=replace(place, number=number),
    )


@dataclass(slots=True)
class ConversationLog:
    """What a conversation has had so far. `keeps_contexts`: answers are judged with the
    contexts of earlier turns."""

    keeps_contexts: bool
    session: str = field(default_factory=lambda: uuid4().hex)
    messages: list[Message] = field(default_factory=list)
    contexts: dict[Context, None] = field(default_factory=dict)
    failed_turns: list[int] = field(default_factory=list)

    def next_turn(self, sample: Sample) -> Sample:
        """`sample` as it is asked: in this session, and with the system's own answers
        where it gets them."""
        place = _place(sample)
        history = sample.history
        if place.own_history:
            before_first_turn = len(history) - (place.number - 1)
            history = (*history[:before_first_turn], *self.messages)
        return replace(
            sample, history=history, turn=replace(place, session=self.session)
        )

    def add(self, turn: Sample, response: Response) -> Response:
        """Add what was asked and answered; the response with what was there before
        it."""
        contexts = _newest(tuple(self.contexts)[-MAX_EARLIER_CONTEXTS:])
        so_far = ConversationSoFar(
            _newest(turn.history), contexts, tuple(self.failed_turns)
        )
        self.messages.append(Message("user", turn.question))
        if response.failure is None:
            self.messages.append(Message("assistant", response.answer))
        else:
            self.failed_turns.append(_place(turn).number)
        if self.keeps_contexts:
            self.contexts.update(dict.fromkeys(response.contexts))
        if response.so_far is not None:  # a stored answer
            stored_contexts = response.so_far.contexts or contexts
            so_far = replace(
                response.so_far, contexts=stored_contexts if self.keeps_contexts else ()
            )
        return replace(response, so_far=so_far)


async def ask_conversation(
    system: System, turns: Sequence[Sample], ask: Ask, *, keeps_contexts: bool
) -> AsyncGenerator[tuple[Sample, Response], None]:
    """Ask `turns`, which are of one conversation, and the turns before them; each of
    `turns` with its response."""
    log = ConversationLog(keeps_contexts)
    async with session_of(system) as session:
        for sample, is_wanted in with_earlier_turns(turns):
            turn = log.next_turn(sample)
            response = log.add(turn, await ask(session, turn))
            if is_wanted:
                yield sample, response


def _newest(texts: tuple[_Text, ...]) -> tuple[_Text, ...]:
    """The newest of `texts`, which have at most MAX_EARLIER_CHARACTERS together."""
    characters = 0
    for place in reversed(range(len(texts))):
        characters += len(texts[place].text)
        if characters > MAX_EARLIER_CHARACTERS:
            return texts[place + 1 :]
    return texts


def _place(sample: Sample) -> ConversationTurn:
    if sample.turn is None:
        raise ValueError(f"{sample.id} is not a turn of a conversation")
    return sample.turn
