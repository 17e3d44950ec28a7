"""Is the run compared on enough of its baseline, or was the baseline starved of answers?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ragstone.evaluation.scores import RunScores
from ragstone.formatting import clipped, counted, listed, most_common, percent
from ragstone.gate.checks.checker import Checker
from ragstone.gate.checks.golden_set import edited_samples
from ragstone.gate.comparability import Pairing, other_half
from ragstone.gate.evidence import Evidence
from ragstone.gate.verdict import Action, Check, CheckKind, Status


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
        pairing, required = evidence.pairing, evidence.policy.gate.min_paired
        if pairing is None or other_half(pairing.current, pairing.baseline) is not None:
            return
        overlap = _overlap(evidence, pairing)
        if overlap.total == 0 or overlap.paired >= required * overlap.total:
            return
        share = overlap.paired / overlap.total
        yield Check(
            name="baseline.paired",
            kind=CheckKind.PAIRED,
            status=Status.ERROR,
            action=Action.BLOCK,
            reason=f"only {overlap.paired:,} of {counted(overlap.total, 'sample')} of the baseline can be compared "
            f"({percent(share)}, required {percent(required)}): {overlap.why(pairing.baseline)}. "
            f"{_advice(pairing.baseline)}",
            estimate=share,
            threshold=required,
            current=share,
            n=overlap.total,
        )


@dataclass(frozen=True, slots=True)
class _Overlap:
    """The samples that a run and its baseline have alike.

    The baseline's system `failed` on some, each with the reason, and some are `unscored` there for another reason.
    """

    paired: int
    failed: tuple[str, ...]
    unscored: int

    @property
    def total(self) -> int:
        return self.paired + len(self.failed) + self.unscored

    def why(self, baseline: RunScores) -> str:
        """The reasons, with numbers, as a clause."""
        reasons = []
        if self.failed:
            often = clipped(most_common(self.failed).rstrip("."))
            reasons.append(f"{_system(baseline)} failed on {len(self.failed):,} (most often: {often})")
        if self.unscored:
            reasons.append(f"{self.unscored:,} have no score there")
        return listed(reasons)


def _overlap(evidence: Evidence, pairing: Pairing) -> _Overlap:
    current, baseline = pairing.current, pairing.baseline
    edited = edited_samples(evidence, pairing)
    changed = edited.reworded | edited.relabelled
    same = [name for name in baseline.samples if name in current.samples and name not in changed]
    failures = baseline.system.failures
    metrics = baseline.metrics.values()
    lost = {name for metric in metrics for name in metric.failed if not any(name in one.values for one in metrics)}
    failed = tuple(failures[name] for name in same if name in failures)
    unscored = sum(name in lost and name not in failures for name in same)
    return _Overlap(len(same) - len(failed) - unscored, failed, unscored)


def _system(baseline: RunScores) -> str:
    of_commit = baseline.manifest is not None and baseline.manifest.same_job
    return "the system of the base commit" if of_commit else "the baseline's system"


def _advice(baseline: RunScores) -> str:
    if baseline.manifest is not None and baseline.manifest.same_job:
        return (
            "Find out why it failed, and run the gate again: a change can starve the base of what both use, such as "
            "connections, ports and rate limits."
        )
    return "Compare with a baseline that has those answers and scores."
