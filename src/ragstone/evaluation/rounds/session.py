"""The session of a run: its rounds share one system, one judge, one budget and one time
limit."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, closing, suppress
from functools import partial
from pathlib import Path
from typing import Any, cast

from msgspec import Struct, field
from msgspec.structs import replace

from ragstone.errors import RunDirectoryError
from ragstone.evaluation.directory import (
    BASE_COMMIT,
    CACHE,
    HISTORY,
    ORACLE,
    SPENT,
    RunDirectory,
)
from ragstone.evaluation.lineage import CARRIED, cache_of, remove_inner_run
from ragstone.evaluation.manifest import BaselineFact, Cost
from ragstone.evaluation.placing import JUDGE_FILES
from ragstone.evaluation.rounds.base_commit import BaseSystem, evaluate_both
from ragstone.evaluation.rounds.context import RunContext
from ragstone.evaluation.rounds.judge_watch import watch_judge
from ragstone.evaluation.rounds.round import Round, run_round
from ragstone.evaluation.rounds.rounds_plan import RunPlan
from ragstone.evaluation.run_files import writing_to
from ragstone.evaluation.spent import read_spent, write_spent
from ragstone.evaluation.stored import StoredAnswers
from ragstone.evaluation.writer import update_manifest
from ragstone.golden.sample import GoldenSet
from ragstone.judge.cache import JudgementCache
from ragstone.judge.preference import WithEarlierAnswers
from ragstone.judge.protocol import Judge, Ledger
from ragstone.metrics.metric import Metric
from ragstone.system.given import SystemWrapper
from ragstone.system.response import System


class SharedSystem(SystemWrapper):
    """`system`, started once and open for several rounds, until `stop` closes it."""

    def __init__(self, system: System) -> None:
        super().__init__(system)
        self._is_started = False

    async def start(self) -> None:
        if not self._is_started:
            self._is_started = True
            await self._system.start()

    async def close(self) -> None:
        """Do nothing: the next round needs the system."""

    async def stop(self) -> None:
        await self._system.close()


class Session(Struct):
    """What the rounds of a run share. Judge and system are built when they are first
    needed. Use `open_session`.
    """

    plan: RunPlan
    context: RunContext
    deadline: float | None = None
    """When the time limit of all rounds ends, on the event loop's clock."""
    _judge: Judge | None = None
    _system: SharedSystem | None = None
    _spent: Ledger = field(default_factory=Ledger)
    """The cost of all calls so far, if the judge has a budget."""
    _has_evaluated: bool = False

    @property
    def judge(self) -> Judge:
        """The judge of all rounds, open. Raises ConfigError."""
        if self._judge is None:
            plan = self.plan
            cache = plan.out / CACHE if plan.cached else None
            self._judge = plan.judge.build(plan.golden, cache, self.context)
            budget = getattr(self._judge, "budget", None)
            if cache is not None and budget is not None:
                spent_file = plan.out / SPENT
                budget.spent = read_spent(spent_file) if plan.resume else Ledger()
                budget.record = partial(write_spent, spent_file)
                self._spent = budget.spent
        return self._judge

    @property
    def system(self) -> System:
        """The system under test, which is started once for all rounds that ask it.
        Raises ConfigError."""
        if self._system is None:
            self._system = SharedSystem(self.plan.system.build(self.context))
        return self._system

    def is_budget_spent(self, cost: Cost) -> bool:
        """Whether `cost` uses up the judge's budget; an unknown cost might."""
        budget = self.plan.judge.settings.max_cost_usd
        return budget is not None and (cost.usd is None or cost.usd >= budget)

    def with_whole_cost(self, run: RunDirectory) -> RunDirectory:
        """`run`, which this session evaluated, with the cost of all calls: also those
        for samples and rounds that were lost when it was stopped."""
        if not (self._has_evaluated and self._spent.calls):
            return run
        cached_calls = run.manifest.cost.cached_calls
        cost = Cost.of(dataclasses.replace(self._spent, cached_calls=cached_calls))
        return update_manifest(run, cost=cost)

    @property
    def time_left_s(self) -> float | None:
        """How much of the time limit is left; None without a limit."""
        if self.deadline is None:
            return None
        return self.deadline - asyncio.get_running_loop().time()

    def round(
        self,
        samples: GoldenSet,
        system: System,
        metrics: Iterable[Metric],
        out: Path,
        **fields: Any,
    ) -> Round:
        """A round of this run. `fields` are further fields of the round, also in place
        of those that rounds share."""
        fields = {
            "plan": self.plan,
            "judge": self.judge,
            "deadline": self.deadline,
            **fields,
        }
        return Round(
            samples=samples,
            system=system,
            metrics=tuple(metrics),
            out=out,
            **fields,
        )

    async def evaluate(
        self,
        *,
        baseline: RunDirectory | None = None,
        base: BaseSystem | None = None,
        policy_hash: str | None = None,
        fact: BaselineFact | None = None,
    ) -> RunDirectory:
        """Run the first round, which asks every question of the system, and of `base`
        at the same time. `fact` is what the run is for later runs until it has a
        verdict.

        Judgements of the trusted `baseline` are reused, and some are repeated, as the
        plan says. Raises the errors of `run_round`.
        """
        plan, context = self.plan, self.context
        metrics = plan.selected_metrics()
        system = self.system
        self._has_evaluated = True
        if baseline is not None:
            restore_judgements(cache_of(baseline), plan.out / CACHE)
        judge = self.judge
        baseline_answers: StoredAnswers | None = None
        if baseline is not None and any(metric.info.is_relative for metric in metrics):
            baseline_answers = StoredAnswers.of(baseline)
            judge = cast(
                Judge, WithEarlierAnswers(judge, baseline_answers.first_response)
            )
        first_round = self.round(
            plan.golden,
            system,
            metrics,
            plan.out,
            judge=judge,
            resume=plan.resume,
            check_system=plan.check_started,
            policy_hash=policy_hash,
            baseline=fact,
            invocation=plan.invocation,
            # A resumed run goes on with its oracle half.
            stale_folders=() if plan.oracle and plan.resume else (ORACLE,),
        )
        try:
            if base is None:
                run = await run_round(first_round, context)
            else:
                run = await evaluate_both(first_round, base, context)
        finally:
            if baseline_answers is not None:
                await baseline_answers.close()
        settings = plan.judge.settings
        run = await watch_judge(
            run,
            self.judge,
            baseline,
            canary_count=settings.canaries or 0,
            planted_count=settings.planted,
        )
        return self.with_whole_cost(run)

    async def close(self, *, is_finished: bool = False) -> None:
        """Close the system and the judge if they were used. If the run `is_finished`,
        judgements that it did not use are dropped from the cache."""
        if self._system is not None:
            await self._system.stop()
        if self._judge is None:
            return
        # An LLM judge notes how it adapted to its model, and what that can't do.
        for note in getattr(self._judge, "notes", ()):
            self.context.say(f"judge: {note}")
        cache = getattr(self._judge, "cache", None)
        if is_finished and isinstance(cache, JudgementCache):
            cache.prune()
        try:
            if self.plan.judge.caller_judge is None:
                await self._judge.close()
        finally:
            # The error that stopped the run is more important than one in here.
            with suppress(RunDirectoryError):
                if not is_finished:
                    self.with_whole_cost(RunDirectory.open(self.plan.out))


@asynccontextmanager
async def open_session(plan: RunPlan, context: RunContext) -> AsyncIterator[Session]:
    """The session of a run, whose directory is locked; system and judge are closed at
    the end.

    Raises ConfigError before anything is built or written.
    """
    plan.selected_metrics()  # raises ConfigError
    if not context.trusts_checkout:
        # A run must not reuse what the author under test may have put there.
        for name in (*JUDGE_FILES, HISTORY):
            with writing_to(plan.out / name):
                (plan.out / name).unlink(missing_ok=True)
        for folder in (CARRIED, BASE_COMMIT, ORACLE):
            remove_inner_run(plan.out, folder)
        plan = replace(plan, resume=False)
    session = Session(plan, context, deadline_of(plan))
    is_finished = False
    try:
        yield session
        is_finished = True
    finally:
        await session.close(is_finished=is_finished)


def deadline_of(plan: RunPlan) -> float | None:
    """When the time limit of a run that starts now ends, on the event loop's clock;
    None without a limit."""
    if plan.time_limit_s is None:
        return None
    return asyncio.get_running_loop().time() + plan.time_limit_s


def restore_judgements(source: Path, cache: Path) -> None:
    """Copy the judgements of a trusted baseline from the file `source`, if it exists, to
    this run's `cache`."""
    if not source.is_file() or (cache.exists() and source.samefile(cache)):
        return
    cache.parent.mkdir(parents=True, exist_ok=True)
    with closing(JudgementCache(cache)) as judgements:
        judgements.restore_from(source)
