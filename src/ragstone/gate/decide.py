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
from ragstone.gate.judge_drift import attribution_unless_judge_changed
from ragstone.gate.policy import Policy
from ragstone.gate.question_changes import MIN_BROKEN
from ragstone.gate.regressions import worse_samples, worst_regressions
from ragstone.gate.retrieval_changes import samples_with_worse_retrieval
from ragstone.gate.sample_change import SampleChange
from ragstone.gate.verdict import (
    ANSWERING_KINDS,
    COMPARISON_KINDS,
    MIN_SAMPLES,
    Check,
    CheckKind,
    Explanation,
    GateVerdict,
    Status,
)

ChangesOf = Callable[[Sequence[str], Collection[str]], Mapping[str, SampleChange]]
"""Finds what became of samples since the baseline: takes the ids of these samples, and
the ids of all paired samples."""


def decide_gate(
    current: RunScores,
    baseline: RunScores | None,
    policy: Policy,
    *,
    baseline_required: bool = False,
    drift: Sequence[Check] = (),
    changes_of: ChangesOf | None = None,
) -> GateVerdict:
    """Decide the verdict on `current` by `policy`, and by `baseline` if there is one.

    Blocking floors and drops are decided as one family, so that an unchanged run fails
    with at most the probability in the policy; those that warn are a separate family.
    The order of samples never matters, and the same inputs give the same verdict.
    `drift` are the checks against the history, which have a separate error rate. Raises
    ConfigError if the policy names an unknown metric.
    """
    baseline_metrics = baseline.metrics if baseline else ()
    policy.require_known_metrics({*current.metrics, *baseline_metrics})
    initial_evidence = Evidence.of(
        current,
        baseline,
        policy,
        baseline_required=baseline_required,
        drift=drift,
    )
    evidence, ran_all_checks = run_checks(initial_evidence)
    # If there was nothing to decide on, there is nothing to explain.
    explanation = Explanation()
    if ran_all_checks:
        explanation = explain(evidence, changes_of)
        evidence = replace(evidence, explanation=explanation)
        findings = tuple(all_findings(evidence))
    else:
        findings = tuple(check.finding for check in evidence.checks)
    status, reason = _combine(evidence.checks, policy)
    warnings = [
        check for check in evidence.checks if not check.blocks and not check.passed
    ]
    if warnings:
        count = counted(len(warnings), "check that only warns", "checks that only warn")
        reason += f" {count} did not pass."
    comparability = None
    if evidence.has_baseline:
        comparability = evidence.pairing.comparability
    return GateVerdict(
        status,
        reason,
        findings,
        comparability,
        explanation,
        inconclusive_blocks=policy.gate.inconclusive == "fail",
    )


def explain(evidence: Evidence, changes_of: ChangesOf | None) -> Explanation:
    """Say which samples got worse, and why, as far as `changes_of` knows what became of
    them. Pure, apart from `changes_of`."""
    worse = set(worse_samples(evidence))
    relevant = worse | samples_with_worse_retrieval(evidence.compared)
    paired = frozenset(evidence.compared.samples)
    changes: Mapping[str, SampleChange] = {}
    if changes_of is not None:
        changes = changes_of(sorted(relevant), paired)
    causes = {
        sample_id: causes_of(change)
        for sample_id, change in changes.items()
        if sample_id in worse or change.has_lost_evidence
    }
    # A few samples may be worse by chance, unless it is shown that questions broke.
    has_shown_breaks = any(
        check.kind == CheckKind.QUESTIONS and check.failed for check in evidence.checks
    )
    min_samples = MIN_BROKEN if has_shown_breaks else MIN_SAMPLES
    diagnosis = diagnosis_of(causes, min_samples=min_samples)
    regressions, omitted_regressions = worst_regressions(evidence)
    run = evidence.current
    attribution = attribute(evidence, diagnosis)
    outdated_ids = tuple(
        sample_id for sample_id, change in changes.items() if change.has_outdated_ids
    )
    return Explanation(
        attribution=attribution_unless_judge_changed(run, attribution),
        diagnosis=diagnosis if causes else None,
        outdated_ids=outdated_ids,
        regressions=regressions,
        omitted_regressions=omitted_regressions,
        lower_is_better=frozenset(filter(evidence.policy.lower_is_better, run.metrics)),
    )


def _combine(checks: Sequence[Check], policy: Policy) -> tuple[Status, str]:
    """The status of the whole run, which follows from the blocking checks, and its
    reason."""
    blocking: defaultdict[Status, list[Check]] = defaultdict(list)
    for check in checks:
        if check.blocks:
            blocking[check.status].append(check)
    errors = blocking[Status.ERROR]
    failed = blocking[Status.FAIL]
    undecided = blocking[Status.INCONCLUSIVE]
    # A system that does not answer is the reason why scores are missing, so its failure
    # comes before errors of scoring; an error of the comparison comes before both.
    failed.sort(key=lambda check: check.kind not in ANSWERING_KINDS)
    is_unanswered = any(check.kind in ANSWERING_KINDS for check in failed)
    cannot_compare = any(check.kind in COMPARISON_KINDS for check in errors)
    if errors and (cannot_compare or not is_unanswered):
        return Status.ERROR, _reason(errors)
    if failed:
        return Status.FAIL, _reason(failed)
    if undecided and policy.gate.inconclusive != "pass":
        return Status.INCONCLUSIVE, f"It can't be decided: {_reason(undecided)}"
    passed = counted(len(blocking[Status.PASS]), "blocking check")
    reason = f"{passed} passed."
    if undecided:
        reason += f" {len(undecided):,} inconclusive."
    return Status.PASS, reason


def _reason(checks: Sequence[Check]) -> str:
    """The reason of the first of `checks`, and how many more there are. All have the
    same status."""
    reason = checks[0].reason
    more = len(checks) - 1
    if more == 0:
        return reason
    more_checks = counted(more, "more blocking check")
    return f"{reason} {more_checks} did not pass."
