"""After a change of the judge: judge the baseline's stored answers again in the same job, to compare like with like."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import monotonic

from ragstone.app.context import RunContext
from ragstone.app.custom import custom_metrics
from ragstone.app.decide import ComparedRun
from ragstone.app.evaluate import evaluate_golden_set, facts_of
from ragstone.app.inputs import shard_of
from ragstone.app.rescore import stored_cost
from ragstone.config import Settings
from ragstone.errors import ConfigError, JudgeError, RunDirectoryError, TimeLimitReached
from ragstone.formatting import counted, dollars, some
from ragstone.gate.comparability import outdated, pair_runs, with_ids_of
from ragstone.gate.judge_change import compare_judges, to_rejudge
from ragstone.gate.policy import Policy
from ragstone.gate.rules import resolve_rules
from ragstone.golden.sample import GoldenSet
from ragstone.judge.factory import build_judge
from ragstone.judge.judgements import JudgementKind
from ragstone.judge.llm.estimate import CostEstimate
from ragstone.judge.protocol import Judge
from ragstone.metrics.metric import Metric
from ragstone.metrics.registry import find_metric
from ragstone.run.directory import CACHE, MANIFEST, REJUDGED, RunDirectory
from ragstone.run.manifest import Cost, JudgeManifest
from ragstone.run.merge import merge_runs
from ragstone.run.scores import RunScores
from ragstone.run.stored import StoredAnswers
from ragstone.system.response import Context, Response


@dataclass(frozen=True, slots=True)
class Rejudged:
    """The baseline to compare with, its new scores in place of those that can't be compared, and what it cost.

    `warnings` say what was done or left undone, `notes` how far the two judges agree.
    """

    baseline: ComparedRun | None
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    cost: Cost = field(default_factory=Cost)


class Rejudging:
    """Judges `baseline` again after a run, if its judge was another one; `result` is the baseline to compare with.

    `begun`: the run has finished, and its verdict is still to come.
    `folder` is an empty folder for the new records.
    """

    def __init__(
        self, baseline: ComparedRun | None, policy: Policy, settings: Settings, context: RunContext, *, folder: Path
    ) -> None:
        self.result = Rejudged(baseline)
        self._policy = policy
        self._settings = settings
        self._context = context
        self._folder = folder
        self._started = monotonic()
        self.begun = False

    async def judge_again(self, run: RunDirectory, judge: Judge, whole: GoldenSet | None = None) -> None:
        """To be called with the finished `run` and its judge, which is still open.

        `whole` is the golden set of which the run is a shard: then this judges that shard of the baseline.
        """
        self.begun = True
        limit = self._settings.run.time_limit_s
        left = None if limit is None else limit - (monotonic() - self._started)
        current = ComparedRun(run.scores(), run)
        self.result = await rejudge(
            self.result.baseline,
            current,
            judge,
            self._policy,
            self._settings,
            self._context,
            folder=self._folder,
            time_left_s=left,
            whole=whole,
        )

    async def judge_merged(self, run: RunDirectory, golden: GoldenSet, shards: Sequence[Path]) -> None:
        """The same for a run that was merged from `shards`: from what they judged again, or by a judge built here."""
        self.begun = True
        baseline = self.result.baseline
        if baseline is None or baseline.run is None:
            return
        due = _due(baseline, run.scores(), self._policy)
        if due is None:
            return
        stored = StoredAnswers.of(baseline.run)
        try:
            plan = _plan(due, baseline.scores, self._settings, stored)
            if parts := _parts(shards):
                self.result = self._from_parts(baseline, plan, parts, run, stored)
                return
        finally:
            await stored.close()
        settings, context = self._settings, self._context
        try:
            judge = build_judge(
                settings.judge,
                golden_set=golden,
                cache=run.path / CACHE,
                environ=context.environ,
                tell_secret=context.redact.add,
                within=settings.within,
            )
        except ConfigError as error:
            why = f"the shards did not do it, and the judge can't be asked here: {error.message}"
            self.result = _no_parts(baseline, plan, why)
            return
        try:
            if JudgeManifest.of(judge.identity) == run.manifest.judge:
                await self.judge_again(run, judge)
            else:
                why = "the shards did not do it, and the judge here is not theirs"
                self.result = _no_parts(baseline, plan, why)
        finally:
            await judge.close()

    def _from_parts(
        self, baseline: ComparedRun, plan: _Plan, parts: Sequence[Path], run: RunDirectory, stored: StoredAnswers
    ) -> Rejudged:
        """The baseline as the shards judged it, each its part."""
        try:
            custom = custom_metrics(self._settings)
            again = merge_runs(parts, self._folder, golden=plan.golden, custom=custom, redact=self._context.redact).run
            manifest = again.manifest
            if manifest.judge != run.manifest.judge or manifest.repeats != run.manifest.repeats:
                return _no_parts(baseline, plan, "what the shards have is by another judge")
            for record in again.records():
                known = (stored.response(record.sample.id, number) for number in range(len(record.answers)))
                if record.responses != tuple(known):
                    return _no_parts(baseline, plan, f"the shards have another answer to '{record.sample.id}'")
        except RunDirectoryError as error:
            return _no_parts(baseline, plan, " ".join(error.message.split()))
        return _rejudged(baseline, plan, again, seed=self._settings.run.seed)


def _parts(shards: Sequence[Path]) -> list[Path]:
    return [folder for path in shards if os.path.lexists((folder := path / REJUDGED) / MANIFEST)]


@dataclass(frozen=True, slots=True)
class _Due:
    """What is to be judged again: the current run with the baseline's ids, why by metric, and the paired samples."""

    now: RunScores
    wanted: Mapping[str, str]
    paired: frozenset[str]


@dataclass(frozen=True, slots=True)
class _Plan:
    """What of the baseline is to be judged again: `golden` are its samples, `now` the current scores with its ids.

    `wanted` are the metrics with an allowed drop, with the reason; `metrics` are those to score.
    """

    now: RunScores
    wanted: Mapping[str, str]
    golden: GoldenSet
    metrics: Sequence[Metric]

    @property
    def why(self) -> str:
        return "; ".join(dict.fromkeys(self.wanted.values()))

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(metric.info.name for metric in self.metrics)


def _due(baseline: ComparedRun, current: RunScores, policy: Policy) -> _Due | None:
    """What is to be judged again; None if nothing is. Reads nothing."""
    now, _ = with_ids_of(baseline.scores, current)  # the stored answers have the baseline's ids
    wanted = to_rejudge(now, baseline.scores, resolve_rules(policy, now).rules, policy)
    paired = frozenset(pair_runs(now, baseline.scores, unmatched=policy.gate.unmatched).samples)
    return _Due(now, wanted, paired) if wanted and paired else None


def _plan(due: _Due, baseline: RunScores, settings: Settings, stored: StoredAnswers) -> _Plan:
    """How to judge what is `due`; `stored` are the answers of `baseline`."""
    golden = GoldenSet(tuple(sample for sample in stored.golden if sample.id in due.paired))
    return _Plan(due.now, due.wanted, golden, _metrics(due.wanted, outdated(due.now, baseline), golden, settings))


async def rejudge(
    baseline: ComparedRun | None,
    current: ComparedRun,
    judge: Judge,
    policy: Policy,
    settings: Settings,
    context: RunContext,
    *,
    folder: Path,
    time_left_s: float | None = None,
    whole: GoldenSet | None = None,
) -> Rejudged:
    """Judge the answers of `baseline` as those of the `current` run were, with the same `judge`, its cache and budget.

    Only if the policy says so, and only the samples and metrics that are compared and differ in judge, prompts or
    version. If the budget, the time or the judge do not suffice, the baseline is returned as it is, with a warning that
    says what is not guarded. The new records are written to the empty `folder`. `whole` is the golden set of which the
    current run is a shard: then only that shard of the baseline is judged, and its new scores are not yet those to
    compare with.
    """
    if baseline is None or baseline.run is None or current.run is None:
        return Rejudged(baseline)
    run, scores = current.run, current.scores
    if whole is not None:  # the same plan in every shard
        scores = replace(scores, samples=facts_of(whole))
    due = _due(baseline, scores, policy)
    if due is None:
        return Rejudged(baseline)
    stored = StoredAnswers.of(baseline.run)
    try:
        plan = _plan(due, baseline.scores, settings, stored)
        shard = None if whole is None else shard_of(settings)
        golden = plan.golden if shard is None else shard.part(plan.golden)
        update = {
            "out": str(folder),
            "metrics": plan.names,
            "resume": False,
            "oracle": False,
            "time_limit_s": time_left_s,
            "answers": baseline.run.manifest.answers,
        }
        own = settings.model_copy(update={"run": settings.run.model_copy(update=update)})
        if shard is not None:
            own = own.model_copy(update={"judge": shard.share(settings.judge)})
        # An answer that is the same in both runs was judged a moment ago, and is in the cache.
        same = _same_answers(run, stored, frozenset(sample.id for sample in golden))
        different = GoldenSet(tuple(sample for sample in golden if sample.id not in same))
        cost = stored_cost(own, different, plan.metrics, stored)
        if (obstacle := _obstacle(cost, run.manifest.cost, own, time_left_s)) is not None:
            return Rejudged(baseline, (_unguarded(plan.why, plan.wanted, len(golden), cost, obstacle),))
        context.say(
            f"{plan.why}: judging {counted(len(golden), 'answer')} of the baseline again, to compare like with like: "
            f"{cost.sentence()}."
        )
        try:
            again = await evaluate_golden_set(
                golden, stored, judge, own, replace(context, system_log=None), whole=plan.golden if shard else None
            )
        except (JudgeError, TimeLimitReached) as error:
            return Rejudged(baseline, (_unguarded(plan.why, plan.wanted, len(golden), cost, error.message),))
    finally:
        await stored.close()
    return _rejudged(baseline, plan, again, seed=settings.run.seed)


def _rejudged(baseline: ComparedRun, plan: _Plan, again: RunDirectory, *, seed: int) -> Rejudged:
    """The baseline with the scores of `again`, its answers as they were judged again."""
    scores = again.scores()
    label = again.manifest.judge.label()
    spent = again.manifest.cost
    price = "" if spent.usd is None else f", {dollars(spent.usd)}"
    paid = f" ({counted(spent.calls, 'call')}{price})" if spent.calls else ""
    why = f"{plan.why[:1].upper()}{plan.why[1:]}"
    judges = compare_judges(baseline.scores, scores, plan.names, seed=seed)
    said = f"{why}: the baseline's answers were judged again by {label}{paid}, so drops compare like with like."
    if judges:
        said += " Floors were set for the old scores; the notes say how far the new ones differ."
    return Rejudged(
        ComparedRun(_merged(baseline.scores, scores, plan.now), baseline.run, details=again),
        (said, *_lost(scores, plan.names)),
        tuple(one.sentence() for one in judges),
        spent,
    )


def _same_answers(run: RunDirectory, stored: StoredAnswers, ids: frozenset[str]) -> frozenset[str]:
    """The samples with the same answers and contexts in `run` as in `stored`."""

    def said(responses: Iterable[Response]) -> list[tuple[str, tuple[Context, ...]]]:
        return [(response.answer, response.contexts) for response in responses]

    found = (record for record in run.records() if record.sample.id in ids)
    return frozenset(
        record.sample.id
        for record in found
        if said(record.responses)
        == said(stored.response(record.sample.id, number) for number in range(len(record.answers)))
    )


def _metrics(
    wanted: Mapping[str, str], changed: Mapping[str, str], golden: GoldenSet, settings: Settings
) -> list[Metric]:
    """The metrics to score: those with an allowed drop, and those that need no other judgement than they do."""
    own = {metric.info.name: metric for metric in custom_metrics(settings)}
    known = {name: metric for name in changed if (metric := own.get(name) or find_metric(name)) is not None}

    def needs(metric: Metric) -> frozenset[JudgementKind]:
        return frozenset().union(*(metric.needs(sample) for sample in golden))

    asked = frozenset[JudgementKind]().union(*(needs(known[name]) for name in wanted if name in known))
    return [metric for name, metric in known.items() if name in wanted or needs(metric) <= asked]


def _obstacle(cost: CostEstimate, run: Cost, settings: Settings, time_left_s: float | None) -> str | None:
    """Why the baseline can't be judged again, if that is known before."""
    if time_left_s is not None and time_left_s <= 0:
        return "the time limit is reached"
    budget = settings.judge.max_cost_usd
    if budget is None or cost.usd is None:
        return None
    left = budget - (run.usd or 0.0)
    if cost.usd <= left:
        return None
    enough = math.ceil(100.0 * ((run.usd or 0.0) + cost.usd)) / 100.0
    return f"{dollars(max(left, 0.0))} of the budget is left; raise judge.max_cost_usd to {dollars(enough)}"


def _unguarded(why: str, wanted: Mapping[str, str], answers: int, cost: CostEstimate, obstacle: str) -> str:
    names = some(sorted(wanted))
    return (
        f"Unguarded: the drops of {names}. {why[:1].upper()}{why[1:]}, and the baseline's answers were not judged "
        f"again ({obstacle.rstrip('.')}). To judge {counted(answers, 'answer')} takes {cost.sentence()}."
    )


def _no_parts(baseline: ComparedRun, plan: _Plan, obstacle: str) -> Rejudged:
    """The baseline as it is, for a merged run whose shards did not judge all of it again."""
    why = f"{plan.why[:1].upper()}{plan.why[1:]}"
    said = (
        f"Unguarded: the drops of {some(sorted(plan.wanted))}. {why}, and the baseline's answers were not judged again "
        f"({obstacle.rstrip('.')})."
    )
    return Rejudged(baseline, (said,))


def _lost(scores: RunScores, names: Sequence[str]) -> list[str]:
    lost = {i for name in names for i, one in scores.metrics[name].failed.items() if one.by == "judge"}
    if not lost:
        return []
    return [f"{counted(len(lost), 'answer')} of the baseline could not be judged again and are not compared."]


def _merged(then: RunScores, again: RunScores, now: RunScores) -> RunScores:
    """The baseline's scores as this run's judge gives them; metrics that were not scored again are left out."""
    changed = outdated(now, then)
    metrics = {name: scores for name, scores in then.metrics.items() if name not in changed} | dict(again.metrics)
    manifest = then.manifest
    if manifest is not None and now.manifest is not None:
        manifest = manifest.model_copy(
            update={
                "judge": now.manifest.judge,
                "observed": now.manifest.observed,
                "repeats": now.manifest.repeats,
                "metrics": {name: one.version for name, one in metrics.items() if one.version is not None},
            }
        )
    return replace(then, metrics=metrics, manifest=manifest)
