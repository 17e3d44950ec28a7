"""Is the run compared on enough of its baseline, or was the baseline starved of answers or samples?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ragstone.evaluation.manifest import GOLDEN_SET
from ragstone.evaluation.scores import RunScores
from ragstone.formatting import clipped, counted, listed, most_common, percent
from ragstone.gate.checks.checker import Checker
from ragstone.gate.comparability import Pairing, other_half, same_question
from ragstone.gate.evidence import Evidence
from ragstone.gate.verdict import Action, Check, CheckKind, Status

_ROUNDING = 1e-6


class Paired(Checker):
    """An error if too few of the baseline's samples can be compared, whatever `inconclusive` says.

    A change can bring that about: by an edit of the golden set, which can be accepted, or by making the system of the
    base commit fail, which can't. Samples that are new don't matter, nor those that the gate itself left out.
    """

    kinds = (CheckKind.PAIRED,)
    policy_key = ("gate", "min_paired")
    heading = "Paired samples"
    share = True

    def evaluate(self, evidence: Evidence) -> Iterator[Check]:
        pairing, required = evidence.pairing, evidence.policy.gate.min_paired
        if pairing is None or other_half(pairing.current, pairing.baseline) is not None:
            return
        found = _overlap(evidence, pairing)
        entry = evidence.policy.widened.get((GOLDEN_SET, None))
        covered = 0 if entry is None else min(found.edited, int(entry.drop * found.total + _ROUNDING))
        counting = found.total - covered
        if counting == 0 or found.paired >= required * counting:
            return
        share = found.paired / found.total
        accepted = f" ({covered:,} of them accepted)" if covered else ""
        yield Check(
            name="baseline.paired",
            kind=CheckKind.PAIRED,
            status=Status.ERROR,
            action=Action.BLOCK,
            reason=f"only {found.paired:,} of {counted(found.total, 'sample')} of the baseline can be compared "
            f"({percent(share)}, required {percent(required)}): {found.why(pairing.baseline)}{accepted}. "
            f"{_advice(found, pairing.baseline, required)}",
            estimate=share,
            threshold=required,
            current=found.if_accepted,
            n=found.total,
        )


@dataclass(frozen=True, slots=True)
class _Overlap:
    """The samples of a baseline but for those that the gate left out.

    `edited` are not in the run any more, or have another question, or other labels for a metric with an allowed drop
    that scored them; of the others, the baseline's system `failed` on
    some, each with the reason, and some are `unscored` for another reason.
    """

    paired: int
    edited: int
    failed: tuple[str, ...]
    unscored: int

    @property
    def total(self) -> int:
        return self.paired + self.edited + len(self.failed) + self.unscored

    @property
    def if_accepted(self) -> float:
        """The share that is paired of the samples that were not edited."""
        kept = self.total - self.edited
        return self.paired / kept if kept else 1.0

    def why(self, baseline: RunScores) -> str:
        """The reasons, with numbers, as a clause."""
        reasons = []
        if self.failed:
            often = clipped(most_common(self.failed).rstrip("."))
            reasons.append(f"{_system(baseline)} failed on {len(self.failed):,} (most often: {often})")
        if self.unscored:
            reasons.append(f"{self.unscored:,} have no score there")
        if self.edited:
            reasons.append(f"{self.edited:,} were removed from the golden set, changed or turned into drafts")
        return listed(reasons)


def _overlap(evidence: Evidence, pairing: Pairing) -> _Overlap:
    current, baseline = pairing.current, pairing.baseline
    gone = [name for name in baseline.samples if name not in current.samples]
    common = [name for name in baseline.samples if name in current.samples]
    drops = {rule.metric for rule in evidence.rules if rule.max_drop is not None} & baseline.metrics.keys()
    edited_labels = {
        name for metric in drops for name in pairing.edited_for(metric) if name in baseline.metrics[metric].values
    }
    same = [name for name in common if name not in edited_labels and same_question(current, baseline, name)]
    failures = baseline.system.failures
    metrics = baseline.metrics.values()
    lost = {name for metric in metrics for name in metric.failed if not any(name in one.values for one in metrics)}
    failed = tuple(failures[name] for name in same if name in failures)
    unscored = sum(name in lost and name not in failures for name in same)
    edited = len(common) - len(same) + len(gone) - _left_out(evidence, gone, len(baseline.samples))
    return _Overlap(len(same) - len(failed) - unscored, edited, failed, unscored)


def _left_out(evidence: Evidence, gone: list[str], total: int) -> int:
    """How many of the samples that are `gone`, of `total` of the baseline, the gate itself did not evaluate.

    A limit leaves out no more than it must: otherwise, samples that are put before the others would push those out.
    """
    manifest = evidence.current.manifest
    if manifest is None:
        return 0
    golden, evaluated = manifest.golden, manifest.counts.total
    unasked = min(len(gone), max(0, golden.samples - evaluated)) if evaluated else 0
    limited = max(0, total - golden.samples) if golden.limited else 0
    return unasked + min(len(gone) - unasked, limited)


def _system(baseline: RunScores) -> str:
    of_commit = baseline.manifest is not None and baseline.manifest.same_job
    return "the system of the base commit" if of_commit else "the baseline's system"


def _advice(found: _Overlap, baseline: RunScores, required: float) -> str:
    if found.edited and found.if_accepted >= required:
        return f"If the golden set was meant to change, accept that: ragstone accept --metric '{GOLDEN_SET}'."
    if baseline.manifest is not None and baseline.manifest.same_job:
        return (
            "Find out why it failed, and run the gate again: a change can starve the base of what both use, such as "
            "connections, ports and rate limits."
        )
    return "Compare with a baseline that has those answers and scores."
