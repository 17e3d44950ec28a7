"""Does an edit of the golden set take too many questions out of the comparison, or hide
that they got worse?"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from ragstone.evaluation.manifest import GOLDEN_SET
from ragstone.formatting import counted, listed, percent, score, tally
from ragstone.gate.accepted import AcceptedEntry
from ragstone.gate.bounds import BoundCheck, questions
from ragstone.gate.checks.checker import Checker, limit_check
from ragstone.gate.checks.drops import Drop, decide_drops
from ragstone.gate.comparability import Pairing, other_half, outdated, same_question
from ragstone.gate.evidence import Evidence
from ragstone.gate.golden_set_change import left_out
from ragstone.gate.rules import Rule
from ragstone.gate.verdict import Action, Check, CheckKind, Status

_ROUNDING = 1e-6

MIN_COLLAPSED = 2
"""One edited question alone may have become a harder one, even if its scores fell to
nothing."""


class GoldenSetEdits(Checker):
    """An error if more of the baseline's questions are edited than is allowed;
    inconclusive if the edited ones fell.

    An edited question is removed, reworded, turned into a draft, or has other labels
    for a metric with an allowed drop that scored it. One may always be, and exactly the
    edit that was accepted counts for nothing. Whatever the number, the scores under the
    same ids are compared as a group: a change must not break questions and reword them
    in one.
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
        accepted = evidence.policy.accepted_edits
        if any(entry.edit == edited.fingerprint for entry in accepted):
            return
        # One may always be edited, but never all, or nothing would be compared.
        limit = evidence.policy.gate.max_edited
        allowed = min(max(1, int(limit * edited.total + _ROUNDING)), edited.total - 1)
        if edited.count > allowed:
            yield _too_many(edited, accepted, limit)
        yield from _fell(evidence, pairing, edited)


@dataclass(frozen=True, slots=True)
class EditedSamples:
    """The samples of a baseline that a run does not have as they were."""

    removed: int
    """Those that the run does not have."""
    reworded: frozenset[str]
    """Those that ask another question."""
    relabelled: frozenset[str]
    """Those with other labels for a metric that is compared."""
    total: int
    """All samples of the baseline, but for those that the gate left out."""
    fingerprint: str
    """That of the ids and contents of the edited samples, before and after: 16
    hexadecimal digits."""

    @property
    def count(self) -> int:
        return self.removed + len(self.reworded) + len(self.relabelled)


def edited_samples(evidence: Evidence, pairing: Pairing) -> EditedSamples:
    """What of the baseline the run does not have as it was."""
    current = pairing.current
    baseline = pairing.baseline
    missing = baseline.samples.keys() - current.samples.keys()
    unevaluated = left_out(current, len(missing), len(baseline.samples))
    reworded = frozenset(
        sample_id
        for sample_id in baseline.samples.keys() & current.samples.keys()
        if not same_question(current, baseline, sample_id)
    )
    relabelled: set[str] = set()
    for rule in evidence.rules:
        if rule.max_drop is not None and rule.metric in baseline.metrics:
            scored = baseline.metrics[rule.metric].values.keys()
            relabelled |= pairing.edited_for(rule.metric) & scored
    return EditedSamples(
        removed=len(missing) - unevaluated,
        reworded=reworded,
        relabelled=frozenset(relabelled) - reworded,
        total=len(baseline.samples) - unevaluated,
        fingerprint=_fingerprint(pairing, {*missing, *reworded, *relabelled}),
    )


def _fingerprint(pairing: Pairing, samples: Collection[str]) -> str:
    """That of what became of these samples of the baseline: any other edit has another
    one."""
    edits = []
    for sample_id in sorted(samples):
        content = pairing.current.samples.get(sample_id)
        now = None if content is None else content.content_hash
        edits.append([sample_id, pairing.baseline.samples[sample_id].content_hash, now])
    return hashlib.sha256(json.dumps(edits).encode()).hexdigest()[:16]


def _too_many(
    edited: EditedSamples, accepted: Sequence[AcceptedEntry], limit: float
) -> Check:
    share = edited.count / edited.total
    counts = {
        "removed or turned into drafts": edited.removed,
        "reworded": len(edited.reworded),
        "relabelled": len(edited.relabelled),
    }
    another = ""
    if accepted:
        another = f" {listed([entry.id for entry in accepted])} accepts another edit."
    reason = (
        f"{edited.count:,} of {counted(edited.total, 'question')} of the baseline can't be compared, because the "
        f"golden set changed: {listed(tally(counts))} ({percent(share)}, at most {percent(limit)} may).{another} If "
        f"that is meant, accept it: ragstone accept --metric '{GOLDEN_SET}'."
    )
    check = limit_check(
        "golden_set.edited",
        CheckKind.GOLDEN_SET,
        Status.ERROR,
        reason,
        value=share,
        limit=limit,
        n=edited.total,
    )
    return replace(check, edit=edited.fingerprint)


def _fell(
    evidence: Evidence, pairing: Pairing, edited: EditedSamples
) -> Iterator[Check]:
    """Inconclusive if the mean of the edited questions fell in a blocking metric as a
    drop that would be seen."""
    drops: list[BoundCheck] = []
    for rule in evidence.rules:
        drops += _group(rule, pairing, edited)
    decided, _ = decide_drops(drops, evidence)
    fallen = [
        drop.check
        for drop in decided
        if drop.fails or drop.suspected or _collapsed(drop)
    ]
    if not fallen:
        return
    worst = min(fallen, key=lambda drop: (float(drop.values.mean()), drop.rule.metric))
    n = len(worst.values)
    shown = worst.rule.direction.shown
    moved = f"{worst.rule.metric} {score(shown(worst.baseline or 0.0))} → {score(shown(worst.current))}"
    yield Check(
        name="golden_set.fell",
        kind=CheckKind.GOLDEN_SET,
        status=Status.INCONCLUSIVE,
        action=Action.BLOCK,
        reason=f"{counted(n, 'edited question')} scored better before the edit: {moved}. Are they harder now, or did "
        "the system get worse?",
        estimate=edited.count / edited.total,
        current=worst.current,
        baseline=worst.baseline,
        n=n,
        edit=edited.fingerprint,
    )


def _collapsed(drop: Drop) -> bool:
    return len(drop.check.values) >= MIN_COLLAPSED and drop.is_collapse


def _group(rule: Rule, pairing: Pairing, edited: EditedSamples) -> Iterator[BoundCheck]:
    """The drop of `rule`, if it blocks, on the edited questions that both runs have,
    with their ids for the only thing in common."""
    blocks = (
        rule.slice is None
        and rule.max_drop is not None
        and rule.drop_action is Action.BLOCK
    )
    is_scored_alike = rule.metric not in outdated(pairing.current, pairing.baseline)
    if blocks and is_scored_alike and rule.metric in pairing.current.metrics:
        ids = edited.reworded | (edited.relabelled & pairing.edited_for(rule.metric))
        comparability = replace(
            pairing.comparability, comparable=True, metrics=(rule.metric,)
        )
        group = Pairing(
            pairing.current, pairing.baseline, comparability, tuple(sorted(ids))
        )
        yield from questions(pairing.current, group, [replace(rule, min=None)])
