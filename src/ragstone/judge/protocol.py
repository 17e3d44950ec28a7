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
"""The retrieved contexts of a response, by rank."""
TellSecret = Callable[[str], None]
"""Called with each secret obtained for this run, so that it is redacted."""

DRAIN_S = 5.0
"""Seconds for which the replies to calls in flight are still awaited when a run is
stopped, so that they are cached and not paid for twice."""


class JudgementFailed(Exception):  # noqa: N818 - an outcome of one call, not a program error
    """Raised by a Judge method when this one judgement fails. The run continues, and
    the score is *failed*; with `not_applicable`, because there is nothing to judge
    (such as too little text), it is *not applicable*.
    """

    def __init__(self, reason: str, *, not_applicable: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.not_applicable = not_applicable


@with_config(extra="forbid")
@dataclass(frozen=True, slots=True)
class JudgeIdentity:
    """The judge's identity. Two runs are comparable when their judge identities are
    equal."""

    provider: str
    """One of `providers.PROVIDERS`, or the name of a judge of the user's own."""
    model: str
    version: str
    """The offline judge's version, or a hash of all prompts and schemas."""
    endpoint: str | None = None
    """Scheme, host and path of the service, never a credential."""
    parameters: tuple[tuple[str, str], ...] = ()
    """The parameters of each request, by name, as text."""
    embeddings: str | None = None
    """How texts are compared: the provider and model of the embeddings, or the version
    of the comparison by words."""

    @property
    def offline(self) -> bool:
        """Whether the judge needs no language model; False for a judge of the user's
        own."""
        provider = find_provider(self.provider)
        return provider is not None and provider.offline

    def label(self) -> str:
        """A short name for reports, such as ``openai gpt-x`` or ``offline judge 2``."""
        provider = find_provider(self.provider)
        template = "{provider} {model}"
        if provider is not None:
            template = provider.label
        return template.format(
            provider=self.provider, model=self.model, version=self.version
        )


def total_usd(*costs: float | None) -> float | None:
    """The sum of `costs`; None if one of them is not known."""
    if None in costs:
        return None
    return sum(filter(None, costs), start=0.0)


@dataclass(slots=True)
class Ledger:
    """The calls, tokens and cost of judging so far: of one sample, or of a run."""

    calls: int = 0
    """How many calls were made; those answered from the cache are in `cached_calls`."""
    cached_calls: int = 0
    input_tokens: int = 0
    """Input tokens, including those in `cached_input_tokens`."""
    cached_input_tokens: int = 0
    """Input tokens that the provider read from its own prompt cache."""
    output_tokens: int = 0
    cost_usd: float | None = 0.0
    """None if the price of one of the calls is not known."""

    def add(self, ledger: Ledger) -> None:
        """Add everything in `ledger` to this one."""
        self.calls += ledger.calls
        self.cached_calls += ledger.cached_calls
        self.input_tokens += ledger.input_tokens
        self.cached_input_tokens += ledger.cached_input_tokens
        self.output_tokens += ledger.output_tokens
        self.cost_usd = total_usd(self.cost_usd, ledger.cost_usd)


class Call(Struct, frozen=True):
    """What a judge needs to know about the caller."""

    sample_id: str
    repeat: int = 0
    """Which of the sample's repeated judgements this is, from 0."""
    ledger: Ledger = msgspec.field(default_factory=Ledger)
    """The ledger in which the judge records the cost."""
    fresh: bool = False
    """Whether the judgement is neither read from a cache nor stored in one."""


def ignore_secret(_secret: str) -> None:
    """Do nothing, for callers that redact nothing."""


class Surroundings(Struct, frozen=True):
    """What a judge is built with besides its settings."""

    golden_set: GoldenSet
    cache: Path | None
    """The path of the cache of judgements; None for no cache."""
    environ: Environ
    """The variables that keys, identities and base addresses are read from."""
    tell_secret: TellSecret = ignore_secret
    within: Path | None = None
    """The folder in which a script or a fitted judge must lie; None for anywhere."""


class ObservedJudge(Struct):
    """The model behind the judge, as far as the replies up to now show it."""

    models: set[str] = set()
    """The models that the provider names as the authors of replies."""
    request_modes: set[str] = set()
    """How the replies were made to follow the schema: ``json_schema`` if the provider
    enforced it, ``prompt`` if the prompt asked for it."""


class Judge(Protocol):
    """Gives judgements. Methods may be awaited concurrently.

    Each raises JudgementFailed when this one judgement fails, and JudgeError when the
    judge as a whole can't continue (such as a refused key, a spent budget, or too many
    calls without a reply); then the run ends, and can be resumed.
    """

    @property
    def identity(self) -> JudgeIdentity: ...

    @property
    def concurrency(self) -> int:
        """How many samples are worth judging at once (at least 1)."""

    async def statements(
        self, question: str, answer: str, *, call: Call
    ) -> StatementList:
        """The statements of `answer`, and whether it abstains."""

    async def support(
        self,
        contexts: Contexts,
        statements: Statements,
        *,
        call: Call,
    ) -> SupportTable:
        """Whether `contexts` support each statement, in order. Never called without
        contexts or without statements."""

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
    ) -> ReverseQuestions:
        """`n` questions that `answer` would answer, compared with `question`."""

    async def reference_match(
        self,
        question: str,
        reference: str,
        statements: Statements,
        answer: str,
        *,
        call: Call,
    ) -> ReferenceMatch:
        """The comparison of `answer`, with its `statements`, and `reference`."""

    async def context_relevance(
        self, question: str, contexts: Contexts, *, call: Call
    ) -> ContextGrades:
        """How many sentences of each context `question` needs, in order."""

    async def close(self) -> None:
        """Close connections and files."""


def check_judge(judge: object) -> Judge:
    """Return `judge` if it has what a Judge must have; raise ConfigError that says what
    is missing if not."""
    if isinstance(judge, type):
        raise ConfigError(
            f"the judge is the class {judge.__name__}, not an object.",
            hint=f"Create an object: judge={judge.__name__}(…)",
        )
    class_name = type(judge).__name__
    if not isinstance(getattr(judge, "identity", None), JudgeIdentity):
        raise ConfigError(
            f"{class_name}.identity must be a JudgeIdentity, which decides the runs that may be compared. A judge is "
            "given as a name, such as 'offline', or as an object with the methods of Judge.",
            hint=f'Set self.identity = JudgeIdentity(provider="own", model="{class_name}", version="1")'
            "  # from ragstone.judge.protocol",
        )
    concurrency = getattr(judge, "concurrency", None)
    if not isinstance(concurrency, int) or concurrency < 1:
        raise ConfigError(
            f"{class_name}.concurrency must be the number of samples to judge at once, at least 1; found "
            f"{concurrency!r}."
        )
    for method_name in _ASYNC_METHODS:
        method = getattr(judge, method_name, None)
        if not callable(method):
            raise ConfigError(
                f"{class_name} has no method '{method_name}'.", hint=_PROTOCOL_HINT
            )
        function = inspect.unwrap(method)
        # A callable object, such as a mock, may return an awaitable all the same.
        if inspect.isroutine(function) and not inspect.iscoroutinefunction(function):
            raise ConfigError(
                f"{class_name}.{method_name} must be defined with `async def`.",
                hint=_PROTOCOL_HINT,
            )
    return cast(Judge, judge)


_ASYNC_METHODS = tuple(
    name
    for name, attribute in vars(Judge).items()
    if inspect.iscoroutinefunction(attribute)
)
_PROTOCOL_HINT = "The protocol Judge in ragstone.judge.protocol lists the methods, their arguments and results."
