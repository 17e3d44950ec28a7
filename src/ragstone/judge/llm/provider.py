"""The port between the judge and a provider: one chat call, one embeddings request, and the ways both can end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from ragstone.errors import JudgeError


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """One question to the model. `static` comes first and is the same for all samples, so that providers can cache it.

    `schema` is the JSON schema of the reply, closed and with every property required, so that strict modes take it.
    `cached`: the provider's cache is known to take the static part. `breakpoint`: it must be told where that ends.
    """

    name: str
    static: str
    data: str
    schema: Mapping[str, object]
    max_output_tokens: int
    cached: bool = False
    breakpoint: bool = False


class Stop(StrEnum):
    """Why the model stopped."""

    COMPLETE = "complete"
    TRUNCATED = "truncated"
    REFUSED = "refused"
    FILTERED = "filtered"


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one reply, from the provider's own usage fields; all counts are disjoint."""

    input_tokens: int = 0
    cached_input_tokens: int = 0
    cache_write_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = None
    """What the reply cost, where a gateway says so."""

    @property
    def all_input_tokens(self) -> int:
        return self.input_tokens + self.cached_input_tokens + self.cache_write_tokens


@dataclass(frozen=True, slots=True)
class RateLimits:
    """What the provider says is left of its rate limits, from x-ratelimit headers. None: it does not say."""

    requests: int | None = None
    requests_reset_s: float | None = None
    tokens: int | None = None
    tokens_reset_s: float | None = None


@dataclass(frozen=True, slots=True)
class ChatReply:
    """What the model wrote. `batched` replies are billed at the batch rate.

    `model` and `fingerprint` are what the provider says wrote it, `way` how it was held to the schema.
    """

    text: str
    stop: Stop
    usage: Usage
    room: RateLimits | None = None
    batched: bool = False
    model: str | None = None
    fingerprint: str | None = None
    way: str | None = None


@dataclass(frozen=True, slots=True)
class EmbedReply:
    """One unit-free vector for each text, in order."""

    vectors: Sequence[Sequence[float]]
    input_tokens: int
    room: RateLimits | None = None


class Fault(Exception):  # noqa: N818 - an outcome of one attempt, not a program error
    """One attempt failed. `reason` is one line without secrets. Never chained to an SDK's error: that holds the key."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Busy(Fault):
    """429, 503 or 529: the provider pushes back. `retry_after_s` is what it asked for, None if it did not say."""

    def __init__(self, reason: str, retry_after_s: float | None = None, room: RateLimits | None = None) -> None:
        super().__init__(reason)
        self.retry_after_s = retry_after_s
        self.room = room


class Broken(Fault):
    """5xx, a time-out, a connection that failed or broke: worth another try."""


class Rejected(Fault):
    """This one request is not wanted (too long, filtered): no use in sending it again."""

    def __init__(self, reason: str, stop: Stop | None = None) -> None:
        super().__init__(reason)
        self.stop = stop


class Provider(Protocol):
    """An LLM service. Methods make exactly one attempt; they raise a Fault, or JudgeError when no call can succeed."""

    @property
    def notes(self) -> Sequence[str]:
        """What was found out about the model and done about it, for the report."""
        ...

    async def chat(self, request: ChatRequest) -> ChatReply: ...

    async def close(self) -> None: ...


class Embedder(Protocol):
    """Something that turns texts into vectors, all in one request."""

    @property
    def label(self) -> str:
        """Service and model, for the judge's identity."""
        ...

    async def embed(self, texts: Sequence[str]) -> EmbedReply: ...

    async def close(self) -> None: ...


def refused_key(service: str, reason: str, variable: str) -> JudgeError:
    """The error for a key that is absent, wrong or revoked."""
    return JudgeError(
        f"{service} refused the API key: {reason}",
        where="judge",
        hint=f"Check that {variable} holds a valid key for this endpoint, not revoked, with access to the model.",
    )


def no_quota(service: str, reason: str) -> JudgeError:
    """The error for an account without money or quota: waiting does not help."""
    return JudgeError(
        f"the {service} account is out of quota: {reason}",
        where="judge",
        hint="Add credit or raise the account's limit, then continue with --resume; finished samples are kept.",
    )


def unknown_model(service: str, model: str, reason: str, *, setting: str = "judge.name") -> JudgeError:
    """The error for a model or an address that isn't there. `setting` is what names the model."""
    address = "judge.base_url" if setting == "judge.name" else "judge.embeddings_base_url"
    return JudgeError(
        f"{service} does not know the model '{model}' at this address: {reason}",
        where=setting,
        hint=f"Check the model's name and {address}, and that the key has access to the model.",
    )
