"""The turns of a conversation are asked in order, over one session, with the system's own answers or the references."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest

from ragstone.evaluation import conversation
from ragstone.evaluation.conversation import ask_in_order, with_earlier_turns
from ragstone.golden.sample import ConversationTurn, Message, Sample
from ragstone.system.response import Context, Response, System, SystemFailure, SystemFailureKind
from tests.evaluation.builders import Answering

QUESTIONS = ("Where is order 7?", "And order 8?", "Cancel it.")


def turns(*, own_history: bool = True, prefix: tuple[Message, ...] = ()) -> list[Sample]:
    history, samples = list(prefix), []
    for number, question in enumerate(QUESTIONS, 1):
        place, said = ConversationTurn("talk", number, len(QUESTIONS), own_history), tuple(history)
        samples.append(Sample(f"talk/turn-{number}", question, f"reference {number}", history=said, turn=place))
        history.append(Message("user", question))
        if not own_history:
            history.append(Message("assistant", f"reference {number}"))
    return samples


class Recorder(Answering):
    """Answers with the question, and keeps what it was asked in each session."""

    def __init__(self, fails: Sequence[str] = ()) -> None:
        super().__init__()
        self.sessions: list[list[Sample]] = []
        self._fails = fails

    @asynccontextmanager
    async def session(self) -> AsyncIterator[System]:
        self.sessions.append([])
        yield self

    async def ask(self, sample: Sample) -> Response:
        self.sessions[-1].append(sample)
        if sample.question in self._fails:
            return Response(sample.id, failure=SystemFailure(SystemFailureKind.RAISED, "broken"))
        return Response(sample.id, f"answer to {sample.question}", (Context(f"on {sample.question}"),))


def asked(system: System, samples: Sequence[Sample]) -> dict[str, Response]:
    async def collect() -> dict[str, Response]:
        answers = ask_in_order(system, samples, lambda session, sample: session.ask(sample), keeps_contexts=True)
        return {sample.id: response async for sample, response in answers}

    return asyncio.run(collect())


def test_turns_are_asked_in_one_session_with_the_answers_of_the_system() -> None:
    system = Recorder()
    responses = asked(system, turns(prefix=(Message("system", "Be brief."),)))
    (session,) = system.sessions
    assert [sample.question for sample in session] == list(QUESTIONS)
    assert len({sample.turn.session for sample in session if sample.turn}) == 1
    said = [("system", "Be brief."), ("user", QUESTIONS[0]), ("assistant", f"answer to {QUESTIONS[0]}")]
    assert [(message.role, message.text) for message in session[1].history] == said
    so_far = responses["talk/turn-3"].so_far
    assert so_far is not None
    assert so_far.history == session[2].history
    assert so_far.contexts == (Context(f"on {QUESTIONS[0]}"), Context(f"on {QUESTIONS[1]}"))


@pytest.mark.parametrize("own_history", [True, False])
def test_a_late_turn_alone_is_asked_after_those_before_it(own_history: bool) -> None:
    samples = turns(own_history=own_history, prefix=(Message("user", "Hello"),))
    system = Recorder()
    responses = asked(system, samples[2:])
    assert list(responses) == ["talk/turn-3"]
    said = ["Hello", QUESTIONS[0], "reference 1", QUESTIONS[1], "reference 2"]
    assert own_history or [message.text for message in system.sessions[0][2].history] == said
    assert [sample.id for sample in system.sessions[0]] == [sample.id for sample in samples]
    assert with_earlier_turns(samples[2:])[1].history == samples[1].history


def test_a_failed_turn_leaves_the_later_ones_marked() -> None:
    responses = asked(Recorder(fails=(QUESTIONS[0],)), turns())
    second = responses["talk/turn-2"]
    assert responses["talk/turn-1"].failure is not None
    assert second.failure is None
    assert second.so_far is not None
    assert second.so_far.failed_turns == (1,)
    assert second.so_far.history == (Message("user", QUESTIONS[0]),)


def test_of_long_messages_and_contexts_the_newest_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conversation, "MAX_EARLIER_CHARACTERS", 40)
    so_far = asked(Recorder(), turns())["talk/turn-3"].so_far
    assert so_far is not None
    assert [message.text for message in so_far.history] == ["And order 8?", "answer to And order 8?"]
    assert so_far.contexts == (Context(f"on {QUESTIONS[0]}"), Context(f"on {QUESTIONS[1]}"))
    monkeypatch.setattr(conversation, "MAX_EARLIER_CHARACTERS", 20)
    so_far = asked(Recorder(), turns())["talk/turn-3"].so_far
    assert so_far is not None
    assert so_far.contexts == (Context(f"on {QUESTIONS[1]}"),)
