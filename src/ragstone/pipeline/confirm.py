"""Confirm before red: ask the system again where the first answers leave a doubt, and
decide on all of them."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from ragstone.errors import JudgeError, SystemUnderTestError, TimeLimitReached
from ragstone.evaluation.directory import SAMPLES, SYSTEM_LOG, RunDirectory
from ragstone.evaluation.files import writing_to
from ragstone.evaluation.manifest import Cost
from ragstone.evaluation.round_facts import ConfirmFacts
from ragstone.evaluation.rounds.confirm import ask_once_more
from ragstone.evaluation.rounds.session import Session
from ragstone.evaluation.writer import update_manifest, update_rounds, write_manifest
from ragstone.formatting import counted, some
from ragstone.gate.confirm import doubts, settled
from ragstone.gate.findings import Finding, Level
from ragstone.gate.policy import Policy
from ragstone.gate.verdict import CheckKind, GateVerdict, Status
from ragstone.system.response import RETRIEVAL

Decide = Callable[[RunDirectory], GateVerdict]
"""The verdict on a run."""
NO_BUDGET = "the judge's budget (judge.max_cost_usd) is used up"
NO_TIME = "the time limit is reached"


class Confirmed(Struct, frozen=True):
    """A run with all its answers, and the verdict on them. Both are the first ones if
    nothing was asked again."""

    run: RunDirectory
    verdict: GateVerdict

    def saying(self, note: str, level: Level = Level.NOTE) -> Confirmed:
        """This with a sentence on how it was confirmed."""
        finding = Finding("confirmed", level, note)
        return replace(self, verdict=self.verdict.with_findings(finding))

    def standing(self, why: str) -> Confirmed:
        """The first verdict, with a warning that it was not confirmed."""
        return self.saying(
            f"The verdict was not confirmed with more answers, because {why}; it rests on the first answers.",
            Level.WARNING,
        )


def exhausted(session: Session, cost: Cost) -> str | None:
    """What a round that costs more than `cost` does not have, as a clause."""
    if session.budget_spent(cost):
        return NO_BUDGET
    seconds_left = session.time_left_s
    return NO_TIME if seconds_left is not None and seconds_left <= 0 else None


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
    asks_again = policy.gate.asks_again
    if not asks_again or not doubts(verdict, alpha) or settled(verdict, alpha):
        return first
    if session.plan.recorded is not None:
        return first.saying(
            "The verdict rests on the first answers: recorded answers can't be asked for again."
        )
    obstacle = exhausted(session, run.manifest.cost)
    if obstacle is not None:
        return first.standing(obstacle)
    with writing_to(run.path):
        folder = tempfile.TemporaryDirectory(dir=run.path, prefix=".confirm-")
    # Whoever ends the job from here on leaves a run that is what its first answers say.
    write_manifest(
        run.path, run.manifest.model_copy(update={"verdict": verdict.status.value})
    )
    with folder as place:
        try:
            more, decided = await _rounds(run, decide, policy, session, Path(place))
        except TimeLimitReached:
            return first.standing(NO_TIME)
        except (JudgeError, SystemUnderTestError) as error:
            why = f"asking again failed: {error.message.rstrip('.')}"
            return first.standing(why)
        if _all_alike(more):
            facts = run.rounds.confirm.model_copy(update={"steady": True})
            steady = update_rounds(run, confirm=facts)
            verdict = decide(steady)
            update_manifest(steady, verdict=verdict.status.value)
            return Confirmed(steady, verdict).saying(
                "Asked again, the system gave the same answers: each of them is a fact."
            )
        crashed = any(
            check.kind == CheckKind.ERROR_RATE and check.status is Status.FAIL
            for check in decided.checks
        )
        if decided.status is Status.ERROR or (
            crashed and not run.scores().system.failed_answers
        ):
            return first.standing("some of the new answers failed")
        return _adopted(first, more, decided, alpha)


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
        cost = cost.plus(run.manifest.cost)
        wall_s += run.manifest.wall_s
        run = run.with_rounds(
            replace(run.rounds, confirm=ConfirmFacts(asked_again=True))
        )
        verdict = decide(run)
        is_clear = settled(verdict, policy.alpha) or _all_alike(run)
        if is_clear or not doubts(verdict, policy.alpha):
            break
    manifest = run.manifest.model_copy(update={"cost": cost, "wall_s": wall_s})
    return run.with_manifest(manifest), verdict


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
    adopted = update_manifest(
        RunDirectory(path, then),
        answers=now.answers,
        counts=now.counts,
        cost=then.cost.plus(now.cost),
        wall_s=then.wall_s + now.wall_s,
    )
    judge, observed = first.run.rounds.judge, run.rounds.judge.observed
    if judge.observed is not None and observed is not None:
        observed = judge.observed.plus(observed)
    judge = judge.model_copy(update={"observed": observed or judge.observed})
    confirmed = Confirmed(
        update_rounds(adopted, judge=judge, confirm=ConfirmFacts(asked_again=True)),
        verdict,
    )
    more = counted(now.answers - then.answers, "more answer")
    repetition = f"{more} to each of {counted(then.golden.samples, 'sample')}"
    if verdict.status is Status.FAIL:
        reason = f"{verdict.reason} Confirmed with {repetition}."
        return replace(confirmed, verdict=replace(verdict, reason=reason))
    names = some([check.name for check in doubts(first.verdict, alpha)], 3)
    return confirmed.saying(
        f"The first answers left a doubt about {names}: decided with {repetition}."
    )
