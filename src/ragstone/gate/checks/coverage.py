"""Is there enough to decide on: samples with the tags, samples with scores, a finished run?"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace

from ragstone.evaluation.scores import MetricScores, RunScores
from ragstone.formatting import clipped, counted, most_common, percent
from ragstone.gate.checks.checker import Checker
from ragstone.gate.checks.missing import verdicts_at_worst
from ragstone.gate.comparability import other_half
from ragstone.gate.evidence import Evidence
from ragstone.gate.rules import Rule, resolve_rules
from ragstone.gate.verdict import MIN_SAMPLES, Action, Check, CheckKind, Status
from ragstone.metrics.registry import is_relative
from ragstone.metrics.score import FAILED_BY, Failed

_NO_SCORES = MetricScores(values={})


class Coverage(Checker):
    """One check per metric and slice: do enough of the samples it applies to have a score?

    A slice has one only if it can't be decided, and a metric of the default rules that applies to no sample only if the
    baseline has scores of it. A tag that no sample has is an error.
    """

    kinds = (CheckKind.COVERAGE,)
    policy_key = ("gate", "min_coverage")
    share = True

    def evaluate(self, evidence: Evidence) -> Iterator[Check]:
        for tag, hint in evidence.unknown_tags.items():
            reason = f"the policy has rules for the tag '{tag}', but no sample has it. {hint}"
            yield replace(_error(reason), name=f"{tag}/coverage", slice=tag)
        run = evidence.current
        first: dict[tuple[str, str | None], Rule] = {}
        for rule in evidence.rules:
            first.setdefault((rule.metric, rule.slice), rule)
        at_worst, unscorable = verdicts_at_worst(evidence), _unscorable(evidence)
        for rule in first.values():
            if rule.metric in unscorable:
                continue
            scores = run.metrics.get(rule.metric, _NO_SCORES)
            values, failed = _within(scores.values, rule.samples), _within(scores.failed, rule.samples)
            if not values and not failed:
                if rule.written and not (is_relative(rule.metric) and rule.metric in run.metrics):
                    yield _nothing_scored(rule, scores, measured=rule.metric in run.metrics)
                continue
            # With other scores missing, the joint decision may differ here too; that is not for want of these.
            worst = at_worst.get((rule.metric, rule.slice), Status.PASS) if failed else Status.PASS
            if rule.slice is None or not values or worst is not Status.PASS:
                minimum = evidence.policy.gate.min_coverage
                yield _coverage(rule, len(values), [scores.failed[i] for i in failed], minimum, worst)
        yield from _lost(evidence)

    def unguarded(self, evidence: Evidence) -> Iterator[str]:
        for metric, reason in _unscorable(evidence).items():
            yield f"{metric} has no score: {reason.rstrip('.')}. It is not checked."


class Unfinished(Coverage):
    """An error for a run that was stopped or killed: it does not contain all samples."""

    def evaluate(self, evidence: Evidence) -> Iterator[Check]:
        run, manifest = evidence.current, evidence.current.manifest
        if manifest is None or evidence.finished:
            return
        n = manifest.golden.samples
        why = (manifest.stop_reason or "it was interrupted").rstrip(".")
        found = f"it has {len(run.samples)} of {counted(n, 'sample')} ({why})"
        yield replace(_error(f"the run did not finish: {found}. Continue with --resume."), n=n)


class NothingDecided(Coverage):
    """An error if no score was checked: a run must not pass because there was nothing to check.

    Plain scores of which only the number is checked are inconclusive: their first run has nothing to be compared with.
    """

    def evaluate(self, evidence: Evidence) -> Iterator[Check]:
        nothing = _error(f"nothing to decide: {_why_nothing(evidence.current)}")
        if not evidence.decided or not any(scores.values for scores in evidence.current.metrics.values()):
            yield nothing
        elif evidence.current.manifest is None and all(_is_covered(check) for check in evidence.decided):
            yield replace(nothing, status=Status.INCONCLUSIVE)


def _is_covered(check: Check) -> bool:
    return check.kind is CheckKind.COVERAGE and check.status is Status.PASS


def _why_nothing(run: RunScores) -> str:
    evaluated = run.manifest.golden.samples if run.manifest is not None else 0
    if not run.samples and evaluated:
        drafts = "the only sample is a draft" if evaluated == 1 else f"all {evaluated:,} samples are drafts"
        return f"{drafts}. A draft counts once a person has reviewed it (ragstone review)."
    if not run.samples:
        return f"{run.label} has no samples."
    if not any(scores.values for scores in run.metrics.values()):
        return f"none of {counted(len(run.samples), 'sample')} has a score."
    return (
        f"the policy checks none of the metrics of this run ({', '.join(sorted(run.metrics))}), or needs a baseline "
        "for it."
    )


def _error(reason: str) -> Check:
    return Check("coverage", CheckKind.COVERAGE, Status.ERROR, Action.BLOCK, reason)


def _within(by_id: Mapping[str, object], samples: Collection[str] | None) -> list[str]:
    if samples is None:
        return list(by_id)
    fewer, more = (by_id, samples) if len(by_id) < len(samples) else (samples, by_id)
    return [sample_id for sample_id in fewer if sample_id in more]


def _coverage(rule: Rule, scored: int, failed: list[Failed], minimum: float, worst: Status) -> Check:
    n = scored + len(failed)
    covered = scored / n
    enough = scored > 0 and (covered >= minimum or rule.slice is not None)
    if failed:
        so = f"coverage {percent(covered)}, required {percent(minimum)}"
        if enough and worst is not Status.PASS:
            so = f"too many to decide on, because it would {_WOULD[worst]} if these had the worst score"
        reason = f"{len(failed)} of {counted(n, 'sample')} have no score ({_causes(failed)}): {so}."
    elif n == 1:
        reason = "the only sample it applies to has a score."
    else:
        reason = f"all {n:,} samples it applies to have a score."
    crashed = all(one.by == "system" for one in failed)
    status = Status.FAIL if failed and crashed else Status.ERROR
    status = worst if enough and worst is not Status.FAIL else status
    check = rule.check(CheckKind.COVERAGE, status, rule.action, reason)
    return replace(check, estimate=covered, threshold=minimum, current=covered, n=n)


_WOULD = {Status.FAIL: "fail", Status.INCONCLUSIVE: "be inconclusive"}


def _causes(failed: list[Failed]) -> str:
    parts = []
    for by, words in FAILED_BY.items():
        reasons = [one.reason for one in failed if one.by == by]
        if reasons:
            parts.append(f"{words} failed on {len(reasons)}: {clipped(most_common(reasons).rstrip('.'))}")
    return "; ".join(parts)


def _nothing_scored(rule: Rule, scores: MetricScores, *, measured: bool) -> Check:
    if not measured:
        reason = "the policy names it, but this run did not measure it."
    else:
        excused = [scores.not_applicable[i] for i in _within(scores.not_applicable, rule.samples)]
        why = f", most often because {most_common(excused)}" if excused else ""
        reason = f"the policy names it, but no sample has a score{why}."
    return rule.check(CheckKind.COVERAGE, Status.ERROR, rule.action, reason)


def _unscorable(evidence: Evidence) -> dict[str, str]:
    """The metrics that nobody asked for and that no answer of this system can be scored by, each with the reason."""
    base, failures = evidence.baseline, evidence.current.system.failures
    found: dict[str, str] = {}
    for metric in {rule.metric: None for rule in evidence.rules if not rule.written}:
        scores = evidence.current.metrics.get(metric, _NO_SCORES)
        answered = [one for name, one in scores.failed.items() if name not in failures]
        known = scores.values or (base is not None and metric in base.metrics and base.metrics[metric].values)
        if answered and not known and all(one.by == "system" for one in answered):
            found[metric] = answered[0].reason
    return found


def _lost(evidence: Evidence) -> Iterator[Check]:
    """A check per metric of the default rules that only the baseline has scores of: nothing was compared there."""
    run, base = evidence.current, evidence.baseline
    if base is None or other_half(run, base) is not None:
        return
    held = {rule.key for rule in evidence.rules if (one := run.metrics.get(rule.metric)) and (one.values or one.failed)}
    for rule in resolve_rules(evidence.policy, base).rules:
        before = base.metrics.get(rule.metric, _NO_SCORES).values
        if len(before) >= MIN_SAMPLES and not rule.written and rule.key not in held:
            reason = f"the baseline has {counted(len(before), 'score')}, this run none: its drop was not checked."
            yield rule.check(CheckKind.COVERAGE, Status.INCONCLUSIVE, rule.action, reason)
