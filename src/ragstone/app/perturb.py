"""Perturbed partners of some questions of a run: which they are, and what they show.

They are a run of their own, in the folder `perturbed` of the run directory, and never count in the run's own scores,
checks, history or comparisons.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Set
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

from ragstone.app.context import RunContext
from ragstone.app.evaluate import evaluate_golden_set, until
from ragstone.config import Settings
from ragstone.errors import ConfigError, JudgeError, RunDirectoryError, SystemUnderTestError, TimeLimitReached
from ragstone.formatting import counted, most_common
from ragstone.golden.perturb import KINDS, WRITTEN, draw, partners
from ragstone.golden.sample import GoldenSet, Sample
from ragstone.judge.protocol import Call, Judge, JudgeIdentity, JudgementFailed, Ledger
from ragstone.judge.rewording import RewordsQuestions
from ragstone.metrics.registry import is_relative
from ragstone.run.directory import MANIFEST, PERTURBED, SAMPLES, RunDirectory, read_manifest
from ragstone.run.files import writing_to
from ragstone.run.manifest import Cost, Counts, JudgeManifest, Manifest, PerturbedPlan
from ragstone.run.partners import AsksPartners
from ragstone.run.scores import RunScores
from ragstone.run.writer import RunWriter, write_manifest
from ragstone.system.entrypoint import recognised
from ragstone.system.response import System

if TYPE_CHECKING:
    from ragstone.gate.robustness import Robustness


@dataclass(frozen=True, slots=True)
class Partners:
    """The partners to ask, and the plan for their manifest. `ledger` is what writing their questions cost.

    `notes` are sentences on questions that could not be written.
    """

    golden: GoldenSet
    plan: PerturbedPlan
    ledger: Ledger
    notes: tuple[str, ...] = ()


def refuse_recorded(settings: Settings) -> None:
    """Raise ConfigError if the answers to perturbed questions would have to be found in a file."""
    entrypoint = recognised(settings.system.entrypoint)
    if settings.run.perturb and entrypoint is not None and not entrypoint.can_be_asked_again:
        raise ConfigError(
            "perturbed questions have no recorded answers.",
            where=entrypoint.text,
            hint="Remove --perturb, or use an entrypoint that can be asked.",
        )


def refuse_unwritten(settings: Settings, judge: object, identity: JudgeIdentity) -> None:
    """Raise ConfigError if a kind of perturbation needs a language model, and `judge` uses none."""
    lacking = [kind for kind in settings.run.perturb if kind in WRITTEN]
    if lacking and not isinstance(judge, RewordsQuestions):
        free = ",".join(kind for kind in KINDS if kind not in WRITTEN)
        verb = "needs" if len(lacking) == 1 else "need"
        raise ConfigError(
            f"{' and '.join(lacking)} {verb} a language model to write the questions, and the {identity.label()} uses "
            "none.",
            where="run.perturb",
            hint=f"Use an LLM judge (--judge openai:MODEL), or only the kinds {free}.",
        )


def expected_partners(settings: Settings, golden: GoldenSet) -> GoldenSet:
    """The partners before anything is asked, to estimate their cost: those that a model writes have no text yet."""
    run = settings.run
    drawn = draw(golden, run.perturb_samples, seed=run.seed)
    return partners(drawn, run.perturb, seed=run.seed, written=lambda sample, _kind: f"{sample.question}?")


def written_questions(found: GoldenSet) -> dict[str, list[str]]:
    """The questions that a model has to write anew, by kind."""
    texts: dict[str, list[str]] = {}
    for sample in found:
        if sample.perturbation is not None and sample.perturbation.kind in WRITTEN:
            texts.setdefault(sample.perturbation.kind, []).append(sample.question)
    return texts


async def make_partners(settings: Settings, golden: Iterable[Sample], judge: Judge) -> Partners:
    """The partners of a part of `golden`, drawn by the seed. A model writes some of them; its replies are cached.

    Raises JudgeError when the judge can't continue.
    """
    run, ledger = settings.run, Ledger()
    drawn = draw(golden, run.perturb_samples, seed=run.seed)
    texts: dict[tuple[str, str], str] = {}
    failures: dict[str, list[str]] = {}
    limit = asyncio.Semaphore(max(1, judge.concurrency))

    async def write(sample: Sample, kind: str) -> None:
        assert isinstance(judge, RewordsQuestions)  # noqa: S101 - refuse_unwritten
        language = run.perturb_language if kind == "language" else None
        try:
            async with limit:
                call = Call(sample.id, ledger=ledger)
                texts[sample.id, kind] = await judge.reworded(sample.question, language=language, call=call)
        except JudgementFailed as failed:
            failures.setdefault(kind, []).append(failed.reason)

    try:
        async with asyncio.TaskGroup() as group:
            for kind in run.perturb:
                if kind in WRITTEN:
                    for sample in drawn:
                        group.create_task(write(sample, kind))
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from None
    made = partners(drawn, run.perturb, seed=run.seed, written=lambda sample, kind: texts.get((sample.id, kind)))
    kinds = [sample.perturbation.kind for sample in made if sample.perturbation is not None]
    unmade: dict[str, int] = {
        kind: len(drawn) - kinds.count(kind) for kind in run.perturb if kinds.count(kind) < len(drawn)
    }
    plan = PerturbedPlan(kinds=tuple(kind for kind in KINDS if kind in run.perturb), samples=len(drawn), unmade=unmade)
    notes = tuple(
        f"{kind}: the judge could not write {counted(len(reasons), 'question')} ({most_common(reasons)})."
        for kind, reasons in failures.items()
    )
    return Partners(made, plan, ledger, notes)


def kept_partners(folder: Path, wanted: GoldenSet, judge: JudgeManifest, metrics: Collection[str]) -> frozenset[str]:
    """The content of partners that the unfinished run in `folder` has, by the same judge and with all `metrics`."""
    if not (folder / MANIFEST).is_file():
        return frozenset()
    manifest = read_manifest(folder)
    if manifest.judge != judge or not set(metrics) <= manifest.metrics.keys():
        return frozenset()
    return frozenset(sample.content_hash() for sample in wanted)


def robustness_of(
    run: RunDirectory | None, scores: RunScores | None = None, lower_is_better: Iterable[str] = ()
) -> Robustness | None:
    """What the partners in the directory of `run` show about its `scores`; None if there are no partners.

    The scores are read from `run` if they are not given. Raises RunDirectoryError.
    """
    if run is None or not (run.path / PERTURBED / MANIFEST).is_file():
        return None
    from ragstone.gate.robustness import robustness  # with numpy, when the questions have been asked

    found = RunDirectory.open(run.path / PERTURBED)
    if found.manifest.perturbed is None:
        raise RunDirectoryError("it is not a run of perturbed questions.", where=str(found.path))
    return robustness(scores or run.scores(), found.records(), found.manifest, lower_is_better)


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
        async with until(None if limit is None else asyncio.get_running_loop().time() + limit):
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
