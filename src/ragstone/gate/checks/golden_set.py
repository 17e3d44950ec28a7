"""Does an edit of the golden set take too many questions out of the comparison, or hide
that they got worse?"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator

from msgspec import Struct
from msgspec.structs import replace

from ragstone.evaluation.manifest import GOLDEN_SET
from ragstone.formatting import counted, percent, score
from ragstone.gate.bounds import Drop, drops_of
from ragstone.gate.checks.checker import Checker, limit_check
from ragstone.gate.checks.drops import decide_drops
from ragstone.gate.comparability import (
    Pairing,
    difference_of_halves,
    scoring_differences,
)
from ragstone.gate.evidence import Evidence
from ragstone.gate.golden_set_change import count_unevaluated
from ragstone.gate.verdict import Action, Check, CheckKind, Status

_ROUNDING = 1e-6
"""Added before a number of questions is rounded down: 0.29 × 100 is not 29 in binary."""

MIN_FALLEN_QUESTIONS = 2
"""One edited question alone may have become harder, even if its scores fell to 0."""


class GoldenSetEdits(Checker):
    """An error if more questions of the baseline are edited than is allowed;
    inconclusive if the scores of the edited ones fell.

    A question is edited if it is removed, reworded, turned into a draft, or has other
    labels for a metric with an allowed drop that scored it. One may always be edited,
    and an edit that was accepted is not checked. Whatever their number, the scores of
    edited questions are compared under the same ids: a change must not hide that it
    breaks questions by rewording them.
    """

    kinds = (CheckKind.GOLDEN_SET,)
    policy_key = ("gate", "max_edited")
    heading = "Golden set"
    is_share = True
    comparison = "at most"

    def evaluate(self, evidence: Evidence) -> Iterator[Check]:
        edited = edited_samples(evidence)
        if edited is None:
            return
        accepted = evidence.policy.accepted_in_force
        if (GOLDEN_SET, edited.fingerprint) in accepted:
            return
        # One may always be edited, but never all, or nothing would be compared.
        limit = evidence.policy.gate.max_edited
        total = edited.total
        allowed = max(1, int(limit * total + _ROUNDING))
        allowed = max(0, min(allowed, total - 1))
        share = edited.count / max(1, total)
        if edited.count > allowed:
            another = ""
            if any(metric == GOLDEN_SET for metric, _ in accepted):
                another = " What is accepted is another edit."
            questions = counted(total, "question")
            reason = (
                f"{edited.count:,} of {questions} of the baseline can't be compared, because "
                f"they are removed, reworded, relabelled or drafts now ({percent(share)}, at most {percent(limit)} "
                f"may).{another} If that is meant, accept it: ragstone accept --metric '{GOLDEN_SET}'."
            )
            check = limit_check(
                "golden_set.edited",
                CheckKind.GOLDEN_SET,
                Status.ERROR,
                reason,
                value=share,
                limit=limit,
                n=total,
            )
            yield replace(check, edit=edited.fingerprint)
        fallen = _drops_of_edited(evidence, edited)
        if fallen:
            worst = max(fallen, key=lambda check: abs(check.estimate or 0.0))
            moved = f"{worst.metric} {score(worst.baseline)} → {score(worst.current)}"
            questions = counted(worst.n, "edited question")
            yield Check(
                "golden_set.fell",
                CheckKind.GOLDEN_SET,
                Status.INCONCLUSIVE,
                Action.BLOCK,
                f"{questions} scored better before the edit: {moved}. Are they harder now, or "
                "did the system get worse?",
                estimate=share,
                current=worst.current,
                baseline=worst.baseline,
                n=worst.n,
                edit=edited.fingerprint,
            )


class EditedSamples(Struct, frozen=True):
    """The samples of a baseline that a run does not have as they were."""

    count: int
    """The number of edited samples."""
    reworded: frozenset[str]
    """The ids that ask another question."""
    relabelled: frozenset[str]
    """The ids with other labels for a metric that is compared."""
    total: int
    """The number of samples of the baseline, without those that the gate did not
    evaluate in this run."""
    fingerprint: str
    """16 hexadecimal digits that identify the edited samples and their contents, before
    and after the edit."""


def edited_samples(evidence: Evidence) -> EditedSamples | None:
    """The samples of the baseline that the run does not have as they were; None if the
    baseline is of another half of the system."""
    pairing = evidence.pairing
    if difference_of_halves(pairing.current, pairing.baseline) is not None:
        return None
    current = pairing.current
    baseline = pairing.baseline
    missing = baseline.samples.keys() - current.samples.keys()
    total = len(baseline.samples)
    unevaluated = count_unevaluated(current, len(missing), total)
    in_both = baseline.samples.keys() & current.samples.keys()
    reworded = frozenset(in_both - set(pairing.samples))
    relabelled: set[str] = set()
    for rule in evidence.rules:
        if rule.max_drop is not None and rule.metric in baseline.metrics:
            scored = baseline.metrics[rule.metric].values.keys()
            edited_labels = pairing.samples_edited_for(rule.metric)
            relabelled |= edited_labels & scored
    edited = missing | reworded | relabelled
    edits = []
    for sample_id in sorted(edited):
        content = current.facts_of(sample_id).content_hash
        baseline_content = baseline.samples[sample_id].content_hash
        edits.append([sample_id, baseline_content, content])
    digest = hashlib.sha256(json.dumps(edits).encode())
    return EditedSamples(
        count=len(edited) - unevaluated,
        reworded=reworded,
        relabelled=frozenset(relabelled),
        total=total - unevaluated,
        fingerprint=digest.hexdigest()[:16],
    )


def _drops_of_edited(evidence: Evidence, edited: EditedSamples) -> list[Check]:
    """The checks that do not pass of blocking drops on the edited questions, if these
    are compared with what had the same id."""
    pairing = evidence.pairing
    drops: list[Drop] = []
    incomparable = scoring_differences(pairing.current, pairing.baseline)
    for rule in evidence.rules:
        metric = rule.metric
        is_scored = metric in pairing.current.metrics and metric not in incomparable
        if is_scored and rule.slice is None and rule.drop_action is Action.BLOCK:
            relabelled = edited.relabelled & pairing.samples_edited_for(metric)
            ids = edited.reworded | relabelled
            samples = tuple(sorted(ids))
            group = Pairing(
                current=pairing.current,
                baseline=pairing.baseline,
                comparable=True,
                metrics=(metric,),
                samples=samples,
            )
            drops += drops_of(group, [rule])
    checks, _ = decide_drops(drops, evidence)
    return [
        check
        for check in checks
        if check.is_beyond and not check.passed and check.n >= MIN_FALLEN_QUESTIONS
    ]
