"""One finished sample: question, answers, judgements and scores."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ragstone.golden.sample import Sample
from ragstone.judge.judgements import Judgements
from ragstone.judge.protocol import Ledger
from ragstone.metrics.score import Score
from ragstone.system.response import Response


@dataclass(frozen=True, slots=True)
class Answer:
    """One response of the system to a sample, judged and scored.

    `judgements` has one entry per repeat. `scores` is by metric name; `repeat_scores`
    has the value of each repeat if there were several (only scored ones), for variance
    components.
    """

    response: Response
    judgements: tuple[Judgements, ...] = ()
    scores: Mapping[str, Score] = field(default_factory=dict)
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
    scores: Mapping[str, Score]
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


@dataclass(frozen=True, slots=True)
class RecordLine:
    """A record as it is written, and what is counted of it. `line` is JSON, without a
    line end.

    `state` is that of `scoring.sample_state`.
    """

    sample_id: str
    state: str
    ledger: Ledger
    line: str
