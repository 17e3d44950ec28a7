"""CompactScores per-sample scores for the history: a sample is identified by eight
characters, and a score is encoded in two bytes."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence

import numpy as np
from msgspec import Struct

from ragstone.evaluation.scores import SCORE_STEPS, RunScores
from ragstone.gate.grouping import group_labels
from ragstone.history.lines import RunLine, SamplesLine
from ragstone.stats.arrays import Floats

MAX_SCORES = 50_000
"""Maximum number of scores to keep of a run. Of a larger run, the samples with the
lowest codes are kept: the same ones in each run."""

_NO_SCORE = 0xFFFF
"""Encodes a missing score."""


class CompactScores(Struct, frozen=True):
    """The per-sample scores of a run."""

    samples: SamplesLine
    scores: Mapping[str, str]
    """The encoded scores of each metric, in the order of the samples."""

    def added_to(self, line: RunLine) -> RunLine:
        """`line` with these scores."""
        update = {"samples": self.samples.key, "scores": dict(self.scores)}
        return line.model_copy(update=update)


def compact_scores(run: RunScores, metrics: Sequence[str]) -> CompactScores:
    """The scores of `metrics` in `run`, for all samples or as many as MAX_SCORES
    allows."""
    coded = sorted(
        (sample_code(sample_id, facts.content_hash), sample_id)
        for sample_id, facts in run.samples.items()
    )
    coded = coded[: max(1, MAX_SCORES // max(1, len(metrics)))]
    ids = tuple(code for code, _ in coded)
    sample_ids = [sample_id for _, sample_id in coded]
    labels = group_labels(run, sample_ids)
    groups = None if labels is None else tuple(labels.tolist())
    key = hashlib.sha256(f"{ids}{groups}".encode()).hexdigest()[:16]
    scores = {
        metric: encode(list(map(run.metrics[metric].values.get, sample_ids)))
        for metric in metrics
    }
    return CompactScores(SamplesLine(key=key, ids=ids, groups=groups), scores)


def sample_code(sample_id: str, content_hash: str | None) -> str:
    """The code of the sample with this id and content."""
    text = f"{sample_id}\0{content_hash}"
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
    return base64.urlsafe_b64encode(digest[:6]).decode("ascii")


def encode(values: Sequence[float | None]) -> str:
    """Encode scores in [0, 1], None for a missing one, as base64 of two bytes each."""
    steps = np.rint(np.array(values, np.float64) * SCORE_STEPS)
    numbers = np.where(np.isnan(steps), _NO_SCORE, steps).astype(">u2")
    return base64.b64encode(numbers.tobytes()).decode("ascii")


def decode(text: str) -> Floats:
    """The scores (n,) that `text` encodes, NaN for a missing one. Raises ValueError if
    it does not encode scores."""
    steps = np.frombuffer(base64.b64decode(text, validate=True), ">u2")
    is_missing = steps == _NO_SCORE
    if np.any(steps[~is_missing] > SCORE_STEPS):
        raise ValueError("not valid scores")
    return np.where(is_missing, np.nan, steps / SCORE_STEPS)
