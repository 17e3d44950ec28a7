"""Confirm before red: ask the system again where the first answers leave a doubt, and
decide on all of them."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from ragstone.errors import JudgeError, SystemUnderTestError, TimeLimitReached
from ragstone.evaluation.directory import SAMPLES, SYSTEM_LOG, RunDirectory
from ragstone.evaluation.files import writing_to
from ragstone.evaluation.manifest import Cost
from ragstone.evaluation.round_facts import ConfirmFacts, Observed
from ragstone.evaluation.rounds.confirm import ask_once_more
from ragstone.evaluation.rounds.session import Session
from ragstone.evaluation.writer import update_rounds, write_manifest
from ragstone.formatting import counted, some
from ragstone.gate.confirm import doubts, settled
from ragstone.gate.findings import Finding, Level
from ragstone.gate.policy import Policy
from ragstone.gate.verdict import CheckKind, GateVerdict, Status
from ragstone.system.response import RETRIEVAL

Decide = Callable[[RunDirectory], GateVerdict]
"""The verdict on a run."""


@dataclass(frozen=True, slots=True)
class Confirmed:
    """A run with all its answers, and the verdict on them. Both are the first ones if
    nothing was asked again."""

    run: RunDirectory
    verdict: GateVerdict


async def confirm_run(
    first: Confirmed, decide: Decide, policy: Policy, session: Session
) -> Confirmed:
    """Ask every question again, up to `confirm_repeats` times, if a blocking drop is
    suspected, or a check failed that more answers could settle.

    The error rate is split as in gate/confirm.py. If more answers can't be had within
    the budget and the time limit, or some of them fail, the first verdict stands and
    says so: it is valid on its own, because money and time do not depend on the scores.
    Each round judges only answers that were not judged before; the cache has the
    others.
    """
    run, verdict, alpha = first.run, first.verdict, policy.alpha
    if not policy.gate.asks_again:
        return first
    if not doubts(verdict, alpha) or settled(verdict, alpha):
        return first
    if (why := _never(session)) is not None:
        note = f"The verdict rests on the first answers: {why}."
        return replace(first, verdict=verdict.with_findings(_finding(note)))
    if (why := _not_now(run, session)) is not None:
        return _standing(first, why)
    with writing_to(run.path):
        folder = tempfile.TemporaryDirectory(dir=run.path, prefix=".confirm-")
    # Whoever ends the job from here on leaves a run that is what its first answers say.
    write_manifest(
        run.path, run.manifest.model_copy(update={"verdict": verdict.status.value})
    )
    with folder as place:
        try:
            more, decided = await _rounds(run, decide, policy, session, Path(place))
        except (JudgeError, SystemUnderTestError, TimeLimitReached) as error:
            return _standing(first, _why(error))
        if _all_alike(more):
            return _steady(run, decide)
        crashed = any(
            check.kind is CheckKind.ERROR_RATE and check.status is Status.FAIL
            for check in decided.checks
        )
        if decided.status is Status.ERROR or (
            crashed and not run.scores().system.failed_answers
        ):
            return _standing(first, "some of the new answers failed")
        return _adopted(first, more, decided, alpha)


def _steady(run: RunDirectory, decide: Decide) -> Confirmed:
    """`run`, whose system says the same when it is asked again: each of its answers is
    a fact."""
    steady = update_rounds(
        run, confirm=run.rounds.confirm.model_copy(update={"steady": True})
    )
    verdict = decide(steady)
    write_manifest(
        run.path, steady.manifest.model_copy(update={"verdict": verdict.status.value})
    )
    note = "Asked again, the system gave the same answers: each of them is a fact."
    return Confirmed(steady, verdict.with_findings(_finding(note)))


def _never(session: Session) -> str | None:
    """Why this system can't be asked again, as a clause."""
    if session.plan.recorded is not None:
        return "recorded answers can't be asked for again"
    return None


def _not_now(run: RunDirectory, session: Session) -> str | None:
    """Why there is nothing left to ask the system again with, as a clause."""
    if session.budget_spent(run.manifest.cost):
        return _NO_BUDGET
    seconds_left = session.time_left_s
    return _NO_TIME if seconds_left is not None and seconds_left <= 0 else None


_NO_BUDGET = "the judge's budget is used up"
_NO_TIME = "the time limit is reached"


def _why(error: JudgeError | SystemUnderTestError | TimeLimitReached) -> str:
    if isinstance(error, TimeLimitReached):
        return _NO_TIME
    if error.where == "judge.max_cost_usd":
        return _NO_BUDGET
    return f"asking again failed: {error.message.rstrip('.')}"


async def _rounds(
    run: RunDirectory, decide: Decide, policy: Policy, session: Session, folder: Path
) -> tuple[RunDirectory, GateVerdict]:
    """The run with the answers of all rounds and their whole cost, and the verdict on
    it."""
    cost, wall_s, most = Cost(), 0.0, policy.gate.confirm_repeats
    for number in range(1, most + 1):
        session.context.say(
            f"asking each question again to confirm the verdict ({number} of at most {most})"
        )
        run = await ask_once_more(run, session, folder / str(number))
        cost, wall_s = cost.plus(run.manifest.cost), wall_s + run.manifest.wall_s
        run = run.with_rounds(
            replace(run.rounds, confirm=ConfirmFacts(asked_again=True))
        )
        verdict = decide(run)
        if (
            not doubts(verdict, policy.alpha, confirmed=True)
            or settled(verdict, policy.alpha)
            or _all_alike(run)
        ):
            break
    return run.with_manifest(
        run.manifest.model_copy(update={"cost": cost, "wall_s": wall_s})
    ), verdict


def _all_alike(run: RunDirectory) -> bool:
    """Whether the system gave the same answer to each question every time: then asking
    again adds nothing."""
    system = run.scores().system
    if run.manifest.system.part == RETRIEVAL:
        return False  # its answers are empty, and its contexts may differ
    return not system.failures and all(
        len(set(answers)) == 1 for answers in system.answers.values()
    )


def _adopted(
    first: Confirmed, run: RunDirectory, verdict: GateVerdict, alpha: float
) -> Confirmed:
    """`run` in the place of the first one, and its verdict in words."""
    path, then, now = first.run.path, first.run.manifest, run.manifest
    with writing_to(path):
        for name in (SAMPLES, SYSTEM_LOG):
            if (run.path / name).is_file():
                (run.path / name).replace(path / name)
    manifest = then.model_copy(
        update={
            "answers": now.answers,
            "counts": now.counts,
            "cost": then.cost.plus(now.cost),
            "wall_s": then.wall_s + now.wall_s,
        }
    )
    write_manifest(path, manifest)
    judge = first.run.rounds.judge
    observed = _both(judge.observed, run.rounds.judge.observed)
    adopted = update_rounds(
        RunDirectory(path, manifest),
        judge=judge.model_copy(update={"observed": observed}),
        confirm=ConfirmFacts(asked_again=True),
    )
    more = counted(now.answers - then.answers, "more answer")
    repetition = f"{more} to each of {counted(then.golden.samples, 'sample')}"
    if verdict.status is Status.FAIL:
        return Confirmed(
            adopted,
            replace(verdict, reason=f"{verdict.reason} Confirmed with {repetition}."),
        )
    names = some([check.name for check in doubts(first.verdict, alpha)], 3)
    failed = first.verdict.status is Status.FAIL
    before = (
        f"The first answers failed {names}"
        if failed
        else f"The first answers raised a suspicion about {names}"
    )
    after = (
        "it is still inconclusive"
        if verdict.status is Status.INCONCLUSIVE
        else "no failure is confirmed"
    )
    note = f"{before}; with {repetition}, {after}."
    return Confirmed(adopted, verdict.with_findings(_finding(note)))


def _both(first: Observed | None, second: Observed | None) -> Observed | None:
    return first or second if first is None or second is None else first.plus(second)


def _finding(text: str, level: Level = Level.NOTE) -> Finding:
    return Finding("confirmed", level, text)


def _standing(first: Confirmed, why: str) -> Confirmed:
    """The first verdict, with a warning that it was not confirmed."""
    note = f"The verdict was not confirmed with more answers, because {why}; it rests on the first answers."
    return replace(
        first, verdict=first.verdict.with_findings(_finding(note, Level.WARNING))
    )
