"""The gate: two sets of scores and a policy in, one verdict out."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence

from msgspec.structs import replace

from ragstone.evaluation.scores import RunScores
from ragstone.formatting import counted
from ragstone.gate.attribution import attribute
from ragstone.gate.checks.registry import run_checks
from ragstone.gate.diagnosis import causes_of, diagnosis_of
from ragstone.gate.evidence import Evidence
from ragstone.gate.findings_registry import all_findings
from ragstone.gate.judge_drift import blame
from ragstone.gate.policy import Policy
from ragstone.gate.question_changes import MIN_BROKEN
from ragstone.gate.regressions import worse_samples, worst_regressions
from ragstone.gate.retrieval_changes import retrieval_fell
from ragstone.gate.sample_change import SampleChange
from ragstone.gate.verdict import (
    COMPARING,
    MIN_SAMPLES,
    SYSTEM,
    Check,
    CheckKind,
    Explanation,
    GateVerdict,
    Status,
)

ChangesOf = Callable[[Sequence[str], Collection[str]], Mapping[str, SampleChange]]
"""What became of the samples with the first ids; the second are those that are paired
with the baseline's."""


def decide_gate(
    current: RunScores,
    baseline: RunScores | None,
    policy: Policy,
    *,
    baseline_required: bool = False,
    drift: Sequence[Check] = (),
    changes_of: ChangesOf | None = None,
) -> GateVerdict:
    """Compare `current` with `policy`, and with `baseline` if there is one.

    Blocking floors and drops are decided as one family, so that an unchanged run fails
    with at most the probability in the policy; those that warn are a separate family.
    The order of samples never matters, and the same inputs give the same verdict.
    `drift` are the checks against the history, which have a separate error rate. Raises
    ConfigError if the policy names an unknown metric.
    """
    baseline_metrics = baseline.metrics if baseline else ()
    policy.require_known_metrics({*current.metrics, *baseline_metrics})
    gathered = Evidence.of(
        current,
        baseline,
        policy,
        baseline_required=baseline_required,
        drift=drift,
    )
    evidence, complete = run_checks(gathered)
    explanation = Explanation()
    if complete:
        explanation = explain(evidence, changes_of)
        evidence = replace(evidence, explanation=explanation)
        findings = tuple(all_findings(evidence))
    else:
        findings = tuple(check.finding for check in evidence.checks)
    status, reason = _combined(evidence.checks, policy)
    warnings = [
        check for check in evidence.checks if not check.blocks and not check.passed
    ]
    if warnings:
        warning_checks = counted(
            len(warnings), "check that only warns", "checks that only warn"
        )
        reason += f" {warning_checks} did not pass."
    comparability = None
    if evidence.has_baseline:
        comparability = evidence.pairing.comparability
    inconclusive_blocks = policy.gate.inconclusive == "fail"
    return GateVerdict(
        status,
        reason,
        findings,
        comparability,
        explanation,
        inconclusive_blocks=inconclusive_blocks,
    )


def explain(evidence: Evidence, changes_of: ChangesOf | None) -> Explanation:
    """Which samples got worse, and why, as far as `changes_of` knows. Pure but for
    reading what became of them."""
    worse = set(worse_samples(evidence))
    relevant = worse | retrieval_fell(evidence.compared)
    paired = frozenset(evidence.compared.samples)
    changes: Mapping[str, SampleChange] = {}
    if changes_of is not None:
        changes = changes_of(sorted(relevant), paired)
    causes = {
        sample_id: causes_of(change)
        for sample_id, change in changes.items()
        if sample_id in worse or change.evidence_lost
    }
    surely_broke = any(
        check.kind == CheckKind.QUESTIONS and check.failed for check in evidence.checks
    )
    enough = MIN_BROKEN if surely_broke else MIN_SAMPLES
    diagnosis = diagnosis_of(causes, enough=enough)
    regressions, regressed_left = worst_regressions(evidence)
    run = evidence.current
    attribution = attribute(evidence, diagnosis)
    outdated_ids = tuple(
        sample_id for sample_id, change in changes.items() if change.ids_outdated
    )
    lower_is_better = filter(evidence.policy.lower_is_better, run.metrics)
    return Explanation(
        attribution=blame(run, attribution),
        diagnosis=diagnosis if causes else None,
        outdated_ids=outdated_ids,
        regressions=regressions,
        regressed_left=regressed_left,
        lower_is_better=frozenset(lower_is_better),
    )


def _combined(checks: Sequence[Check], policy: Policy) -> tuple[Status, str]:
    """The status of the whole run, which follows from the blocking checks, and its
    reason."""
    blocking: defaultdict[Status, list[Check]] = defaultdict(list)
    for check in checks:
        if check.blocks:
            blocking[check.status].append(check)
    errors = blocking[Status.ERROR]
    failed = blocking[Status.FAIL]
    undecided = blocking[Status.INCONCLUSIVE]
    # A system that does not answer could not be scored because of that, not because of
    # the judge.
    failed.sort(key=lambda check: check.kind not in SYSTEM)
    is_unanswered = any(check.kind in SYSTEM for check in failed)
    is_starved = any(check.kind in COMPARING for check in errors)
    if errors and (is_starved or not is_unanswered):
        return Status.ERROR, _reason(errors)
    if failed:
        return Status.FAIL, _reason(failed)
    if undecided and policy.gate.inconclusive != "pass":
        return Status.INCONCLUSIVE, f"It can't be decided: {_reason(undecided)}"
    passed = counted(len(blocking[Status.PASS]), "blocking check")
    return Status.PASS, f"{passed} passed."


def _reason(checks: Sequence[Check]) -> str:
    """The reason of the first check, and how many more there are."""
    reason = checks[0].reason
    more = len(checks) - 1
    if more == 0:
        return reason
    more_checks = counted(more, "more blocking check")
    return f"{reason} {more_checks} did not pass."
