"""The gate: two sets of scores and a policy in, one verdict out."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

from ragstone.evaluation.scores import RunScores
from ragstone.formatting import counted
from ragstone.gate.attribution import attribute
from ragstone.gate.checks.registry import run_checks, unguarded
from ragstone.gate.diagnosis import causes_of, diagnosis_of
from ragstone.gate.evidence import Evidence
from ragstone.gate.facts import Facts
from ragstone.gate.findings_registry import all_findings
from ragstone.gate.judge_drift import blame
from ragstone.gate.policy import Policy
from ragstone.gate.question_changes import MIN_BROKEN
from ragstone.gate.regressions import worse_samples, worst_regressions
from ragstone.gate.retrieval_changes import retrieval_changes, retrieval_fell
from ragstone.gate.verdict import (
    CHANGES,
    COMPARING,
    LEVELS,
    MIN_SAMPLES,
    SYSTEM,
    Action,
    Attribution,
    Check,
    CheckKind,
    Comparability,
    Explanation,
    GateVerdict,
    Side,
    Status,
)

FactsOf = Callable[[Sequence[str], Collection[str]], Mapping[str, Facts]]
"""The facts of the samples with these ids, some of which are paired with the baseline's."""


def decide_gate(
    current: RunScores,
    baseline: RunScores | None,
    policy: Policy,
    *,
    baseline_required: bool = False,
    seed: int = 0,
    drift: Sequence[Check] = (),
    facts_of: FactsOf | None = None,
) -> GateVerdict:
    """Compare `current` with `policy`, and with `baseline` if there is one.

    Blocking floors and drops are decided as one family, so that an unchanged run fails with at most the probability in
    the policy; those that warn are a separate family. The order of samples never matters, and the same inputs and seed
    give the same verdict. `drift` are the checks against the history, which have a separate error rate. Raises
    ConfigError if the policy names an unknown metric.
    """
    policy.require_known_metrics({*current.metrics, *(baseline.metrics if baseline else ())})
    gathered = Evidence.of(
        current,
        baseline,
        policy,
        baseline_required=baseline_required,
        seed=seed,
        drift=drift,
    )
    evidence, complete = run_checks(gathered)
    if not complete:
        checks = tuple(check.finding for check in evidence.decided)
        return GateVerdict(*_combined(evidence.decided, policy), checks, _comparability(evidence))
    explanation = explain(evidence, facts_of)
    decided = tuple(_with_side(check, explanation.attribution) for check in evidence.decided)
    evidence = replace(evidence, decided=decided, explanation=explanation)
    return GateVerdict(
        *_combined(decided, policy),
        tuple(all_findings(evidence)),
        _comparability(evidence, unguarded(evidence)),
        explanation,
        inconclusive_blocks=policy.gate.inconclusive == "fail",
    )


def explain(evidence: Evidence, facts_of: FactsOf | None) -> Explanation:
    """Which samples got worse, and why, as far as `facts_of` knows. Pure but for reading the facts."""
    compared = evidence.compared
    worse = worse_samples(evidence)
    fell = () if compared is None else retrieval_fell(compared)
    paired = frozenset(() if compared is None else compared.samples)
    facts = {} if facts_of is None else facts_of(sorted({*worse, *fell}), paired)
    retrieval = None if compared is None else retrieval_changes(facts, fell)
    explained = {name: sample for name, sample in facts.items() if name in worse or sample.lost}
    causes = {name: causes_of(sample) for name, sample in explained.items()}
    surely_broke = any(check.kind is CheckKind.QUESTIONS and check.status is Status.FAIL for check in evidence.decided)
    diagnosis = diagnosis_of(
        causes,
        confidence=evidence.policy.gate.confidence,
        enough=MIN_BROKEN if surely_broke else MIN_SAMPLES,
    )
    regressions, regressed_left = worst_regressions(evidence)
    named = {regression.sample_id for regression in regressions}
    return Explanation(
        attribution=blame(evidence.current, attribute(evidence, diagnosis)),
        diagnosis=diagnosis,
        retrieval=retrieval,
        regressions=regressions,
        regressed_left=regressed_left,
        facts={name: sample for name, sample in facts.items() if name in named},
        lower_is_better=frozenset(filter(evidence.policy.lower_is_better, evidence.current.metrics)),
    )


def _comparability(evidence: Evidence, warnings: Sequence[str] = ()) -> Comparability | None:
    """How the runs can be compared; without the notes that are warnings already."""
    if evidence.pairing is None:
        return None
    comparability = evidence.pairing.comparability
    said_already = bool(warnings) and not comparability.comparable
    if said_already:
        return replace(comparability, notes=())
    return comparability


def _with_side(check: Check, attribution: Attribution | None) -> Check:
    """Add to a failed check of a metric which half of the system it points at."""
    failed = check.status is Status.FAIL and check.kind in LEVELS | CHANGES and not check.by_words
    if not failed or attribution is None:
        return check
    return replace(check, reason=f"{check.reason} This points at {_HALVES.get(attribution.side, attribution.side)}.")


_HALVES = {Side.BOTH: "retrieval and generation", Side.UNCLEAR: "neither retrieval nor generation alone"}


def _combined(checks: Sequence[Check], policy: Policy) -> tuple[Status, str]:
    """The status of the whole run, which follows from the blocking checks, and its reason."""
    blocking = [check for check in checks if check.action is Action.BLOCK]
    by_status = {status: [check for check in blocking if check.status is status] for status in Status}
    undecided = by_status[Status.INCONCLUSIVE]
    unanswered = [check for check in by_status[Status.FAIL] if check.kind in SYSTEM]
    starved = any(check.kind in COMPARING for check in by_status[Status.ERROR])
    if unanswered and not starved:  # such a system could not be scored because of its answers, not because of the judge
        others = [check for check in by_status[Status.FAIL] if check.kind not in SYSTEM]
        status = Status.FAIL
        reason = _first([*unanswered, *others], "failed")
    elif by_status[Status.ERROR]:
        status = Status.ERROR
        reason = _first(by_status[Status.ERROR], "could not be made")
    elif by_status[Status.FAIL]:
        status = Status.FAIL
        reason = _first(by_status[Status.FAIL], "failed")
    elif undecided and policy.gate.inconclusive != "pass":
        status = Status.INCONCLUSIVE
        reason = (
            f"{len(undecided)} of {counted(len(blocking), 'blocking check')} can't be decided: {undecided[0].reason}"
        )
    else:
        status = Status.PASS
        left = f" ({len(undecided)} undecided, which the policy lets pass)" if undecided else ""
        reason = f"{_all(len(blocking), len(checks))}{left}."
    warnings = sum(check.status is not Status.PASS for check in checks if check.action is Action.WARN)
    if warnings:
        reason += f" {counted(warnings, 'check that only warns', 'checks that only warn')} did not pass."
    return status, reason


def _first(checks: Sequence[Check], what: str) -> str:
    more = len(checks) - 1
    return checks[0].reason + (f" {counted(more, 'more blocking check')} {what}." if more else "")


def _all(blocking: int, total: int) -> str:
    if not blocking:
        return f"none of {counted(total, 'check')} blocks"
    if blocking == 1:
        return "the only blocking check passed"
    return f"all {blocking} blocking checks passed"
