"""Is the run compared on enough of its baseline, or was the baseline starved of answers?"""

from __future__ import annotations

from collections.abc import Iterator

from ragstone.formatting import counted, listed, percent, usual_reason
from ragstone.gate.checks.checker import Checker, limit_check
from ragstone.gate.checks.golden_set import edited_samples
from ragstone.gate.comparability import other_half
from ragstone.gate.evidence import Evidence
from ragstone.gate.verdict import Check, CheckKind, Status


class Paired(Checker):
    """An error if too many of the baseline's samples have no answer or score there, whatever `inconclusive` says.

    A change can bring that about, by making the system of the base commit fail. Samples that are new don't matter, nor
    those that the gate itself left out; what the golden set does not have as it was is another check.
    """

    kinds = (CheckKind.PAIRED,)
    policy_key = ("gate", "min_paired")
    heading = "Paired samples"
    share = True

    def evaluate(self, evidence: Evidence) -> Iterator[Check]:
        pairing = evidence.pairing
        required = evidence.policy.gate.min_paired
        if pairing is None or other_half(pairing.current, pairing.baseline) is not None:
            return
        baseline = pairing.baseline
        edited = edited_samples(evidence, pairing)
        changed = edited.reworded | edited.relabelled
        same = [name for name in baseline.samples if name in pairing.current.samples and name not in changed]
        failed = [baseline.system.failures[name] for name in same if name in baseline.system.failures]
        metrics = baseline.metrics.values()
        scored = {name for scores in metrics for name in scores.values} | baseline.system.failures.keys()
        unscored = {name for scores in metrics for name in scores.failed} & set(same) - scored
        total = len(same)
        paired = len(same) - len(failed) - len(unscored)
        if total == 0 or paired >= required * total:
            return
        of_base = baseline.manifest is not None and baseline.manifest.same_job
        system = "the system of the base commit" if of_base else "the baseline's system"
        reasons = [f"{system} failed on {len(failed):,} (most often: {usual_reason(failed)})"] if failed else []
        reasons += [f"{len(unscored):,} have no score there"] if unscored else []
        share = paired / total
        reason = (
            f"only {paired:,} of {counted(total, 'sample')} of the baseline can be compared ({percent(share)}, "
            f"required {percent(required)}): {listed(reasons)}. {_SAME_JOB if of_base else _OTHER_JOB}"
        )
        yield limit_check(
            "baseline.paired", CheckKind.PAIRED, Status.ERROR, reason, value=share, limit=required, n=total
        )


_SAME_JOB = (
    "Find out why it failed, and run the gate again: a change can starve the base of what both use, such as "
    "connections, ports and rate limits."
)
_OTHER_JOB = "Compare with a baseline that has those answers and scores."
