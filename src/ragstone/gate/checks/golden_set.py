"""Does an edit of the golden set take too many questions out of the comparison, or hide that they got worse?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from ragstone.evaluation.manifest import GOLDEN_SET
from ragstone.formatting import counted, listed, percent, score
from ragstone.gate.bounds import BoundCheck, questions
from ragstone.gate.checks.checker import Checker
from ragstone.gate.checks.drops import COLLAPSE, Drop, decide_drops
from ragstone.gate.comparability import Pairing, other_half, outdated, same_question
from ragstone.gate.evidence import Evidence
from ragstone.gate.golden_set_change import left_out
from ragstone.gate.rules import Rule
from ragstone.gate.verdict import Action, Check, CheckKind, Status

_ROUNDING = 1e-6

MIN_COLLAPSED = 2
"""One edited question alone may have become a harder one, even if its scores fell to nothing."""

_SHOWN_METRICS = 2


class GoldenSetEdits(Checker):
    """An error if more of the baseline's questions are edited than is allowed; inconclusive if the edited ones fell.

    An edited question is removed, reworded, turned into a draft, or has other labels for a metric with an allowed drop
    that scored it. One may always be, and an accepted edit counts for nothing. Whatever the number, the scores under
    the same ids are compared as a group: a change must not break questions and reword them in one.
    """

    kinds = (CheckKind.GOLDEN_SET,)
    policy_key = ("gate", "max_edited")
    heading = "Golden set"
    share = True
    at = "at most"

    def evaluate(self, evidence: Evidence) -> Iterator[Check]:
        pairing = evidence.pairing
        if pairing is None or other_half(pairing.current, pairing.baseline) is not None:
            return
        edited = edited_samples(evidence, pairing)
        entry = evidence.policy.widened.get((GOLDEN_SET, None))
        accepted = 0 if entry is None else int(entry.drop * edited.total + _ROUNDING)
        if edited.count > accepted + _allowed(evidence, edited):
            yield _too_many(evidence, edited, accepted)
        if edited.count > accepted:
            yield from _fell(evidence, pairing, edited)


@dataclass(frozen=True, slots=True)
class EditedSamples:
    """The samples of a baseline that a run does not have as they were, of `total` but for those the gate left out.

    `reworded` are in both runs, with another question; `relabelled` have other labels for a metric that is compared;
    `removed` counts those that the run does not have.
    """

    removed: int
    reworded: frozenset[str]
    relabelled: frozenset[str]
    total: int

    @property
    def count(self) -> int:
        return self.removed + len(self.reworded) + len(self.relabelled)


def edited_samples(evidence: Evidence, pairing: Pairing) -> EditedSamples:
    """What of the baseline the run does not have as it was."""
    current, baseline = pairing.current, pairing.baseline
    missing = sum(name not in current.samples for name in baseline.samples)
    unevaluated = left_out(current, missing, len(baseline.samples))
    common = [name for name in baseline.samples if name in current.samples]
    reworded = frozenset(name for name in common if not same_question(current, baseline, name))
    compared = {rule.metric for rule in evidence.rules if rule.max_drop is not None} & baseline.metrics.keys()
    relabelled = {
        name for metric in compared for name in pairing.edited_for(metric) if name in baseline.metrics[metric].values
    }
    return EditedSamples(
        removed=missing - unevaluated,
        reworded=reworded,
        relabelled=frozenset(relabelled) - reworded,
        total=len(baseline.samples) - unevaluated,
    )


def _allowed(evidence: Evidence, edited: EditedSamples) -> int:
    """How many may be edited: one always, but never all, or nothing would be compared."""
    allowed = max(1, int(evidence.policy.gate.max_edited * edited.total + _ROUNDING))
    return min(allowed, edited.total - 1)


def _too_many(evidence: Evidence, edited: EditedSamples, accepted: int) -> Check:
    share, limit = edited.count / edited.total, evidence.policy.gate.max_edited
    kinds = {
        "removed or turned into drafts": edited.removed,
        "reworded": len(edited.reworded),
        "relabelled": len(edited.relabelled),
    }
    parts = [f"{count:,} {word}" for word, count in kinds.items() if count]
    covered = f" ({min(accepted, edited.count):,} of them accepted)" if accepted else ""
    return Check(
        name="golden_set.edited",
        kind=CheckKind.GOLDEN_SET,
        status=Status.ERROR,
        action=Action.BLOCK,
        reason=f"{edited.count:,} of {counted(edited.total, 'question')} of the baseline can't be compared, because "
        f"the golden set changed: {listed(parts)}{covered} ({percent(share)}, at most {percent(limit)} may). If that "
        f"is meant, accept it: ragstone accept --metric '{GOLDEN_SET}'.",
        estimate=share,
        threshold=limit,
        current=share,
        n=edited.total,
    )


def _fell(evidence: Evidence, pairing: Pairing, edited: EditedSamples) -> Iterator[Check]:
    """Inconclusive if the mean of the edited questions fell in a blocking metric as a drop that would be seen."""
    drops = [drop for rule in evidence.rules if _is_compared(rule) for drop in _group(rule, pairing, edited)]
    fallen = [drop.check for drop in decide_drops(drops, evidence) if drop.fails or drop.suspected or _collapsed(drop)]
    if not fallen:
        return
    fallen.sort(key=lambda drop: (float(drop.values.mean()), drop.rule.metric))
    moves = [f"{drop.rule.metric} {_moved(drop)}" for drop in fallen[:_SHOWN_METRICS]]
    n = len(fallen[0].values)
    yield Check(
        name="golden_set.fell",
        kind=CheckKind.GOLDEN_SET,
        status=Status.INCONCLUSIVE,
        action=Action.BLOCK,
        reason=f"{counted(n, 'edited question')} scored better before the edit: {listed(moves)}. Are they harder now, "
        "or did the system get worse?",
        estimate=edited.count / edited.total,
        current=fallen[0].current,
        baseline=fallen[0].baseline,
        n=n,
    )


def _collapsed(drop: Drop) -> bool:
    several = len(drop.check.values) >= MIN_COLLAPSED
    return several and drop.interval.estimate - drop.check.unchanged <= COLLAPSE - 1.0


def _is_compared(rule: Rule) -> bool:
    return rule.slice is None and rule.max_drop is not None and rule.drop_action is Action.BLOCK


def _group(rule: Rule, pairing: Pairing, edited: EditedSamples) -> Iterator[BoundCheck]:
    """The drop of `rule` on the edited questions that both runs have, with their ids for the only thing in common."""
    if rule.metric in outdated(pairing.current, pairing.baseline) or rule.metric not in pairing.current.metrics:
        return
    ids = edited.reworded | (edited.relabelled & pairing.edited_for(rule.metric))
    comparability = replace(pairing.comparability, comparable=True, metrics=(rule.metric,))
    group = Pairing(pairing.current, pairing.baseline, comparability, tuple(sorted(ids)))
    yield from questions(pairing.current, group, [replace(rule, min=None)])


def _moved(drop: BoundCheck) -> str:
    shown = (1.0 - mean if drop.rule.lower_is_better else mean for mean in (drop.baseline or 0.0, drop.current))
    return " → ".join(map(score, shown))
