"""The gate: two sets of scores and a policy in, one verdict out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from ragstone.formatting import counted
from ragstone.gate.agreement import agreement_checks, corrected_floor, is_corrected
from ragstone.gate.alignment import alignment_warnings
from ragstone.gate.answers import answers_checks, no_answer_check
from ragstone.gate.attribution import attribute, by_cause
from ragstone.gate.bounds import decide_questions, questions
from ragstone.gate.comparability import Pairing, pair_runs
from ragstone.gate.diagnosis import Cause, diagnosis_of
from ragstone.gate.early import family_size, watched_decisions
from ragstone.gate.judge_change import judge_change_check
from ragstone.gate.judge_drift import blame, canary_notes, canary_warnings, fingerprint_note
from ragstone.gate.policy import Policy
from ragstone.gate.preference import preference_notes, preference_warnings
from ragstone.gate.regressions import worse_samples, worst_regressions
from ragstone.gate.resolution import resolution, sights
from ragstone.gate.rules import BoundCheck, Rule, resolve_rules
from ragstone.gate.run_checks import (
    coverage_checks,
    error_rate_check,
    must_pass_checks,
    unfinished_check,
    unknown_tag_checks,
)
from ragstone.gate.stability import stability_notes
from ragstone.gate.system_limits import limit_checks, limits_set
from ragstone.gate.targets import target_checks
from ragstone.gate.verdict import (
    CHANGES,
    LEVELS,
    Action,
    Attribution,
    Check,
    CheckKind,
    Comparability,
    GateVerdict,
    Side,
    Status,
)
from ragstone.gate.warnings import (
    assumed_directions,
    below_by_chance,
    differences,
    footnotes,
    forgotten,
    permissive,
    powerless,
    ungraded,
    unguarded,
)
from ragstone.run.scores import RunScores
from ragstone.stats.family import Decision


def decide_gate(
    current: RunScores,
    baseline: RunScores | None,
    policy: Policy,
    *,
    baseline_required: bool = False,
    seed: int = 0,
    looked_in_order: Sequence[str] | None = None,
    drift: Sequence[Check] = (),
    causes_of: Callable[[Sequence[str]], Mapping[str, Cause | None]] | None = None,
) -> GateVerdict:
    """Compare `current` with `policy`, and with `baseline` if there is one.

    Blocking floors and drops are decided as one family, so that an unchanged run fails with at most the probability in
    the policy; those that warn are a separate family. The order of samples never matters, and the same inputs and seed
    give the same verdict. `looked_in_order` is the order of evaluation of a run that could stop early: blocking checks
    are then decided by limits that are valid at every look. `drift` are the checks against the history, which have a
    separate error rate. Raises ConfigError if the policy names an unknown metric.
    """
    policy.require_known_metrics({*current.metrics, *(baseline.metrics if baseline else ())})
    resolved = resolve_rules(policy, current)
    pairing = None if baseline is None else pair_runs(current, baseline, unmatched=policy.gate.unmatched)
    if (nothing := no_answer_check(current)) is not None:
        draft = GateVerdict(Status.ERROR, "", (), comparability=None if pairing is None else pairing.comparability)
        return _verdict((nothing,), policy, draft)
    asked = list(questions(current, baseline, pairing, resolved.rules))
    changed = list(judge_change_check(current, baseline, resolved.rules, policy))
    checks = [
        *(changed or _baseline_checks(pairing, resolved.rules, policy, required=baseline_required)),
        *unknown_tag_checks(resolved.unknown_tags),
        *coverage_checks(current, resolved.rules, policy),
        *agreement_checks(current, resolved.rules, policy),
        *must_pass_checks(current, resolved.rules, policy),
        *answers_checks(current, resolved.rules, policy),
        *drift,
        *_decided(asked, current, policy, seed, _revision(resolved.rules, baseline, policy, looked_in_order)),
    ]
    checks += target_checks(current, resolved.rules, checks, policy.gate.confidence)
    checks += [check for check in (error_rate_check(current, policy), unfinished_check(current)) if check is not None]
    if not checks or not any(scores.values for scores in current.metrics.values()):
        checks.append(_nothing_to_decide(current))
    diagnosis = None
    if causes_of is not None:
        worse = worse_samples(current, baseline, pairing, resolved.rules, checks)
        diagnosis = diagnosis_of(causes_of(worse), confidence=policy.gate.confidence)
    attribution = blame(current, by_cause(attribute(current, baseline, pairing, checks), diagnosis))
    offline = current.manifest is not None and current.manifest.judge.offline
    skipped = tuple(unguarded(pairing, resolved.rules, checks))
    regressions, regressed_left = worst_regressions(current, baseline, pairing, resolved.rules, checks)
    seen, loud = None, False
    if policy.gate.decision == "evidence":
        seen, loud = resolution(sights(resolved.rules, policy.alpha, current, checks=checks))
    warnings = (
        *canary_warnings(current),
        *forgotten(current),
        *below_by_chance(checks),
        *permissive(policy, resolved.rules, offline=offline),
        *ungraded(current),
        *assumed_directions(current, resolved.rules),
        *skipped,
        *preference_warnings(current, resolved.rules),
        *alignment_warnings(current, resolved.rules, policy),
        *([seen] if seen is not None and loud else []),
        *powerless(checks, resolved.rules, policy.alpha),
    )
    return _verdict(
        tuple(_with_side(check, attribution) for check in checks),
        policy,
        GateVerdict(
            status=Status.ERROR,
            reason="",
            checks=(),
            comparability=None if pairing is None else _news(pairing.comparability, skipped),
            attribution=attribution,
            regressions=regressions,
            regressed_left=regressed_left,
            notes=(
                *canary_notes(current),
                *fingerprint_note(current.manifest, baseline.manifest if baseline is not None else None),
                *stability_notes(current, resolved.rules),
                *preference_notes(current),
                *footnotes(current, baseline, pairing, resolved.rules),
            ),
            warnings=warnings,
            resolution=None if loud else seen,
            diagnosis=diagnosis,
            inconclusive_blocks=policy.gate.inconclusive == "fail",
            lower_is_better=frozenset(metric for metric in current.metrics if policy.lower_is_better(metric)),
        ),
    )


_Revision = Callable[[Sequence[BoundCheck], Sequence[Decision]], Sequence[Decision]]


def _revision(
    rules: Sequence[Rule], baseline: RunScores | None, policy: Policy, order: Sequence[str] | None
) -> _Revision | None:
    if order is None:
        return None
    level = policy.alpha / max(1, family_size(rules, baseline=baseline is not None))
    return partial(watched_decisions, order=order, level=level)


def _decided(
    asked: Sequence[BoundCheck], current: RunScores, policy: Policy, seed: int, revise: _Revision | None
) -> Iterator[Check]:
    """Floors, drops and limits of the system: blocking checks as one family, warning checks as another."""
    limits = limits_set(policy)
    for action in (Action.BLOCK, Action.WARN):
        family = [one for one in asked if one.action is action]
        limited = limits if policy.system.action is action else 0
        corrected = [one for one in family if is_corrected(one, current, policy)]
        family = [one for one in family if not is_corrected(one, current, policy)]
        # These have no joint distribution with the scores, so they get their share of alpha by Bonferroni.
        apart = len(corrected) + limited
        alpha = policy.alpha / (len(family) + apart) if apart else 0.0
        for one in corrected:
            if policy.calibration is not None:
                yield corrected_floor(one, current, policy.calibration, policy, alpha=alpha)
        if family:
            yield from decide_questions(
                family,
                current,
                policy,
                alpha=policy.alpha - alpha * apart,
                seed=seed,
                revise=revise if action is Action.BLOCK else None,
            )
        if limited:
            yield from limit_checks(current, policy, alpha=alpha)


def _baseline_checks(
    pairing: Pairing | None, rules: Sequence[Rule], policy: Policy, *, required: bool
) -> Iterator[Check]:
    if pairing is not None and pairing.comparability.comparable:
        return
    wanted = required or any(rule.max_drop is not None for rule in rules)
    if not wanted or (not required and policy.gate.on_no_baseline == "pass"):
        return
    why = "there is no baseline to compare with."
    if pairing is not None:
        why = f"the runs can't be compared: {' '.join(differences(pairing))}"
    error = required or policy.gate.on_no_baseline == "fail"
    yield Check(
        name="baseline",
        kind=CheckKind.BASELINE,
        status=Status.ERROR if error else Status.INCONCLUSIVE,
        action=Action.BLOCK,
        reason=why,
    )


def _nothing_to_decide(run: RunScores) -> Check:
    evaluated = run.manifest.golden.samples if run.manifest is not None else 0
    if not run.samples and evaluated:
        drafts = "the only sample is a draft" if evaluated == 1 else f"all {evaluated:,} samples are drafts"
        reason = f"nothing to decide: {drafts}. A draft counts once a person has reviewed it (ragstone review)."
    elif not run.samples:
        reason = f"nothing to decide: {run.label} has no samples."
    elif not any(scores.values for scores in run.metrics.values()):
        reason = f"nothing to decide: none of {counted(len(run.samples), 'sample')} has a score."
    else:
        reason = (
            "nothing to decide: the policy checks none of the metrics of this run "
            f"({', '.join(sorted(run.metrics))}), or needs a baseline for it."
        )
    return Check(name="coverage", kind=CheckKind.COVERAGE, status=Status.ERROR, action=Action.BLOCK, reason=reason)


def _news(found: Comparability, warnings: Sequence[str]) -> Comparability:
    """The notes that are not already warnings."""
    return found if found.comparable or not warnings else replace(found, notes=())


def _with_side(check: Check, attribution: Attribution | None) -> Check:
    """Add to a failed check of a metric which half of the system it points at."""
    failed = check.status is Status.FAIL and check.kind in LEVELS | CHANGES
    if not failed or attribution is None:
        return check
    return replace(check, reason=f"{check.reason} {_POINTS_AT[attribution.side]}")


_POINTS_AT = {
    Side.RETRIEVAL: "This points at retrieval.",
    Side.GENERATION: "This points at generation.",
    Side.BOTH: "This points at retrieval and generation.",
    Side.UNCLEAR: "This points at neither retrieval nor generation alone.",
}


def _verdict(checks: tuple[Check, ...], policy: Policy, draft: GateVerdict) -> GateVerdict:
    blocking = [check for check in checks if check.action is Action.BLOCK]
    by_status = {status: [check for check in blocking if check.status is status] for status in Status}
    undecided = by_status[Status.INCONCLUSIVE]
    unanswered = [check for check in by_status[Status.FAIL] if check.kind is CheckKind.ANSWERS]
    if unanswered:  # such a system could not be scored because of its answers, not because of the judge
        status, reason = Status.FAIL, _first([*unanswered, *_without(by_status[Status.FAIL], unanswered)], "failed")
    elif by_status[Status.ERROR]:
        status, reason = Status.ERROR, _first(by_status[Status.ERROR], "could not be made")
    elif by_status[Status.FAIL]:
        status, reason = Status.FAIL, _first(by_status[Status.FAIL], "failed")
    elif undecided and policy.gate.inconclusive != "pass":
        status = Status.INCONCLUSIVE
        reason = (
            f"nothing is shown to be worse than the policy allows; {len(undecided)} of "
            f"{counted(len(blocking), 'blocking check')} can't be decided: {undecided[0].reason}"
        )
    else:
        status = Status.PASS
        left = f" ({len(undecided)} undecided, which the policy lets pass)" if undecided else ""
        reason = f"{_all(len(blocking), len(checks))}{left}."
    warnings = sum(check.status is not Status.PASS for check in checks if check.action is Action.WARN)
    if warnings:
        reason += f" {counted(warnings, 'check that only warns', 'checks that only warn')} did not pass."
    return replace(draft, status=status, reason=reason, checks=checks)


def _without(checks: Sequence[Check], known: Sequence[Check]) -> list[Check]:
    return [check for check in checks if check not in known]


def _first(checks: Sequence[Check], what: str) -> str:
    more = len(checks) - 1
    return checks[0].reason + (f" {counted(more, 'more blocking check')} {what}." if more else "")


def _all(blocking: int, total: int) -> str:
    if not blocking:
        return f"none of {counted(total, 'check')} blocks"
    return "the one blocking check passed" if blocking == 1 else f"all {blocking} blocking checks passed"
