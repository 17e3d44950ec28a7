"""After a change of the judge, or of labels: judge the baseline's stored answers again
in the same job, to compare like with like."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragstone.errors import JudgeError, TimeLimitReached
from ragstone.evaluation.directory import RunDirectory
from ragstone.evaluation.manifest import Cost
from ragstone.evaluation.rounds.judge_stored import judge_stored, judging_cost
from ragstone.evaluation.rounds.project_metrics import ProjectMetrics
from ragstone.evaluation.rounds.session import RunPlan, Session
from ragstone.evaluation.scores import MetricScores, RunScores, SampleFacts, SystemFacts
from ragstone.evaluation.stored import StoredAnswers
from ragstone.formatting import counted, dollars, some
from ragstone.gate.comparability import outdated, pair_runs, with_ids_of
from ragstone.gate.judge_change import compare_judges, to_rejudge
from ragstone.gate.policy import Policy
from ragstone.gate.rules import resolve_rules
from ragstone.golden.sample import GoldenSet, Sample
from ragstone.judge.judgements import JudgementKind
from ragstone.metrics.metric import Metric
from ragstone.metrics.registry import find_metric
from ragstone.pipeline.decide import ComparedRun
from ragstone.system.response import Context, Response

if TYPE_CHECKING:
    from ragstone.judge.llm.estimate import CostEstimate


@dataclass(frozen=True, slots=True)
class Rejudged:
    """The baseline to compare with, its new scores in place of those that can't be
    compared, and what it cost.

    `warnings` say what was done or left undone, `notes` how far the two judges agree.
    """

    baseline: ComparedRun | None
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    cost: Cost = field(default_factory=Cost)


@dataclass(frozen=True, slots=True)
class _Plan:
    """What of the baseline is to be judged again: `golden` are its samples, `now` the
    current scores with its ids.

    `stored` are its answers, to be closed. `wanted` are the metrics with an allowed
    drop, with the reason; `metrics` are those to score. `edited` are the samples with
    other labels now, and `by_metric` those that a metric reads; if the judge or a
    version `moved`, `golden` has others too.
    """

    now: RunScores
    wanted: Mapping[str, str]
    stored: StoredAnswers
    golden: GoldenSet
    metrics: Sequence[Metric]
    by_metric: Mapping[str, frozenset[str]]
    edited: frozenset[str]
    moved: bool

    @property
    def why(self) -> str:
        return "; ".join(dict.fromkeys(self.wanted.values()))

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(metric.info.name for metric in self.metrics)


def _plan(
    baseline: ComparedRun, current: RunScores, policy: Policy, run: RunPlan
) -> _Plan | None:
    """What is to be judged again; None if nothing is, and then no answer is read."""
    now, names = with_ids_of(
        baseline.scores, current
    )  # the stored answers have the baseline's ids
    rules = resolve_rules(policy, now).rules
    moved = to_rejudge(now, baseline.scores, rules, policy)
    pairing = pair_runs(now, baseline.scores, unmatched=policy.gate.unmatched)
    paired, changed = frozenset(pairing.samples), outdated(now, baseline.scores)
    scored = (name for name in now.metrics if name in moved or name not in changed)
    by_metric = {
        name: edited for name in scored if (edited := pairing.edited_for(name) & paired)
    }
    drops = {
        rule.metric for rule in rules if rule.max_drop is not None
    } & by_metric.keys()
    edited = frozenset[str]().union(*(by_metric[name] for name in drops))
    wanted = {
        **dict.fromkeys(
            sorted(drops), f"the labels of {counted(len(edited), 'sample')} changed"
        ),
        **moved,
    }
    if baseline.run is None or not wanted or not paired:
        return None
    stored = StoredAnswers.of(baseline.run)
    ids = {names.get(name, name): name for name in edited}
    labelled = {
        ids[sample.id]: replace(sample, id=ids[sample.id])
        for sample in run.golden
        if sample.id in ids
    }
    chosen = paired if moved else edited
    golden = GoldenSet(
        tuple(
            labelled.get(sample.id, sample)
            for sample in stored.golden
            if sample.id in chosen
        )
    )
    metrics = _metrics(
        wanted, {*changed, *by_metric} if moved else {*by_metric}, golden, run.metrics
    )
    return _Plan(
        now,
        wanted,
        stored,
        golden,
        metrics,
        by_metric,
        frozenset(labelled),
        bool(moved),
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

    Only if the policy says so, and only the samples and metrics that are compared and
    differ in judge, prompts or version. If the budget, the time or the judge do not
    suffice, the baseline is returned as it is, with a warning that says what is not
    guarded. The new records are written to the empty `folder`.
    """
    if baseline is None or baseline.run is None or current.run is None:
        return Rejudged(baseline)
    run, context = current.run, session.context
    plan = _plan(baseline, current.scores, policy, session.plan)
    if plan is None:
        return Rejudged(baseline)
    stored = plan.stored
    try:
        golden = plan.golden
        # An answer that is the same in both runs was judged a moment ago, and is in the
        # cache.
        same = _same_answers(run, stored, frozenset(sample.id for sample in golden))
        different = GoldenSet(
            tuple(sample for sample in golden if sample.id not in same)
        )
        cost = judging_cost(stored, different, plan.metrics, session.plan)
        needed = f" To judge {counted(len(golden), 'answer')} takes {cost.sentence()}."
        if (obstacle := _obstacle(cost, run.manifest.cost, session)) is not None:
            return _unguarded(baseline, plan, obstacle, needed)
        context.say(
            f"{plan.why}: judging {counted(len(golden), 'answer')} of the baseline again, to compare like with like: "
            f"{cost.sentence()}."
        )
        try:
            private = replace(context, system_log=None)
            judged = await judge_stored(
                stored, session, plan.metrics, folder, samples=golden, context=private
            )
        except (JudgeError, TimeLimitReached) as error:
            return _unguarded(baseline, plan, error.message, needed)
    finally:
        await stored.close()
    return _rejudged(baseline, plan, judged, seed=session.plan.seed)


def facts_of(samples: Iterable[Sample]) -> dict[str, SampleFacts]:
    """What the gate knows of samples that are not evaluated yet."""
    return {sample.id: SampleFacts.of(sample) for sample in samples}


def _rejudged(
    baseline: ComparedRun, plan: _Plan, again: RunDirectory, *, seed: int
) -> Rejudged:
    """The baseline with the scores of `again`, its answers as they were judged
    again."""
    scores = again.scores()
    label = again.manifest.judge.label()
    spent = again.manifest.cost
    price = "" if spent.usd is None else f", {dollars(spent.usd)}"
    paid = f" ({counted(spent.calls, 'call')}{price})" if spent.calls else ""
    why = f"{plan.why[:1].upper()}{plan.why[1:]}"
    judges = (
        compare_judges(baseline.scores, scores, plan.names, seed=seed)
        if plan.moved
        else ()
    )
    warning = f"{why}: the baseline's answers were judged again by {label}{paid}, so drops compare like with like."
    if judges:
        warning += " Floors were set for the old scores; the notes say how far the new ones differ."
    return Rejudged(
        replace(
            baseline,
            scores=_merged(baseline.scores, scores, plan),
            details=again if plan.moved else None,
        ),
        (warning, *_lost(scores, plan.names)),
        tuple(difference.sentence() for difference in judges),
        spent,
    )


def _same_answers(
    run: RunDirectory, stored: StoredAnswers, ids: frozenset[str]
) -> frozenset[str]:
    """The samples with the same answers and contexts in `run` as in `stored`."""

    def texts(responses: Iterable[Response]) -> list[tuple[str, tuple[Context, ...]]]:
        return [(response.answer, response.contexts) for response in responses]

    records = (record for record in run.records() if record.sample.id in ids)
    return frozenset(
        record.sample.id
        for record in records
        if texts(record.responses)
        == texts(
            stored.response(record.sample.id, number)
            for number in range(len(record.answers))
        )
    )


def _metrics(
    wanted: Mapping[str, str],
    changed: Collection[str],
    golden: GoldenSet,
    project: ProjectMetrics,
) -> list[Metric]:
    """The metrics to score: those with an allowed drop, and those that need no other
    judgement than they do."""
    own = {metric.info.name: metric for metric in project.own()}
    changed_metrics = {
        name: metric
        for name in changed
        if (metric := own.get(name) or find_metric(name)) is not None
    }

    def needs(metric: Metric) -> frozenset[JudgementKind]:
        return frozenset().union(*(metric.needs(sample) for sample in golden))

    kinds = frozenset[JudgementKind]().union(
        *(needs(changed_metrics[name]) for name in wanted if name in changed_metrics)
    )
    return [
        metric
        for name, metric in changed_metrics.items()
        if name in wanted or needs(metric) <= kinds
    ]


def _obstacle(cost: CostEstimate, run: Cost, session: Session) -> str | None:
    """Why the baseline can't be judged again, if that is known before."""
    if session.time_left_s is not None and session.time_left_s <= 0:
        return "the time limit is reached"
    budget = session.plan.judge.settings.max_cost_usd
    if budget is None or cost.usd is None:
        return None
    remaining = budget - (run.usd or 0.0)
    if cost.usd <= remaining:
        return None
    enough = math.ceil(100.0 * ((run.usd or 0.0) + cost.usd)) / 100.0
    return f"{dollars(max(remaining, 0.0))} of the budget is left; raise judge.max_cost_usd to {dollars(enough)}"


def _unguarded(
    baseline: ComparedRun, plan: _Plan, obstacle: str, needed: str = ""
) -> Rejudged:
    """The baseline as it is, with a warning. `needed` says what judging it again would
    take."""
    warning = (
        f"Unguarded: the drops of {some(sorted(plan.wanted))}. {plan.why[:1].upper()}{plan.why[1:]}, and the "
        f"baseline's answers were not judged again ({obstacle.rstrip('.')}).{needed}"
    )
    return Rejudged(baseline, (warning,))


def _lost(scores: RunScores, names: Sequence[str]) -> list[str]:
    lost = {
        i
        for name in names
        for i, failure in scores.metrics[name].failed.items()
        if failure.by == "judge"
    }
    if not lost:
        return []
    return [
        f"{counted(len(lost), 'answer')} of the baseline could not be judged again and are not compared."
    ]


def _merged(then: RunScores, again: RunScores, plan: _Plan) -> RunScores:
    """The baseline's scores as this run's judge gives them, by this run's labels.

    Metrics that were not scored again are left out, and so are scores by other labels.
    A sample that would lose a score by its new labels keeps the old ones: nothing can
    be compared there.
    """
    now, changed = plan.now, outdated(plan.now, then)
    scored = {
        name: metric_scores
        for name, metric_scores in then.metrics.items()
        if name not in changed
    }
    lost = set[str]()
    for name in plan.wanted.keys() & plan.by_metric.keys() & then.metrics.keys():
        scored_ids = (
            again.metrics[name].values.keys()
            if name in again.metrics
            else frozenset[str]()
        )
        lost |= plan.by_metric[name] & then.metrics[name].values.keys() - scored_ids
    relabelled = plan.edited - lost
    metrics = {
        name: _spliced(metric_scores, then.metrics.get(name), lost)
        for name, metric_scores in again.metrics.items()
    }
    for name, metric_scores in scored.items():
        metrics[name] = _spliced(
            metric_scores,
            again.metrics.get(name),
            plan.by_metric.get(name, frozenset()) & relabelled,
        )
    samples = {
        name: replace(
            then.samples[name],
            parts=now.samples[name].parts,
            answerable=now.samples[name].answerable,
        )
        for name in relabelled
    }
    manifest, rounds = then.manifest, then.rounds
    if plan.moved:
        judge = rounds.judge.model_copy(update={"observed": now.rounds.judge.observed})
        rounds = replace(rounds, judge=judge)
    if plan.moved and manifest is not None and now.manifest is not None:
        manifest = manifest.model_copy(
            update={
                "judge": now.manifest.judge,
                "repeats": now.manifest.repeats,
                "metrics": {
                    name: metric_scores.version
                    for name, metric_scores in metrics.items()
                    if metric_scores.version is not None
                },
            }
        )
    return replace(
        then,
        metrics=metrics,
        manifest=manifest,
        rounds=rounds,
        samples={**then.samples, **samples} if samples else then.samples,
        system=_with_judged_facts(then.system, again.system, again.samples.keys()),
    )


def _with_judged_facts(
    then: SystemFacts, again: SystemFacts, judged: Collection[str]
) -> SystemFacts:
    """`then` with what `again` says of the samples `judged` again, as far as that
    depends on labels and judge."""
    ranked = {
        name: contexts for name, contexts in then.ranked.items() if name not in judged
    }
    reworded = {
        name: words for name, words in then.reworded.items() if name not in judged
    }
    return replace(
        then, ranked={**ranked, **again.ranked}, reworded={**reworded, **again.reworded}
    )


def _spliced(
    scores: MetricScores, source: MetricScores | None, ids: Collection[str]
) -> MetricScores:
    """`scores`, with what `source` says of the samples `ids` in place of its own."""
    if not ids:
        return scores
    parts: dict[str, Any] = {}
    for name in (part.name for part in fields(scores) if part.name != "version"):
        own_values, source_values = (
            getattr(scores, name),
            {} if source is None else getattr(source, name),
        )
        parts[name] = {
            key: value for key, value in own_values.items() if key not in ids
        }
        parts[name] |= {key: source_values[key] for key in ids if key in source_values}
    return replace(scores, **parts)
