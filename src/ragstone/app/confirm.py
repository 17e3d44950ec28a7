"""Confirm before red: ask the system again where the first answers leave a doubt, and decide on all of them."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from time import monotonic

from ragstone.app.context import RunContext
from ragstone.app.evaluate import evaluate_golden_set
from ragstone.app.inputs import make_system
from ragstone.app.judge_watch import watch_judge
from ragstone.config import Settings
from ragstone.errors import JudgeError, SystemUnderTestError, TimeLimitReached
from ragstone.formatting import counted, some
from ragstone.gate.confirm import AT_ONCE, doubts, fails_anyway, fails_at_once
from ragstone.gate.policy import Policy
from ragstone.gate.verdict import GateVerdict, Status
from ragstone.golden.sample import GoldenSet, Sample
from ragstone.judge.factory import build_judge
from ragstone.run.directory import CACHE, SAMPLES, SYSTEM_LOG, RunDirectory
from ragstone.run.files import writing_to
from ragstone.run.manifest import Cost, Observed
from ragstone.run.stored import StoredAnswers
from ragstone.run.writer import write_manifest
from ragstone.system.entrypoint import recognised
from ragstone.system.response import RETRIEVAL, Response, System
from ragstone.system.wrapped import Wrapped

Decide = Callable[[RunDirectory, float], GateVerdict]
"""The verdict on a run at a share of the policy's error rate."""


@dataclass(frozen=True, slots=True)
class Confirmed:
    """A run with all its answers, and the verdict on them. Both are the first ones if nothing was asked again."""

    run: RunDirectory
    verdict: GateVerdict


@dataclass(frozen=True, slots=True)
class Doubt:
    """A finished run whose verdict is in doubt. `elapsed_s` is what the evaluation has taken of its time limit.

    `obstacle` says, as a clause, why the system can't be asked again; None: it can.
    """

    run: RunDirectory
    verdict: GateVerdict
    elapsed_s: float
    obstacle: str | None = None


async def confirm_run(
    found: Doubt, decide: Decide, golden: GoldenSet, policy: Policy, settings: Settings, context: RunContext
) -> Confirmed:
    """Ask every question again, up to `confirm_repeats` times, if a blocking floor or drop leaves a doubt.

    The error rate is split as in gate/confirm.py. If more answers can't be had within the budget and the time limit, or
    some of them fail, the first verdict stands and says so: it is valid on its own, because money and time do not
    depend on the scores. Each round judges only answers that were not judged before; the cache has the others.
    """
    first = Confirmed(found.run, found.verdict)
    open_ = doubts(found.verdict)
    if not policy.gate.confirm or not open_:
        return first
    if fails_anyway(found.verdict):
        return first
    if fails_at_once(found.verdict, policy.alpha):
        verdict = decide(found.run, AT_ONCE)
        return Confirmed(found.run, verdict) if verdict.status is Status.FAIL else first
    left = found.obstacle or _left(found, settings)
    if isinstance(left, str):
        return _standing(first, left)
    with writing_to(found.run.path):
        folder = tempfile.TemporaryDirectory(dir=found.run.path, prefix=".confirm-")
    # Whoever ends the job from here on leaves a run that is what its first answers say.
    write_manifest(found.run.path, found.run.manifest.model_copy(update={"verdict": found.verdict.status.value}))
    with folder as place:
        try:
            run, verdict = await _rounds(found, decide, golden, policy, left, context, Path(place))
        except (JudgeError, SystemUnderTestError, TimeLimitReached) as error:
            return _standing(first, _why(error))
        if _all_alike(run):
            return _standing(first, "the system gave the same answers again")
        if fails_anyway(verdict):
            return _standing(first, "some of the new answers failed")
        return _adopted(found, run, verdict)


def _left(found: Doubt, settings: Settings) -> Settings | str:
    """The settings to ask again with: what is left of budget and time limit; or why that can't be done, as a clause."""
    entrypoint = recognised(settings.system.entrypoint)
    if entrypoint is not None and not entrypoint.can_be_asked_again:
        return "recorded answers can't be asked for again"
    judge, limit = settings.judge, settings.run.time_limit_s
    spent = found.run.manifest.cost.usd
    if judge.max_cost_usd is not None:
        if spent is None or spent >= judge.max_cost_usd:
            return _NO_BUDGET
        judge = judge.model_copy(update={"max_cost_usd": judge.max_cost_usd - spent})
    if limit is not None:
        limit -= found.elapsed_s
        if limit <= 0:
            return _NO_TIME
    # What was judged in this run is in its cache, also if the run was to judge everything anew.
    judge = judge.model_copy(update={"refresh": False})
    run = settings.run.model_copy(update={"resume": False, "oracle": False, "time_limit_s": limit})
    return settings.model_copy(update={"judge": judge, "run": run})


_NO_BUDGET = "the judge's budget is used up"
_NO_TIME = "the time limit is reached"


def _why(error: JudgeError | SystemUnderTestError | TimeLimitReached) -> str:
    if isinstance(error, TimeLimitReached):
        return _NO_TIME
    if error.where == "judge.max_cost_usd":
        return _NO_BUDGET
    return f"asking again failed: {error.message.rstrip('.')}"


async def _rounds(
    found: Doubt,
    decide: Decide,
    golden: GoldenSet,
    policy: Policy,
    settings: Settings,
    context: RunContext,
    folder: Path,
) -> tuple[RunDirectory, GateVerdict]:
    """The run with the answers of all rounds and their whole cost, and the verdict on it."""
    cost, wall_s = Cost(), 0.0
    run, started, limit = found.run, monotonic(), settings.run.time_limit_s
    system = _AskedAgain(make_system(settings, context))
    judge = build_judge(
        settings.judge,
        golden_set=golden,
        cache=found.run.path / CACHE,
        environ=context.environ,
        tell_secret=context.redact.add,
        within=settings.within,
    )
    try:
        for number in range(1, policy.gate.confirm_repeats + 1):
            most = policy.gate.confirm_repeats
            context.say(f"asking each question again to confirm the verdict ({number} of at most {most})")
            if limit is not None and (limit := limit - (monotonic() - started)) <= 0:
                raise TimeLimitReached
            started = monotonic()
            update = {"out": str(folder / str(number)), "answers": run.manifest.answers + 1, "time_limit_s": limit}
            again = settings.model_copy(update={"run": settings.run.model_copy(update=update)})
            stored = StoredAnswers()
            stored.read_run(run)
            try:
                run = await evaluate_golden_set(golden, system.after(stored), judge, again, context)
            finally:
                await stored.close()
            run = await watch_judge(run, judge, None, 0, inherits=False)
            cost, wall_s = cost.plus(run.manifest.cost), wall_s + run.manifest.wall_s
            verdict = decide(run, 1.0 - AT_ONCE)
            if not doubts(verdict) or _all_alike(run):
                break
        return run.with_manifest(run.manifest.model_copy(update={"cost": cost, "wall_s": wall_s})), verdict
    finally:
        await system.stop()
        await judge.close()


def _all_alike(run: RunDirectory) -> bool:
    """Whether the system gave the same answer to each question every time: then asking again adds nothing."""
    system = run.scores().system
    if run.manifest.system.part == RETRIEVAL:
        return False  # its answers are empty, and its contexts may differ
    return not system.failures and all(len(set(answers)) == 1 for answers in system.answers.values())


class _AskedAgain(Wrapped):
    """A `System` that plays back the answers of a run and asks `system` for one more; started once, for all rounds."""

    def __init__(self, system: System) -> None:
        super().__init__(system)
        self._started = False
        self._stored = StoredAnswers()
        self._asked: dict[str, int] = {}

    def after(self, stored: StoredAnswers) -> _AskedAgain:
        """Play back `stored` from now on."""
        self._stored, self._asked = stored, {}
        return self

    async def start(self) -> None:
        if not self._started:
            self._started = True
            await self._system.start()

    async def ask(self, sample: Sample) -> Response:
        number = self._asked.get(sample.id, 0)
        self._asked[sample.id] = number + 1
        if number < self._stored.answers:
            return self._stored.response(sample.id, number)
        return await self._system.ask(sample)

    async def close(self) -> None:
        """Nothing: the next round needs the system. `stop` closes it."""

    async def stop(self) -> None:
        await self._system.close()


def _adopted(found: Doubt, run: RunDirectory, verdict: GateVerdict) -> Confirmed:
    """`run` in the place of the first one, and its verdict in words."""
    path, then, now = found.run.path, found.run.manifest, run.manifest
    with writing_to(path):
        for name in (SAMPLES, SYSTEM_LOG):
            if (run.path / name).is_file():
                (run.path / name).replace(path / name)
    manifest = then.model_copy(
        update={
            "answers": now.answers,
            "confirmed": True,
            "counts": now.counts,
            "cost": then.cost.plus(now.cost),
            "usage": now.usage,
            "wall_s": then.wall_s + now.wall_s,
            "observed": _both(then.observed, now.observed),
        }
    )
    write_manifest(path, manifest)
    more = counted(now.answers - then.answers, "more answer")
    asked = f"{more} to each of {counted(then.golden.samples, 'sample')}"
    if verdict.status is Status.FAIL:
        return Confirmed(
            RunDirectory(path, manifest), replace(verdict, reason=f"{verdict.reason} Confirmed with {asked}.")
        )
    names = some([check.name for check in doubts(found.verdict)], 3)
    failed = found.verdict.status is Status.FAIL
    before = f"The first answers failed {names}" if failed else f"The first answers left a doubt about {names}"
    after = "it is still inconclusive" if verdict.status is Status.INCONCLUSIVE else "no failure is confirmed"
    note = f"{before}; with {asked}, {after}."
    return Confirmed(RunDirectory(path, manifest), replace(verdict, notes=(note, *verdict.notes)))


def _both(first: Observed | None, second: Observed | None) -> Observed | None:
    return first or second if first is None or second is None else first.plus(second)


def _standing(first: Confirmed, why: str) -> Confirmed:
    """The first verdict, with a warning that it was not confirmed."""
    note = f"The verdict was not confirmed with more answers, because {why}; it rests on the first answers."
    return replace(first, verdict=replace(first.verdict, warnings=(note, *first.verdict.warnings)))
