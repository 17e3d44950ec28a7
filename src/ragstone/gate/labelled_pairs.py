"""The change between two runs by people who labelled both answers to some questions: the judge's, corrected."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterator, Mapping

import numpy as np

from ragstone.formatting import change, counted, percent
from ragstone.gate.calibration import Calibration, Estimate, LabelledChange
from ragstone.gate.comparability import Pairing
from ragstone.gate.grouping import group_labels
from ragstone.run.record import SampleRecord
from ragstone.stats.ppi import powered_difference

Find = Callable[[tuple[str, ...]], Mapping[str, SampleRecord]]


def changed_pairs(pairing: Pairing, metric: str) -> dict[str, float]:
    """The change of `metric` for each sample whose answer or contexts differ: of others, people say the same."""
    now, then = pairing.current.system, pairing.baseline.system
    return {
        name: value
        for name, value in zip(pairing.pairs(metric), pairing.changes(metric), strict=True)
        if now.answers.get(name, ()) != then.answers.get(name) or now.contexts.get(name) != then.contexts.get(name)
    }


def digests(names: tuple[str, ...], now: Find, then: Find) -> dict[str, tuple[str, ...]]:
    """Digests of what people read of both answers to each of `names`: text and contexts."""
    sides = now(names), then(names)
    return {name: tuple(_digest(side[name]) for side in sides if name in side) for name in names}


def _digest(record: SampleRecord) -> str:
    texts = [record.response.answer, *(one.text for one in record.response.contexts)]
    return hashlib.sha256(json.dumps(texts).encode()).hexdigest()[:16]


def labelled_change(
    pairing: Pairing, metric: str, people: Mapping[str, float], shares: Mapping[str, float], confidence: float = 0.95
) -> LabelledChange:
    """The mean change of `metric` over all pairs that are compared, from the changes that `people` see in some.

    `people` are by id, of `changed_pairs`, at least one; `shares` are the probabilities with which those were drawn.
    """
    changed, compared = changed_pairs(pairing, metric), pairing.changes(metric)
    found = powered_difference(
        np.array(list(people.values()), dtype=np.float64),
        np.array([changed[name] for name in people], dtype=np.float64),
        np.array([shares.get(name, len(people) / len(changed)) for name in people], dtype=np.float64),
        np.array(list(changed.values()), dtype=np.float64),
        confidence=confidence,
        groups=group_labels(pairing.current, list(people)),
    )
    # An answer that is as it was is as good as it was.
    mean, low, high = (len(changed) / len(compared) * one for one in (found.estimate, found.low, found.high))
    by_people = Estimate(estimate=mean, low=low, high=high, confidence=confidence, method=found.method)
    return LabelledChange(judge=float(np.mean(compared)), people=by_people, changed=len(changed), texts={})


def labelled_notes(calibration: Calibration, pairing: Pairing, now: Find, then: Find) -> Iterator[str]:
    """Notes on changes that people labelled, as long as answers and scores are those that they labelled."""
    for metric, one in calibration.changes.items():
        compared = pairing.changes(metric) if metric in pairing.metrics else []
        same = compared and math.isclose(float(np.mean(compared)), one.judge, abs_tol=1e-9)
        if same and digests(tuple(one.texts), now, then) == one.texts:
            yield f"{change_words(metric, one)} Labels of pairs change no verdict."


def change_words(metric: str, one: LabelledChange) -> str:
    """``By people, faithfulness changed by −0.01 (95 % interval −0.05 to +0.03), by the judge alone by −0.06…``."""
    interval = f"{change(one.people.low)} to {change(one.people.high)}"
    return (
        f"By people, {metric} changed by {change(one.people.estimate)} ({percent(one.people.confidence)} interval "
        f"{interval}), by the judge alone by {change(one.judge)}: labels of both answers to "
        f"{counted(len(one.texts), 'question')}, of {one.changed} with another answer."
    )
