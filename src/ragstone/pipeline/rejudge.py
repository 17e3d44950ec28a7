"""Judges the baseline's stored answers again in the same job, after a change of the
judge or of labels, so that both runs are scored in the same way."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from ragstone.errors import JudgeError, TimeLimitReached
from ragstone.evaluation.directory import RunDirectory
from ragstone.evaluation.manifest import Cost
from ragstone.evaluation.rounds.judge_stored import judge_stored
from ragstone.evaluation.rounds.session import Session
from ragstone.evaluation.scores import MetricScores, RunScores, SystemFacts
from ragstone.evaluation.stored import StoredAnswers
from ragstone.formatting import counted, dollars, join_first
from ragstone.gate.comparability import pair_runs, scoring_differences, with_ids_of
from ragstone.gate.judge_change import metrics_to_rejudge
from ragstone.gate.policy import Policy
from ragstone.gate.rules import resolve_rules
from ragstone.golden.sample import GoldenSet, Sample
from ragstone.metrics.registry import find_metric
from ragstone.pipeline.confirm import why_no_round
from ragstone.pipeline.decide import ComparedRun

_Record = TypeVar("_Record", MetricScores, SystemFacts)


class Rejudged(Struct, frozen=True):
    """The baseline to compare with. New scores replace those that can't be compared."""

    baseline: ComparedRun | None
    warnings: tuple[str, ...] = ()
    """Which drops were scored again, and which are unguarded."""
    cost: Cost = field(default_factory=Cost)


class _Plan(Struct, frozen=True):
    """Which answers of the baseline to judge again. Samples have the baseline's ids."""

    current: RunScores
    """The scores of this run."""
    reasons: Mapping[str, str]
    """The metrics to score again, each with the reason as a clause."""
    samples: frozenset[str]
    """The samples to judge again."""
    relabelled: Mapping[str, Sample]
    """The samples whose labels changed, as this run's golden set has them."""
    edited: Mapping[str, frozenset[str]]
    """By metric, the samples of which a label that the metric reads changed."""
    judge_changed: bool

    @property
    def why(self) -> str:
        """The reasons, as the beginning of a sentence."""
        reasons = "; ".join(dict.fromkeys(self.reasons.values()))
        return f"{reasons[:1].upper()}{reasons[1:]}"


def _make_plan(
    baseline: RunScores, current: RunScores, policy: Policy, golden: GoldenSet
) -> _Plan | None:
    """What to judge again; None if nothing needs it."""
    current, current_ids = with_ids_of(baseline, current)
    rules = resolve_rules(policy, current)
    scored_otherwise = metrics_to_rejudge(current, baseline, rules, policy)
    pairing = pair_runs(current, baseline)
    incomparable = scoring_differences(current, baseline)
    paired = frozenset(pairing.samples)
    edited: dict[str, frozenset[str]] = {}
    for name in current.metrics:
        samples = pairing.samples_edited_for(name) & paired
        if samples and (name in scored_otherwise or name not in incomparable):
            edited[name] = samples
    drops = {rule.metric for rule in rules if rule.max_drop is not None}
    relabelled_drops = sorted(drops & edited.keys())
    relabelled_ids: set[str] = set()
    for name in relabelled_drops:
        relabelled_ids |= edited[name]
    labels_changed = f"the labels of {counted(len(relabelled_ids), 'sample')} changed"
    reasons = {**dict.fromkeys(relabelled_drops, labels_changed), **scored_otherwise}
    if not reasons or not paired:
        return None
    baseline_ids = {current_ids.get(name, name): name for name in relabelled_ids}
    relabelled = {
        baseline_ids[sample.id]: dataclasses.replace(sample, id=baseline_ids[sample.id])
        for sample in golden
        if sample.id in baseline_ids
    }
    return _Plan(
        current=current,
        reasons=reasons,
        samples=paired if scored_otherwise else frozenset(relabelled_ids),
        relabelled=relabelled,
        edited=edited,
        judge_changed=bool(scored_otherwise),
    )


async def rejudge(
    baseline: ComparedRun | None,
    current: ComparedRun,
    policy: Policy,
    session: Session,
    *,
    folder: Path,
) -> Rejudged:
    """Judge the answers of `baseline` again, with the judge, the cache and the budget
    of the `current` run.

    This is done only if the policy says so, and only for metrics with an allowed drop
    whose judge, prompts, version or labels changed. If the budget or the time is used
    up, or the judge fails, the baseline is returned as it is, with a warning about the
    drops that are not guarded. The new records are written to `folder`, which must be
    empty.
    """
    if baseline is None or baseline.run is None or current.run is None:
        return Rejudged(baseline)
    plan = _make_plan(baseline.scores, current.scores, policy, session.plan.golden)
    if plan is None:
        return Rejudged(baseline)
    stored = StoredAnswers.of(baseline.run)
    try:
        obstacle = why_no_round(session, current.run.manifest.cost)
        if obstacle is not None:
            raise JudgeError(obstacle)
        session.context.say(
            f"{plan.why}: judging {counted(len(plan.samples), 'answer')} of the baseline again, so that both runs are "
            "scored in the same way."
        )
        samples = GoldenSet(
            tuple(
                plan.relabelled.get(sample.id, sample)
                for sample in stored.golden
                if sample.id in plan.samples
            )
        )
        custom = {
            metric.info.name: metric for metric in session.plan.metrics.custom_metrics()
        }
        metrics = [custom.get(name) or find_metric(name) for name in plan.reasons]
        rejudged_run = await judge_stored(
            stored, session, list(filter(None, metrics)), folder, samples
        )
    except (JudgeError, TimeLimitReached) as error:
        warning = (
            f"Unguarded: the drops of {join_first(sorted(plan.reasons))}. {plan.why}, and the baseline's answers were not "
            f"judged again ({error.message.rstrip('.')})."
        )
        return Rejudged(baseline, (warning,))
    finally:
        await stored.close()
    return _replace_scores(baseline, plan, rejudged_run)


def _replace_scores(
    baseline: ComparedRun, plan: _Plan, rejudged_run: RunDirectory
) -> Rejudged:
    """The baseline with the scores of `rejudged_run`, in which its answers were judged
    again."""
    scores, cost = rejudged_run.scores(), rejudged_run.manifest.cost
    cost_words = ""
    if cost.calls:
        price = "" if cost.usd is None else f", {dollars(cost.usd)}"
        cost_words = f" ({counted(cost.calls, 'call')}{price})"
    warning = (
        f"{plan.why}: the baseline's answers were judged again by {rejudged_run.manifest.judge.label()}{cost_words}, so that "
        "both runs are scored in the same way."
    )
    if plan.judge_changed:
        warning += " Floors were set for the old scores."
    warnings, unjudged = [warning], set[str]()
    for metric in scores.metrics.values():
        failures = metric.failed.items()
        unjudged |= {sample_id for sample_id, why in failures if why.by == "judge"}
    if unjudged:
        warnings.append(
            f"{counted(len(unjudged), 'answer')} of the baseline could not be judged again and are not compared."
        )
    merged = _merge(baseline.scores, scores, plan)
    rejudged = replace(baseline, scores=merged)
    if plan.judge_changed:
        scores = _with_judge_of(merged, plan.current)
        rejudged = replace(baseline, scores=scores, details=rejudged_run)
    return Rejudged(rejudged, tuple(warnings), cost)


def _merge(before: RunScores, again: RunScores, plan: _Plan) -> RunScores:
    """The baseline's scores by this run's judge and this run's labels.

    Metrics that can't be compared and were not scored again are left out. A sample that
    would lose a score by its new labels keeps its scores by the old ones: nothing can
    be compared there.
    """
    incomparable, lost = scoring_differences(plan.current, before), set[str]()
    for name in plan.reasons.keys() & plan.edited.keys() & before.metrics.keys():
        scored_before = before.metrics[name].values.keys()
        lost |= plan.edited[name] & scored_before - again.scores_of(name).values.keys()
    relabelled = plan.relabelled.keys() - lost
    parts = ("values", "not_applicable", "failed", "answers")
    metrics = {
        name: _replace_samples(scores, before.scores_of(name), lost, parts)
        for name, scores in again.metrics.items()
    }
    for name, scores in before.metrics.items():
        if name not in incomparable:
            edited = plan.edited.get(name, frozenset()) & relabelled
            source = again.scores_of(name)
            metrics[name] = _replace_samples(scores, source, edited, parts)
    samples = dict(before.samples)
    for name in relabelled:
        current = plan.current.samples[name]
        samples[name] = replace(
            samples[name], parts=current.parts, answerable=current.answerable
        )
    # Facts that also depend on labels and judge.
    system = _replace_samples(
        before.system, again.system, again.samples.keys(), ("ranked", "reworded")
    )
    return replace(before, metrics=metrics, samples=samples, system=system)


def _with_judge_of(scores: RunScores, current: RunScores) -> RunScores:
    """`scores` with the judge of `current` in their manifest."""
    observed = current.rounds.judge.observed
    judge = scores.rounds.judge.model_copy(update={"observed": observed})
    manifest, metrics = scores.manifest, scores.metrics.items()
    if manifest is not None and current.manifest is not None:
        versions = {name: measured.version for name, measured in metrics}
        update = {
            "judge": current.manifest.judge,
            "repeats": current.manifest.repeats,
            "metrics": {name: version for name, version in versions.items() if version},
        }
        manifest = manifest.model_copy(update=update)
    rounds = replace(scores.rounds, judge=judge)
    return replace(scores, manifest=manifest, rounds=rounds)


def _replace_samples(
    record: _Record, source: _Record, ids: Collection[str], parts: Iterable[str]
) -> _Record:
    """`record`, in whose `parts` the entries of the samples `ids` are those of
    `source`."""
    changes: dict[str, Any] = {}
    for part in parts:
        old_items = getattr(record, part).items()
        new_items = getattr(source, part).items()
        changes[part] = {name: value for name, value in old_items if name not in ids}
        changes[part] |= {name: value for name, value in new_items if name in ids}
    return replace(record, **changes)
