"""Compact per-sample scores: eight characters identify a sample, two encode a score."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ragstone.evaluation.scores import STEPS, RunScores
from ragstone.gate.grouping import groups_of
from ragstone.history.lines import SamplesLine

Floats = NDArray[np.float64]

MAX_SCORES = 50_000
"""Maximum number of scores to keep per run. For larger runs a fixed subset of the
samples is kept."""

_ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
_DIGITS = np.array([_ALPHABET.find(chr(byte)) for byte in range(256)])
_MISSING = "__"
_NO_STEP = len(_ALPHABET) ** 2 - 1
_SAMPLE_CHARS = 8
_GROUP_CHARS = 6


@dataclass(frozen=True, slots=True)
class Compact:
    """A run's per-sample scores: the samples, and metric to codes in their order."""

    samples: SamplesLine
    scores: Mapping[str, str]


def compact(run: RunScores, metrics: Sequence[str]) -> Compact:
    """The scores of `metrics` in `run`, for all samples or as many as MAX_SCORES
    allows."""
    max_samples = max(1, MAX_SCORES // max(1, len(metrics)))
    coded = sorted(
        (sample_code(sample_id, facts.content_hash), sample_id)
        for sample_id, facts in run.samples.items()
    )
    coded = coded[:max_samples]
    ids = "".join(code for code, _ in coded)
    sample_ids = [sample_id for _, sample_id in coded]
    groups = _groups(groups_of(run, sample_ids))
    key = hashlib.sha256(f"{ids}\0{groups or ''}".encode()).hexdigest()[:16]
    scores = {}
    for metric in metrics:
        values = run.metrics[metric].values
        scores[metric] = "".join(
            encode(values.get(sample_id)) for sample_id in sample_ids
        )
    return Compact(SamplesLine(key=key, ids=ids, groups=groups), scores)


def sample_code(name: str, content_hash: str | None) -> str:
    """The code of the sample with the id `name` and this content."""
    return _digest(f"{name}\0{content_hash}", _SAMPLE_CHARS)


def sample_codes(line: SamplesLine) -> list[str]:
    """The samples of `line`, each as its code."""
    return _cut(line.ids, _SAMPLE_CHARS)


def group_codes(line: SamplesLine) -> list[str] | None:
    """The group of each sample, or None if there are no groups."""
    if line.groups is None:
        return None
    return _cut(line.groups, _GROUP_CHARS)


def encode(value: float | None) -> str:
    """Two characters for a score in [0, 1], or for a missing one."""
    if value is None:
        return _MISSING
    high, low = divmod(round(value * STEPS), len(_ALPHABET))
    return _ALPHABET[high] + _ALPHABET[low]


def decode(codes: str) -> Floats:
    """The scores (n,) in `codes`, NaN for missing ones. Raises ValueError for an
    invalid code."""
    digits = _DIGITS[np.frombuffer(codes.encode("ascii", "replace"), dtype=np.uint8)]
    if len(digits) % 2 or np.any(digits < 0):
        raise ValueError("not valid scores")
    steps = digits[0::2] * len(_ALPHABET) + digits[1::2]
    is_missing = steps == _NO_STEP
    if np.any(steps[~is_missing] > STEPS):
        raise ValueError("not valid scores")
    return np.where(is_missing, np.nan, steps / STEPS)


def fits(line: SamplesLine, scores: Iterable[str]) -> bool:
    """Whether every one of `scores` holds a score for each sample of `line`, and
    nothing else."""
    count = len(line.ids) // _SAMPLE_CHARS
    if len(line.ids) % _SAMPLE_CHARS:
        return False
    if line.groups is not None and len(line.groups) != count * _GROUP_CHARS:
        return False
    return all(len(codes) == 2 * count and _readable(codes) for codes in scores)


def _readable(codes: str) -> bool:
    try:
        decode(codes)
    except ValueError:
        return False
    return True


def _groups(names: Sequence[str | None]) -> str | None:
    if all(name is None for name in names):
        return None
    codes = []
    for index, name in enumerate(names):
        # A sample without a group is its own group.
        text = f"alone\0{index}" if name is None else f"group\0{name}"
        codes.append(_digest(text, _GROUP_CHARS))
    return "".join(codes)


def _digest(text: str, characters: int) -> str:
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
    return base64.urlsafe_b64encode(digest).decode("ascii")[:characters]


def _cut(text: str, size: int) -> list[str]:
    return [text[start : start + size] for start in range(0, len(text), size)]
