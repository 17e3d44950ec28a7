"""Losses that only the words of the offline judge show: they warn, because the same
facts may be worded otherwise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ragstone.evaluation.rewording import Rewording
from ragstone.gate.bounds import BoundCheck
from ragstone.gate.evidence import Evidence
from ragstone.stats.losses import row_means

_OF_CONTEXTS = frozenset({"faithfulness", "hallucination"})
"""Metrics that compare the answer's words with those of the contexts."""
_OF_REFERENCE = frozenset({"answer_relevancy", "answer_correctness", "completeness"})
"""Metrics that fall with other words than the question's or the reference's."""


def is_by_words(metric: str, words: Rewording | None, *, has_reference: bool) -> bool:
    """Whether a loss of `metric` by the offline judge shows nothing, because the
    answer's `words` have the facts."""
    if words is None or not words.grounded:
        return False
    if metric in _OF_CONTEXTS:
        return True
    return metric in _OF_REFERENCE and has_reference and words.states_reference


def words_reason(metric: str | None) -> str:
    """Why a loss of `metric` only warns, as a sentence."""
    if metric in _OF_CONTEXTS:
        return "Only by word comparison: the contexts still have the numbers, names and words of the answers."
    return "Only by word comparison: the answers still have the numbers, names and words of their references."


def without_word_losses(
    drops: Sequence[BoundCheck], evidence: Evidence
) -> list[BoundCheck]:
    """The `drops`, each without the losses that only the words of the offline judge
    show."""
    if not evidence.offline or not evidence.current.system.reworded:
        return list(drops)
    kept = []
    for drop in drops:
        lost = np.logical_and(_only_by_words(drop, evidence), drop.values < 0.0)
        if drop.change is not None and lost.any():
            now = drop.change.now.copy()
            now[lost] = row_means(drop.change.then)[lost, None]
            values = np.where(lost, 0.0, drop.values)
            drop = replace(drop, values=values, change=replace(drop.change, now=now))
        kept.append(drop)
    return kept


def floor_without_word_losses(floor: BoundCheck, evidence: Evidence) -> BoundCheck:
    """`floor` with the baseline's scores of the samples that lost by nothing but the
    words of the offline judge."""
    pairing = evidence.compared
    if not evidence.offline or pairing is None:
        return floor
    values = floor.values.copy()
    paired = pairing.changes(floor.rule.metric)
    for place in np.flatnonzero(_only_by_words(floor, evidence)):
        sample_id = floor.samples[place]
        if sample_id in paired:
            before = pairing.baseline.metrics[floor.rule.metric].values[sample_id]
            values[place] = max(values[place], floor.rule.direction.shown(before))
    return replace(floor, values=values, current=float(values.mean()))


def _only_by_words(check: BoundCheck, evidence: Evidence) -> NDArray[np.bool_]:
    """A mask over the samples of `check`: those of which a loss shows nothing but other
    words."""
    run = evidence.current
    only_words = []
    for sample_id in check.samples:
        rewording = run.system.reworded.get(sample_id)
        has_reference = run.samples[sample_id].reference is not None
        only_words.append(
            is_by_words(check.rule.metric, rewording, has_reference=has_reference)
        )
    return np.array(only_words, dtype=np.bool_)
