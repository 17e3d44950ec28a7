"""The record of each question in the history of the main branch: which are flaky, saturated, unwinnable or disputed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from ragstone.formatting import counted
from ragstone.golden.sample import GoldenSet
from ragstone.history.codes import sample_code
from ragstone.history.file import History
from ragstone.history.level import Look, incomparable, scores_of
from ragstone.metrics.registry import is_relative, lower_is_better
from ragstone.tools.judging.table import PASS_MARK

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

MIN_RUNS = 5
"""Runs from which a question can be called anything."""
SATURATED_RUNS = 20
"""Runs from which a question that never failed and never moved is called saturated."""
MAX_RUNS = 200
"""The newest runs, which are read."""

_MOVED = 0.25
"""A score that differs by this much between two runs has flipped."""
_STEADY = 0.9
"""Two runs are of an unchanged system if its version is the same, or this share of the other questions did not flip."""
_FLIPS, _OFTEN = 3, 0.2
"""A flaky question flips at least so many times and in this share of the unchanged pairs, up and down, and at least
twice as often as the median question."""
_RIGHT, _VERSIONS, _AGAIN = 0.8, 3, 0.8
"""A reference is disputed if in `_AGAIN` of the runs, over `_VERSIONS` versions, the answer is wrong, its faithfulness
at least `_RIGHT`, and its relevancy at least the median."""

ADVICE = {
    "disputed": "Answers that look right are called wrong. Check the references:",
    "unwinnable": "Their evidence was never found. Add it, or remove the question:",
    "flaky": "They flip while nothing changes. Make one answer right:",
    "saturated": "They never failed and never moved. Make them harder:",
}
"""The classes of questions that need something done, and what."""


@dataclass(frozen=True, slots=True)
class Record:
    """What is known of a question over `runs` runs: the classes that it is in, each with the reason.

    A score of it flipped (`metric` most often) in `flips` of `unchanged` pairs of runs.
    """

    id: str
    runs: int
    metric: str | None
    flips: int
    unchanged: int
    classes: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Records:
    """The records of the questions that count, from `runs` runs of `versions` versions of the system."""

    questions: tuple[Record, ...]
    runs: int
    versions: int

    def of(self, kind: str) -> list[Record]:
        """The records in a class, those that flip most often first."""
        members = [record for record in self.questions if kind in record.classes]
        return sorted(members, key=lambda record: (-record.flips / max(1, record.unchanged), -record.runs, record.id))

    @property
    def too_few(self) -> str:
        """What can't be told yet; empty if all can."""
        runs = counted(self.runs, "run")
        if self.runs < MIN_RUNS:
            return f"{runs} in the history: too few to tell; from {MIN_RUNS} on."
        if self.runs < SATURATED_RUNS:
            return f"{runs}: too few to call a question saturated; from {SATURATED_RUNS} on."
        return ""

    def json(self) -> dict[str, object]:
        return {
            "runs": self.runs,
            "versions": self.versions,
            "too_few": self.too_few or None,
            "questions": [asdict(record) for record in self.questions],
        }


def records_of(history: History, golden: GoldenSet) -> Records:
    """The record of each sample of `golden` that is no draft, from the runs with the newest run's judge and metrics."""
    samples = [sample for sample in golden if not sample.draft]
    looks = [Look(line, history.samples[line.samples]) for line in history.gated if line.samples][-MAX_RUNS:]
    names = [look.line.system or look.line.commit or look.line.run for look in looks]
    versions = np.unique(names, return_inverse=True)[1]
    empty = np.full((len(looks), len(samples)), np.nan)
    tables = _tables(looks, [sample_code(sample.id, sample.content_hash()) for sample in samples])
    metrics, scores = list(tables) or [""], np.stack(list(tables.values()) or [empty])
    runs = np.isfinite(scores).sum(axis=1).max(axis=0)
    failed = (scores < PASS_MARK).max(axis=(0, 1), initial=False)
    same = np.array([name == following for name, following in pairwise(names)], dtype=np.bool_)[:, None]
    flips, pairs, flaky = (np.stack(part) for part in zip(*(_flips(table, same) for table in scores), strict=True))
    worst = np.argmax(flips + flaky * len(looks), axis=0)
    moved = np.stack([_top(table) + _top(-table) >= _MOVED for table in scores]).max(axis=0)
    highest_recall = _top(tables.get("context_recall", empty))
    disputed = _disputed(tables, versions, empty)
    records = []
    for at, sample in enumerate(samples):
        metric, total = worst[at], counted(int(runs[at]), "run")
        classes: dict[str, str] = {}
        if highest_recall[at] == 0.0 and runs[at] >= MIN_RUNS:
            classes["unwinnable"] = f"context recall 0 in all of {total}"
        elif disputed[at]:
            classes["disputed"] = f"faithful, relevant and wrong in {disputed[at]} of {total}"
        if runs[at] >= MIN_RUNS and flaky[metric, at]:
            share = f"{flips[metric, at]} of {pairs[metric, at]}"
            classes["flaky"] = f"flips in {share} unchanged pairs of runs ({metrics[metric]})"
        if runs[at] >= SATURATED_RUNS and not (failed[at] or moved[at] or classes):
            classes["saturated"] = f"the same in {total}"
        count = int(flips[metric, at])
        flipping = metrics[metric] if count else None
        records.append(Record(sample.id, int(runs[at]), flipping, count, int(pairs[metric, at]), classes))
    return Records(tuple(records), len(looks), len(set(names)))


def _tables(looks: Sequence[Look], codes: Sequence[str]) -> dict[str, Floats]:
    """Metric to scores (runs, questions), more being better, of the runs that are comparable with the newest."""
    tables: dict[str, Floats] = {}
    for metric in sorted(looks[-1].line.scores) if looks else ():
        if is_relative(metric):
            continue
        rows = [at for at, look in enumerate(looks) if incomparable(look.line, looks[-1].line, metric) is None]
        table = np.full((len(looks), len(codes)), np.nan)
        table[rows] = scores_of([looks[at] for at in rows], codes, metric)
        tables[metric] = 1.0 - table if lower_is_better(metric) else table
    return tables


def _flips(table: Floats, same: Bools) -> tuple[NDArray[np.int64], NDArray[np.int64], Bools]:
    """How often each question flipped, of how many pairs of runs of an unchanged system, and whether it is flaky."""
    steps = np.diff(table, axis=0)
    both, moved = np.isfinite(steps), np.abs(steps) >= _MOVED
    others, of = (part.sum(axis=1, keepdims=True) - part for part in (moved, both))
    quiet = both & (same | (others <= (1.0 - _STEADY) * of))
    up, down = (quiet & (way >= _MOVED) for way in (steps, -steps))
    count, pairs = (up | down).sum(axis=0), quiet.sum(axis=0)
    rate = count / np.maximum(1, pairs)
    often = max(_OFTEN, 2.0 * float(np.median(rate))) if rate.size else 1.0
    return count, pairs, (count >= _FLIPS) & (rate >= often) & up.any(axis=0) & down.any(axis=0)


def _top(table: Floats) -> Floats:
    """The highest score of each question; below -1 for none."""
    return np.asarray(np.where(np.isfinite(table), table, -2.0).max(axis=0, initial=-2.0))


def _disputed(tables: Mapping[str, Floats], versions: NDArray[np.int64], none: Floats) -> NDArray[np.int64]:
    """In how many runs the answer to each question looked right and was called wrong; 0 unless again and again."""
    right, sound = tables.get("answer_correctness", none), tables.get("faithfulness", none) >= _RIGHT
    seen = (np.isfinite(right) & np.isfinite(tables.get("faithfulness", none))).sum(axis=0)
    if (relevant := tables.get("answer_relevancy")) is not None:
        middle = [np.median(row[np.isfinite(row)]) if np.isfinite(row).any() else 0.0 for row in relevant]
        sound &= relevant >= np.array(middle)[:, None]
    hits = sound & (right < PASS_MARK)
    count, spread = hits.sum(axis=0), np.zeros(len(seen), int)
    for one in np.unique(versions):
        spread += hits[versions == one].any(axis=0)
    return np.where((seen >= MIN_RUNS) & (count >= _AGAIN * seen) & (spread >= _VERSIONS), count, 0)
