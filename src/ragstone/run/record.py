"""One finished sample: question, response, judgements and scores."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ragstone.golden.sample import Sample
from ragstone.judge.judgements import Judgements
from ragstone.judge.protocol import Ledger
from ragstone.metrics.score import Score
from ragstone.system.response import Response


@dataclass(frozen=True, slots=True)
class SampleRecord:
    """A line of samples.jsonl.

    `judgements` has one entry per repeat. `scores` is by metric name; `repeat_scores` has the value of each repeat
    if there were several (only scored ones), for variance components.
    """

    sample: Sample
    response: Response
    judgements: tuple[Judgements, ...]
    scores: Mapping[str, Score]
    repeat_scores: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    ledger: Ledger = field(default_factory=Ledger)
