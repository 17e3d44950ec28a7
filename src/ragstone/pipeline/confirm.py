"""Confirm a verdict before it blocks: where the first answers leave a doubt, ask the
system again, and decide on all answers."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from ragstone.errors import JudgeError, SystemUnderTestError, TimeLimitReached
from ragstone.evaluation.directory import SAMPLES, SYSTEM_LOG, RunDirectory
from ragstone.evaluation.manifest import Cost
from ragstone.evaluation.round_facts import ConfirmFacts
from ragstone.evaluation.rounds.confirm import ask_once_more
from ragstone.evaluation.rounds.session import Session
from ragstone.evaluation.run_files import writing_to
from ragstone.evaluation.writer import update_manifest, update_rounds, write_manifest
from ragstone.formatting import counted, join_first
from ragstone.gate.confirm import doubtful_checks, is_settled
from ragstone.gate.findings import Finding, Level
from ragstone.gate.policy import Policy
from ragstone.gate.verdict import CheckKind, GateVerdict, Status
from ragstone.system.response import RETRIEVAL

Decide = Callable[[RunDirectory], GateVerdict]
"""A function that decides on a run."""

# Why there can't be another round, as clauses.
NO_BUDGET = "the judge's budget (judge.max_cost_usd) is used up"
NO_TIME = "the time limit is reached"

_MAX_NAMED_CHECKS = 3


class Confirmed(Struct, frozen=True):
    """A run with all its answers, and the verdict on them. If nothing was asked again,
    these are the first answers and the first verdict."""

    run: RunDirectory
    verdict: GateVerdict

    def with_sentence(self, sentence: str, level: Level = Level.NOTE) -> Confirmed:
        """This run and its verdict, with a sentence on how it was confirmed."""
        finding = Finding("confirmed", level, sentence)
        return replace(self, verdict=self.verdict.with_findings(finding))

    def with_warning(self, why: str) -> Confirmed:
        """This run and its verdict, with a warning that it was not confirmed, and the
        reason `why` as a clause."""
        return self.with_sentence(
            f"The verdict was not confirmed with more answers, because {why}; it rests on the first answers.",
            Level.WARNING,
        )


def why_no_round(session: Session, cost: Cost) -> str | None:
    """Why there can't be another round, as a clause, if the run cost `cost` so far;
    None if there can be one."""
    if session.is_budget_spent(cost):
        return NO_BUDGET
    seconds_left = session.time_left_s
    return NO_TIME if seconds_left is not None and seconds_left <= 0 else None


async def confirm_run(
    first: Confirmed, decide: Decide, policy: Policy, session: Session
) -> Confirmed:
    """Ask every question again, up to `confirm_repeats` times, if a blocking drop is
    suspected, or a check failed that more answers could settle.

    The error rate is split as in gate/confirm.py. If the budget or the time limit allow
    no more answers, or some of them fail, the first verdict stands, with a warning. It
    is valid on its own, because money and time do not depend on the scores. Each round
    judges only answers that were not judged before; the judgements of the others are
    in the cache.
    """
    run, verdict, alpha = first.run, first.verdict, policy.alpha
    asks_again = policy.gate.asks_again
    if (
        not asks_again
        or not doubtful_checks(verdict, alpha)
        or is_settled(verdict, alpha)
    ):
        return first
    if session.plan.recorded_entrypoint is not None:
        return first.with_sentence(
            "The verdict rests on the first answers: recorded answers can't be asked for again."
        )
    obstacle = why_no_round(session, run.manifest.cost)
    if obstacle is not None:
        return first.with_warning(obstacle)
    with writing_to(run.path):
        temporary = tempfile.TemporaryDirectory(dir=run.path, prefix=".confirm-")
    # If the job is stopped from here on, the run has the verdict on its first answers.
    write_manifest(
        run.path, run.manifest.model_copy(update={"verdict": verdict.status.value})
    )
    with temporary as folder:
        try:
            more, final = await _ask_again(run, decide, policy, session, Path(folder))
        except TimeLimitReached:
            return first.with_warning(NO_TIME)
        except (JudgeError, SystemUnderTestError) as error:
            why = f"asking again failed: {error.message.rstrip('.')}"
            return first.with_warning(why)
        if _gives_same_answers(more):
            facts = run.rounds.confirm.model_copy(update={"steady": True})
            steady = update_rounds(run, confirm=facts)
            verdict = decide(steady)
            update_manifest(steady, verdict=verdict.status.value)
            return Confirmed(steady, verdict).with_sentence(
                "Asked again, the system gave the same answers, so more answers would tell nothing new."
            )
        exceeds_error_rate = any(
            check.kind == CheckKind.ERROR_RATE and check.status is Status.FAIL
            for check in final.checks
        )
        # Failures that came only with the new answers say nothing about the first.
        if final.status is Status.ERROR or (
            exceeds_error_rate and not run.scores().system.failed_answers
        ):
            return first.with_warning("some of the new answers failed")
        return _adopt(first, more, final, alpha)


async def _ask_again(
    run: RunDirectory, decide: Decide, policy: Policy, session: Session, folder: Path
) -> tuple[RunDirectory, GateVerdict]:
    """Ask every question again, in rounds, until the verdict is clear. Return the run
    with all answers and the cost of all rounds, and the verdict on it."""
    cost, wall_s = Cost(), 0.0
    max_rounds = policy.gate.confirm_repeats
    for number in range(1, max_rounds + 1):
        session.context.say(
            f"asking each question again to confirm the verdict ({number} of at most {max_rounds})"
        )
        run = await ask_once_more(run, session, folder / str(number))
        cost = cost.plus(run.manifest.cost)
        wall_s += run.manifest.wall_s
        run = run.with_rounds(
            replace(run.rounds, confirm=ConfirmFacts(asked_again=True))
        )
        verdict = decide(run)
        is_clear = is_settled(verdict, policy.alpha) or _gives_same_answers(run)
        if is_clear or not doubtful_checks(verdict, policy.alpha):
            break
    manifest = run.manifest.model_copy(update={"cost": cost, "wall_s": wall_s})
    return run.with_manifest(manifest), verdict


def _gives_same_answers(run: RunDirectory) -> bool:
    """Whether the system gave the same answer to each question every time, so that
    asking again adds nothing."""
    system = run.scores().system
    if run.manifest.system.part == RETRIEVAL:
        # Its answers are all empty; its contexts may still differ.
        return False
    return not system.failures and all(
        len(set(answers)) == 1 for answers in system.answers.values()
    )


def _adopt(
    first: Confirmed, run: RunDirectory, verdict: GateVerdict, alpha: float
) -> Confirmed:
    """Put `run`, which has all answers, in the place of the first one, and say in its
    verdict how it was confirmed."""
    path = first.run.path
    before, after = first.run.manifest, run.manifest
    with writing_to(path):
        for name in (SAMPLES, SYSTEM_LOG):
            if (run.path / name).is_file():
                (run.path / name).replace(path / name)
    adopted = update_manifest(
        RunDirectory(path, before),
        answers=after.answers,
        counts=after.counts,
        cost=before.cost.plus(after.cost),
        wall_s=before.wall_s + after.wall_s,
    )
    judge, observed = first.run.rounds.judge, run.rounds.judge.observed
    if judge.observed is not None and observed is not None:
        observed = judge.observed.plus(observed)
    judge = judge.model_copy(update={"observed": observed or judge.observed})
    confirmed = Confirmed(
        update_rounds(adopted, judge=judge, confirm=ConfirmFacts(asked_again=True)),
        verdict,
    )
    more = counted(after.answers - before.answers, "more answer")
    samples = counted(before.golden.samples, "sample")
    repetition = f"{more} to each of {samples}"
    if verdict.status is Status.FAIL:
        reason = f"{verdict.reason} Confirmed with {repetition}."
        return replace(confirmed, verdict=replace(verdict, reason=reason))
    doubtful = [check.name for check in doubtful_checks(first.verdict, alpha)]
    names = join_first(doubtful, _MAX_NAMED_CHECKS)
    return confirmed.with_sentence(
        f"The first answers left a doubt about {names}: decided with {repetition}."
    )
