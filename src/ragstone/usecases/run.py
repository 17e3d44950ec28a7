"""Evaluate one version of the system: golden set in, run directory out."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence, Set
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Protocol, cast

from ragstone._version import __version__
from ragstone.config import Settings
from ragstone.errors import (
    ConfigError,
    GoldenSetError,
    JudgeError,
    RagstoneError,
    SystemUnderTestError,
    TimeLimitReached,
)
from ragstone.formatting import counted, some
from ragstone.golden.load import load_golden_set
from ragstone.golden.sample import GoldenSet, Sample
from ragstone.judge.cache import JudgementCache
from ragstone.judge.factory import build_judge
from ragstone.judge.portable import recipe_of
from ragstone.judge.preference import WithEarlierAnswers
from ragstone.judge.protocol import Judge
from ragstone.judge.rubric import NO_MODEL
from ragstone.metrics.metric import Metric
from ragstone.metrics.registry import find_metric, is_relative
from ragstone.metrics.score import Score
from ragstone.report.redact import Redactor
from ragstone.run.dask_workers import DaskWorkers, refuse_without_dask
from ragstone.run.directory import (
    ASIDE,
    BASE_COMMIT,
    CACHE,
    HISTORY,
    MANIFEST,
    ORACLE,
    PERTURBED,
    REJUDGED,
    SAMPLES,
    SYSTEM_LOG,
    RunDirectory,
    read_manifest,
)
from ragstone.run.engine import Progress, Quiet, run_samples, run_samples_in
from ragstone.run.files import replace_text, writing_to
from ragstone.run.lineage import drop_carried
from ragstone.run.lock import run_lock
from ragstone.run.manifest import (
    Cost,
    Counts,
    GoldenManifest,
    Invocation,
    JudgeManifest,
    Manifest,
    PerturbedPlan,
    SystemManifest,
    TokenPrice,
)
from ragstone.run.partners import AsksPartners, StaysOpen
from ragstone.run.placing import JUDGED
from ragstone.run.record import SampleRecord
from ragstone.run.scores import SampleFacts
from ragstone.run.scoring import needed_judgements
from ragstone.run.shards import Shard
from ragstone.run.stored import AnswersFirst, StoredAnswers, set_aside
from ragstone.run.workers import Pool, Workers, how_many
from ragstone.run.writer import RunWriter, write_manifest
from ragstone.system.build import build_system
from ragstone.system.given import refuse_without_contexts
from ragstone.system.response import GENERATION, System, takes_history
from ragstone.usecases.custom import Measures, measures_of, metrics_of, ungraded
from ragstone.usecases.invocation import invocation_of, system_commit
from ragstone.usecases.judge_watch import watch_judge
from ragstone.usecases.perturb import kept_partners, make_partners, refuse_recorded, refuse_unwritten


@dataclass(frozen=True, slots=True)
class RunContext:
    """The environment of a use case, passed in by an entry point.

    `redact` removes Ragstone's secrets from a text; `say` shows one line to the user. `trusts_checkout` is False if the
    files there may come from the author under test (on GitHub): then records found there are not resumed from, and
    judgements found there are not reused. `system_log` is a private file for the output of the system under test; it is
    stored in the run directory, redacted. `invocation` says how the run was started; None: as the settings say.
    """

    environ: Mapping[str, str]
    progress: Progress = field(default_factory=Quiet)
    say: Callable[[str], None] = lambda _line: None
    redact: Redactor = field(default_factory=lambda: Redactor(()))
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    trusts_checkout: bool = True
    system_log: Path | None = None
    system_factory: Callable[[Settings, Mapping[str, str]], System] | None = None
    invocation: Invocation | None = None


class Watcher(Protocol):
    """Watches a run, and may stop it. `order` is the order in which the samples are evaluated."""

    @property
    def order(self) -> Sequence[str]: ...

    def add(self, sample_id: str, scores: Mapping[str, Score]) -> None: ...

    def enough(self) -> bool: ...


MakeWatcher = Callable[[GoldenSet, Manifest], Watcher]
Afterwards = Callable[[RunDirectory, Judge], Awaitable[None]]
"""Something to do with a finished run, and the judge that is still open."""

Begin = Callable[[Manifest], RunWriter]
"""Begins a run with a manifest."""


class Evaluation(Protocol):
    """`evaluate_golden_set`, or what takes its place."""

    async def __call__(
        self,
        golden: GoldenSet,
        system: System,
        judge: Judge,
        settings: Settings,
        context: RunContext,
        *,
        policy_hash: str | None = None,
        watcher: MakeWatcher | None = None,
    ) -> RunDirectory: ...


def read_golden_set(settings: Settings) -> GoldenSet:
    """The golden set in `settings`. Raises ConfigError if there is none."""
    if not settings.golden.paths:
        raise ConfigError(
            "no golden set.",
            hint="Use --golden FILE, or set paths under [golden] in ragstone.toml (`ragstone init` writes one).",
        )
    return load_golden_set(
        settings.golden.paths,
        root=settings.root,
        columns=settings.golden.columns or None,
        limit=settings.golden.limit,
        within=settings.within,
    )


def make_system(settings: Settings, context: RunContext) -> System:
    """The system under test in `settings`, not yet started."""
    if context.system_factory is not None:
        return context.system_factory(settings, context.environ)
    if not settings.system.entrypoint:
        raise ConfigError(
            "no entrypoint.",
            hint="Use --entrypoint, for example python:my_package.rag:answer, or set it under [system].",
        )
    if settings.run.answers > 1 and settings.system.entrypoint.startswith("file:"):
        raise ConfigError(
            f"answers = {settings.run.answers}, but a file has one recorded answer to each question.",
            where=settings.system.entrypoint,
            hint="Use answers = 1, or an entrypoint that can be asked again.",
        )
    return build_system(
        settings.system,
        root=settings.root,
        environ=context.environ,
        log=context.system_log,
        within=settings.within,
    )


def shard_of(settings: Settings) -> Shard | None:
    """The shard to evaluate; None: the whole golden set. Raises ConfigError for settings that need the whole."""
    if settings.run.shard is None:
        return None
    refuse_parts(settings)
    return Shard.parse(settings.run.shard)


def refuse_without_given(golden: GoldenSet, settings: Settings) -> None:
    """Raise GoldenSetError if only generation is evaluated, and an answerable sample has no contexts to give."""
    if settings.system.part != GENERATION:
        return
    bare = [sample for sample in golden if sample.answerable and not sample.reference_contexts]
    if bare:
        have = "has" if len(bare) == 1 else "have"
        raise GoldenSetError(
            f"{counted(len(bare), 'sample')} {have} no reference_contexts to give to the system: "
            f"{some([sample.id for sample in bare])}.",
            where=str(bare[0].origin) if bare[0].origin is not None else None,
            hint='With part = "generation", each answerable sample needs the contexts that its answer is made from.',
        )


def refuse_parts(settings: Settings) -> None:
    """Raise ConfigError for settings with which a run can't be evaluated in shards."""
    if settings.run.stop_early:
        raise ConfigError(
            "stopping early needs the scores of all samples so far, and a shard has only its own.",
            where="run.stop_early",
            hint="Use --stop-early, or shards.",
        )
    if settings.run.oracle:
        raise ConfigError(
            "an oracle half is of a whole run, not of shards of it.",
            where="run.oracle",
            hint="Use --oracle, or shards.",
        )
    if settings.gate.baseline_commit is not None:
        raise ConfigError(
            "a base commit is asked beside the whole golden set, not beside shards of it.",
            where="gate.baseline_commit",
            hint="Compare with an earlier run instead, or evaluate everything in one job.",
        )
    if settings.run.perturb:
        raise ConfigError(
            "perturbed questions are drawn from the whole golden set, not from shards of it.",
            where="run.perturb",
            hint="Ask them in a run without --shard.",
        )


async def evaluate_run(
    settings: Settings,
    context: RunContext,
    *,
    golden: GoldenSet | None = None,
    policy_hash: str | None = None,
    judgements_from: Path | None = None,
    baseline: RunDirectory | None = None,
    watcher: MakeWatcher | None = None,
    evaluation: Evaluation | None = None,
    afterwards: Afterwards | None = None,
) -> RunDirectory:
    """Run the evaluation described by `settings` (`golden`: if already read) and return its directory.

    `evaluation` is what to do with golden set, system and judge instead of `evaluate_golden_set`.
    `judgements_from` is the cache of a trusted baseline, whose judgements are reused; some judgements of `baseline` are
    repeated, depending on `settings.judge.canaries`. A shard does its part of all this. Raises the matching
    RagstoneError; finished samples are saved and the run can be resumed.
    """
    shard = shard_of(settings)
    refuse_recorded(settings)
    golden = golden or read_golden_set(settings)
    part = golden if shard is None else shard.part(golden)
    if context.invocation is None:  # before the system starts, so that the files are counted as it finds them
        found = invocation_of(settings, context.environ, command="run", redact=context.redact)
        context = replace(context, invocation=found)
    out = settings.path(settings.run.out)
    with run_lock(out):
        started, system = monotonic(), make_system(settings, context)
        kept = StaysOpen(system) if settings.run.perturb else None
        if not context.trusts_checkout:
            settings = from_nothing(settings)
        if judgements_from is not None and not settings.judge.refresh:
            restore_judgements(judgements_from, out / CACHE)
        judge = build_judge(
            settings.judge if shard is None else shard.share(settings.judge),
            golden_set=golden,  # a judge that knows the whole golden set judges every shard alike
            cache=out / CACHE,
            environ=context.environ,
            tell_secret=context.redact.add,
            within=settings.within,
        )
        earlier = StoredAnswers.of(baseline) if baseline is not None and compares_answers(settings) else None
        asked = judge if earlier is None else cast(Judge, WithEarlierAnswers(judge, earlier.to))
        try:
            refuse_unwritten(settings, judge, judge.identity)
            evaluate = evaluation or partial(evaluate_golden_set, whole=golden)
            run = await evaluate(
                part, kept or system, asked, settings, context, policy_hash=policy_hash, watcher=watcher
            )
            run = await watch_judge(
                run,
                judge,
                baseline,
                settings.judge.canaries or 0,
                inherits=judgements_from is not None,
                mine=shard.holds if shard is not None else None,
            )
            if kept is not None:
                run = await ask_partners(run, part, kept, judge, settings, context, elapsed_s=monotonic() - started)
            if afterwards is not None:
                await afterwards(run, judge)
            for note in getattr(judge, "notes", ()):  # adaptations and limitations of an LLM judge
                context.say(f"judge: {note}")
            return run
        finally:
            if kept is not None:
                await kept.stop()
            if earlier is not None:
                await earlier.close()
            await judge.close()


async def ask_partners(
    run: RunDirectory,
    golden: GoldenSet,
    system: System,
    judge: Judge,
    settings: Settings,
    context: RunContext,
    *,
    elapsed_s: float,
) -> RunDirectory:
    """Ask the perturbed partners of `run`, which is finished, and return it with their cost.

    They are written to its folder `perturbed`. `elapsed_s` is what the run has taken of its time limit. A judge, system
    or time limit that ends this leaves the run as it is, and the partners unfinished: the report says so. An
    interruption stops both, to be resumed.
    """
    out, started = run.path / PERTURBED, monotonic()
    limit = None if settings.run.time_limit_s is None else max(0.001, settings.run.time_limit_s - elapsed_s)
    # Whoever ends the job from here on leaves a run that can be resumed, and that is no baseline yet.
    write_manifest(run.path, run.manifest.model_copy(update={"state": "running"}))
    manifest, plan = run.manifest, PerturbedPlan(kinds=settings.run.perturb, samples=0)
    cost = Cost()
    try:
        async with _until(None if limit is None else asyncio.get_running_loop().time() + limit):
            evaluated = run.scores().samples
            found = await make_partners(settings, (one for one in golden if one.id in evaluated), judge)
            plan, cost = found.plan, Cost.of(found.ledger)
            for note in found.notes:
                context.say(note)
            context.say(f"asking {counted(len(found.golden), 'perturbed question')}")
            names = tuple(name for name in manifest.metrics if not is_relative(name))
            own = settings.run.model_copy(
                update={"out": str(out.absolute()), "metrics": names, "time_limit_s": None, "resume": False}
            )
            keep = kept_partners(out, found.golden, manifest.judge, names)
            partners = await evaluate_golden_set(
                found.golden,
                AsksPartners(system),
                judge,
                settings.model_copy(update={"run": own}),
                replace(context, invocation=None),
                begin=partial(begin_partners, out, plan, keep, context.redact),
            )
            manifest = manifest.model_copy(update={"cost": manifest.cost.plus(cost).plus(partners.manifest.cost)})
    except (JudgeError, SystemUnderTestError, TimeLimitReached) as error:
        reason = context.redact(error.message)
        context.say(f"not all perturbed questions were asked: {reason}")
        manifest = manifest.model_copy(
            update={"cost": manifest.cost.plus(cost).plus(_stopped_partners(out, run, plan, reason))}
        )
    except BaseException as error:
        stopped = {"state": "stopped", "stop_reason": f"interrupted ({type(error).__name__})"}
        write_manifest(run.path, manifest.model_copy(update=stopped))
        raise
    manifest = manifest.model_copy(update={"wall_s": manifest.wall_s + monotonic() - started})
    write_manifest(run.path, manifest)
    return run.with_manifest(manifest)


def begin_partners(
    out: Path, plan: PerturbedPlan, keep: Set[str], redact: Callable[[str], str], manifest: Manifest
) -> RunWriter:
    """Begin, or continue, the run of partners in `out` with those whose content is in `keep`."""
    described = manifest.model_copy(update={"perturbed": plan})
    return RunWriter.extend(out, described, keep=lambda one: one.sample.content_hash() in keep, redact=redact)


def _stopped_partners(out: Path, run: RunDirectory, plan: PerturbedPlan, reason: str) -> Cost:
    """Say in the run of the partners why it was stopped, also if it had not begun; returns its cost."""
    begun = (out / MANIFEST).is_file()
    earlier = read_manifest(out) if begun else run.manifest.model_copy(update={"counts": Counts(), "cost": Cost()})
    stopped = {"state": "stopped", "stop_reason": reason, "perturbed": earlier.perturbed or plan, "invocation": None}
    if not begun:
        with writing_to(out):
            out.mkdir(exist_ok=True)
            (out / SAMPLES).touch()
    write_manifest(out, earlier.model_copy(update=stopped))
    return earlier.cost


def compares_answers(settings: Settings) -> bool:
    """Whether a metric compares the answers of the run with those of its baseline."""
    return any(metric.info.relative for metric in metrics_of(settings))


def from_nothing(settings: Settings) -> Settings:
    """`settings` for a run that reuses nothing in its directory: judgements are removed, records are not read."""
    out = settings.path(settings.run.out)
    for name in (*JUDGED, HISTORY):
        with writing_to(out / name):
            (out / name).unlink(missing_ok=True)
    drop_carried(out)
    drop_carried(out, BASE_COMMIT)
    drop_carried(out, REJUDGED)
    drop_carried(out, ORACLE)
    drop_carried(out, PERTURBED)
    return settings.model_copy(update={"run": settings.run.model_copy(update={"resume": False})})


def restore_judgements(source: Path, cache: Path) -> None:
    """Copy the judgements of a trusted baseline, if any, to this run's cache."""
    if not source.is_file() or (cache.exists() and source.samefile(cache)):
        return
    cache.parent.mkdir(parents=True, exist_ok=True)
    with closing(JudgementCache(cache)) as taken:
        taken.restore_from(source)


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
            async with _until(deadline):
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
        async with _until(deadline):
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
async def _until(deadline: float | None) -> AsyncIterator[None]:
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


def run_sentence(manifest: Manifest) -> str:
    """How many samples of a run, or of a shard, could be scored."""
    counts, shard = manifest.counts, manifest.shard
    name = "" if shard is None else f"{shard.name.capitalize()}: "
    return (
        f"{name}{counted(counts.scored, 'sample')} scored, {counts.partly_failed} with a failed score, "
        f"{counts.system_failed} without an answer."
    )


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
