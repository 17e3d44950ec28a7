"""Evaluate one version of the system: golden set in, run directory out."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Protocol, cast

from ragstone.app.context import RunContext
from ragstone.app.custom import metrics_of
from ragstone.app.evaluate import MakeWatcher, evaluate_golden_set
from ragstone.app.inputs import make_system, read_golden_set, shard_of
from ragstone.app.invocation import invocation_of
from ragstone.app.judge_watch import watch_judge
from ragstone.app.perturb import ask_partners, refuse_recorded, refuse_unwritten
from ragstone.config import Settings
from ragstone.formatting import counted
from ragstone.golden.sample import GoldenSet
from ragstone.judge.cache import JudgementCache
from ragstone.judge.factory import build_judge
from ragstone.judge.preference import WithEarlierAnswers
from ragstone.judge.protocol import Judge
from ragstone.run.directory import BASE_COMMIT, CACHE, HISTORY, ORACLE, PERTURBED, REJUDGED, RunDirectory
from ragstone.run.files import writing_to
from ragstone.run.lineage import drop_carried
from ragstone.run.lock import run_lock
from ragstone.run.manifest import Manifest
from ragstone.run.partners import StaysOpen
from ragstone.run.placing import JUDGED
from ragstone.run.stored import StoredAnswers
from ragstone.system.response import System

Afterwards = Callable[[RunDirectory, Judge], Awaitable[None]]
"""Something to do with a finished run, and the judge that is still open."""


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


def run_sentence(manifest: Manifest) -> str:
    """How many samples of a run, or of a shard, could be scored."""
    counts, shard = manifest.counts, manifest.shard
    name = "" if shard is None else f"{shard.name.capitalize()}: "
    return (
        f"{name}{counted(counts.scored, 'sample')} scored, {counts.partly_failed} with a failed score, "
        f"{counts.system_failed} without an answer."
    )
