"""Scores stored answers without asking the system: with another judge, other metrics, or
for the first time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec.structs import replace

from ragstone.errors import ConfigError
from ragstone.evaluation.directory import CACHE, ORACLE, RunDirectory
from ragstone.evaluation.interactions import Interactions, read_interactions
from ragstone.evaluation.lineage import cache_of, oracle_half
from ragstone.evaluation.lock import run_lock
from ragstone.evaluation.manifest import BaselineFact, SystemManifest
from ragstone.evaluation.rounds.context import RunContext
from ragstone.evaluation.rounds.judge_stored import judge_stored
from ragstone.evaluation.rounds.judge_watch import watch_judge
from ragstone.evaluation.rounds.oracle import add_oracle_half, divisible_metrics
from ragstone.evaluation.rounds.project_metrics import ProjectMetrics
from ragstone.evaluation.rounds.rounds_plan import RunPlan
from ragstone.evaluation.rounds.session import Session, deadline_of, restore_judgements
from ragstone.evaluation.stored import StoredAnswers
from ragstone.evaluation.writer import update_manifest
from ragstone.formatting import counted
from ragstone.golden.sample import GoldenSet
from ragstone.metrics.metric import Metric
from ragstone.system.worker.fields import Fields


def open_source(
    path: Path, columns: Mapping[str, str], fields: Fields
) -> RunDirectory | Interactions:
    """Open `path`, a run directory or a file of recorded interactions. Raises what
    opening them raises."""
    if path.is_dir():
        return RunDirectory.open(path)
    return read_interactions(path, columns, fields)


async def rescore(
    source: RunDirectory | Interactions, plan: RunPlan, context: RunContext
) -> RunDirectory:
    """Judge and score the answers of `source` as `plan` says, and write a run to the
    directory of the plan.

    If the golden set of `plan` has samples, references are taken from it. The metrics
    are the selected ones, or else those of the run, or else the default metrics that
    apply. Raises ConfigError if the run would overwrite itself, and what a run raises.
    """
    run = source if isinstance(source, RunDirectory) else None
    if run is not None and run.path.resolve() == plan.out.resolve():
        raise ConfigError(
            "the run would be overwritten by its own new scores.",
            where=str(plan.out),
            hint="Use another directory with --out.",
        )
    with run_lock(plan.out):
        if isinstance(source, RunDirectory):
            stored = StoredAnswers.of(source)
            # The answers are not those of the commit that is checked out now.
            recorded = source.manifest.system
        else:
            stored = StoredAnswers.of_interactions(source)
            recorded = SystemManifest(
                entrypoint=f"file:{source.mapping.file}",
                version=plan.system.settings.version,
            )
        try:
            if not len(stored):
                raise ConfigError("there is no stored answer to score.")
            if len(plan.golden):
                matching = stored.join(plan.golden)
                context.say(
                    f"{matching} of {counted(len(stored), 'answer')} match a sample of the golden set."
                )
            return await _judge(stored, recorded, run, plan, context)
        finally:
            await stored.close()


async def _judge(
    stored: StoredAnswers,
    recorded: SystemManifest,
    run: RunDirectory | None,
    plan: RunPlan,
    context: RunContext,
) -> RunDirectory:
    """Judge and score `stored`, the answers of `run`, or of recorded interactions."""
    project = plan.metrics
    golden = stored.golden
    if run is not None:
        project = replace(project, system=project.system.of_part(recorded.part))
        restore_judgements(cache_of(run), plan.out / CACHE)
    stored_plan = replace(
        plan,
        golden=golden,
        metrics=project,
        answers_per_sample=stored.answers_per_sample,
        oracle=False,
    )
    session = Session(stored_plan, context, deadline_of(stored_plan))
    metrics = _metrics(project, golden, run)
    try:
        rescored = await judge_stored(
            stored,
            session,
            metrics,
            plan.out,
            golden,
            resume=plan.resume,
            recorded_system=recorded,
            stale_folders=(ORACLE,),
        )
        rescored = await watch_judge(
            rescored, session.judge, planted_count=plan.judge.settings.planted
        )
        if run is None:
            return rescored
        rescored = await _with_oracle_half(rescored, run, metrics, session)
    finally:
        await session.close()
    standing = run.manifest.standing
    if standing.eligible:
        return rescored
    # New scores don't make a baseline of a run that can't be one.
    reason = f"its answers are from a run that can't be one: {standing.reason}"
    return update_manifest(
        rescored, baseline=BaselineFact(eligible=False, reason=reason)
    )


async def _with_oracle_half(
    rescored: RunDirectory,
    source: RunDirectory,
    metrics: Sequence[Metric],
    session: Session,
) -> RunDirectory:
    """Score the oracle half of `source`, if it has one, like the run itself, and add it
    to `rescored`."""
    half = oracle_half(source)
    facts = source.rounds.oracle
    metrics = divisible_metrics(metrics)
    if half is None or facts is None or not metrics:
        return rescored
    stored = StoredAnswers.of(half)
    whole = session.plan.golden
    await judge_stored(
        stored,
        session,
        metrics,
        (rescored.path / ORACLE).absolute(),
        whole.select(lambda sample: sample.id in stored),
        whole_golden=whole,
        recorded_system=half.manifest.system,
    )
    return add_oracle_half(rescored, facts)


def _metrics(
    project: ProjectMetrics, golden: GoldenSet, run: RunDirectory | None
) -> tuple[Metric, ...]:
    """The selected metrics; or those of `run` and the custom ones; or, without a run,
    the default ones that apply to a sample."""
    if project.selected:
        return project.named(project.selected)
    if run is not None:
        names = dict.fromkeys((*run.manifest.metrics, *project.custom))
        return project.named(tuple(names))
    return tuple(
        metric
        for metric in project.select(golden)
        if any(metric.why_not_applicable(sample) is None for sample in golden)
    )
