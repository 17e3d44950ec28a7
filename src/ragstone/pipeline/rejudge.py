"""After a change of the judge, or of labels: judge the baseline's stored answers again
in the same job, to compare like with like."""

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
from ragstone.formatting import counted, dollars, some
from ragstone.gate.comparability import outdated, pair_runs, with_ids_of
from ragstone.gate.judge_change import to_rejudge
from ragstone.gate.policy import Policy
from ragstone.gate.rules import resolve_rules
from ragstone.golden.sample import GoldenSet, Sample
from ragstone.metrics.registry import find_metric
from ragstone.pipeline.confirm import exhausted
from ragstone.pipeline.decide import ComparedRun

_Record = TypeVar("_Record", MetricScores, SystemFacts)


class Rejudged(Struct, frozen=True):
    """The baseline to compare with, its new scores in place of those that can't be
    compared, and what it cost.

    `warnings` say what was done or left undone.
    """

    baseline: ComparedRun | None
    warnings: tuple[str, ...] = ()
    cost: Cost = field(default_factory=Cost)


class _Plan(Struct, frozen=True):
    """What of the baseline is to be judged again."""

    current: RunScores
    """The scores of this run, with the ids of the baseline."""
    reasons: Mapping[str, str]
    """The metrics to score, each with the reason as a clause."""
    samples: frozenset[str]
    """The samples to judge."""
    relabelled: Mapping[str, Sample]
    """The samples with other labels now, as they are in this run's golden set."""
    edited: Mapping[str, frozenset[str]]
    """By metric, the samples with other labels of those that it reads."""
    judge_changed: bool

    @property
    def why(self) -> str:
        reasons = "; ".join(dict.fromkeys(self.reasons.values()))
        return f"{reasons[:1].upper()}{reasons[1:]}"


def _plan(
    baseline: RunScores, current: RunScores, policy: Policy, golden: GoldenSet
) -> _Plan | None:
    """What is to be judged again; None if nothing is."""
    now, names = with_ids_of(baseline, current)
    rules = resolve_rules(policy, now)
    scored_otherwise = to_rejudge(now, baseline, rules, policy)
    pairing, changed = pair_runs(now, baseline), outdated(now, baseline)
    paired = frozenset(pairing.samples)
    edited: dict[str, frozenset[str]] = {}
    for name in now.metrics:
        samples = pairing.edited_for(name) & paired
        if samples and (name in scored_otherwise or name not in changed):
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
    baseline_ids = {names.get(name, name): name for name in relabelled_ids}
    relabelled = {
        baseline_ids[sample.id]: dataclasses.replace(sample, id=baseline_ids[sample.id])
        for sample in golden
        if sample.id in baseline_ids
    }
    return _Plan(
        now,
        reasons,
        paired if scored_otherwise else frozenset(relabelled_ids),
        relabelled,
        edited,
        bool(scored_otherwise),
    )


async def rejudge(
    baseline: ComparedRun | None,
    current: ComparedRun,
    policy: Policy,
    session: Session,
    *,
    folder: Path,
) -> Rejudged:
    """Judge the answers of `baseline` as those of the `current` run were, with its
    judge, its cache and its budget.

    Only if the policy says so, and only for the metrics with an allowed drop that
    differ in judge, prompts or version. If the budget, the time or the judge do not
    suffice, the baseline is returned as it is, with a warning that says what is not
    guarded. The new records are written to the empty `folder`.
    """
    if baseline is None or baseline.run is None or current.run is None:
        return Rejudged(baseline)
    plan = _plan(baseline.scores, current.scores, policy, session.plan.golden)
    if plan is None:
        return Rejudged(baseline)
    stored = StoredAnswers.of(baseline.run)
    try:
        obstacle = exhausted(session, current.run.manifest.cost)
        if obstacle is not None:
            raise JudgeError(obstacle)
        session.context.say(
            f"{plan.why}: judging {counted(len(plan.samples), 'answer')} of the baseline again, to compare like with like."
        )
        samples = GoldenSet(
            tuple(
                plan.relabelled.get(sample.id, sample)
                for sample in stored.golden
                if sample.id in plan.samples
            )
        )
        own = {metric.info.name: metric for metric in session.plan.metrics.own()}
        metrics = [own.get(name) or find_metric(name) for name in plan.reasons]
        judged = await judge_stored(
            stored, session, list(filter(None, metrics)), folder, samples
        )
    except (JudgeError, TimeLimitReached) as error:
        warning = (
            f"Unguarded: the drops of {some(sorted(plan.reasons))}. {plan.why}, and the baseline's answers were not "
            f"judged again ({error.message.rstrip('.')})."
        )
        return Rejudged(baseline, (warning,))
    finally:
        await stored.close()
    return _rejudged(baseline, plan, judged)


def _rejudged(baseline: ComparedRun, plan: _Plan, judged: RunDirectory) -> Rejudged:
    """The baseline with the scores of `judged`, its answers as they were judged
    again."""
    scores, spent = judged.scores(), judged.manifest.cost
    paid = ""
    if spent.calls:
        price = "" if spent.usd is None else f", {dollars(spent.usd)}"
        paid = f" ({counted(spent.calls, 'call')}{price})"
    warning = (
        f"{plan.why}: the baseline's answers were judged again by {judged.manifest.judge.label()}{paid}, so drops "
        "compare like with like."
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
    merged = _merged(baseline.scores, scores, plan)
    rejudged = replace(baseline, scores=merged)
    if plan.judge_changed:
        scores = _as_judged_now(merged, plan.current)
        rejudged = replace(baseline, scores=scores, details=judged)
    return Rejudged(rejudged, tuple(warnings), spent)


def _merged(then: RunScores, again: RunScores, plan: _Plan) -> RunScores:
    """The baseline's scores as this run's judge gives them, by this run's labels.

    Metrics that were not scored again are left out, and so are scores by other labels.
    A sample that would lose a score by its new labels keeps the old ones: nothing can
    be compared there.
    """
    changed, lost = outdated(plan.current, then), set[str]()
    for name in plan.reasons.keys() & plan.edited.keys() & then.metrics.keys():
        scored_before = then.metrics[name].values.keys()
        lost |= plan.edited[name] & scored_before - again.scores_of(name).values.keys()
    relabelled = plan.relabelled.keys() - lost
    parts = ("values", "not_applicable", "failed", "answers")
    metrics = {
        name: _spliced(scores, then.scores_of(name), lost, parts)
        for name, scores in again.metrics.items()
    }
    for name, scores in then.metrics.items():
        if name not in changed:
            edited = plan.edited.get(name, frozenset()) & relabelled
            metrics[name] = _spliced(scores, again.scores_of(name), edited, parts)
    samples = dict(then.samples)
    for name in relabelled:
        now = plan.current.samples[name]
        samples[name] = replace(
            samples[name], parts=now.parts, answerable=now.answerable
        )
    # What else depends on labels and judge.
    system = _spliced(
        then.system, again.system, again.samples.keys(), ("ranked", "reworded")
    )
    return replace(then, metrics=metrics, samples=samples, system=system)


def _as_judged_now(scores: RunScores, current: RunScores) -> RunScores:
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


def _spliced(
    record: _Record, source: _Record, ids: Collection[str], parts: Iterable[str]
) -> _Record:
    """`record`, with what these `parts` of `source` say of the samples `ids` in place
    of its own."""
    changes: dict[str, Any] = {}
    for part in parts:
        own_items = getattr(record, part).items()
        source_items = getattr(source, part).items()
        changes[part] = {name: value for name, value in own_items if name not in ids}
        changes[part] |= {name: value for name, value in source_items if name in ids}
    return replace(record, **changes)
