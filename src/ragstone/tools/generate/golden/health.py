"""`ragstone golden health`: the record of each question, from the history, labels by people and the documents."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from ragstone.formatting import counted
from ragstone.gate.policy import Policy
from ragstone.gate.resolution import expected_rules, sights, visible, watched_drops
from ragstone.golden.sample import GoldenSet
from ragstone.history.codes import sample_code
from ragstone.history.file import History
from ragstone.history.level import Look, incomparable, scores_of
from ragstone.metrics.registry import is_relative
from ragstone.report.templates import render_text_template
from ragstone.tools.judging.labels import ADJUDICATED, PASS_MARK, Labels

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

MIN_RUNS = 5
"""Runs from which a question can be called anything."""
DEAD_RUNS = 20
"""Runs from which a question that never failed can be called dead wood."""
MAX_LOOKS = 200
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
    "unwinnable": "Their evidence was never found. Add the document, or remove the question:",
    "flaky": "They flip while nothing changes. Make one answer right; they can be drafts until then:",
    "dead wood": "They never failed and never moved. Make them harder, or ask them at night:",
}
"""The classes of questions that need something done, and what."""


@dataclass(frozen=True, slots=True)
class Record:
    """What is known of a question over `runs` runs.

    A score of it flipped (`metric` most often) in `flips` of `unchanged` pairs of runs. `adds` is its share of what
    tells versions apart. `found` are the classes it is in, with the reason.
    """

    id: str
    runs: int
    metric: str | None
    flips: int
    unchanged: int
    failed: bool
    moved: bool
    adds: float
    found: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Health:
    """The records of a golden set of `samples` questions that count, from `runs` runs of `versions` versions.

    `smallest` is the smallest loss that shows in 4 of 5 runs.
    """

    records: tuple[Record, ...]
    runs: int
    versions: int
    samples: int
    smallest: float | None

    def of(self, kind: str) -> list[Record]:
        """The records in a class, the worst first."""
        return _worst_first(self.records, kind)

    @property
    def too_few(self) -> str:
        """What can't be told yet; empty if all can."""
        runs = counted(self.runs, "run")
        if self.runs < MIN_RUNS:
            return f"{runs} in the history: too few to tell; from {MIN_RUNS} on."
        return f"{runs}: too few to call a question dead wood; from {DEAD_RUNS} on." if self.runs < DEAD_RUNS else ""

    def text(self) -> str:
        most = sorted((one for one in self.records if "flaky" not in one.found), key=lambda one: -one.adds)
        return render_text_template("health.txt.j2", __package__, found=self, advice=ADVICE, most=most)

    def json(self) -> dict[str, object]:
        return {
            **{name: getattr(self, name) for name in ("runs", "versions", "samples", "smallest")},
            "too_few": self.too_few or None,
            "questions": [asdict(one) for one in self.records],
        }


def health_of(
    history: History,
    golden: GoldenSet,
    policy: Policy,
    *,
    labels: Labels | None = None,
    missing: Collection[str] = (),
    offline: bool = False,
) -> Health:
    """The record of each sample of `golden` that is no draft; `missing` are those whose evidence no document has."""
    rules = watched_drops(expected_rules(policy, None, offline=offline))
    samples = [sample for sample in golden if not sample.draft]
    looks = [Look(one, history.samples[one.samples]) for one in history.gated if one.samples][-MAX_LOOKS:]
    names = [look.line.system or look.line.commit or look.line.run for look in looks]
    n, versions = len(samples), np.unique(names, return_inverse=True)[1]
    none = np.full((len(looks), n), np.nan)
    tables = _tables(looks, [sample_code(one.id, one.content_hash()) for one in samples], policy)
    same = np.array([one == other for one, other in pairwise(names)], dtype=np.bool_)[:, None]
    kinds, every = list(tables) or [""], np.stack(list(tables.values()) or [none])
    seen, failed = np.isfinite(every).sum(axis=1).max(axis=0), (every < PASS_MARK).max(axis=(0, 1), initial=False)
    each = [_flips(table, same) for table in every]
    count, pairs, flaky = (np.stack(part) for part in zip(*each, strict=True))
    worst = np.argmax(count + flaky * len(looks), axis=0)
    moved = np.stack([_top(table) + _top(-table) >= _MOVED for table in every]).max(axis=0)
    recall, disputed = tables.get("context_recall", none), _disputed(tables, versions, none)
    shares = [_share(tables[rule.metric], versions) for rule in rules if rule.metric in tables]
    adds = np.mean(shares, axis=0) if shares else np.zeros(n)
    records = []
    for at, one in enumerate(samples):
        found, most, total = dict[str, str](), worst[at], counted(int(seen[at]), "run")
        if one.id in missing:
            found["unwinnable"] = "its evidence is in no document"
        elif _top(recall)[at] == 0.0 and seen[at] >= MIN_RUNS:
            found["unwinnable"] = f"context recall 0 in all of {total}"
        elif disputed[at]:
            found["disputed"] = f"faithful, relevant and wrong in {disputed[at]} of {total}"
        elif labels is not None and (said := _labelled(labels, one.id, {name: tables[name][:, at] for name in tables})):
            found["disputed"] = said
        if seen[at] >= MIN_RUNS and flaky[most, at]:
            pair = f"{count[most, at]} of {pairs[most, at]}"
            found["flaky"] = f"flips in {pair} unchanged pairs of runs ({kinds[most]})"
        if seen[at] >= DEAD_RUNS and not (failed[at] or moved[at] or found):
            found["dead wood"] = f"the same in {total}"
        facts = (int(count[most, at]), int(pairs[most, at]), bool(failed[at]), bool(moved[at]), float(adds[at]))
        records.append(Record(one.id, int(seen[at]), kinds[most] if count[most, at] else None, *facts, found))
    smallest = visible(sights(rules, policy, None, samples=n))
    return Health(tuple(records), len(looks), len(set(names)), n, smallest)


def _worst_first(records: Iterable[Record], kind: str) -> list[Record]:
    found = (one for one in records if kind in one.found)
    return sorted(found, key=lambda one: (-one.flips / max(1, one.unchanged), -one.runs, one.id))


def _tables(looks: Sequence[Look], codes: Sequence[str], policy: Policy) -> dict[str, Floats]:
    """Metric to scores (runs, questions), more being better, of the runs that are comparable with the newest."""
    found: dict[str, Floats] = {}
    for metric in sorted(looks[-1].line.scores) if looks else ():
        rows = [at for at, one in enumerate(looks) if incomparable(one.line, looks[-1].line, metric) is None]
        table = np.full((len(looks), len(codes)), np.nan)
        table[rows] = scores_of([looks[at] for at in rows], codes, metric)
        if not is_relative(metric):
            found[metric] = 1.0 - table if policy.lower_is_better(metric) else table
    return found


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


def _labelled(labels: Labels, sample_id: str, scores: Mapping[str, Floats]) -> str | None:
    """How labels by people contradict each other, or the scores of most runs; None if they don't."""
    for metric, by_id in labels.by_metric.items():
        each, found = by_id.get(sample_id, {}), scores.get(metric)
        if not each:
            continue
        if ADJUDICATED not in each and min(each.values()) < PASS_MARK <= max(each.values()):
            return f"people disagree on {metric}"
        known = np.array([]) if found is None else found[np.isfinite(found)]
        if known.size and np.mean(known >= PASS_MARK) < PASS_MARK <= labels.mean(metric)[sample_id]:
            return f"people call its answer right, and most runs wrong ({metric})"
    return None


def _share(table: Floats, versions: NDArray[np.int64]) -> Floats:
    """The share of each question in the variance of the mean between versions; 0 if they don't differ.

    The variance of a mean is the mean of the covariances of its parts with it, so the shares add up to 1.
    """
    means = np.stack([_mean(table[versions == one]) for one in np.unique(versions)])
    parts = np.where(np.isfinite(means), means, _mean(means)) - _mean(means)
    parts = np.nan_to_num(parts)
    whole = parts.mean(axis=1)
    total = float((whole**2).mean()) * table.shape[1]
    return (parts * whole[:, None]).mean(axis=0) / total if total > 1e-12 else np.zeros(table.shape[1])


def _mean(table: Floats) -> Floats:
    """The mean of the known scores of each question; NaN for none."""
    known = np.isfinite(table)
    counts = np.where(known.any(axis=0), known.sum(axis=0), np.nan)
    return np.asarray(np.where(known, table, 0.0).sum(axis=0) / counts)
