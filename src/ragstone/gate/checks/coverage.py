"""Is there enough to decide on: samples with the tags, samples with scores, a finished
run?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from ragstone.evaluation.scores import RunScores
from ragstone.formatting import counted, percent, usual_reason
from ragstone.gate.checks.checker import Checker
from ragstone.gate.checks.missing import verdicts_at_worst
from ragstone.gate.comparability import other_half
from ragstone.gate.evidence import Evidence
from ragstone.gate.rules import Rule, resolve_rules
from ragstone.gate.verdict import MIN_SAMPLES, Action, Check, CheckKind, Status
from ragstone.metrics.registry import is_relative
from ragstone.metrics.score import FAILED_BY, Failed, FailedBy


class Coverage(Checker):
    """One check per metric and slice: do enough of the samples it applies to have a
    score?

    A slice has one only if it can't be decided, and a metric of the default rules that
    applies to no sample only if the baseline has scores of it. A tag that no sample has
    is an error.
    """

    kinds = (CheckKind.COVERAGE,)
    policy_key = ("gate", "min_coverage")
    share = True

    def evaluate(self, evidence: Evidence) -> Iterator[Check]:
        for tag, hint in evidence.unknown_tags.items():
            reason = f"the policy has rules for the tag '{tag}', but no sample has it. {hint}"
            yield replace(_error(reason), name=f"{tag}/coverage", slice=tag)
        at_worst = verdicts_at_worst(evidence)
        unscorable = _unscorable(evidence)
        for rule in evidence.rules:
            if rule.metric not in unscorable:
                yield from _of_rule(rule, evidence, at_worst)
        yield from _lost(evidence)

    def unguarded(self, evidence: Evidence) -> Iterator[str]:
        for metric, reason in _unscorable(evidence).items():
            yield f"{metric} has no score: {reason.rstrip('.')}. It is not checked."


def _of_rule(
    rule: Rule, evidence: Evidence, at_worst: Mapping[tuple[str, str | None], Status]
) -> Iterator[Check]:
    scores = evidence.current.scores_of(rule.metric)
    scored = _within(scores.values, rule)
    failed = [scores.failed[sample_id] for sample_id in _within(scores.failed, rule)]
    if not scored and not failed:
        yield from _nothing_scored(rule, evidence.current)
        return
    worst = Status.PASS
    if failed:
        # With other scores missing, the joint decision may differ without these too;
        # that is not for want of them.
        worst = at_worst.get((rule.metric, rule.slice), Status.PASS)
    if rule.slice is None or not scored or worst is not Status.PASS:
        yield _coverage(
            rule, len(scored), failed, evidence.policy.gate.min_coverage, worst
        )


class Unfinished(Coverage):
    """An error for a run that was stopped or killed: it does not contain all
    samples."""

    def evaluate(self, evidence: Evidence) -> Iterator[Check]:
        run = evidence.current
        manifest = run.manifest
        if manifest is None or evidence.finished:
            return
        total = manifest.golden.samples
        why = (manifest.stop_reason or "it was interrupted").rstrip(".")
        reason = (
            f"the run did not finish: it has {len(run.samples)} of {counted(total, 'sample')} ({why}). "
            "Continue with --resume."
        )
        yield replace(_error(reason), n=total)


class NothingDecided(Coverage):
    """An error if no score was checked: a run must not pass because there was nothing
    to check.

    Plain scores of which only the number is checked are inconclusive: their first run
    has nothing to be compared with.
    """

    def evaluate(self, evidence: Evidence) -> Iterator[Check]:
        run = evidence.current
        nothing = _error(f"nothing to decide: {_why_nothing(run)}")
        if not evidence.decided or not _has_scores(run):
            yield nothing
        elif run.manifest is None and all(
            _is_covered(check) for check in evidence.decided
        ):
            yield replace(nothing, status=Status.INCONCLUSIVE)


def _is_covered(check: Check) -> bool:
    return check.kind is CheckKind.COVERAGE and check.passed


def _has_scores(run: RunScores) -> bool:
    return any(scores.values for scores in run.metrics.values())


def _why_nothing(run: RunScores) -> str:
    evaluated = 0 if run.manifest is None else run.manifest.golden.samples
    if not run.samples and evaluated:
        drafts = f"of {counted(evaluated, 'sample')}, all are drafts"
        return (
            f"{drafts}. A draft counts once a person has reviewed it (ragstone review)."
        )
    if not _has_scores(run):
        return (
            f"none of {counted(len(run.samples), 'sample')} of {run.label} has a score."
        )
    return f"the policy checks none of its metrics ({', '.join(sorted(run.metrics))}), or needs a baseline for it."


def _error(reason: str) -> Check:
    return Check("coverage", CheckKind.COVERAGE, Status.ERROR, Action.BLOCK, reason)


def _within(samples: Iterable[str], rule: Rule) -> list[str]:
    return [name for name in samples if rule.samples is None or name in rule.samples]


def _coverage(
    rule: Rule, scored: int, failed: Sequence[Failed], minimum: float, worst: Status
) -> Check:
    n = scored + len(failed)
    share = scored / n
    is_enough = scored > 0 and (share >= minimum or rule.slice is not None)
    reason = f"each of {counted(n, 'sample')} it applies to has a score."
    if failed:
        limit = f"coverage {percent(share)}, required {percent(minimum)}"
        if is_enough and worst is not Status.PASS:
            limit = "with the worst score for these, it would not pass"
        reason = f"{len(failed)} of {counted(n, 'sample')} have no score ({_causes(failed)}): {limit}."
    status = Status.ERROR
    if is_enough and worst is not Status.FAIL:
        status = worst
    elif failed and all(failure.by == "system" for failure in failed):
        status = Status.FAIL
    check = rule.check(CheckKind.COVERAGE, status, rule.action, reason)
    return replace(check, estimate=share, threshold=minimum, current=share, n=n)


def _causes(failed: Sequence[Failed]) -> str:
    reasons_by_side: dict[FailedBy, list[str]] = {}
    for failure in failed:
        reasons_by_side.setdefault(failure.by, []).append(failure.reason)
    parts = []
    for by, reasons in sorted(reasons_by_side.items()):
        parts.append(
            f"{FAILED_BY[by]} failed on {len(reasons)}: {usual_reason(reasons)}"
        )
    return "; ".join(parts)


def _nothing_scored(rule: Rule, run: RunScores) -> Iterator[Check]:
    """An error for a rule that the policy has for a metric without scores.

    Samples that were chosen by id or tag need not be samples that each metric applies
    to.
    """
    is_measured = rule.metric in run.metrics
    if not rule.written or (
        is_measured and (is_relative(rule.metric) or _is_selection(run))
    ):
        return
    excuses = run.scores_of(rule.metric).not_applicable
    excused = [excuses[sample_id] for sample_id in _within(excuses, rule)]
    why = f", most often because {usual_reason(excused)}" if excused else ""
    what = "no sample has a score" if is_measured else "this run did not measure it"
    yield rule.check(
        CheckKind.COVERAGE,
        Status.ERROR,
        rule.action,
        f"the policy names it, but {what}{why}.",
    )


def _is_selection(run: RunScores) -> bool:
    return run.manifest is not None and run.manifest.golden.selected


def _unscorable(evidence: Evidence) -> dict[str, str]:
    """The metrics without a rule that no answer of this system can be scored by, each
    with the reason."""
    reasons: dict[str, str] = {}
    for rule in evidence.rules:
        if rule.written or _is_scored_somewhere(rule.metric, evidence):
            continue
        failed = evidence.current.scores_of(rule.metric).failed
        unanswered = evidence.current.system.failures
        failures = [
            failure
            for sample_id, failure in failed.items()
            if sample_id not in unanswered
        ]
        if failures and all(failure.by == "system" for failure in failures):
            reasons[rule.metric] = failures[0].reason
    return reasons


def _is_scored_somewhere(metric: str, evidence: Evidence) -> bool:
    """Whether this run or its baseline has a score of the metric."""
    if evidence.current.scores_of(metric).values:
        return True
    baseline = evidence.baseline
    return baseline is not None and bool(baseline.scores_of(metric).values)


def _lost(evidence: Evidence) -> Iterator[Check]:
    """A check per metric of the default rules that only the baseline has scores of:
    nothing was compared there."""
    run = evidence.current
    baseline = evidence.baseline
    if baseline is None or other_half(run, baseline) is not None:
        return
    has_scores = {
        rule.key for rule in evidence.rules if run.scores_of(rule.metric).applies_to
    }
    for rule in resolve_rules(evidence.policy, baseline).rules:
        before = baseline.scores_of(rule.metric).values
        if (
            len(before) >= MIN_SAMPLES
            and not rule.written
            and rule.key not in has_scores
        ):
            reason = f"the baseline has {counted(len(before), 'score')}, this run none: its drop was not checked."
            yield rule.check(
                CheckKind.COVERAGE, Status.INCONCLUSIVE, rule.action, reason
            )
