"""Is the run compared on enough of its baseline, or was the baseline starved of
answers?"""

from __future__ import annotations

from collections.abc import Iterator

from ragstone.formatting import counted, percent, usual_reason
from ragstone.gate.checks.checker import Checker, limit_check
from ragstone.gate.checks.golden_set import edited_samples
from ragstone.gate.evidence import Evidence
from ragstone.gate.verdict import Check, CheckKind, Status


class Paired(Checker):
    """An error if too many samples of the baseline have no answer or score there.

    A change can bring that about, by making the system of the base commit fail. Neither
    new samples count nor those that the gate did not evaluate; edits of the golden set
    have a check of their own.
    """

    kinds = (CheckKind.PAIRED,)
    policy_key = ("gate", "min_paired")
    heading = "Paired samples"
    is_share = True

    def evaluate(self, evidence: Evidence) -> Iterator[Check]:
        edited = edited_samples(evidence)
        if edited is None:
            return
        required = evidence.policy.gate.min_paired
        baseline = evidence.baseline
        unedited = set(evidence.pairing.samples) - edited.relabelled
        metrics = baseline.metrics.values()
        baseline_failures = baseline.system.failures
        failures = []
        unscored = 0
        for sample_id in unedited:
            if sample_id in baseline_failures:
                failures.append(baseline_failures[sample_id])
            elif any(sample_id in scores.failed for scores in metrics):
                # The system answered, and no metric has a score.
                unscored += not any(sample_id in scores.values for scores in metrics)
        total = len(unedited)
        paired = total - len(failures) - unscored
        if total == 0 or paired >= required * total:
            return
        share = paired / total
        problem = f"{unscored:,} have no score there"
        if failures:
            most_often = usual_reason(failures)
            problem = f"the baseline's system failed on {len(failures):,} (most often: {most_often})"
        total_samples = counted(total, "sample")
        reason = (
            f"only {paired:,} of {total_samples} of the baseline can be compared ({percent(share)}, "
            f"required {percent(required)}): {problem}. Find out why, and run the gate again: a change can starve the base "
            "of what both use, such as connections, ports and rate limits. Or compare with a baseline that has those "
            "answers and scores."
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
