"""Score stored answers again: with another judge, other metrics, or for the first time. The system is not asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic_core import to_json

from ragstone.errors import ConfigError
from ragstone.evaluation.directory import CACHE, MANIFEST, ORACLE, RunDirectory
from ragstone.evaluation.lineage import cache_of, drop_carried, oracle_half
from ragstone.evaluation.lock import run_lock
from ragstone.evaluation.manifest import BaselineFact, SystemManifest
from ragstone.evaluation.record import SampleRecord
from ragstone.evaluation.rounds.context import RunContext
from ragstone.evaluation.rounds.judge_watch import watch_judge
from ragstone.evaluation.rounds.oracle import divided, with_half
from ragstone.evaluation.rounds.project_metrics import ProjectMetrics
from ragstone.evaluation.rounds.round import Round, run_round
from ragstone.evaluation.rounds.session import RunPlan, Session, deadline_of, restore_judgements
from ragstone.evaluation.stored import StoredAnswers, set_aside
from ragstone.evaluation.writer import RunWriter, update_manifest
from ragstone.formatting import counted
from ragstone.golden.sample import GoldenSet
from ragstone.judge.protocol import JudgeIdentity
from ragstone.metrics.metric import Metric
from ragstone.metrics.score import Failed
from ragstone.settings.settings import JudgeSettings
from ragstone.system.kind import answer_fields

if TYPE_CHECKING:
    from ragstone.judge.llm.estimate import CostEstimate


@dataclass(frozen=True, slots=True)
class Rescored:
    """What was done, or with a dry run is to be done: `run` is None then.

    `answers` are all stored answers, `kept` those that were scored already, `joined` those that match a sample of the
    golden set (None: none was named).
    """

    answers: int
    kept: int
    estimate: CostEstimate
    joined: int | None = None
    run: RunDirectory | None = None


async def rescore(
    sources: Sequence[Path] | StoredAnswers,
    plan: RunPlan,
    context: RunContext,
    *,
    columns: Mapping[str, str] | None = None,
    missing: bool = False,
    dry_run: bool = False,
) -> Rescored:
    """Judge and score the answers in `sources` as `plan` says, and write a run to its directory.

    A source is a run directory, its samples.jsonl, or a file of recorded interactions with these `columns`; answers in
    memory are given as `StoredAnswers`, which are closed. With `missing`, the run in the directory is extended: what it
    has scored under the same judge with the same versions of the metrics is kept, and everything else in it is scored
    again. References are taken from the golden set of `plan`, if it has samples. The metrics are those that are
    selected, else those of the runs, else the default metrics that apply. A `dry_run` only counts and estimates. Raises
    ConfigError for sources that can't be read or would be overwritten, and otherwise what a run raises.
    """
    with run_lock(plan.out):
        stored, paths = (sources, ()) if isinstance(sources, StoredAnswers) else (StoredAnswers(), sources)
        try:
            runs = _read(stored, paths, plan, columns or {})
            existing = RunDirectory.open(plan.out) if missing and (plan.out / MANIFEST).is_file() else None
            _refuse_to_overwrite(plan.out, runs, allowed=missing or plan.resume)
            if existing is not None:
                stored.read_run(existing, only_new=True)
                stored.read_aside(plan.out)
            joined = stored.join(plan.golden) if len(plan.golden) else None
            golden = stored.golden
            project = _of_their_part(plan.metrics, runs)
            names = project.selected or _metrics_of(runs if existing is None else [*runs, existing], golden, project)
            work = _Work(stored, names, runs, existing)
            own = replace(
                plan, golden=golden, metrics=project, answers=stored.answers, cached=not dry_run, oracle=False
            )
            session = Session(own, context, deadline_of(own))
            try:
                return await _rescore(work, session, joined, dry_run=dry_run)
            finally:
                await session.close()
        finally:
            await stored.close()


def _of_their_part(project: ProjectMetrics, runs: Sequence[RunDirectory]) -> ProjectMetrics:
    """`project` for the half of the system that the answers of `runs` are of, if there are runs."""
    parts = {run.manifest.system.part for run in runs}
    return replace(project, system=project.system.of_part(parts.pop())) if len(parts) == 1 else project


@dataclass(frozen=True, slots=True)
class _Work:
    """What is scored again: the answers, the metrics, their sources, and the run that is extended."""

    stored: StoredAnswers
    names: tuple[str, ...]
    runs: Sequence[RunDirectory]
    existing: RunDirectory | None


async def _rescore(work: _Work, session: Session, joined: int | None, *, dry_run: bool) -> Rescored:
    plan, context, out = session.plan, session.context, session.plan.out
    if not dry_run and not plan.judge.settings.refresh:
        for run in work.runs:
            restore_judgements(cache_of(run), out / CACHE)
    kept: frozenset[str] = frozenset()
    names = work.names
    if work.existing is not None:
        as_judge = session.judge.identity
        kept = _scored(work, plan.metrics.select(names=names), as_judge, session)
        if work.existing.manifest.judge == as_judge:  # a new metric is added to those that the run has
            names = tuple(dict.fromkeys((*names, *work.existing.manifest.metrics)))
    metrics = plan.metrics.select(names=names)
    rest = GoldenSet(tuple(sample for sample in plan.golden if sample.id not in kept))
    main = session.round(
        plan.golden,
        work.stored,
        metrics,
        out,
        project=replace(plan.metrics, selected=names),
        resume=plan.resume,
        recorded=_system(work, plan),
        invocation=plan.invocation,
        clears=() if work.existing is not None else (ORACLE,),
    )
    estimate = stored_cost(replace(main, samples=rest), plan.judge.settings, work.stored)
    half = oracle_half(work.runs[0]) if len(work.runs) == 1 else None
    of_half = None if half is None else _half_round(half, session, metrics)
    try:
        if of_half is not None and isinstance(of_half.system, StoredAnswers):
            estimate = estimate.plus(stored_cost(of_half, plan.judge.settings, of_half.system))
        found = Rescored(len(plan.golden), len(kept), estimate, joined)
        if dry_run:
            return found
        if work.existing is not None:
            set_aside(work.existing)
            extend = partial(RunWriter.extend, out, keep=lambda one: one.sample.id in kept, redact=context.redact)
            main = replace(main, begin=extend)
        context.say(f"{counted(len(rest), 'stored answer')} to score: {estimate.sentence()}.")
        run = await run_round(main, context)
        planted = plan.judge.settings.planted
        run = await watch_judge(run, session.judge, work.existing if kept else None, 0, inherits=True, planted=planted)
        if of_half is not None and half is not None:
            run = await _with_half(run, half, of_half, work, session)
        return replace(found, run=_with_standing(run, work.runs))
    finally:
        if of_half is not None:
            await of_half.system.close()


def _half_round(half: RunDirectory, session: Session, metrics: Sequence[Metric]) -> Round:
    """The answers of an oracle half, scored as those of the run itself are; the samples are as they are there."""
    stored, plan = StoredAnswers.of(half), session.plan
    samples = GoldenSet(tuple(sample for sample in plan.golden if sample.id in stored), plan.golden.mappings)
    return session.round(
        samples,
        stored,
        divided(metrics),
        (plan.out / ORACLE).absolute(),
        answers=stored.answers,
        whole=plan.golden,
        recorded=half.manifest.system,
    )


async def _with_half(run: RunDirectory, half: RunDirectory, this: Round, work: _Work, session: Session) -> RunDirectory:
    """`run` with the oracle half of its source."""
    context = session.context
    begin = partial(RunWriter.create, this.out, redact=context.redact)
    if half.path.resolve() == this.out.resolve():
        set_aside(half)
        begin = partial(RunWriter.extend, this.out, keep=lambda _record: False, redact=context.redact)
    else:
        drop_carried(run.path, ORACLE)
    await run_round(replace(this, begin=begin), replace(context.quiet(), progress=context.progress))
    fact = work.runs[0].rounds.oracle
    return with_half(run, fact) if fact is not None else run


def _read(
    stored: StoredAnswers, sources: Sequence[Path], plan: RunPlan, columns: Mapping[str, str]
) -> list[RunDirectory]:
    runs = []
    for source in sources:
        run = stored.read(source, columns=columns, fields=answer_fields(plan.system.settings))
        if run is not None:
            runs.append(run)
    if not len(stored):
        raise ConfigError("there is no stored answer to score.", where=", ".join(map(str, sources)))
    return runs


def _refuse_to_overwrite(out: Path, runs: Sequence[RunDirectory], *, allowed: bool) -> None:
    if not allowed and any(run.path.resolve() == out.resolve() for run in runs):
        raise ConfigError(
            "the run would be overwritten by its own new scores.",
            where=str(out),
            hint="Use another directory with --out, or add to this one with --missing.",
        )


def _metrics_of(runs: Sequence[RunDirectory], golden: GoldenSet, project: ProjectMetrics) -> tuple[str, ...]:
    """The metrics of the runs and the project's own, or the default ones that apply to at least one sample."""
    named = dict.fromkeys(name for run in runs for name in run.manifest.metrics)
    if named:
        return tuple(dict.fromkeys((*named, *project.custom)))
    applying = [one for one in project.select(golden) if any(one.excuse(sample) is None for sample in golden)]
    return tuple(metric.info.name for metric in applying)


def _scored(work: _Work, metrics: Sequence[Metric], judge: JudgeIdentity, session: Session) -> frozenset[str]:
    """The samples that the existing run has scored: the same answer to the same question, by the same judge."""
    existing, redact = work.existing, session.context.redact
    versions = {metric.info.name: metric.info.version for metric in metrics}
    if existing is None or existing.manifest.judge != judge or existing.manifest.repeats != session.plan.repeats:
        return frozenset()
    if any(existing.manifest.metrics.get(name, version) != version for name, version in versions.items()):
        return frozenset()
    contents = {sample.id: sample.content_hash() for sample in session.plan.golden}

    def same(record: SampleRecord) -> bool:
        scores = [record.scores.get(name) for name in versions]
        if any(score is None or (isinstance(score, Failed) and score.by == "judge") for score in scores):
            return False
        if contents.get(record.sample.id) != record.sample.content_hash():
            return False
        stored = (work.stored.response(record.sample.id, number) for number in range(work.stored.answers))
        now = [redact(to_json(response).decode()) for response in stored]
        return now == [to_json(response).decode() for response in record.responses]

    return frozenset(record.sample.id for record in existing.records() if same(record))


def _system(work: _Work, plan: RunPlan) -> SystemManifest:
    """The system that gave the answers, as far as it is known: never the commit that is checked out now."""
    systems = {run.manifest.system for run in work.runs}
    files = [mapping.file for mapping in plan.golden.mappings if mapping.format == "interactions"]
    if len(systems) == 1 and not files:
        return systems.pop()
    names = [*(str(run.path) for run in work.runs), *files]
    more = f" and {len(names) - 1} more" if len(names) > 1 else ""
    return SystemManifest(
        entrypoint=f"file:{names[0]}{more}" if names else "file:", version=plan.system.settings.version
    )


def _with_standing(run: RunDirectory, sources: Sequence[RunDirectory]) -> RunDirectory:
    """`run`, which can't be a baseline if one of its sources can't: new scores don't undo a failure."""
    barred = next((source.manifest.standing for source in sources if not source.manifest.standing.eligible), None)
    if barred is None:
        return run
    fact = BaselineFact(eligible=False, reason=f"its answers are from a run that can't be one: {barred.reason}")
    return update_manifest(run, baseline=fact)


def stored_cost(this: Round, judge: JudgeSettings, stored: StoredAnswers) -> CostEstimate:
    """At most what judging the answers of a round that plays back `stored` costs, from the length of their texts."""
    from ragstone.judge.llm.estimate import estimate_cost

    lengths: dict[str, tuple[int, int]] = {}
    answered = []
    for sample in this.samples:
        response = stored.response(sample.id)
        if response.failure is None:
            answered.append(sample)
            lengths[sample.id] = len(response.answer), sum(len(context.text) for context in response.contexts)
    return estimate_cost(
        judge,
        GoldenSet(tuple(answered)),
        this.metrics,
        repeats=this.repeats,
        answers=this.answers,
        lengths=lengths,
    )
