"""Score stored answers again: with another judge, other metrics, or for the first time. The system is not asked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from pydantic import TypeAdapter

from ragstone.app.context import RunContext
from ragstone.app.custom import metrics_of
from ragstone.app.evaluate import evaluate_golden_set
from ragstone.app.judge_watch import watch_judge
from ragstone.app.oracle import with_half
from ragstone.app.perturb import begin_partners, kept_partners
from ragstone.app.run import restore_judgements
from ragstone.config import Settings
from ragstone.errors import ConfigError
from ragstone.formatting import counted
from ragstone.golden.load import load_golden_set
from ragstone.golden.sample import GoldenSet
from ragstone.judge.factory import build_judge
from ragstone.judge.llm.estimate import CostEstimate, estimate_cost
from ragstone.judge.protocol import Judge
from ragstone.metrics.metric import Metric
from ragstone.metrics.registry import is_relative
from ragstone.metrics.score import Failed
from ragstone.run.directory import CACHE, MANIFEST, ORACLE, PERTURBED, RunDirectory
from ragstone.run.lineage import cache_of, drop_carried, oracle_half
from ragstone.run.lock import run_lock
from ragstone.run.manifest import BaselineFact, JudgeManifest, SystemManifest
from ragstone.run.record import SampleRecord
from ragstone.run.stored import StoredAnswers, set_aside
from ragstone.run.writer import RunWriter, write_manifest
from ragstone.system.kind import answer_fields
from ragstone.system.response import Response

OUT = "ragstone-rescored"
"""The default run directory, another than that of `ragstone run`: it must not be overwritten by mistake."""

_RESPONSE = TypeAdapter(Response)


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
    settings: Settings,
    context: RunContext,
    *,
    golden_paths: Sequence[str] = (),
    missing: bool = False,
    dry_run: bool = False,
) -> Rescored:
    """Judge and score the answers in `sources` as `settings` say, and write a run to `settings.run.out`.

    A source is a run directory, its samples.jsonl, or a file of recorded interactions; answers in memory are given as
    `StoredAnswers`, which are closed. With `missing`, the run in the
    directory is extended: what it has scored under the same judge with the same versions of the metrics is kept, and
    everything else in it is scored again. `golden_paths` are golden sets to take references from. The metrics are those
    in `settings`, else those of the runs, else the default metrics that apply. A `dry_run` only counts and estimates.
    Raises ConfigError for sources that can't be read or would be overwritten, and otherwise what a run raises.
    """
    out = settings.path(settings.run.out)
    with run_lock(out):
        stored, paths = (sources, ()) if isinstance(sources, StoredAnswers) else (StoredAnswers(), sources)
        try:
            runs = _read(stored, paths, settings)
            existing = RunDirectory.open(out) if missing and (out / MANIFEST).is_file() else None
            _refuse_to_overwrite(out, runs, allowed=missing or settings.run.resume)
            if existing is not None:
                stored.read_run(existing, only_new=True)
                stored.read_aside(out)
            joined = None
            if golden_paths:
                joined = stored.join(load_golden_set(golden_paths, root=settings.root))
            golden = stored.golden
            settings = _of_their_part(settings, runs)
            names = settings.run.metrics or _metrics_of(
                runs if existing is None else [*runs, existing], golden, settings
            )
            work = _Work(stored, golden, names, runs, existing)
            return await _rescore(work, out, settings, context, joined, dry_run=dry_run)
        finally:
            await stored.close()


def _of_their_part(settings: Settings, runs: Sequence[RunDirectory]) -> Settings:
    """`settings` for the half of the system that the answers of `runs` are of, if there are runs."""
    parts = {run.manifest.system.part for run in runs}
    if len(parts) != 1:
        return settings
    return settings.model_copy(update={"system": settings.system.model_copy(update={"part": parts.pop()})})


@dataclass(frozen=True, slots=True)
class _Work:
    stored: StoredAnswers
    golden: GoldenSet
    names: tuple[str, ...]
    runs: Sequence[RunDirectory]
    existing: RunDirectory | None


async def _rescore(
    work: _Work, out: Path, settings: Settings, context: RunContext, joined: int | None, *, dry_run: bool
) -> Rescored:
    if not dry_run and not settings.judge.refresh:
        for run in work.runs:
            restore_judgements(cache_of(run), out / CACHE)
    judge = build_judge(
        settings.judge,
        golden_set=work.golden,
        cache=None if dry_run else out / CACHE,
        environ=context.environ,
        tell_secret=context.redact.add,
    )
    try:
        kept: frozenset[str] = frozenset()
        names = work.names
        if work.existing is not None:
            metrics, as_judge = metrics_of(settings, names=names), JudgeManifest.of(judge.identity)
            kept = _scored(work, metrics, as_judge, settings.run.repeats, context.redact)
            if work.existing.manifest.judge == as_judge:  # a new metric is added to those that the run has
                names = tuple(dict.fromkeys((*names, *work.existing.manifest.metrics)))
        run_settings = settings.run.model_copy(
            update={"metrics": names, "answers": work.stored.answers, "oracle": False}
        )
        settings = settings.model_copy(update={"run": run_settings})
        rest = GoldenSet(tuple(sample for sample in work.golden if sample.id not in kept))
        estimate = stored_cost(settings, rest, metrics_of(settings, names=names), work.stored)
        half = oracle_half(work.runs[0]) if len(work.runs) == 1 else None
        if half is not None:
            estimate = estimate.plus(await _half_cost(half, work, settings))
        partners = _partners_of(work) if joined is None else None
        if partners is not None:
            estimate = estimate.plus(await _partners_cost(partners, settings, names))
        found = Rescored(len(work.golden), len(kept), estimate, joined)
        if dry_run:
            return found
        begin = None
        if work.existing is not None:
            set_aside(work.existing)
            begin = partial(RunWriter.extend, out, keep=lambda one: one.sample.id in kept, redact=context.redact)
        context.say(f"{counted(len(rest), 'stored answer')} to score: {estimate.sentence()}.")
        run = await evaluate_golden_set(
            work.golden, work.stored, judge, settings, context, begin=begin, describes=_system(work, settings)
        )
        if partners is not None:
            run = await _with_partners(run, partners, judge, settings, context)
        run = await watch_judge(run, judge, work.existing if kept else None, 0, inherits=True)
        if half is not None:
            run = await _rescore_half(half, work, run, judge, settings, context)
        for note in getattr(judge, "notes", ()):
            context.say(f"judge: {note}")
        return Rescored(found.answers, found.kept, estimate, joined, _with_standing(run, work.runs))
    finally:
        await judge.close()


def _half_settings(settings: Settings, **run: object) -> Settings:
    names = tuple(metric.info.name for metric in metrics_of(settings) if metric.info.divides)
    return settings.model_copy(update={"run": settings.run.model_copy(update={"metrics": names, **run})})


def _half_golden(stored: StoredAnswers, work: _Work) -> GoldenSet:
    """The samples of an oracle half, as they are in the run itself."""
    return GoldenSet(tuple(sample for sample in work.golden if sample.id in stored), work.golden.mappings)


async def _half_cost(half: RunDirectory, work: _Work, settings: Settings) -> CostEstimate:
    stored = StoredAnswers.of(half)
    try:
        own = _half_settings(settings, answers=stored.answers)
        return stored_cost(own, _half_golden(stored, work), metrics_of(own), stored)
    finally:
        await stored.close()


def _partners_of(work: _Work) -> RunDirectory | None:
    """The perturbed questions of the one run that is scored again, so that they can be compared with its new scores."""
    if work.existing is not None or len(work.runs) != 1 or not (work.runs[0].path / PERTURBED / MANIFEST).is_file():
        return None
    found = RunDirectory.open(work.runs[0].path / PERTURBED)
    return found if found.manifest.perturbed is not None and found.manifest.counts.total else None


async def _partners_cost(partners: RunDirectory, settings: Settings, names: Sequence[str]) -> CostEstimate:
    stored = StoredAnswers.of(partners)
    try:
        metrics = [metric for metric in metrics_of(settings, names=names) if not metric.info.relative]
        return stored_cost(settings, stored.golden, metrics, stored)
    finally:
        await stored.close()


async def _rescore_half(
    half: RunDirectory, work: _Work, run: RunDirectory, judge: Judge, settings: Settings, context: RunContext
) -> RunDirectory:
    """`run` with the oracle half of its source, whose answers are scored as those of `run` were."""
    out, stored = run.path / ORACLE, StoredAnswers.of(half)
    try:
        start = partial(RunWriter.create, out, redact=context.redact)
        if half.path.resolve() == out.resolve():
            set_aside(half)
            start = partial(RunWriter.extend, out, keep=lambda _record: False, redact=context.redact)
        else:
            drop_carried(run.path, ORACLE)
        own = _half_settings(settings, answers=stored.answers, out=str(out.absolute()), resume=False)
        golden, quiet = _half_golden(stored, work), replace(context, say=lambda _line: None, system_log=None)
        await evaluate_golden_set(
            golden, stored, judge, own, quiet, begin=start, describes=half.manifest.system, whole=work.golden
        )
    finally:
        await stored.close()
    fact = work.runs[0].manifest.oracle
    return with_half(run, fact) if fact is not None else run


async def _with_partners(
    run: RunDirectory, source: RunDirectory, judge: Judge, settings: Settings, context: RunContext
) -> RunDirectory:
    """`run` with the perturbed questions of `source`, scored again, and with their cost."""
    plan = source.manifest.perturbed
    assert plan is not None  # noqa: S101 - _partners_of
    stored, out = StoredAnswers.of(source), run.path / PERTURBED
    names = tuple(name for name in settings.run.metrics or () if not is_relative(name))
    own = settings.run.model_copy(update={"out": str(out.absolute()), "metrics": names, "resume": False})
    keep = kept_partners(out, stored.golden, run.manifest.judge, names) if settings.run.resume else frozenset()
    found = await evaluate_golden_set(
        stored.golden,
        stored,
        judge,
        settings.model_copy(update={"run": own}),
        replace(context, invocation=None),
        begin=partial(begin_partners, out, plan, keep, context.redact),
        describes=source.manifest.system,
    )
    if source.manifest.state != "finished":
        stopped = {"state": "stopped", "stop_reason": source.manifest.stop_reason}
        write_manifest(out, found.manifest.model_copy(update=stopped))
    manifest = run.manifest.model_copy(update={"cost": run.manifest.cost.plus(found.manifest.cost)})
    write_manifest(run.path, manifest)
    return run.with_manifest(manifest)


def stored_cost(
    settings: Settings, golden: GoldenSet, metrics: Sequence[Metric], stored: StoredAnswers
) -> CostEstimate:
    """At most what judging the answers of `golden` costs, from the length of their texts."""
    lengths: dict[str, tuple[int, int]] = {}
    answered = []
    for sample in golden:
        response = stored.response(sample.id)
        if response.failure is None:
            answered.append(sample)
            lengths[sample.id] = len(response.answer), sum(len(context.text) for context in response.contexts)
    return estimate_cost(
        settings.judge,
        GoldenSet(tuple(answered)),
        metrics,
        repeats=settings.run.repeats,
        answers=settings.run.answers,
        lengths=lengths,
    )


def _read(stored: StoredAnswers, sources: Sequence[Path], settings: Settings) -> list[RunDirectory]:
    runs = []
    for source in sources:
        run = stored.read(source, columns=settings.golden.columns, fields=answer_fields(settings.system))
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


def _metrics_of(runs: Sequence[RunDirectory], golden: GoldenSet, settings: Settings) -> tuple[str, ...]:
    """The metrics of the runs and the project's own, or the default ones that apply to at least one sample."""
    named = dict.fromkeys(name for run in runs for name in run.manifest.metrics)
    if named:
        return tuple(dict.fromkeys((*named, *settings.metrics)))
    applying = [one for one in metrics_of(settings, golden) if any(one.excuse(sample) is None for sample in golden)]
    return tuple(metric.info.name for metric in applying)


def _scored(
    work: _Work, metrics: Sequence[Metric], judge: JudgeManifest, repeats: int, redact: Callable[[str], str]
) -> frozenset[str]:
    """The samples that the existing run has scored: the same answer to the same question, by the same judge."""
    existing = work.existing
    versions = {metric.info.name: metric.info.version for metric in metrics}
    if existing is None or existing.manifest.judge != judge or existing.manifest.repeats != repeats:
        return frozenset()
    if any(existing.manifest.metrics.get(name, version) != version for name, version in versions.items()):
        return frozenset()
    contents = {sample.id: sample.content_hash() for sample in work.golden}

    def same(record: SampleRecord) -> bool:
        scores = [record.scores.get(name) for name in versions]
        if any(score is None or (isinstance(score, Failed) and score.by == "judge") for score in scores):
            return False
        if contents.get(record.sample.id) != record.sample.content_hash():
            return False
        stored = (work.stored.response(record.sample.id, number) for number in range(work.stored.answers))
        now = [redact(_RESPONSE.dump_json(response).decode()) for response in stored]
        return now == [_RESPONSE.dump_json(response).decode() for response in record.responses]

    return frozenset(record.sample.id for record in existing.records() if same(record))


def _system(work: _Work, settings: Settings) -> SystemManifest:
    """The system that gave the answers, as far as it is known: never the commit that is checked out now."""
    systems = {run.manifest.system for run in work.runs}
    files = [mapping.file for mapping in work.golden.mappings if mapping.format == "interactions"]
    if len(systems) == 1 and not files:
        return systems.pop()
    names = [*(str(run.path) for run in work.runs), *files]
    more = f" and {len(names) - 1} more" if len(names) > 1 else ""
    return SystemManifest(entrypoint=f"file:{names[0]}{more}" if names else "file:", version=settings.system.version)


def _with_standing(run: RunDirectory, sources: Sequence[RunDirectory]) -> RunDirectory:
    """`run`, which can't be a baseline if one of its sources can't: new scores don't undo a failure."""
    barred = next((source.manifest.standing for source in sources if not source.manifest.standing.eligible), None)
    if barred is None:
        return run
    fact = BaselineFact(eligible=False, reason=f"its answers are from a run that can't be one: {barred.reason}")
    manifest = run.manifest.model_copy(update={"baseline": fact})
    write_manifest(run.path, manifest)
    return run.with_manifest(manifest)
