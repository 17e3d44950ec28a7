"""The Judge protocol: one method per judgement."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, cast

import msgspec
from msgspec import Struct
from pydantic import with_config

from ragstone.errors import ConfigError
from ragstone.golden.sample import GoldenSet
from ragstone.judge.judgements import (
    ContextGrades,
    ContextUse,
    ReferenceMatch,
    ReverseQuestions,
    StatementList,
    Statements,
    SupportTable,
)
from ragstone.judge.providers import Environ, find_provider
from ragstone.system.response import Context

Contexts = Sequence[Context]
TellSecret = Callable[[str], None]
"""Called with each secret obtained for this run, so that it is redacted."""

DRAIN_S = 5.0
"""How long calls that were sent before a stop may still be answered, to be stored."""


class JudgementFailed(Exception):  # noqa: N818 - an outcome of one call, not a program error
    """Raised by a Judge method when this one judgement fails. The run continues; the
    score is failed.

    With `not_applicable`, there is nothing to judge (too little text), and the score is
    not applicable instead.
    """

    def __init__(self, reason: str, *, not_applicable: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.not_applicable = not_applicable


@with_config(extra="forbid")
@dataclass(frozen=True, slots=True)
class JudgeIdentity:
    """The judge's identity. Two runs are comparable when their judge identities are
    equal.

    `provider` is one of `providers.PROVIDERS`, or the name of a judge of the user's
    own. `version` is the offline judge's version or the hash of all prompts and
    schemas. `endpoint` is scheme, host and path, never a credential.
    """

    provider: str
    model: str
    version: str
    endpoint: str | None = None
    parameters: tuple[tuple[str, str], ...] = ()
    embeddings: str | None = None

    @property
    def offline(self) -> bool:
        """Whether it judges without a language model; False for judges of the user's
        own."""
        provider = find_provider(self.provider)
        return provider is not None and provider.offline

    def label(self) -> str:
        """A short name for reports, such as ``openai gpt-x`` or ``offline judge 2``."""
        provider = find_provider(self.provider)
        label = "{provider} {model}"
        if provider is not None:
            label = provider.label
        return label.format(
            provider=self.provider, model=self.model, version=self.version
        )


def total_usd(*costs: float | None) -> float | None:
    """The sum of `costs`; None if one of them is not known."""
    if None in costs:
        return None
    return sum(filter(None, costs), start=0.0)


@dataclass(slots=True)
class Ledger:
    """What judging one sample has cost so far. `cost_usd` is None as soon as one call
    has no known price."""

    calls: int = 0
    cached_calls: int = 0
    input_tokens: int = 0
    cached_input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = 0.0

    def add(self, ledger: Ledger) -> None:
        self.calls += ledger.calls
        self.cached_calls += ledger.cached_calls
        self.input_tokens += ledger.input_tokens
        self.cached_input_tokens += ledger.cached_input_tokens
        self.output_tokens += ledger.output_tokens
        self.cost_usd = total_usd(self.cost_usd, ledger.cost_usd)


class Call(Struct, frozen=True):
    """What a judge needs to know about the caller: the sample, the repeat (from 0), and
    where to book the cost.

    A `fresh` call is neither answered from a cache nor stored in one.
    """

    sample_id: str
    repeat: int = 0
    ledger: Ledger = msgspec.field(default_factory=Ledger)
    fresh: bool = False


def ignore_secret(_secret: str) -> None:
    """For callers that redact nothing."""


class Surroundings(Struct, frozen=True):
    """What a judge is built with besides its settings; see `factory.build_judge`."""

    golden_set: GoldenSet
    cache: Path | None
    environ: Environ
    tell_secret: TellSecret = ignore_secret
    within: Path | None = None


class Sightings(Struct):
    """What a judge's replies reported about the model that wrote them, and how they
    were requested."""

    models: set[str] = set()
    ways: set[str] = set()


class Judge(Protocol):
    """Gives judgements. Methods may be awaited concurrently.

    Each raises JudgementFailed when this one judgement fails, and JudgeError when the
    judge as a whole can't continue (key refused, out of budget, circuit open); then the
    run ends, resumable.
    """

    @property
    def identity(self) -> JudgeIdentity: ...

    @property
    def concurrency(self) -> int:
        """How many samples are worth judging at once (at least 1)."""

    async def statements(
        self, question: str, answer: str, *, call: Call
    ) -> StatementList: ...

    async def support(
        self,
        contexts: Contexts,
        statements: Statements,
        *,
        call: Call,
    ) -> SupportTable:
        """One Support per statement, in order. Never called without contexts or without
        statements."""

    async def context_use(
        self,
        question: str,
        reference: str | None,
        answer: str,
        contexts: Contexts,
        *,
        call: Call,
    ) -> ContextUse:
        """Usefulness of each context, in order. Never called without contexts."""

    async def reverse_questions(
        self, question: str, answer: str, *, n: int, call: Call
    ) -> ReverseQuestions: ...

    async def reference_match(
        self,
        question: str,
        reference: str,
        statements: Statements,
        answer: str,
        *,
        call: Call,
    ) -> ReferenceMatch: ...

    async def context_relevance(
        self, question: str, contexts: Contexts, *, call: Call
    ) -> ContextGrades: ...

    async def close(self) -> None: ...


def checked_judge(judge: object) -> Judge:
    """`judge`, if it has what a Judge must have. Raises ConfigError that says what is
    missing."""
    if isinstance(judge, type):
        raise ConfigError(
            f"the judge is the class {judge.__name__}, not an object.",
            hint=f"Make one: judge={judge.__name__}(…)",
        )
    name = type(judge).__name__
    if not isinstance(getattr(judge, "identity", None), JudgeIdentity):
        raise ConfigError(
            f"judge is a name such as 'offline', or a Judge; {name}.identity must be a JudgeIdentity: it decides which "
            "runs may be compared.",
            hint=f'self.identity = JudgeIdentity(provider="own", model="{name}", version="1")'
            "  # from ragstone.judge.protocol",
        )
    concurrency = getattr(judge, "concurrency", None)
    if not isinstance(concurrency, int) or concurrency < 1:
        raise ConfigError(
            f"{name}.concurrency must be how many samples to judge at once, at least 1, found {concurrency!r}."
        )
    for method in _METHODS:
        attribute = getattr(judge, method, None)
        if not callable(attribute):
            raise ConfigError(f"{name} has no method '{method}'.", hint=_PROTOCOL)
        plain = inspect.unwrap(attribute)
        if inspect.isroutine(plain) and not inspect.iscoroutinefunction(plain):
            raise ConfigError(
                f"{name}.{method} must be defined with `async def`.", hint=_PROTOCOL
            )
    return cast(Judge, judge)


_METHODS = tuple(
    name for name, found in vars(Judge).items() if inspect.iscoroutinefunction(found)
)
_PROTOCOL = "The protocol Judge in ragstone.judge.protocol lists the methods, their arguments and results."
