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
    """One retrieved passage, in rank order. `text` is empty if the system names it only
    by `id`.

    `score` is the retriever's own, in any unit.
    """

    text: str
    id: str | None = None
    score: float | None = None


Contexts = tuple[Context, ...]


@dataclass(frozen=True, slots=True)
class TokenUsage:
    """Tokens that the system under test reports for one answer."""

    input_tokens: Annotated[int, Field(ge=0, le=MAX_TOKENS)]
    output_tokens: Annotated[int, Field(ge=0, le=MAX_TOKENS)]


@dataclass(frozen=True, slots=True)
class Retrieval:
    """A step of an answer: a search. `source` names what was searched, such as an index
    or a tool."""

    query: str
    contexts: Contexts = ()
    source: str | None = None


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A step of an answer: a call of the tool `name`. `arguments` are JSON; `error` is
    set if it failed."""

    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    result: str | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class ModelCall:
    """A step of an answer: a call of a language model. `model` is empty if it is not
    named."""

    model: str
    usage: TokenUsage | None = None
    latency_s: float | None = None


Step = Retrieval | ToolCall | ModelCall

TOOL_ID = "tool:"
"""How the id of a context begins that is the result of a tool."""


def tool_results(steps: Sequence[Step]) -> list[Context]:
    """What the tools in `steps` returned, as contexts; those that failed returned
    nothing."""
    return [
        Context(step.result, f"{TOOL_ID}{step.name}")
        for step in steps
        if isinstance(step, ToolCall) and step.result and step.error is None
    ]


@dataclass(frozen=True, slots=True)
class ConversationSoFar:
    """What a conversation had when a turn was asked: its messages, and the contexts of
    its earlier answers, each once.

    `failed_turns` are the numbers of the earlier turns that the system failed on: they
    have no answer in `history`.
    """

    history: tuple[Message, ...] = ()
    contexts: Contexts = ()
    failed_turns: tuple[int, ...] = ()

    @property
    def remark(self) -> str | None:
        """That earlier turns failed, as in "after turn 1 failed"; None if none did."""
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
    """The system under test failed on one sample; `message` is one line, `detail` a
    traceback or a log tail."""

    kind: SystemFailureKind
    message: str
    detail: str | None = None


@dataclass(frozen=True, slots=True)
class Response:
    """The answer to one sample, or the failure to give one (then `answer` is empty and
    `failure` is set).

    `latency_s` is measured by Ragstone around the call (None for recorded answers
    without one). `extra` is what an answer says of its trace (`returns.TRACE_NAMES`), and
    for `ragstone rescore` all other fields of a recorded interaction, such as a model.
    `contexts_returned`: false if the answer came without them; an empty list is a
    retriever that found nothing. `steps` are what the system says it did, in order; the
    contexts of its retrievals and the results of its tools are among `contexts`.
    `so_far` is what the conversation had before, if this is a turn of one.
    """

    sample_id: str
    answer: str = ""
    contexts: Contexts = ()
    latency_s: Annotated[float, Field(ge=0)] | None = None
    usage: TokenUsage | None = None
    failure: SystemFailure | None = None
    extra: Mapping[str, object] = field(default_factory=dict)
    contexts_returned: bool = True
    steps: tuple[Step, ...] = ()
    so_far: ConversationSoFar | None = None

    def messages_before(self, sample: Sample) -> tuple[Message, ...]:
        """The messages with which `sample` was asked."""
        return sample.history if self.so_far is None else self.so_far.history

    @property
    def evidence(self) -> Contexts:
        """What the answer can be supported by: its contexts, then those of earlier
        turns that are not among them."""
        own = () if self.without_texts else self.contexts
        if self.so_far is None:
            return own
        texts = {context.text for context in own}
        earlier = [
            context
            for context in self.so_far.contexts
            if context.text.strip() and context.text not in texts
        ]
        return (*own, *earlier)

    @property
    def lacking(self) -> str | None:
        """Why what reads the texts of contexts can't be measured, if it can't."""
        if self.without_texts:
            return NO_TEXTS
        return None if self.contexts_returned or self.contexts else NO_CONTEXTS

    @property
    def without_texts(self) -> bool:
        """Whether contexts were returned, and only by their ids."""
        return bool(self.contexts) and not any(
            context.text.strip() for context in self.contexts
        )

    @property
    def without_steps(self) -> bool:
        """Whether the system returned contexts, and not the steps that it got them
        by."""
        return bool(self.contexts) and not self.steps


def called_tools(response: Response) -> frozenset[str]:
    """The names of the tools that an answer called; the source of a retrieval may be
    one."""
    names = set()
    for step in response.steps:
        match step:
            case ToolCall(name=name) | Retrieval(source=str(name)):
                names.add(name)
    return frozenset(names)


NO_CONTEXTS = "the answer came without contexts"
NO_STEPS = "the answer came without steps"
NO_TEXTS = "the contexts were returned as ids, without their texts"


def messages_before(sample: Sample) -> list[dict[str, str]]:
    """The earlier messages of a sample's conversation, as they are passed to a
    system."""
    return [
        {"role": message.role, "content": message.text} for message in sample.history
    ]


def session_id(sample: Sample) -> str | None:
    """The id of the session in which `sample` is asked; None for a question that stands
    alone."""
    return None if sample.turn is None else sample.turn.session


def beside_question(sample: Sample, part: str | None) -> dict[str, object]:
    """What goes with the question of `sample`: earlier messages, the session, and for
    generation alone the contexts."""
    beside: dict[str, object] = {}
    if sample.history:
        beside["history"] = messages_before(sample)
    if session := session_id(sample):
        beside["session"] = session
    if part == GENERATION:
        beside["contexts"] = list(sample.reference_contexts)
    return beside


INDEX_DIGEST = "index_digest"
"""What an answer may say of the index that it was made from: another text, another
corpus."""

RETRIEVAL, GENERATION = "retrieval", "generation"
"""The halves of a system, where only one is evaluated."""


def accepted(system: object) -> frozenset[str] | None:
    """Which of ``history``, ``session`` and ``contexts`` a started system takes beside a
    question; None if that can't be known.

    A system says so by an attribute `accepts`. Who takes sessions keeps conversations
    apart: by an id, or by an object for each.
    """
    accepts: object = getattr(system, "accepts", None)
    return accepts if isinstance(accepts, frozenset) else None


def takes(system: object, part: str) -> bool | None:
    """Whether a started system takes `part` beside a question; None if that can't be
    known."""
    accepts = accepted(system)
    return None if accepts is None else part in accepts


def session_of(system: System) -> AbstractAsyncContextManager[System]:
    """A session of a started system, for the turns of one conversation, which are asked
    one after the other.

    A system that keeps something between the turns has a method `session`; another is
    its own session.
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
