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
from typing import Self

from ragstone.config.settings import Perturbing, RunSettings
from ragstone.errors import ConfigError, JudgeError, SystemUnderTestError, TimeLimitReached, first_in
from ragstone.formatting import counted, most_common
from ragstone.golden.perturb import KINDS, WRITTEN, draw, partners
from ragstone.golden.sample import GoldenSet, Sample
from ragstone.judge.abilities import RewordsQuestions
from ragstone.judge.protocol import Call, Judge, JudgeIdentity, JudgementFailed, Ledger
from ragstone.metrics.registry import is_relative
from ragstone.rounds.needs import Need, part
from ragstone.rounds.round import run_round, until
from ragstone.rounds.session import ExtraRound, Session
from ragstone.run.directory import MANIFEST, PERTURBED, SAMPLES, RunDirectory, read_manifest
from ragstone.run.files import writing_to
from ragstone.run.manifest import Cost, Counts, Manifest, PerturbedPlan
from ragstone.run.writer import RunWriter, update_manifest, write_manifest
from ragstone.system.given import Wrapped
from ragstone.system.response import Response


@dataclass(frozen=True, slots=True)
class Partners:
    """The partners to ask, and the plan for their manifest. `ledger` is what writing their questions cost.

    `notes` are sentences on questions that could not be written.
    """

    golden: GoldenSet
    plan: PerturbedPlan
    ledger: Ledger
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Perturb(ExtraRound):
    """Ask up to `samples` questions again, perturbed in each of `kinds`, drawn by `seed`.

    `language` is what the kind `language` translates them into.
    """

    kinds: tuple[Perturbing, ...]
    samples: int = 20
    language: str = "German"
    seed: int = 0
    part = part("--perturb", "run.perturb", [Need.ASKING, Need.EVALUATING, Need.WHOLE_SET])
    folder = PERTURBED

    @classmethod
    def of(cls, run: RunSettings) -> Self | None:
        return cls(run.perturb, run.perturb_samples, run.perturb_language, run.seed) if run.perturb else None

    def refuse_judge(self, judge: Judge) -> None:
        """Raise ConfigError if a kind of perturbation needs a language model, and `judge` uses none."""
        lacking = [kind for kind in self.kinds if kind in WRITTEN]
        if lacking and not isinstance(judge, RewordsQuestions):
            free = ",".join(kind for kind in KINDS if kind not in WRITTEN)
            verb = "needs" if len(lacking) == 1 else "need"
            raise ConfigError(
                f"{' and '.join(lacking)} {verb} a language model to write the questions, and the "
                f"{judge.identity.label()} uses none.",
                where=self.part.where,
                hint=f"Use an LLM judge (--judge openai:MODEL), or only the kinds {free}.",
            )

    def expected(self, golden: GoldenSet) -> GoldenSet:
        """The partners before anything is asked, to estimate the cost: those that a model writes have no text yet."""
        drawn = draw(golden.counting(), self.samples, seed=self.seed)
        return partners(drawn, self.kinds, seed=self.seed, written=lambda sample, _kind: f"{sample.question}?")

    async def write(self, golden: Iterable[Sample], judge: Judge) -> Partners:
        """The partners of a part of `golden`, drawn by the seed. A model writes some of them; its replies are cached.

        Raises JudgeError when the judge can't continue.
        """
        ledger = Ledger()
        drawn = draw(golden, self.samples, seed=self.seed)
        texts: dict[tuple[str, str], str] = {}
        failures: dict[str, list[str]] = {}
        limit = asyncio.Semaphore(max(1, judge.concurrency))

        async def write(sample: Sample, kind: str) -> None:
            assert isinstance(judge, RewordsQuestions)  # noqa: S101 - refuse_judge
            language = self.language if kind == "language" else None
            try:
                async with limit:
                    call = Call(sample.id, ledger=ledger)
                    texts[sample.id, kind] = await judge.reworded(sample.question, language=language, call=call)
            except JudgementFailed as failed:
                failures.setdefault(kind, []).append(failed.reason)

        try:
            async with asyncio.TaskGroup() as group:
                for kind in self.kinds:
                    if kind in WRITTEN:
                        for sample in drawn:
                            group.create_task(write(sample, kind))
        except BaseExceptionGroup as errors:
            raise first_in(errors) from None
        made = partners(drawn, self.kinds, seed=self.seed, written=lambda sample, kind: texts.get((sample.id, kind)))
        kinds = [sample.perturbation.kind for sample in made if sample.perturbation is not None]
        unmade: dict[str, int] = {
            kind: len(drawn) - kinds.count(kind) for kind in self.kinds if kinds.count(kind) < len(drawn)
        }
        plan = PerturbedPlan(
            kinds=tuple(kind for kind in KINDS if kind in self.kinds), samples=len(drawn), unmade=unmade
        )
        notes = tuple(
            f"{kind}: the judge could not write {counted(len(reasons), 'question')} ({most_common(reasons)})."
            for kind, reasons in failures.items()
        )
        return Partners(made, plan, ledger, notes)

    async def follow(self, run: RunDirectory, session: Session) -> RunDirectory:
        """Ask the perturbed partners of `run`, which is finished, and return it with their cost.

        A judge, system or time limit that ends this leaves the run as it is, and the partners unfinished: the report
        says so. An interruption stops both, to be resumed.
        """
        out, started, context, judge = run.path / self.folder, monotonic(), session.context, session.judge
        # Whoever ends the job from here on leaves a run that can be resumed, and that is no baseline yet.
        update_manifest(run, state="running")
        manifest, plan = run.manifest, PerturbedPlan(kinds=self.kinds, samples=0)
        cost = Cost()
        try:
            async with until(session.deadline):
                evaluated = run.scores().samples
                found = await self.write((one for one in session.plan.part.counting() if one.id in evaluated), judge)
                plan, cost = found.plan, Cost.of(found.ledger)
                for note in found.notes:
                    context.say(note)
                context.say(f"asking {counted(len(found.golden), 'perturbed question')}")
                names = [name for name in manifest.metrics if not is_relative(name)]
                metrics = session.plan.metrics.select(session.plan.golden, names)
                keep = kept_partners(out, found.golden, manifest.judge, names)
                asked = session.round(
                    found.golden,
                    AsksPartners(session.system),
                    metrics,
                    out.absolute(),
                    deadline=None,
                    begin=partial(begin_partners, out, plan, keep, context.redact),
                )
                partners = await run_round(asked, context)
                cost = cost.plus(partners.manifest.cost)
        except (JudgeError, SystemUnderTestError, TimeLimitReached) as error:
            reason = context.redact(error.message)
            context.say(f"not all perturbed questions were asked: {reason}")
            cost = cost.plus(_stopped_partners(out, run, plan, reason))
        except BaseException as error:
            update_manifest(run, state="stopped", stop_reason=f"interrupted ({type(error).__name__})")
            raise
        wall_s = manifest.wall_s + monotonic() - started
        return update_manifest(run, cost=manifest.cost.plus(cost), wall_s=wall_s)


class AsksPartners(Wrapped):
    """`system`, asked a partner's changed question in place of the one that its answer is judged by."""

    async def ask(self, sample: Sample) -> Response:
        changed = sample.perturbation
        return await self._system.ask(sample if changed is None else replace(sample, question=changed.asked))


def written_questions(found: GoldenSet) -> dict[str, list[str]]:
    """The questions that a model has to write anew, by kind."""
    texts: dict[str, list[str]] = {}
    for sample in found:
        if sample.perturbation is not None and sample.perturbation.kind in WRITTEN:
            texts.setdefault(sample.perturbation.kind, []).append(sample.question)
    return texts


def kept_partners(folder: Path, wanted: GoldenSet, judge: JudgeIdentity, metrics: Collection[str]) -> frozenset[str]:
    """The content of partners that the unfinished run in `folder` has, by the same judge and with all `metrics`."""
    if not (folder / MANIFEST).is_file():
        return frozenset()
    manifest = read_manifest(folder)
    if manifest.judge != judge or not set(metrics) <= manifest.metrics.keys():
        return frozenset()
    return frozenset(sample.content_hash() for sample in wanted)


def begin_partners(
    out: Path, plan: PerturbedPlan, keep: Set[str], redact: Callable[[str], str], manifest: Manifest
) -> RunWriter:
    """Begin, or continue, the run of partners in `out` with those whose content is in `keep`."""
    described = manifest.model_copy(update={"perturbed": plan})
    return RunWriter.extend(out, described, keep=lambda one: one.sample.content_hash() in keep, redact=redact)


def _stopped_partners(out: Path, run: RunDirectory, plan: PerturbedPlan, reason: str) -> Cost:
    """Say in the run of the partners why it was stopped, also if it had not begun; returns its cost."""
    started = (out / MANIFEST).is_file()
    earlier = read_manifest(out) if started else run.manifest.model_copy(update={"counts": Counts(), "cost": Cost()})
    stopped = {"state": "stopped", "stop_reason": reason, "perturbed": earlier.perturbed or plan, "invocation": None}
    if not started:
        with writing_to(out):
            out.mkdir(exist_ok=True)
            (out / SAMPLES).touch()
    write_manifest(out, earlier.model_copy(update=stopped))
    return earlier.cost
