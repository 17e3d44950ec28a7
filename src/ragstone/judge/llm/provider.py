"""The port between the judge and a provider: one chat call, one embeddings request, and
how both can fail."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

if TYPE_CHECKING:
    import numpy as np


class ChatRequest(Struct, frozen=True):
    """One request to the model. `static` comes first and is the same for all samples,
    so that providers can cache it.

    `schema` is the JSON schema of the reply, closed and with every property required,
    as strict modes demand. `cached`: the provider's cache is known to take the static
    part. `breakpoint`: the request must mark where that part ends. `graded`: the
    log-probabilities of the reply's tokens are of use.
    """

    name: str
    static: str
    data: str
    schema: Mapping[str, object]
    max_output_tokens: int
    cached: bool = False
    breakpoint: bool = False
    graded: bool = False


class Stop(StrEnum):
    COMPLETE = "complete"
    TRUNCATED = "truncated"
    REFUSED = "refused"
    FILTERED = "filtered"


class Usage(Struct, frozen=True):
    """Tokens of one reply, as reported by the provider; the counts are disjoint."""

    input_tokens: int = 0
    cached_input_tokens: int = 0
    cache_write_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = None
    """The cost of the reply, if a gateway reports it."""

    @property
    def all_input_tokens(self) -> int:
        return self.input_tokens + self.cached_input_tokens + self.cache_write_tokens


class ChatReply(Struct, frozen=True):
    """The model's reply.

    `model` is what the provider reports as its author, `way` is how the schema was
    enforced. `tokens` are the reply's with their log-probabilities, as the provider
    gave them (unchecked), if it did.
    """

    text: str
    stop: Stop
    usage: Usage
    model: str | None = None
    way: str | None = None
    tokens: Sequence[object] = ()


class EmbedReply(Struct, frozen=True):
    """One vector per text, in order, as the rows of a matrix."""

    vectors: np.ndarray
    input_tokens: int


class Fault(Exception):  # noqa: N818 - an outcome of one attempt, not a program error
    """One attempt failed. `reason` is one line without secrets. Never chained to an
    SDK's error: that holds the key."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Busy(Fault):
    """429: a rate limit is reached. `retry_after_s` is the wait that the provider asked
    for, None if it gave none.

    `number` is that of the call, counted by the scheduler.
    """

    number = 0

    def __init__(self, reason: str, retry_after_s: float | None = None) -> None:
        super().__init__(reason)
        self.retry_after_s = retry_after_s


class Broken(Fault):
    """5xx, a time-out, a failed or broken connection: worth another try, after
    `retry_after_s` if that is given."""

    def __init__(self, reason: str, retry_after_s: float | None = None) -> None:
        super().__init__(reason)
        self.retry_after_s = retry_after_s


class Rejected(Fault):
    """This one request is refused (too long, filtered); sending it again won't help."""


class Provider(Protocol):
    """An LLM service. Methods make exactly one attempt; they raise a Fault, or
    JudgeError when no call can succeed."""

    @property
    def notes(self) -> Sequence[str]:
        """What was found out about the model and how it was handled, for the report."""

    async def chat(self, request: ChatRequest) -> ChatReply: ...

    async def close(self) -> None: ...
