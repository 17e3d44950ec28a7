"""Evaluate a golden set: ask, judge, score, and write the run directory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Protocol

from ragstone._version import __version__
from ragstone.app.context import RunContext
from ragstone.app.custom import Measures, measures_of, metrics_of, ungraded
from ragstone.app.inputs import refuse_without_given, shard_of
from ragstone.app.invocation import system_commit
from ragstone.config import Settings
from ragstone.errors import RagstoneError, TimeLimitReached
from ragstone.golden.sample import GoldenSet, Sample
from ragstone.judge.portable import recipe_of
from ragstone.judge.protocol import Judge
from ragstone.judge.rubric import NO_MODEL
from ragstone.metrics.metric import Metric
from ragstone.metrics.registry import find_metric
from ragstone.metrics.score import Score
from ragstone.run.dask_workers import DaskWorkers, refuse_without_dask
from ragstone.run.directory import ASIDE, MANIFEST, ORACLE, SYSTEM_LOG, RunDirectory
from ragstone.run.engine import run_samples, run_samples_in
from ragstone.run.files import replace_text
from ragstone.run.lineage import drop_carried
from ragstone.run.lock import run_lock
from ragstone.run.manifest import GoldenManifest, JudgeManifest, Manifest, SystemManifest, TokenPrice
from ragstone.run.record import SampleRecord
from ragstone.run.scores import SampleFacts
from ragstone.run.scoring import needed_judgements
from ragstone.run.stored import AnswersFirst, StoredAnswers, set_aside
from ragstone.run.workers import Pool, Workers, how_many
from ragstone.run.writer import RunWriter
from ragstone.system.given import refuse_without_contexts
from ragstone.system.response import System, takes_history


class Watcher(Protocol):
    """Watches a run, and may stop it. `order` is the order in which the samples are evaluated."""

    @property
    def order(self) -> Sequence[str]: ...

    def add(self, sample_id: str, scores: Mapping[str, Score]) -> None: ...

    def enough(self) -> bool: ...


MakeWatcher = Callable[[GoldenSet, Manifest], Watcher]


Begin = Callable[[Manifest], RunWriter]
"""Begins a run with a manifest."""


async def evaluate_golden_set(
    golden: GoldenSet,
    system: System,
    judge: Judge,
    settings: Settings,
    context: RunContext,
    *,
    policy_hash: str | None = None,
    watcher: MakeWatcher | None = None,
    begin: Begin | None = None,
    describes: SystemManifest | None = None,
    whole: GoldenSet | None = None,
) -> RunDirectory:
    """The same with a given golden set, system (not yet started; closed at the end) and judge (not closed).

    `begin` starts or continues the run in another way than `settings` say. `describes` is the system in the manifest,
    if it is not the one that is asked. `whole` is the golden set that `golden` is the shard of that `settings` name.
    """
    out = settings.path(settings.run.out)
    limit = settings.run.time_limit_s
    deadline = asyncio.get_running_loop().time() + limit if limit is not None else None
    writer: RunWriter | None = None
    measures: Measures | None = None
    workers: Pool | None = None
    with run_lock(out):
        if begin is None and settings.run.resume and (out / MANIFEST).is_file():
            settings, system = _with_its_answers(RunDirectory.open(out), settings, system, golden)
        try:
            metrics = metrics_of(settings, whole or golden)
            if describes is None:  # else the answers are there already
                refuse_without_given(golden, settings)
            if settings.run.dask is not None:
                refuse_without_dask()
            measures = measures_of(metrics, settings, context.environ, context.system_factory, context.system_log)
            for name in ungraded(metrics, judge):
                context.say(f"{name} is not scored: {NO_MODEL.format(judge.identity.label())}.")
            # Before anything is written, so that a system that can't start leaves no files.
            async with until(deadline):
                await system.start()
                if settings.run.oracle:
                    refuse_without_contexts(system, settings.system.takes_contexts, "--oracle")
                await measures.start()
            manifest = describe_run(settings, context, whole or golden, metrics, judge, system, policy_hash)
            if whole is not None and (shard := shard_of(settings)) is not None:
                manifest = manifest.model_copy(update={"shard": shard.describe(whole)})
            if describes is not None:
                manifest = manifest.model_copy(update={"system": describes})
            watching = watcher(golden, manifest) if watcher is not None else None
            if begin is None and not (settings.run.resume and settings.run.oracle):
                drop_carried(out, ORACLE)
            if begin is None:
                start = RunWriter.resume if settings.run.resume else RunWriter.create
                begin = partial(start, out, redact=context.redact)
            writer = begin(manifest)
            if watching is None:  # which wants each score before the next question
                judged = any(needed_judgements(metrics, sample) for sample in golden)
                left = len(golden) - len(writer.finished_ids)
                workers = workers_of(settings, judge, metrics, left if judged else 0, context.say)
            elif settings.run.dask is not None:
                context.say(f"{_NOT_IN_DASK}: stopping early needs each score before the next question.")
            given = _Given(golden, system, judge, metrics, measures, workers)
            return await _evaluate_pending(given, writer, settings, context, watching, deadline)
        finally:
            if workers is not None:
                await workers.close()
            await system.close()
            if measures is not None:
                await measures.close()
            if writer is not None:
                _keep_log(context, out)


def _with_its_answers(
    run: RunDirectory, settings: Settings, system: System, golden: GoldenSet
) -> tuple[Settings, System]:
    """The settings and the system to resume `run` with: its metrics and those in `settings`, and its answers.

    Answers that lack a metric are not asked for again.
    """
    known = [name for name in run.manifest.metrics if name in settings.metrics or find_metric(name) is not None]
    chosen = [metric.info.name for metric in metrics_of(settings, golden)] if settings.metrics else ()
    names = tuple(dict.fromkeys((*(settings.run.metrics or chosen), *known)))
    settings = settings.model_copy(update={"run": settings.run.model_copy(update={"metrics": names or None})})
    added = {metric.info.name for metric in metrics_of(settings, golden)} - run.manifest.metrics.keys()
    if not added and not (run.path / ASIDE).is_file():
        return settings, system
    set_aside(run)
    stored = StoredAnswers()
    stored.read_aside(run.path)
    return settings, AnswersFirst(stored, system, golden)


def _keep_log(context: RunContext, out: Path) -> None:
    """Store the system's output next to the records, if there is any output and a run."""
    log = context.system_log
    if log is None or not (out / MANIFEST).is_file():
        return
    try:
        text = log.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        text = ""
    if text.strip():
        replace_text(out / SYSTEM_LOG, context.redact(text))
    else:
        (out / SYSTEM_LOG).unlink(missing_ok=True)


@dataclass(frozen=True, slots=True)
class _Given:
    """What a run evaluates, all of it started."""

    golden: GoldenSet
    system: System
    judge: Judge
    metrics: tuple[Metric, ...]
    measures: Measures
    workers: Pool | None = None


_NOT_IN_DASK = "--dask is not used, and answers are judged in this process"


def workers_of(
    settings: Settings, judge: Judge, metrics: Sequence[Metric], samples: int, say: Callable[[str], None]
) -> Pool | None:
    """Workers to judge so many samples with, not started yet; None: judge in this process."""
    recipe = recipe_of(judge, settings.judge, within=settings.within)
    address = settings.run.dask
    if address is not None and samples:
        if recipe is not None:
            return DaskWorkers(address, recipe, metrics, repeats=settings.run.repeats, identity=judge.identity, say=say)
        say(f"{_NOT_IN_DASK}: {judge.identity.label()} can't be built elsewhere without its key and its limits.")
    count = how_many(settings.run, recipe, samples)
    if recipe is None or count == 0:
        return None
    return Workers(count, recipe, metrics, repeats=settings.run.repeats, identity=judge.identity)


async def _evaluate_pending(
    given: _Given,
    writer: RunWriter,
    settings: Settings,
    context: RunContext,
    watching: Watcher | None,
    deadline: float | None,
) -> RunDirectory:
    if watching is not None:
        _catch_up(watching, writer)
    golden = given.golden
    pending = _pending(golden, writer, watching)
    started = monotonic()
    try:
        async with until(deadline):
            if given.workers is not None:
                await given.workers.start()
            context.progress.start(len(golden) - len(writer.finished_ids))
            try:
                await _judge_all(given, pending, writer, settings, context, watching)
            finally:
                context.progress.finish()
    except BaseException as error:
        reason = error.message if isinstance(error, RagstoneError) else f"interrupted ({type(error).__name__})"
        writer.stop(context.redact(reason), wall_s=monotonic() - started)
        context.say(resume_hint(writer, len(golden)))
        raise
    return writer.finish((sample.id for sample in golden), wall_s=monotonic() - started)


async def _judge_all(
    given: _Given,
    pending: Iterable[Sample],
    writer: RunWriter,
    settings: Settings,
    context: RunContext,
    watching: Watcher | None,
) -> None:
    if given.workers is not None:
        await run_samples_in(
            given.workers,
            pending,
            system=given.system,
            judge=given.judge,
            metrics=given.metrics,
            custom=given.measures.by_name,
            sink=writer.append_line,
            repeats=settings.run.repeats,
            answers=settings.run.answers,
            progress=context.progress,
        )
        return
    await run_samples(
        pending,
        system=given.system,
        judge=given.judge,
        metrics=given.metrics,
        custom=given.measures.by_name,
        sink=writer.append if watching is None else partial(_append_and_tell, writer, watching),
        repeats=settings.run.repeats,
        answers=settings.run.answers,
        progress=context.progress,
        enough=watching.enough if watching is not None else None,
    )


@asynccontextmanager
async def until(deadline: float | None) -> AsyncIterator[None]:
    """Cancel the block at `deadline` of the loop's clock, and raise TimeLimitReached."""
    try:
        async with asyncio.timeout_at(deadline) as limit:
            yield
    except TimeoutError:
        if not limit.expired():
            raise
        raise TimeLimitReached from None


def _pending(golden: GoldenSet, writer: RunWriter, watching: Watcher | None) -> Iterable[Sample]:
    finished = frozenset(writer.finished_ids)
    samples: Iterable[Sample] = golden
    if watching is not None:
        by_id = {sample.id: sample for sample in golden}
        samples = (by_id[sample_id] for sample_id in watching.order)
    return (sample for sample in samples if sample.id not in finished)


def _append_and_tell(writer: RunWriter, watching: Watcher, record: SampleRecord) -> None:
    writer.append(record)
    watching.add(record.sample.id, record.scores)


def _catch_up(watching: Watcher, writer: RunWriter) -> None:
    """Show the watcher the samples that a resumed run had already finished."""
    if writer.finished_ids:
        for record in RunDirectory.open(writer.path).records():
            watching.add(record.sample.id, record.scores)


def facts_of(golden: GoldenSet) -> dict[str, SampleFacts]:
    """What the gate knows of samples that are not evaluated yet."""
    return {
        sample.id: SampleFacts(sample.question, sample.tags, sample.group, sample.origin, sample.content_hash())
        for sample in golden
    }


def resume_hint(writer: RunWriter, total: int) -> str:
    """How to resume a run that was stopped."""
    done = len(writer.finished_ids)
    return f"{done} of {total} samples are saved in {writer.path}; continue with --resume."


def describe_run(
    settings: Settings,
    context: RunContext,
    golden: GoldenSet,
    metrics: tuple[Metric, ...],
    judge: Judge,
    system: System,
    policy_hash: str | None,
) -> Manifest:
    """The manifest of a run that is about to start."""
    return Manifest(
        ragstone_version=__version__,
        state="running",
        created_at=context.now().isoformat(timespec="seconds"),
        golden=GoldenManifest(
            files=golden.sources,
            content_hash=golden.content_hash(),
            samples=len(golden),
        ),
        judge=JudgeManifest.of(judge.identity),
        system=SystemManifest(
            entrypoint=system.entrypoint,
            commit=system_commit(settings.root, context.environ),
            version=settings.system.version,
            part=settings.system.part,
            conversations=sum(bool(sample.history) for sample in golden),
            takes_history=takes_history(system),
        ),
        metrics={metric.info.name: metric.info.version for metric in metrics},
        repeats=settings.run.repeats,
        answers=settings.run.answers,
        price=_price(settings),
        policy_hash=policy_hash,
        invocation=context.invocation,
    )


def _price(settings: Settings) -> TokenPrice | None:
    price = settings.system.price
    return None if price is None else TokenPrice(input=price.input, output=price.output)
