"""A round: the system is asked about samples once, and its answers are judged, scored
and written to a run directory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

from msgspec import Struct

from ragstone._version import __version__
from ragstone.errors import GoldenSetError, RagstoneError, TimeLimitReached
from ragstone.evaluation.directory import SYSTEM_LOG, RunDirectory
from ragstone.evaluation.engine import Work, run_samples
from ragstone.evaluation.lineage import remove_inner_run
from ragstone.evaluation.manifest import (
    BaselineFact,
    Cost,
    GoldenManifest,
    Invocation,
    Manifest,
    SystemManifest,
)
from ragstone.evaluation.parallel import refuse_without_dask, worker_count
from ragstone.evaluation.rounds.context import RunContext
from ragstone.evaluation.rounds.rounds_plan import RunPlan
from ragstone.evaluation.run_files import replace_text
from ragstone.evaluation.scoring import needed_judgements
from ragstone.evaluation.writer import RunWriter, update_manifest
from ragstone.formatting import counted, join_first
from ragstone.golden.sample import GoldenSet
from ragstone.judge.protocol import Judge, JudgeIdentity
from ragstone.judge.rubric import NO_MODEL
from ragstone.metrics.custom import RubricMetric
from ragstone.metrics.metric import Metric
from ragstone.system.response import GENERATION, System

if TYPE_CHECKING:
    from ragstone.evaluation.executors import Workers


class Round(Struct, frozen=True):
    """What a round evaluates, and how."""

    plan: RunPlan
    judge: Judge
    """An open judge, which the round doesn't close."""
    samples: GoldenSet
    system: System
    """Is asked, or plays back stored answers. The round starts and closes it."""
    metrics: tuple[Metric, ...]
    out: Path
    """The run directory to write."""
    deadline: float | None = None
    """When the round is stopped, on the event loop's clock; None for no limit."""
    resume: bool = False
    """Whether to continue the run in `out`."""
    whole_golden: GoldenSet | None = None
    """The golden set, if `samples` are only a part of it."""
    recorded_system: SystemManifest | None = None
    """The system to write into the manifest, if `system` plays back its answers."""
    check_system: Callable[[System], None] = lambda _system: None
    """Is called with the started system before anything is written."""
    policy_hash: str | None = None
    baseline: BaselineFact | None = None
    """What the manifest says, until there is a verdict, about whether later runs may
    use this run as their baseline."""
    invocation: Invocation | None = None
    stale_folders: tuple[str, ...] = ()
    """Folders of an earlier run in `out`, which are removed."""

    @property
    def golden(self) -> GoldenSet:
        """The golden set that the samples belong to."""
        return self.whole_golden or self.samples

    def describe(self, context: RunContext) -> Manifest:
        """The manifest of the run that is about to start."""
        golden = self.golden
        return Manifest(
            ragstone_version=__version__,
            state="running",
            created_at=context.now().isoformat(timespec="seconds"),
            golden=GoldenManifest(
                files=golden.sources,
                content_hash=golden.content_hash(),
                samples=len(golden),
                limited=golden.is_limited,
                selected=golden.is_selection,
            ),
            judge=judging_identity(self.judge, self.plan),
            system=self.recorded_system
            or self.plan.system.describe(self.system, golden),
            metrics={metric.info.name: metric.info.version for metric in self.metrics},
            repeats=self.plan.repeats,
            answers=self.plan.answers_per_sample,
            price=self.plan.system.settings.price,
            policy_hash=self.policy_hash,
            baseline=self.baseline,
            invocation=self.invocation,
        )


def judging_identity(judge: Judge, plan: RunPlan) -> JudgeIdentity:
    """The identity of `judge` for a manifest. It includes whether contexts of earlier
    turns are kept, since scores with and without them can't be compared."""
    identity = judge.identity
    if plan.keeps_contexts:
        return identity
    parameters = (*identity.parameters, ("earlier_contexts", "false"))
    return replace(identity, parameters=parameters)


async def run_round(round_: Round, context: RunContext) -> RunDirectory:
    """Ask, judge and score the samples, and write the run directory, which the caller
    has locked.

    Raises SystemUnderTestError or JudgeError if the system or the judge fails as a
    whole, and TimeLimitReached. Finished samples are then saved, and the round can be
    resumed. If the system can't be started, nothing is written.
    """
    plan = round_.plan
    # The system's log is complete when the system is closed.
    with ExitStack() as after_closing:
        async with AsyncExitStack() as closing:
            closing.push_async_callback(round_.system.close)
            # With a recorded system, `system` plays back answers, and needs no contexts.
            if round_.recorded_system is None:
                refuse_missing_contexts(round_.samples, plan.system.settings.part)
            if plan.dask is not None:
                refuse_without_dask()
            custom = plan.metrics.measures(round_.metrics, context)
            closing.push_async_callback(custom.close)
            can_grade = hasattr(round_.judge, "grade")
            for metric in round_.metrics:
                if isinstance(metric, RubricMetric) and not can_grade:
                    reason = NO_MODEL.format(round_.judge.identity.label())
                    context.say(f"{metric.info.name} is not scored: {reason}.")
            async with limit_time(round_.deadline):
                await round_.system.start()
                round_.check_system(round_.system)
                await custom.start()
            manifest = round_.describe(context)
            for folder in round_.stale_folders:
                remove_inner_run(round_.out, folder)
            open_writer = RunWriter.resume if round_.resume else RunWriter.create
            writer = open_writer(round_.out, manifest, redact=context.redact)
            after_closing.callback(_keep_log, round_.out, context)
            finished = writer.finished_ids
            pending = [sample for sample in round_.samples if sample.id not in finished]
            work = Work(
                pending,
                round_.system,
                round_.judge,
                round_.metrics,
                repeats=plan.repeats,
                answers_per_sample=plan.answers_per_sample,
                progress=context.progress,
                custom=custom.by_name,
                keeps_contexts=plan.keeps_contexts,
            )
            workers = build_workers(round_, len(pending), context.say)
            if workers is not None:
                closing.push_async_callback(workers.close)
            return await _evaluate(round_, work, context, writer, workers)


def _keep_log(out: Path, context: RunContext) -> None:
    """Store the output of the closed system, redacted, in the run directory; remove an
    older log if there is no output."""
    if context.system_log is None:
        return
    text = ""
    with suppress(FileNotFoundError):
        text = context.system_log.read_text(encoding="utf-8", errors="replace")
    if text.strip():
        replace_text(out / SYSTEM_LOG, context.redact(text))
    else:
        (out / SYSTEM_LOG).unlink(missing_ok=True)


async def _evaluate(
    round_: Round,
    work: Work,
    context: RunContext,
    writer: RunWriter,
    workers: Workers | None,
) -> RunDirectory:
    """Evaluate the samples that are not finished yet, and finish or stop the run."""
    samples = round_.samples
    start_s = monotonic()
    try:
        async with limit_time(round_.deadline):
            context.progress.start(len(samples) - len(writer.finished_ids))
            try:
                if workers is not None:
                    await workers.start()
                await run_samples(work, writer.append, workers)
            finally:
                context.progress.finish()
    except BaseException as error:
        reason = "it was interrupted"
        if isinstance(error, RagstoneError):
            reason = error.message
        elif isinstance(error, Exception):
            reason = f"it was interrupted by {type(error).__name__}"
        writer.stop(context.redact(reason), wall_s=monotonic() - start_s)
        context.say(
            f"{len(writer.finished_ids)} of {len(samples)} samples are saved in {writer.path}; continue with --resume."
        )
        raise
    return writer.finish(
        (sample.id for sample in samples), wall_s=monotonic() - start_s
    )


def add_cost(run: RunDirectory, cost: Cost) -> RunDirectory:
    """Add the cost of a round that belongs to `run` to its manifest."""
    return update_manifest(run, cost=run.manifest.cost.plus(cost))


def refuse_missing_contexts(golden: GoldenSet, part: str | None) -> None:
    """Raise GoldenSetError if only generation is evaluated, and an answerable sample
    has no reference contexts to give to the system."""
    if part != GENERATION:
        return
    without_contexts = [
        sample
        for sample in golden
        if sample.answerable and not sample.reference_contexts
    ]
    if without_contexts:
        raise GoldenSetError(
            f"{counted(len(without_contexts), 'sample')} without reference_contexts to give to the system: "
            f"{join_first([sample.id for sample in without_contexts])}.",
            where=str(without_contexts[0].origin or ""),
            hint='Add them: with part = "generation", each answerable sample needs the contexts to answer from.',
        )


def build_workers(
    round_: Round, sample_count: int, say: Callable[[str], None]
) -> Workers | None:
    """Build the workers that judge `sample_count` samples, without starting them.
    Returns None if this process judges."""
    plan = round_.plan
    is_judged = any(
        needed_judgements(round_.metrics, sample) for sample in round_.samples
    )
    judgement_count = sample_count * plan.answers_per_sample * plan.repeats
    count = worker_count(plan.workers, judgement_count)
    if not sample_count or not is_judged or (plan.dask is None and not count):
        return None
    # Imported when needed: a small run starts sooner without them.
    from ragstone.evaluation.executors import (
        DaskWorkers,
        ProcessWorkers,
        Task,
    )
    from ragstone.judge.portable import portable_judge

    portable = portable_judge(round_.judge)
    is_custom = any(
        metric.info.name in plan.metrics.custom for metric in round_.metrics
    )
    if portable is not None and not is_custom:
        identity = round_.judge.identity
        task = Task(portable, round_.metrics, plan.repeats, identity)
        if plan.dask is not None:
            return DaskWorkers(plan.dask, task)
        return ProcessWorkers(count, task)
    if plan.dask is not None:
        say(
            "run.dask is ignored, and answers are judged in this process: only an offline or a fitted judge can run on a "
            "cluster, and none of the project's own metrics."
        )
    return None


@asynccontextmanager
async def limit_time(deadline: float | None) -> AsyncIterator[None]:
    """Cancel the block at `deadline`, on the event loop's clock, and raise
    TimeLimitReached; None for no limit."""
    try:
        async with asyncio.timeout_at(deadline) as limit:
            yield
    except TimeoutError:
        if not limit.expired():
            raise
        raise TimeLimitReached from None
