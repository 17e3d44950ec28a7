"""Is the run compared on enough of its baseline, or was the baseline starved of
answers?"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from ragstone.evaluation.scores import RunScores
from ragstone.formatting import counted, listed, percent, usual_reason
from ragstone.gate.checks.checker import Checker, limit_check
from ragstone.gate.checks.golden_set import edited_samples
from ragstone.gate.comparability import other_half
from ragstone.gate.evidence import Evidence
from ragstone.gate.verdict import Check, CheckKind, Status


class Paired(Checker):
    """An error if too many of the baseline's samples have no answer or score there,
    whatever `inconclusive` says.

    A change can bring that about, by making the system of the base commit fail. Samples
    that are new don't matter, nor those that the gate itself left out; what the golden
    set does not have as it was is another check.
    """

    kinds = (CheckKind.PAIRED,)
    policy_key = ("gate", "min_paired")
    heading = "Paired samples"
    share = True

    def evaluate(self, evidence: Evidence) -> Iterator[Check]:
        pairing = evidence.pairing
        if pairing is None or other_half(pairing.current, pairing.baseline) is not None:
            return
        required = evidence.policy.gate.min_paired
        edited = edited_samples(evidence, pairing)
        changed = edited.reworded | edited.relabelled
        common = [
            name for name in pairing.baseline.samples if name in pairing.current.samples
        ]
        same = [sample_id for sample_id in common if sample_id not in changed]
        failures = pairing.baseline.system.failures
        failed = [failures[sample_id] for sample_id in same if sample_id in failures]
        unscored = _unscored(pairing.baseline, same)
        total = len(same)
        paired = total - len(failed) - unscored
        if total == 0 or paired >= required * total:
            return
        share = paired / total
        reason = (
            f"only {paired:,} of {counted(total, 'sample')} of the baseline can be compared ({percent(share)}, "
            f"required {percent(required)}): {_causes(pairing.baseline, failed, unscored)}"
        )
        yield limit_check(
            "baseline.paired",
            CheckKind.PAIRED,
            Status.ERROR,
            reason,
            value=share,
            limit=required,
            n=total,
        )


def _unscored(baseline: RunScores, samples: Collection[str]) -> int:
    """How many of the samples failed in a metric and have no score, although the system
    answered them."""
    scored: set[str] = set()
    failed: set[str] = set()
    for scores in baseline.metrics.values():
        scored |= scores.values.keys()
        failed |= scores.failed.keys()
    unscored = failed - scored - baseline.system.failures.keys()
    return len(unscored.intersection(samples))


def _causes(baseline: RunScores, failed: Sequence[str], unscored: int) -> str:
    """Why samples can't be compared, by their number, and what to do."""
    is_of_base = baseline.manifest is not None and baseline.manifest.same_job
    system = "the system of the base commit" if is_of_base else "the baseline's system"
    reasons = []
    if failed:
        reasons.append(
            f"{system} failed on {len(failed):,} (most often: {usual_reason(failed)})"
        )
    if unscored:
        reasons.append(f"{unscored:,} have no score there")
    return f"{listed(reasons)}. {_SAME_JOB if is_of_base else _OTHER_JOB}"


_SAME_JOB = (
    "Find out why it failed, and run the gate again: a change can starve the base of what both use, such as "
    "connections, ports and rate limits."
)
_OTHER_JOB = "Compare with a baseline that has those answers and scores."
