"""The gate: two sets of scores and a policy in, one verdict out."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

from ragstone.evaluation.scores import RunScores
from ragstone.formatting import counted
from ragstone.gate.alignment import alignment_warnings
from ragstone.gate.attribution import attribute
from ragstone.gate.checks.planted import planted_warnings
from ragstone.gate.checks.registry import run_checks, unguarded
from ragstone.gate.diagnosis import causes_of, diagnosis_of
from ragstone.gate.evidence import Evidence
from ragstone.gate.facts import Facts
from ragstone.gate.judge_drift import blame, canary_notes, canary_warnings, fingerprint_note, model_warnings
from ragstone.gate.policy import Policy
from ragstone.gate.preference import preference_notes, preference_warnings
from ragstone.gate.regressions import worse_samples, worst_regressions
from ragstone.gate.resolution import resolution, sights, visible
from ragstone.gate.retrieval_changes import retrieval_changes, retrieval_fell, retrieval_notes, retrieval_warnings
from ragstone.gate.stability import stability_notes
from ragstone.gate.verdict import (
    CHANGES,
    COMPARING,
    LEVELS,
    SYSTEM,
    Action,
    Attribution,
    Check,
    Comparability,
    GateVerdict,
    Side,
    Status,
)
from ragstone.gate.warnings import (
    assumed_directions,
    below_by_chance,
    footnotes,
    forgotten,
    permissive,
    powerless,
    ungraded,
    without_contexts,
)


def decide_gate(
    current: RunScores,
    baseline: RunScores | None,
    policy: Policy,
    *,
    baseline_required: bool = False,
    seed: int = 0,
    drift: Sequence[Check] = (),
    facts_of: Callable[[Sequence[str], Collection[str]], Mapping[str, Facts]] | None = None,
) -> GateVerdict:
    """Compare `current` with `policy`, and with `baseline` if there is one.

    Blocking floors and drops are decided as one family, so that an unchanged run fails with at most the probability in
    the policy; those that warn are a separate family. The order of samples never matters, and the same inputs and seed
    give the same verdict. `drift` are the
    checks against the history, which have a separate error rate. Raises ConfigError if the policy names an unknown
    metric.
    """
    policy.require_known_metrics({*current.metrics, *(baseline.metrics if baseline else ())})
    evidence = Evidence.of(
        current,
        baseline,
        policy,
        baseline_required=baseline_required,
        seed=seed,
        drift=drift,
    )
    evidence, complete = run_checks(evidence)
    compared = None if evidence.pairing is None else evidence.pairing.comparability
    if not complete:
        return GateVerdict(*_combined(evidence.decided, policy), evidence.decided, comparability=compared)
    worse, fell = worse_samples(evidence), () if evidence.compared is None else retrieval_fell(evidence.compared)
    paired = frozenset(() if evidence.compared is None else evidence.compared.samples)
    facts = {} if facts_of is None else facts_of(sorted({*worse, *fell}), paired)
    retrieval = None if evidence.compared is None else retrieval_changes(facts, fell)
    causes = {name: causes_of(found) for name, found in facts.items() if name in worse or found.lost}
    diagnosis = diagnosis_of(causes, confidence=policy.gate.confidence)
    attribution = blame(current, attribute(evidence, diagnosis, retrieval))
    skipped = unguarded(evidence)
    regressions, regressed_left = worst_regressions(evidence)
    watched = []
    if policy.gate.decision == "evidence":
        watched = sights(evidence.rules, policy, current, checks=evidence.decided)
    seen, loud = resolution(watched)
    checks = tuple(_with_side(check, attribution) for check in evidence.decided)
    status, reason = _combined(checks, policy)
    hints = tuple(alignment_warnings(evidence, advise=attribution is None))  # the causes say more
    asides = (
        *(hints if status is not Status.FAIL else ()),
        *([seen] if seen is not None and loud else []),
        *below_by_chance(evidence),
        *powerless(evidence),
    )
    return GateVerdict(
        status,
        reason,
        checks,
        comparability=None if compared is None else _news(compared, skipped),
        attribution=attribution,
        regressions=regressions,
        regressed_left=regressed_left,
        notes=(
            *retrieval_notes(retrieval),
            *canary_notes(current),
            *fingerprint_note(current.manifest, baseline.manifest if baseline is not None else None),
            *stability_notes(evidence),
            *preference_notes(evidence),
            *footnotes(evidence),
            *(hints if status is Status.FAIL else ()),
        ),
        warnings=(
            *without_contexts(evidence),
            *skipped,
            *ungraded(evidence),
            *preference_warnings(evidence),
            *forgotten(evidence),
            *assumed_directions(evidence),
            *retrieval_warnings(retrieval),
            *model_warnings(current, baseline),
            *canary_warnings(current),
            *planted_warnings(current),
            *permissive(evidence),
            *asides,
        ),
        asides=frozenset(asides),
        resolution=None if loud else seen,
        visible_loss=visible(watched),
        diagnosis=diagnosis,
        retrieval=retrieval,
        facts={one.sample_id: facts[one.sample_id] for one in regressions if one.sample_id in facts},
        inconclusive_blocks=policy.gate.inconclusive == "fail",
        lower_is_better=frozenset(metric for metric in current.metrics if policy.lower_is_better(metric)),
    )


def _news(found: Comparability, warnings: Sequence[str]) -> Comparability:
    """The notes that are not already warnings."""
    return found if found.comparable or not warnings else replace(found, notes=())


def _with_side(check: Check, attribution: Attribution | None) -> Check:
    """Add to a failed check of a metric which half of the system it points at."""
    failed = check.status is Status.FAIL and check.kind in LEVELS | CHANGES
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
        status, reason = Status.FAIL, _first([*unanswered, *others], "failed")
    elif by_status[Status.ERROR]:
        status, reason = Status.ERROR, _first(by_status[Status.ERROR], "could not be made")
    elif by_status[Status.FAIL]:
        status, reason = Status.FAIL, _first(by_status[Status.FAIL], "failed")
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
    return "the only blocking check passed" if blocking == 1 else f"all {blocking} blocking checks passed"
