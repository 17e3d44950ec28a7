"""The interface between the judge and a provider: requests, replies, and how a call can
fail."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

if TYPE_CHECKING:
    import numpy as np


class ChatRequest(Struct, frozen=True):
    """One request to the model."""

    name: str
    """The name of the prompt."""
    static: str
    """The part that comes first and is the same for all samples, so that providers can
    cache it."""
    data: str
    """The part about this sample."""
    schema: Mapping[str, object]
    """The JSON schema of the reply, closed and with every property required, as strict
    modes demand."""
    max_output_tokens: int
    is_cacheable: bool = False
    """Whether the provider's cache is known to take the static part."""
    needs_breakpoint: bool = False
    """Whether the request must mark where the static part ends."""
    needs_logprobs: bool = False
    """Whether the log-probabilities of the reply's tokens are needed."""


class Stop(StrEnum):
    """Why a reply ends."""

    COMPLETE = "complete"
    TRUNCATED = "truncated"
    REFUSED = "refused"
    FILTERED = "filtered"


class Usage(Struct, frozen=True):
    """The tokens of one call. No token is counted twice: cached input is not in
    `input_tokens`."""

    input_tokens: int = 0
    cached_input_tokens: int = 0
    cache_write_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = None
    """The cost of the call, if a gateway reports it."""

    @property
    def all_input_tokens(self) -> int:
        return self.input_tokens + self.cached_input_tokens + self.cache_write_tokens


class ChatReply(Struct, frozen=True):
    """The model's reply."""

    text: str
    stop: Stop
    usage: Usage
    model: str | None = None
    """The model that the provider reports as the author."""
    request_mode: str | None = None
    """How the reply was made to follow the schema: `features.SCHEMA` or `PROMPT`."""
    tokens: Sequence[object] = ()
    """The reply's tokens with their log-probabilities, unchecked, if the provider
    reports them."""


class EmbedReply(Struct, frozen=True):
    """The embeddings of texts."""

    vectors: np.ndarray
    """A matrix with one row for each text, in order."""
    input_tokens: int


class Fault(Exception):  # noqa: N818 - an outcome of one attempt, not a program error
    """One attempt failed. `reason` is one line without secrets. Never raised from an
    SDK's error, which holds the key."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class RateLimited(Fault):
    """A rate limit is reached (status 429). `retry_after_s` is the wait that the
    provider asks for; None if it names none."""

    attempt_number = 0
    """The number of the attempt, which the scheduler counts from 1 and sets."""

    def __init__(self, reason: str, retry_after_s: float | None = None) -> None:
        super().__init__(reason)
        self.retry_after_s = retry_after_s


class TemporaryFault(Fault):
    """An error of the server, a time-out, or a failed connection: worth another try.
    `retry_after_s` is the wait that the provider asks for; None if it names none."""

    def __init__(self, reason: str, retry_after_s: float | None = None) -> None:
        super().__init__(reason)
        self.retry_after_s = retry_after_s


class Rejected(Fault):
    """This one request is refused (too long, filtered); sending it again won't help."""


class Provider(Protocol):
    """An LLM service."""

    @property
    def notes(self) -> Sequence[str]:
        """Notes for the report: which features the model does not accept, and what
        happens without them."""

    async def chat(self, request: ChatRequest) -> ChatReply:
        """The reply to `request`, without retries. Raises a Fault, or JudgeError if no
        call can succeed."""

    async def close(self) -> None:
        """Close the connections."""
