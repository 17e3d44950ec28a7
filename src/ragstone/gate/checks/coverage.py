"""Is there enough to decide on: samples with the tags of the policy, samples with
scores, and a run that finished?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from ragstone.errors import suggestion
from ragstone.evaluation.scores import RunScores
from ragstone.formatting import counted, percent, usual_reason
from ragstone.gate.checks.checker import Checker
from ragstone.gate.checks.missing import verdicts_at_worst
from ragstone.gate.comparability import difference_of_halves
from ragstone.gate.evidence import Evidence
from ragstone.gate.rules import Rule, resolve_rules
from ragstone.gate.verdict import MIN_SAMPLES, Action, Check, CheckKind, Status
from ragstone.metrics.registry import is_relative
from ragstone.metrics.score import FAILED_BY, Failed


class Coverage(Checker):
    """One check per rule: do enough of the samples that the metric applies to have a
    score?

    A rule for a slice has a check only if it can't be decided. A metric of the default
    rules that applies to no sample has one only if the baseline has scores of it. A tag
    that no sample has is an error.
    """

    kinds = (CheckKind.COVERAGE,)
    policy_key = ("gate", "min_coverage")
    is_share = True

    def evaluate(self, evidence: Evidence) -> Iterator[Check]:
        run = evidence.current
        gate = evidence.policy.gate
        tags = [facts.tags for facts in run.samples.values()]
        known_tags = set().union(*tags)
        unknown_tags = evidence.policy.slices.keys() - known_tags
        for tag in sorted(unknown_tags):
            hint = "No sample of this run has any tag."
            if known_tags:
                hint = suggestion(tag, known_tags)
            reason = f"the policy has rules for the tag '{tag}', but no sample has it. {hint}"
            check = _error(reason)
            yield replace(check, name=f"{tag}/coverage", slice=tag)
        at_worst = verdicts_at_worst(evidence)
        unscorable = dict(_unscorable(evidence))
        for rule in evidence.rules:
            if rule.metric in unscorable:
                continue
            scores = run.scores_of(rule.metric)
            scored = len(rule.covered(scores.values))
            failed_samples = rule.covered(scores.failed)
            failed = [scores.failed[sample_id] for sample_id in failed_samples]
            status_at_worst = Status.PASS
            if failed:
                # Drops are decided together, so that the worst scores of one metric can
                # change the result of another. Only a metric that misses scores fails.
                status_at_worst = at_worst.get(rule.place, Status.PASS)
            has_problem = not scored or status_at_worst is not Status.PASS
            if not scored and not failed:
                yield from _unscored_check(rule, run)
            elif rule.slice is None or has_problem:
                yield _coverage_check(
                    rule, scored, failed, gate.min_coverage, status_at_worst
                )
        yield from _checks_of_lost_metrics(evidence)


class Unfinished(Coverage):
    """An error for a run that was stopped or killed: it does not contain all
    samples."""

    def evaluate(self, evidence: Evidence) -> Iterator[Check]:
        run = evidence.current
        manifest = run.manifest
        if manifest is None or evidence.is_finished:
            return
        total = counted(manifest.golden.samples, "sample")
        stop_reason = manifest.stop_reason or "it was interrupted"
        stop_reason = stop_reason.rstrip(".")
        samples = len(run.samples)
        yield _error(
            f"the run did not finish: it has {samples} of {total} ({stop_reason}). Continue with --resume."
        )


class NothingDecided(Coverage):
    """An error if no score was checked: a run must not pass because there was nothing
    to check.

    Inconclusive for a file of scores of which only the coverage was checked: a first
    file has nothing to be compared with.
    """

    def evaluate(self, evidence: Evidence) -> Iterator[Check]:
        run = evidence.current
        checks = evidence.checks
        has_decision = any(
            check.kind != CheckKind.COVERAGE or not check.passed for check in checks
        )
        status = Status.ERROR
        manifest = run.manifest
        if manifest is not None and manifest.golden.samples and not run.samples:
            # Drafts are evaluated, but left out of the scores.
            drafts = counted(manifest.golden.samples, "sample")
            problem = f"the golden set has only drafts ({drafts}). They count once a person reviewed them (ragstone review)."
        elif not any(scores.values for scores in run.metrics.values()):
            samples = counted(len(run.samples), "sample")
            problem = f"none of {samples} of {run.label} has a score."
        elif not checks or (manifest is None and not has_decision):
            metrics = ", ".join(sorted(run.metrics))
            problem = (
                f"the policy has no rule for a metric of {run.label} ({metrics}) that "
                "needs no baseline. Set a floor or a ceiling for it, or name a baseline."
            )
            if checks:
                status = Status.INCONCLUSIVE
        else:
            return
        yield replace(_error(f"nothing to decide: {problem}"), status=status)


def _error(reason: str) -> Check:
    """A check of the whole run that ends in an error."""
    return Check("coverage", CheckKind.COVERAGE, Status.ERROR, Action.BLOCK, reason)


def _coverage_check(
    rule: Rule,
    scored: int,
    failed: Sequence[Failed],
    minimum: float,
    status_at_worst: Status,
) -> Check:
    """The check of a rule by how many samples have a score.

    `status_at_worst` is what its floor or drop would be with the worst scores in place of
    those that failed.
    """
    n = scored + len(failed)
    share = scored / n
    # The minimum is for all samples of a metric; a slice is a part of them.
    meets_minimum = share >= minimum or rule.slice is not None
    has_enough = scored > 0 and meets_minimum
    # Scores that only the system is to blame for are its failure, others an error.
    status = Status.ERROR
    if has_enough and status_at_worst is not Status.FAIL:
        status = status_at_worst
    elif all(failure.by == "system" for failure in failed):
        status = Status.FAIL
    samples = counted(n, "sample")
    reason = f"each of {samples} that it applies to has a score."
    if failed:
        reasons = [
            f"{FAILED_BY[failure.by]} failed: {failure.reason}" for failure in failed
        ]
        most_often = usual_reason(reasons)
        coverage = percent(share)
        required = percent(minimum)
        limit = f"coverage {coverage}, required {required}"
        if has_enough and status_at_worst is not Status.PASS:
            limit = "if these had the worst score, it would not pass"
        unscored = f"{len(failed)} of {samples} have no score"
        reason = f"{unscored} (most often: {most_often}); {limit}."
    check = rule.check(CheckKind.COVERAGE, status, rule.action, reason)
    return replace(check, estimate=share, threshold=minimum, current=share, n=n)


def _unscored_check(rule: Rule, run: RunScores) -> Iterator[Check]:
    """An error if the policy names a metric without scores; none for a default rule.

    If the samples were selected by id or tag, the metric need not apply to any of them.
    """
    if not rule.written:
        return
    what = "this run did not measure it"
    if rule.metric in run.metrics:
        is_selection = run.manifest is not None and run.manifest.golden.selected
        if is_selection or is_relative(rule.metric):
            return
        what = "no sample has a score"
    not_applicable = run.scores_of(rule.metric).not_applicable
    reasons = [not_applicable[sample_id] for sample_id in rule.covered(not_applicable)]
    if reasons:
        most_often = usual_reason(reasons)
        what += f", most often because {most_often}"
    reason = f"the policy has a rule for it, but {what}."
    yield rule.check(CheckKind.COVERAGE, Status.ERROR, rule.action, reason)


def _unscorable(evidence: Evidence) -> Iterator[tuple[str, str]]:
    """The metrics that the policy does not name and that this system can't be scored
    by, each with the reason."""
    run = evidence.current
    baseline = evidence.baseline
    for rule in evidence.rules:
        scores = run.scores_of(rule.metric)
        is_scored = scores.values or baseline.scores_of(rule.metric).values
        failures = [
            failure
            for sample_id, failure in scores.failed.items()
            if sample_id not in run.system.failures
        ]
        sides = {failure.by for failure in failures}
        if sides == {"system"} and not rule.written and not is_scored:
            yield rule.metric, failures[0].reason


def unscored_metric_sentences(evidence: Evidence) -> Iterator[str]:
    """A sentence on each metric that is not checked because this system can't be scored
    by it."""
    for metric, reason in _unscorable(evidence):
        clause = reason.rstrip(".")
        yield f"{metric} has no score: {clause}. It is not checked."


def _checks_of_lost_metrics(evidence: Evidence) -> Iterator[Check]:
    """An inconclusive check for each metric of the default rules that only the baseline
    has scores of: its drop can't be checked."""
    run = evidence.current
    baseline = evidence.baseline
    if difference_of_halves(run, baseline) is not None:
        return  # retrieval or generation alone is compared with nothing else
    applicable = {
        rule.key for rule in evidence.rules if run.scores_of(rule.metric).applies_to
    }
    for rule in resolve_rules(evidence.policy, baseline):
        baseline_count = len(baseline.scores_of(rule.metric).values)
        if (
            baseline_count >= MIN_SAMPLES
            and not rule.written
            and rule.key not in applicable
        ):
            baseline_scores = counted(baseline_count, "score")
            reason = f"the baseline has {baseline_scores}, this run none: its drop was not checked."
            status = Status.INCONCLUSIVE
            yield rule.check(CheckKind.COVERAGE, status, rule.action, reason)
