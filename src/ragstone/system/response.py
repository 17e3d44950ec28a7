"""What the system under test returned for one sample, and the protocol of everything that can be asked."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from ragstone.golden.sample import Sample


@dataclass(frozen=True, slots=True)
class Context:
    """One retrieved passage, at its rank. `score` is the retriever's own, in whatever unit it uses."""

    text: str
    id: str | None = None
    score: float | None = None


@dataclass(frozen=True, slots=True)
class TokenUsage:
    """Tokens that the system under test reports for one answer."""

    input_tokens: int
    output_tokens: int


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
    """The system under test failed on one sample; `message` is one line, `detail` a traceback or a log tail."""

    kind: SystemFailureKind
    message: str
    detail: str | None = None


@dataclass(frozen=True, slots=True)
class Response:
    """The answer to one sample, or the failure to give one (then `answer` is empty and `failure` is set).

    `latency_s` is measured by Ragstone around the call (None for recorded answers without one);
    `first_text_s` until the first text of an answer that streams (None for others).
    """

    sample_id: str
    answer: str = ""
    contexts: tuple[Context, ...] = ()
    latency_s: float | None = None
    usage: TokenUsage | None = None
    failure: SystemFailure | None = None
    first_text_s: float | None = None


class System(Protocol):
    """The system under test, ready to be asked.

    Use: ``await start()`` once, ``ask`` from any number of tasks (`concurrency` at a time is useful, more waits),
    ``await close()`` always. `start` raises SystemUnderTestError when nothing can be asked at all (import error,
    command not found, connection refused); `ask` never raises for errors of the system, it returns a Response
    with `failure`.
    """

    @property
    def entrypoint(self) -> str:
        """The entrypoint string, free of secrets."""
        ...

    @property
    def concurrency(self) -> int:
        """How many samples may be in flight at once (at least 1)."""
        ...

    async def start(self) -> None: ...

    async def ask(self, sample: Sample) -> Response: ...

    async def close(self) -> None: ...
