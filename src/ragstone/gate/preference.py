"""What a report says about a comparison of answers with those of the baseline."""

from __future__ import annotations

from collections.abc import Iterator

from ragstone.formatting import counted, most_common
from ragstone.gate.evidence import Evidence
from ragstone.judge.preference import SAME
from ragstone.metrics.pairwise import EQUAL, ORDER, PairwisePreference
from ragstone.stats.intervals import p_proportion_at_most

NAME = PairwisePreference.info.name


def preference_warnings(evidence: Evidence) -> Iterator[str]:
    """The warning that a floor on the preference was not checked."""
    scores = evidence.current.metrics.get(NAME)
    if (
        scores is None
        or scores.values
        or scores.failed
        or not any(rule.metric == NAME for rule in evidence.rules)
    ):
        return
    reasons = [
        why for why in scores.not_applicable.values() if why not in (SAME, EQUAL, ORDER)
    ]
    if reasons:
        yield f"{NAME} was not checked: {most_common(reasons)}."


def preference_notes(evidence: Evidence) -> Iterator[str]:
    """Wins, ties and losses, with an exact sign test and how often the choice depended
    on the order."""
    scores = evidence.current.metrics.get(NAME)
    if scores is None:
        return
    reasons = list(scores.not_applicable.values())
    wins = sum(value > 0.5 for value in scores.values.values())
    decided = len(scores.values)
    losses = decided - wins
    order = reasons.count(ORDER)
    ties = reasons.count(EQUAL) + order
    if not decided + ties:
        return
    answers = counted(decided + ties, "changed answer")
    text = f"Of {answers}, {wins} are better than the baseline's, {losses} worse, {ties} tied"
    if decided:
        p = min(1.0, 2.0 * p_proportion_at_most(max(wins, losses), decided, 0.5))
        text += f" (exact sign test: p = {p:.2g})"
    yield f"{text}. The judge's choice depended on the order of the two in {order}."
