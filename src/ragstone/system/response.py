"""The response of the system under test to one sample, and the protocol of a system."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from typing import Annotated, Any, Protocol

from pydantic import Field

from ragstone.formatting import listed
from ragstone.golden.sample import Message, Sample
from ragstone.system.worker.fields import MAX_TOKENS


@dataclass(frozen=True, slots=True)
class Context:
    """One retrieved passage. Contexts are in the order of their rank."""

    text: str
    """Empty if the system returned only the `id`."""
    id: str | None = None
    score: float | None = None
    """The retriever's score, in any unit."""


Contexts = tuple[Context, ...]


@dataclass(frozen=True, slots=True)
class TokenUsage:
    """Tokens that the system under test reports for one answer."""

    input_tokens: Annotated[int, Field(ge=0, le=MAX_TOKENS)]
    output_tokens: Annotated[int, Field(ge=0, le=MAX_TOKENS)]


@dataclass(frozen=True, slots=True)
class Retrieval:
    """A step of an answer: a search."""

    query: str
    contexts: Contexts = ()
    source: str | None = None
    """The name of what was searched, such as an index or a tool."""


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A step of an answer: a call of a tool."""

    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    """In plain JSON types."""
    result: str | None = None
    error: str | None = None
    """Set if the call failed."""


@dataclass(frozen=True, slots=True)
class ModelCall:
    """A step of an answer: a call of a language model."""

    model: str
    """Empty if the system doesn't name it."""
    usage: TokenUsage | None = None
    latency_s: float | None = None


Step = Retrieval | ToolCall | ModelCall

TOOL_ID_PREFIX = "tool:"
"""Prefix of the id of a context that is the result of a tool."""


def tool_results(steps: Sequence[Step]) -> list[Context]:
    """The results of the tool calls in `steps` that didn't fail, as contexts."""
    return [
        Context(step.result, f"{TOOL_ID_PREFIX}{step.name}")
        for step in steps
        if isinstance(step, ToolCall) and step.result and step.error is None
    ]


@dataclass(frozen=True, slots=True)
class ConversationSoFar:
    """The part of a conversation that precedes one of its turns."""

    history: tuple[Message, ...] = ()
    """The earlier messages."""
    contexts: Contexts = ()
    """The contexts of the earlier answers, each once."""
    failed_turns: tuple[int, ...] = ()
    """The numbers of the earlier turns that the system failed on, which have no answer
    in `history`."""

    @property
    def remark(self) -> str | None:
        """A phrase such as "after turn 1 failed"; None if no earlier turn failed."""
        if not self.failed_turns:
            return None
        turns = "turn" if len(self.failed_turns) == 1 else "turns"
        numbers = list(map(str, self.failed_turns))
        return f"after {turns} {listed(numbers)} failed"


class SystemFailureKind(StrEnum):
    """Why the system under test gave no response."""

    TIMEOUT = "timeout"
    CRASHED = "crashed"
    RAISED = "raised"
    BAD_RETURN = "bad_return"
    HTTP = "http"
    MISSING = "missing"


@dataclass(frozen=True, slots=True)
class SystemFailure:
    """A failure of the system under test on one sample."""

    kind: SystemFailureKind
    message: str
    """One line."""
    detail: str | None = None
    """A traceback, or the last lines of the system's output."""


@dataclass(frozen=True, slots=True)
class Response:
    """The answer to one sample, or the failure to give one (then `answer` is empty and
    `failure` is set).

    """

    sample_id: str
    answer: str = ""
    contexts: Contexts = ()
    """Include the contexts of retrievals and the results of tools in `steps`."""
    latency_s: Annotated[float, Field(ge=0)] | None = None
    """Measured by Ragstone around the call; for a recorded answer, as it was recorded,
    if it was."""
    usage: TokenUsage | None = None
    failure: SystemFailure | None = None
    extra: Mapping[str, object] = field(default_factory=dict)
    """What an answer says of its trace (`returns.TRACE_NAMES`); for `ragstone rescore`
    also all other fields of a recorded interaction, such as a model."""
    contexts_returned: bool = True
    """False if the answer came without contexts; true with an empty list, which is a
    retriever that found nothing."""
    steps: tuple[Step, ...] = ()
    """What the system says it did, in order."""
    so_far: ConversationSoFar | None = None
    """The earlier part of the conversation, if this answers a turn of one."""

    def messages_before(self, sample: Sample) -> tuple[Message, ...]:
        """The messages with which `sample` was asked."""
        return sample.history if self.so_far is None else self.so_far.history

    @property
    def evidence(self) -> Contexts:
        """The contexts that can support the answer: its own, then those of earlier
        turns that are not among them. Contexts without a text are left out."""
        current = () if self.lacks_texts else self.contexts
        if self.so_far is None:
            return current
        texts = {context.text for context in current}
        earlier = [
            context
            for context in self.so_far.contexts
            if context.text.strip() and context.text not in texts
        ]
        return (*current, *earlier)

    @property
    def missing_texts_reason(self) -> str | None:
        """Why metrics that read the texts of contexts don't apply; None if they do."""
        if self.lacks_texts:
            return NO_TEXTS
        return None if self.contexts_returned or self.contexts else NO_CONTEXTS

    @property
    def lacks_texts(self) -> bool:
        """Whether contexts were returned, but only their ids."""
        return bool(self.contexts) and not any(
            context.text.strip() for context in self.contexts
        )

    @property
    def lacks_steps(self) -> bool:
        """Whether contexts were returned, but not the steps that retrieved them."""
        return bool(self.contexts) and not self.steps


def called_tools(response: Response) -> frozenset[str]:
    """The names of the tools that an answer called, including the sources of its
    retrievals, which may be tools."""
    names = set()
    for step in response.steps:
        match step:
            case ToolCall(name=name) | Retrieval(source=str(name)):
                names.add(name)
    return frozenset(names)


NO_CONTEXTS = "the answer came without contexts"
NO_STEPS = "the answer came without steps"
NO_TEXTS = "the contexts were returned as ids, without their texts"


def history_messages(sample: Sample) -> list[dict[str, str]]:
    """The earlier messages of a sample's conversation, in the form that systems are
    given them."""
    return [
        {"role": message.role, "content": message.text} for message in sample.history
    ]


def session_id(sample: Sample) -> str | None:
    """The id of the session in which `sample` is asked; None for a question that stands
    alone."""
    return None if sample.turn is None else sample.turn.session


def question_extras(sample: Sample, part: str | None) -> dict[str, object]:
    """The extras that a system is passed with the question of `sample`: the history and
    the session of a conversation, and, if `part` is generation, the contexts."""
    extras: dict[str, object] = {}
    if sample.history:
        extras["history"] = history_messages(sample)
    if session := session_id(sample):
        extras["session"] = session
    if part == GENERATION:
        extras["contexts"] = list(sample.reference_contexts)
    return extras


INDEX_DIGEST = "index_digest"
"""The field of an answer that identifies the index it was made from: another digest
means another corpus."""

# The parts of a system that can be evaluated alone.
RETRIEVAL = "retrieval"
GENERATION = "generation"


def accepted_extras(system: object) -> frozenset[str] | None:
    """Which extras a started system takes with a question, of ``history``, ``session``
    and ``contexts``; None if that can't be known.

    They are the optional attribute `accepts` of a system. A system that takes
    ``session`` keeps conversations apart: by the id, or by an object for each.
    """
    accepts: object = getattr(system, "accepts", None)
    return accepts if isinstance(accepts, frozenset) else None


def takes_extra(system: object, extra: str) -> bool | None:
    """Whether a started system takes an extra, such as ``history``; None if that can't
    be known."""
    accepts = accepted_extras(system)
    return None if accepts is None else extra in accepts


def session_of(system: System) -> AbstractAsyncContextManager[System]:
    """Open a session of a started system, for the turns of one conversation, which are
    asked one after the other.

    It is the optional method `session` of a system that keeps something between turns.
    Any other system is used as it is.
    """
    session: Any = getattr(system, "session", partial(nullcontext, system))
    opened: AbstractAsyncContextManager[System] = session()
    return opened


class System(Protocol):
    """The system under test.

    Call ``await start()`` once, ``ask`` from any number of tasks (more than
    `concurrency` at a time wait), and always ``await close()``. `start` raises
    SystemUnderTestError if no question can be asked (import error, command not found,
    connection refused). `ask` never raises for errors of the system, but returns a
    Response with `failure`.
    """

    @property
    def entrypoint(self) -> str:
        """The entrypoint string, without secrets."""

    @property
    def concurrency(self) -> int:
        """How many samples may be in flight at once (at least 1)."""

    @property
    def can_be_asked_again(self) -> bool:
        """Whether a question can be asked twice, or in other words; recorded answers
        can't."""

    async def start(self) -> None: ...

    async def ask(self, sample: Sample) -> Response: ...

    async def close(self) -> None: ...
