"""One finished sample: question, answers, judgements and scores, as a line of
samples.jsonl holds them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Discriminator,
    SerializerFunctionWrapHandler,
    Tag,
    WrapSerializer,
)

from ragstone.golden.sample import Sample
from ragstone.judge.judgements import Judgements
from ragstone.judge.protocol import Ledger
from ragstone.metrics.score import Failed, NotApplicable, Score, Scored
from ragstone.system.response import Response

_STATES = {Scored: "scored", NotApplicable: "not_applicable", Failed: "failed"}


def _state_of(score: Any) -> Any:
    return score.get("state") if isinstance(score, dict) else _STATES.get(type(score))


def _without_state(score: Any) -> Any:
    if isinstance(score, dict):
        score.pop("state")
    return score


def _with_state(
    score: Score, serialise: SerializerFunctionWrapHandler
) -> dict[str, Any]:
    return {"state": _STATES[type(score)], **serialise(score)}


def _not_negative(response: Response) -> Response:
    """`response`, if its latency and its tokens are not negative."""
    usage = response.usage
    tokens = () if usage is None else (usage.input_tokens, usage.output_tokens)
    if any(number < 0 for number in (response.latency_s or 0.0, *tokens)):
        raise ValueError("latency and tokens can't be negative")
    return response


_WITHOUT_STATE = BeforeValidator(_without_state)
StoredScore = Annotated[
    Annotated[Scored, _WITHOUT_STATE, Tag("scored")]
    | Annotated[NotApplicable, _WITHOUT_STATE, Tag("not_applicable")]
    | Annotated[Failed, _WITHOUT_STATE, Tag("failed")],
    Discriminator(_state_of),
    WrapSerializer(_with_state),
]
"""A score, which in a file has its `state`."""

StoredResponse = Annotated[Response, AfterValidator(_not_negative)]


@dataclass(frozen=True, slots=True)
class Answer:
    """One response of the system to a sample, judged and scored.

    `judgements` has one entry per repeat. `scores` is by metric name; `repeat_scores`
    has the value of each repeat if there were several (only scored ones), for variance
    components.
    """

    response: StoredResponse
    judgements: tuple[Judgements, ...] = ()
    scores: Mapping[str, StoredScore] = field(default_factory=dict)
    repeat_scores: Mapping[str, tuple[float, ...]] = field(default_factory=dict)

    @property
    def judged(self) -> Judgements:
        """The first judging round; empty if there was none."""
        return self.judgements[0] if self.judgements else Judgements()


@dataclass(frozen=True, slots=True)
class SampleRecord:
    """A line of samples.jsonl.

    `answers` are in the order in which the system was asked: at least one. `scores`
    combine theirs (`scoring.combine_answers`). `ledger` is the cost of judging them
    all.
    """

    sample: Sample
    answers: tuple[Answer, ...]
    scores: Mapping[str, Score] = field(default_factory=dict)
    ledger: Ledger = field(default_factory=Ledger)

    @property
    def response(self) -> Response:
        return self.answers[0].response

    @property
    def judgements(self) -> tuple[Judgements, ...]:
        return self.answers[0].judgements

    @property
    def responses(self) -> tuple[Response, ...]:
        """Every response, in the order in which the system was asked."""
        return tuple(answer.response for answer in self.answers)

    @property
    def state(self) -> str:
        """``system_failed``, ``partly_failed`` or ``scored``, as the manifest counts
        samples: the first if one of the responses failed."""
        if any(response.failure is not None for response in self.responses):
            return "system_failed"
        if any(isinstance(score, Failed) for score in self.scores.values()):
            return "partly_failed"
        return "scored"


@dataclass(frozen=True, slots=True)
class RecordLine:
    """A record as it is written, and what is counted of it. `line` is JSON, without a
    line end. `state` is that of the record."""

    sample_id: str
    state: str
    ledger: Ledger
    line: str
