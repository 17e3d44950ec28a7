"""A round: one time that samples are asked, judged and scored, and written to a run
directory."""

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
from ragstone.evaluation.files import replace_text
from ragstone.evaluation.lineage import drop_carried
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
from ragstone.evaluation.rounds.plan import RunPlan
from ragstone.evaluation.scoring import needed_judgements
from ragstone.evaluation.writer import RunWriter, update_manifest
from ragstone.formatting import counted, some
from ragstone.golden.sample import GoldenSet
from ragstone.judge.protocol import Judge, JudgeIdentity
from ragstone.judge.rubric import NO_MODEL
from ragstone.metrics.custom import RubricMetric
from ragstone.metrics.metric import Metric
from ragstone.system.response import GENERATION, System

if TYPE_CHECKING:
    from ragstone.evaluation.executors import Workers


class Round(Struct, frozen=True):
    """One time that samples are asked, judged and scored.

    `samples` are asked of `system`, which may play back stored answers: not yet
    started, and closed at the end. `judge` is open, and stays so. `plan` says how often
    each question is asked and each answer judged, by whom, and how custom metrics are
    graded. The run is written to `out`. It ends at `deadline`, a time of the event
    loop's clock; what judging may cost is up to the judge.

    `whole` is the golden set of which `samples` are a part. `recorded` is the system in
    the manifest, if it is not the one that is asked. `check` is called with the started
    system, before anything is written. `clears` are folders of the run directory that belong to an earlier run,
    and are removed when this one starts.
    """

    plan: RunPlan
    judge: Judge
    samples: GoldenSet
    system: System
    metrics: tuple[Metric, ...]
    out: Path
    deadline: float | None = None
    resume: bool = False
    whole: GoldenSet | None = None
    recorded: SystemManifest | None = None
    check: Callable[[System], None] = lambda _system: None
    policy_hash: str | None = None
    baseline: BaselineFact | None = None
    """What it is for later runs as long as it has no verdict."""
    invocation: Invocation | None = None
    clears: tuple[str, ...] = ()

    @property
    def golden(self) -> GoldenSet:
        """The golden set that the samples are from."""
        return self.whole or self.samples

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
            system=self.recorded or self.plan.system.describe(self.system, golden),
            metrics={metric.info.name: metric.info.version for metric in self.metrics},
            repeats=self.plan.repeats,
            answers=self.plan.answers_per_sample,
            price=self.plan.system.settings.price,
            policy_hash=self.policy_hash,
            baseline=self.baseline,
            invocation=self.invocation,
        )


def judging_identity(judge: Judge, plan: RunPlan) -> JudgeIdentity:
    """The identity of `judge` in a manifest: runs that judge with other contexts are
    not comparable."""
    identity = judge.identity
    if plan.keeps_contexts:
        return identity
    parameters = (*identity.parameters, ("earlier_contexts", "false"))
    return replace(identity, parameters=parameters)


async def run_round(this: Round, context: RunContext) -> RunDirectory:
    """Ask, judge, score, and write the run directory, which the caller has locked.

    Raises the errors of system and judge as a whole, and TimeLimitReached; finished
    samples are saved, and the round can be resumed. A system that can't start leaves no
    files.
    """
    plan = this.plan
    with ExitStack() as ended:
        async with AsyncExitStack() as closing:
            closing.push_async_callback(this.system.close)
            if this.recorded is None:  # else the answers are there already
                refuse_without_given(this.samples, plan.system.settings.part)
            if plan.dask is not None:
                refuse_without_dask()
            measures = plan.metrics.measures(this.metrics, context)
            closing.push_async_callback(measures.close)
            why_ungraded = NO_MODEL.format(this.judge.identity.label())
            for metric in this.metrics:
                is_graded = hasattr(this.judge, "grade")
                if isinstance(metric, RubricMetric) and not is_graded:
                    context.say(f"{metric.info.name} is not scored: {why_ungraded}.")
            async with until(this.deadline):
                await this.system.start()
                this.check(this.system)
                await measures.start()
            manifest = this.describe(context)
            for folder in this.clears:
                drop_carried(this.out, folder)
            start = RunWriter.resume if this.resume else RunWriter.create
            writer = start(this.out, manifest, redact=context.redact)
            ended.callback(_keep_log, this.out, context)
            finished = writer.finished_ids
            pending = [sample for sample in this.samples if sample.id not in finished]
            work = Work(
                pending,
                this.system,
                this.judge,
                this.metrics,
                plan.repeats,
                plan.answers_per_sample,
                context.progress,
                measures.by_name,
                plan.keeps_contexts,
            )
            workers = workers_of(this, len(pending), context.say)
            if workers is not None:
                closing.push_async_callback(workers.close)
            return await _evaluate(this, work, context, writer, workers)


def _keep_log(out: Path, context: RunContext) -> None:
    """Keep what the closed system wrote, if it wrote anything, in the run directory."""
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
    this: Round,
    work: Work,
    context: RunContext,
    writer: RunWriter,
    workers: Workers | None,
) -> RunDirectory:
    """Ask, judge and score the samples that the run has not finished, and end it."""
    golden, started = this.samples, monotonic()
    try:
        async with until(this.deadline):
            context.progress.start(len(golden) - len(writer.finished_ids))
            try:
                if workers is not None:
                    await workers.start()
                await run_samples(work, writer.append, workers)
            finally:
                context.progress.finish()
    except BaseException as error:
        reason = f"interrupted ({type(error).__name__})"
        if isinstance(error, RagstoneError):
            reason = error.message
        writer.stop(context.redact(reason), wall_s=monotonic() - started)
        context.say(
            f"{len(writer.finished_ids)} of {len(golden)} samples are saved in {writer.path}; continue with --resume."
        )
        raise
    return writer.finish((sample.id for sample in golden), wall_s=monotonic() - started)


def add_cost(run: RunDirectory, cost: Cost) -> RunDirectory:
    """`run`, whose manifest counts `cost` too: that of a round that belongs to it."""
    return update_manifest(run, cost=run.manifest.cost.plus(cost))


def refuse_without_given(golden: GoldenSet, part: str | None) -> None:
    """Raise GoldenSetError if only generation is evaluated, and an answerable sample
    has no contexts to give."""
    if part != GENERATION:
        return
    bare = [
        sample
        for sample in golden
        if sample.answerable and not sample.reference_contexts
    ]
    if bare:
        raise GoldenSetError(
            f"{counted(len(bare), 'sample')} without reference_contexts to give to the system: "
            f"{some([sample.id for sample in bare])}.",
            where=str(bare[0].origin or ""),
            hint='With part = "generation", each answerable sample needs the contexts that its answer is made from.',
        )


def workers_of(this: Round, samples: int, say: Callable[[str], None]) -> Workers | None:
    """Workers to judge so many samples of a round with, not started yet; None: judge in
    this process."""
    plan = this.plan
    is_judged = any(needed_judgements(this.metrics, sample) for sample in this.samples)
    count = worker_count(plan.workers, samples * plan.answers_per_sample * plan.repeats)
    if not samples or not is_judged or (plan.dask is None and not count):
        return None
    # Imported here: a small run is judged by this process.
    from ragstone.evaluation.executors import (
        DaskWorkers,
        ProcessWorkers,
        Task,
    )
    from ragstone.judge.portable import portable_judge

    portable = portable_judge(this.judge)
    is_custom = any(metric.info.name in plan.metrics.custom for metric in this.metrics)
    if portable is not None and not is_custom:
        identity = this.judge.identity
        task = Task(portable, this.metrics, plan.repeats, identity)
        if plan.dask is not None:
            return DaskWorkers(plan.dask, task)
        return ProcessWorkers(count, task)
    if plan.dask is not None:
        say(
            "run.dask is not used, and answers are judged in this process: a worker of a cluster has neither the keys "
            "of a judge nor the project's own metrics."
        )
    return None


@asynccontextmanager
async def until(deadline: float | None) -> AsyncIterator[None]:
    """Cancel the block at `deadline` of the loop's clock, and raise
    TimeLimitReached."""
    try:
        async with asyncio.timeout_at(deadline) as limit:
            yield
    except TimeoutError:
        if not limit.expired():
            raise
        raise TimeLimitReached from None
