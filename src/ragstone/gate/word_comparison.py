"""Losses that only the word comparison of the offline judge shows. They only warn: the
same facts may be in other words."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from ragstone.evaluation.rewording import Rewording
from ragstone.evaluation.scores import RunScores
from ragstone.gate.bounds import Drop, Floor
from ragstone.gate.evidence import Evidence
from ragstone.gate.verdict import Action, Check
from ragstone.stats.losses import row_means

_OF_CONTEXTS = frozenset({"faithfulness", "hallucination"})
"""Metrics that compare the words of the answer with those of the contexts."""
_OF_REFERENCE = frozenset({"answer_relevancy", "answer_correctness", "completeness"})
"""Metrics that fall if the answer has other words than the question or the
reference."""


def is_by_words(metric: str, sample_id: str, run: RunScores) -> bool:
    """Whether a loss of `metric` by the offline judge proves nothing, because the
    answer has the facts in other words."""
    rewording = run.system.reworded.get(sample_id, Rewording())
    if not run.offline or not rewording.grounded:
        return False
    if metric in _OF_CONTEXTS:
        return True
    has_reference = run.samples[sample_id].reference is not None
    return metric in _OF_REFERENCE and has_reference and rewording.states_reference


def as_by_words(check: Check) -> Check:
    """`check` as one that only words show: it warns, and says so."""
    facts = "the answers still have the numbers, names and words of their references"
    if check.metric in _OF_CONTEXTS:
        facts = "the contexts still have the numbers, names and words of the answers"
    reason = f"{check.reason} Only by word comparison: {facts}."
    return replace(
        check, action=Action.WARN, reason=reason, by_words=True, unsettled=False
    )


def without_word_losses(drops: Sequence[Drop], evidence: Evidence) -> list[Drop]:
    """The `drops`, each without the losses that only the words of the offline judge
    show."""
    without_losses = []
    for drop in drops:
        change = drop.change
        by_words = _only_by_words(drop.rule.metric, drop.samples, evidence)
        lost = np.logical_and(by_words, drop.values < 0.0)
        after = change.after.copy()
        means_before = row_means(change.before)
        after[lost] = means_before[lost, None]
        without_loss = replace(change, after=after)
        without_losses.append(replace(drop, change=without_loss))
    return without_losses


def floor_without_word_losses(floor: Floor, evidence: Evidence) -> Floor:
    """`floor` with the baseline's scores of the samples whose loss only the words of
    the offline judge show."""
    pairing = evidence.compared
    metric = floor.rule.metric
    values = floor.values.copy()
    paired = pairing.changes(metric)
    by_words = _only_by_words(metric, floor.samples, evidence)
    for index in np.flatnonzero(by_words):
        sample_id = floor.samples[index]
        if sample_id in paired:
            before = pairing.baseline.metrics[metric].values[sample_id]
            baseline_value = floor.rule.direction.reported(before)
            values[index] = max(values[index], baseline_value)
    return replace(floor, values=values)


def _only_by_words(
    metric: str, samples: Sequence[str], evidence: Evidence
) -> NDArray[np.bool_]:
    """Whether a loss of each of `samples` (n,) proves nothing but other words."""
    run = evidence.current
    by_words = [is_by_words(metric, sample_id, run) for sample_id in samples]
    return np.array(by_words, dtype=np.bool_)
