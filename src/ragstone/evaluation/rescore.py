"""Score stored answers again: with another judge, other metrics, or for the first time.
The system is not asked."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ragstone.errors import ConfigError
from ragstone.evaluation.directory import ASIDE, CACHE, MANIFEST, ORACLE, RunDirectory
from ragstone.evaluation.lineage import cache_of, drop_carried, oracle_half
from ragstone.evaluation.lock import run_lock
from ragstone.evaluation.manifest import BaselineFact, SystemManifest
from ragstone.evaluation.record import SampleRecord
from ragstone.evaluation.rounds.context import RunContext
from ragstone.evaluation.rounds.judge_stored import judge_stored, judging_cost
from ragstone.evaluation.rounds.judge_watch import watch_judge
from ragstone.evaluation.rounds.oracle import divided, with_half
from ragstone.evaluation.rounds.project_metrics import ProjectMetrics
from ragstone.evaluation.rounds.session import (
    RunPlan,
    Session,
    deadline_of,
    restore_judgements,
)
from ragstone.evaluation.stored import AnswerCollector, Interactions, StoredAnswers
from ragstone.evaluation.writer import RunWriter, update_manifest
from ragstone.formatting import counted
from ragstone.golden.sample import GoldenSet
from ragstone.metrics.metric import Metric
from ragstone.metrics.score import Failed
from ragstone.system.kind import answer_fields

if TYPE_CHECKING:
    from ragstone.judge.llm.estimate import CostEstimate


@dataclass(frozen=True, slots=True)
class Rescored:
    """What was done, or with a dry run is to be done: `run` is None then.

    `answers` are all stored answers, `kept` those that were scored already, `joined`
    those that match a sample of the golden set (None: none was named).
    """

    answers: int
    kept: int
    estimate: CostEstimate
    joined: int | None = None
    run: RunDirectory | None = None


@dataclass(frozen=True, slots=True)
class _Sources:
    """The stored answers, the runs among their sources, and the run that is extended
    with their scores."""

    stored: StoredAnswers
    runs: Sequence[RunDirectory]
    existing: RunDirectory | None


async def rescore(
    sources: Sequence[Path | Interactions],
    plan: RunPlan,
    context: RunContext,
    *,
    columns: Mapping[str, str] | None = None,
    missing: bool = False,
    dry_run: bool = False,
) -> Rescored:
    """Judge and score the answers in `sources` as `plan` says, and write a run to its
    directory.

    A source is a run directory, its samples.jsonl, a file of recorded interactions with
    these `columns`, or answers in memory. With `missing`, the run in the directory is
    extended: what it has scored under the same judge with the same versions of the
    metrics is kept, and everything else in it is scored again. References are taken
    from the golden set of `plan`, if it has samples. The metrics are those that are
    selected, else those of the runs, else the default metrics that apply. A `dry_run`
    only counts and estimates. Raises ConfigError for sources that can't be read or
    would be overwritten, and otherwise what a run raises.
    """
    with run_lock(plan.out), tempfile.TemporaryDirectory(prefix="ragstone-") as private:
        extends = missing and (plan.out / MANIFEST).is_file()
        # If the run is rewritten, and that is stopped half-way, its answers are still
        # there.
        place = plan.out if extends and not dry_run else Path(private)
        existing = RunDirectory.open(plan.out) if extends else None
        with closing(AnswerCollector(place / ASIDE, context.redact)) as collector:
            runs = _collect(collector, sources, plan, columns or {})
            _refuse_to_overwrite(plan.out, runs, allowed=missing or plan.resume)
            if existing is not None:
                collector.add_run(existing, only_new=True)
                collector.add_aside(plan.out)
            stored = collector.stored()
        try:
            joined = stored.join(plan.golden) if len(plan.golden) else None
            own = replace(
                plan,
                golden=stored.golden,
                metrics=_of_their_part(plan.metrics, runs),
                answers=stored.answers,
                cached=not dry_run,
                oracle=False,
            )
            session = Session(own, context, deadline_of(own))
            try:
                rescored = await _rescore(
                    _Sources(stored, runs, existing), session, dry_run=dry_run
                )
                return replace(rescored, joined=joined)
            finally:
                await session.close()
        finally:
            await stored.close()


def _collect(
    collector: AnswerCollector,
    sources: Sequence[Path | Interactions],
    plan: RunPlan,
    columns: Mapping[str, str],
) -> list[RunDirectory]:
    """Add the answers in `sources`; returns the runs among them."""
    runs: list[RunDirectory] = []
    for source in sources:
        if isinstance(source, Interactions):
            collector.add_interactions(source)
            continue
        run = collector.add_path(source, columns, answer_fields(plan.system.settings))
        if run is not None:
            runs.append(run)
    if not len(collector):
        raise ConfigError(
            "there is no stored answer to score.", where=", ".join(map(str, sources))
        )
    return runs


def _of_their_part(
    project: ProjectMetrics, runs: Sequence[RunDirectory]
) -> ProjectMetrics:
    """`project` for the half of the system that the answers of `runs` are of, if there
    are runs."""
    parts = {run.manifest.system.part for run in runs}
    return (
        replace(project, system=project.system.of_part(parts.pop()))
        if len(parts) == 1
        else project
    )


async def _rescore(sources: _Sources, session: Session, *, dry_run: bool) -> Rescored:
    plan, context, stored, existing = (
        session.plan,
        session.context,
        sources.stored,
        sources.existing,
    )
    if not dry_run and not plan.judge.settings.refresh:
        for run in sources.runs:
            restore_judgements(cache_of(run), plan.out / CACHE)
    metrics, scored_ids = _metrics_and_kept(sources, session)
    unscored = replace(
        plan.golden,
        samples=tuple(sample for sample in plan.golden if sample.id not in scored_ids),
    )
    estimate = judging_cost(stored, unscored, metrics, plan)
    half = oracle_half(sources.runs[0]) if len(sources.runs) == 1 else None
    if half is not None:
        of_half = StoredAnswers.of(half)
        estimate = estimate.plus(
            judging_cost(of_half, of_half.golden, divided(metrics), plan)
        )
        await of_half.close()
    rescored = Rescored(len(plan.golden), len(scored_ids), estimate)
    if dry_run:
        return rescored
    context.say(
        f"{counted(len(unscored), 'stored answer')} to score: {estimate.sentence()}."
    )
    begin = None
    if existing is not None:
        begin = partial(
            RunWriter.extend,
            plan.out,
            keep=lambda record: record.sample.id in scored_ids,
            redact=context.redact,
        )
    run = await judge_stored(
        stored,
        session,
        metrics,
        plan.out,
        resume=plan.resume,
        recorded=_system(sources, plan),
        begin=begin,
        clears=() if plan.resume or existing is not None else (ORACLE,),
    )
    planted = plan.judge.settings.planted
    run = await watch_judge(
        run,
        session.judge,
        existing if scored_ids else None,
        0,
        inherits=True,
        planted=planted,
    )
    if half is not None:
        run = await _with_half(run, half, sources.runs[0], metrics, session)
    return replace(rescored, run=_with_standing(run, sources.runs))


async def _with_half(
    run: RunDirectory,
    half: RunDirectory,
    source: RunDirectory,
    metrics: Sequence[Metric],
    session: Session,
) -> RunDirectory:
    """`run` with the oracle half of its `source`, scored as the run itself; the samples
    are as they are there."""
    context, out = session.context, (run.path / ORACLE).absolute()
    begin = partial(RunWriter.create, out, redact=context.redact)
    if half.path.resolve() == out.resolve():
        with closing(AnswerCollector(out / ASIDE, context.redact)) as collector:
            collector.add_run(half)
            stored = collector.stored()
        begin = partial(
            RunWriter.extend, out, keep=lambda _record: False, redact=context.redact
        )
    else:
        stored = StoredAnswers.of(half)
        drop_carried(run.path, ORACLE)
    whole = session.plan.golden
    await judge_stored(
        stored,
        session,
        divided(metrics),
        out,
        samples=GoldenSet(
            tuple(sample for sample in whole if sample.id in stored), whole.mappings
        ),
        context=replace(context.quiet(), progress=context.progress),
        whole=whole,
        recorded=half.manifest.system,
        begin=begin,
    )
    facts = source.rounds.oracle
    return with_half(run, facts) if facts is not None else run


def _refuse_to_overwrite(
    out: Path, runs: Sequence[RunDirectory], *, allowed: bool
) -> None:
    if not allowed and any(run.path.resolve() == out.resolve() for run in runs):
        raise ConfigError(
            "the run would be overwritten by its own new scores.",
            where=str(out),
            hint="Use another directory with --out, or add to this one with --missing.",
        )


def _metrics_and_kept(
    sources: _Sources, session: Session
) -> tuple[tuple[Metric, ...], frozenset[str]]:
    """The metrics to score, and the samples that the existing run has scored by them
    already."""
    project, existing = session.plan.metrics, sources.existing
    names = project.selected or _metrics_of(sources, session.plan.golden, project)
    metrics = project.select(names=names)
    if existing is None or existing.manifest.judge != session.judge_identity:
        return metrics, frozenset()
    scored_ids = _scored(sources.stored, existing, metrics, session)
    # A new metric is added to those that the run has.
    return project.select(
        names=tuple(dict.fromkeys((*names, *existing.manifest.metrics)))
    ), scored_ids


def _metrics_of(
    sources: _Sources, golden: GoldenSet, project: ProjectMetrics
) -> tuple[str, ...]:
    """The metrics of the runs and the project's own, or the default ones that apply to
    at least one sample."""
    runs = (
        sources.runs if sources.existing is None else (*sources.runs, sources.existing)
    )
    names = dict.fromkeys(name for run in runs for name in run.manifest.metrics)
    if names:
        return tuple(dict.fromkeys((*names, *project.custom)))
    metrics = project.select(golden)
    return tuple(
        metric.info.name
        for metric in metrics
        if any(metric.excuse(sample) is None for sample in golden)
    )


def _scored(
    stored: StoredAnswers,
    existing: RunDirectory,
    metrics: Sequence[Metric],
    session: Session,
) -> frozenset[str]:
    """The samples that the existing run, of the same judge, has scored: the same answer
    to the same question."""
    manifest = existing.manifest
    versions = {metric.info.name: metric.info.version for metric in metrics}
    differing = [
        name
        for name, version in versions.items()
        if manifest.metrics.get(name, version) != version
    ]
    if differing or manifest.repeats != session.plan.repeats:
        return frozenset()
    samples = {sample.id: sample for sample in session.plan.golden}

    def is_scored(record: SampleRecord) -> bool:
        scores = [record.scores.get(name) for name in versions]
        if any(
            score is None or (isinstance(score, Failed) and score.by == "judge")
            for score in scores
        ):
            return False
        sample = samples.get(record.sample.id)
        if sample is None or sample.content_hash() != record.sample.content_hash():
            return False
        responses = tuple(
            stored.response(sample.id, number) for number in range(stored.answers)
        )
        return responses == record.responses

    return frozenset(
        record.sample.id for record in existing.records() if is_scored(record)
    )


def _system(sources: _Sources, plan: RunPlan) -> SystemManifest:
    """The system that gave the answers, as far as it is known: never the commit that is
    checked out now."""
    systems = {run.manifest.system for run in sources.runs}
    files = [
        mapping.file
        for mapping in plan.golden.mappings
        if mapping.format == "interactions"
    ]
    if len(systems) == 1 and not files:
        return systems.pop()
    names = [*(str(run.path) for run in sources.runs), *files]
    more = f" and {len(names) - 1} more" if len(names) > 1 else ""
    return SystemManifest(
        entrypoint=f"file:{names[0]}{more}" if names else "file:",
        version=plan.system.settings.version,
    )


def _with_standing(run: RunDirectory, sources: Sequence[RunDirectory]) -> RunDirectory:
    """`run`, which can't be a baseline if one of its sources can't: new scores don't
    undo a failure."""
    for source in sources:
        standing = source.manifest.standing
        if not standing.eligible:
            reason = f"its answers are from a run that can't be one: {standing.reason}"
            return update_manifest(
                run, baseline=BaselineFact(eligible=False, reason=reason)
            )
    return run
