"""The rounds of one run, from the first question to the last: one system, one judge,
one budget, one time limit."""

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
from ragstone.evaluation.files import writing_to
from ragstone.evaluation.lineage import CARRIED, cache_of, drop_carried
from ragstone.evaluation.manifest import BaselineFact, Cost
from ragstone.evaluation.placing import JUDGED
from ragstone.evaluation.rounds.base_commit import BaseSystem, evaluate_both
from ragstone.evaluation.rounds.context import RunContext
from ragstone.evaluation.rounds.judge_watch import watch_judge
from ragstone.evaluation.rounds.plan import RunPlan
from ragstone.evaluation.rounds.round import Round, run_round
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


class StaysOpen(SystemWrapper):
    """`system`, started once and kept open for several evaluations. `stop` closes
    it."""

    def __init__(self, system: System) -> None:
        super().__init__(system)
        self._started = False

    async def start(self) -> None:
        if not self._started:
            self._started = True
            await self._system.start()

    async def close(self) -> None:
        """Nothing: the next evaluation needs the system."""

    async def stop(self) -> None:
        await self._system.close()


class Session(Struct):
    """The rounds of a run. The judge is built when it is first needed, the system when
    it is first asked.

    `deadline` is when the time limit of all rounds ends, on the event loop's clock. Use
    `open_session`.
    """

    plan: RunPlan
    context: RunContext
    deadline: float | None = None
    _judge: Judge | None = None
    _system: StaysOpen | None = None
    _spent: Ledger = field(default_factory=Ledger)
    _evaluates: bool = False

    @property
    def judge(self) -> Judge:
        """The judge of all rounds, open. Raises ConfigError."""
        if self._judge is None:
            plan = self.plan
            cache = plan.out / CACHE if plan.cached else None
            self._judge = plan.judge.build(plan.golden, cache, self.context)
            budget = getattr(self._judge, "budget", None)
            if cache is not None and budget is not None:
                spent = plan.out / SPENT
                budget.spent = read_spent(spent) if plan.resume else Ledger()
                budget.record = partial(write_spent, spent)
                self._spent = budget.spent
        return self._judge

    @property
    def system(self) -> System:
        """The system under test, which is started once for all rounds that ask it.
        Raises ConfigError."""
        if self._system is None:
            self._system = StaysOpen(self.plan.system.build(self.context))
        return self._system

    def budget_spent(self, cost: Cost) -> bool:
        """Whether the judge's budget is used up by `cost`; True too if the cost is not
        known."""
        budget = self.plan.judge.settings.max_cost_usd
        return budget is not None and (cost.usd is None or cost.usd >= budget)

    def with_whole_cost(self, run: RunDirectory) -> RunDirectory:
        """`run`, evaluated here, with the cost of all calls: also for samples and
        rounds that were lost to a stop."""
        if not (self._evaluates and self._spent.calls):
            return run
        cached_calls = run.manifest.cost.cached_calls
        cost = Cost.of(dataclasses.replace(self._spent, cached_calls=cached_calls))
        return update_manifest(run, cost=cost)

    @property
    def time_left_s(self) -> float | None:
        """What is left of the time limit, in seconds; None: there is none."""
        if self.deadline is None:
            return None
        return self.deadline - asyncio.get_running_loop().time()

    def round(
        self,
        samples: GoldenSet,
        system: System,
        metrics: Iterable[Metric],
        out: Path,
        **more: Any,
    ) -> Round:
        """A round of this run; `more` are other fields of it than those that the rounds
        have in common."""
        common: dict[str, Any] = {
            "plan": self.plan,
            "judge": self.judge,
            "deadline": self.deadline,
        }
        return Round(
            samples=samples,
            system=system,
            metrics=tuple(metrics),
            out=out,
            **common | more,
        )

    async def evaluate(
        self,
        *,
        baseline: RunDirectory | None = None,
        base: BaseSystem | None = None,
        policy_hash: str | None = None,
        fact: BaselineFact | None = None,
    ) -> RunDirectory:
        """The first round: every question is asked, of the system and of `base` beside
        it. `fact` is what the run is for later ones as long as it has no verdict.

        Judgements of the trusted `baseline` are reused, and some are repeated, as the
        plan says. Raises the errors of `run_round`.
        """
        plan, context = self.plan, self.context
        metrics = plan.selected_metrics()
        system, self._evaluates = self.system, True
        if baseline is not None:
            restore_judgements(cache_of(baseline), plan.out / CACHE)
        judge = self.judge
        earlier: StoredAnswers | None = None
        if baseline is not None and any(metric.info.is_relative for metric in metrics):
            earlier = StoredAnswers.of(baseline)
            judge = cast(Judge, WithEarlierAnswers(judge, earlier.to))
        main = self.round(
            plan.golden,
            system,
            metrics,
            plan.out,
            judge=judge,
            resume=plan.resume,
            check=plan.check_started,
            policy_hash=policy_hash,
            baseline=fact,
            invocation=plan.invocation,
            clears=() if plan.oracle and plan.resume else (ORACLE,),
        )
        try:
            if base is None:
                run = await run_round(main, context)
            else:
                run = await evaluate_both(main, base, context)
        finally:
            if earlier is not None:
                await earlier.close()
        settings = plan.judge.settings
        run = await watch_judge(
            run, self.judge, baseline, settings.canaries or 0, settings.planted
        )
        return self.with_whole_cost(run)

    async def close(self, *, finished: bool = False) -> None:
        """Close system and judge, as far as they were used. A `finished` run drops
        judgements that none needs now."""
        if self._system is not None:
            await self._system.stop()
        if self._judge is None:
            return
        # Adaptations and limitations of an LLM judge.
        for note in getattr(self._judge, "notes", ()):
            self.context.say(f"judge: {note}")
        cache = getattr(self._judge, "cache", None)
        if finished and isinstance(cache, JudgementCache):
            cache.prune()
        try:
            if self.plan.judge.ready is None:
                await self._judge.close()
        finally:
            with suppress(RunDirectoryError):
                if not finished:
                    self.with_whole_cost(RunDirectory.open(self.plan.out))


@asynccontextmanager
async def open_session(plan: RunPlan, context: RunContext) -> AsyncIterator[Session]:
    """The session of a run, whose directory is locked; system and judge are closed at
    the end.

    Raises ConfigError before anything is built or written.
    """
    plan.selected_metrics()
    if not context.trusts_checkout:
        # What a run could reuse may not be trusted.
        for name in (*JUDGED, HISTORY):
            with writing_to(plan.out / name):
                (plan.out / name).unlink(missing_ok=True)
        for folder in (CARRIED, BASE_COMMIT, ORACLE):
            drop_carried(plan.out, folder)
        plan = replace(plan, resume=False)
    session = Session(plan, context, deadline_of(plan))
    finished = False
    try:
        yield session
        finished = True
    finally:
        await session.close(finished=finished)


def deadline_of(plan: RunPlan) -> float | None:
    """When the time limit of a run that begins now ends, on the event loop's clock;
    None: there is none."""
    if plan.time_limit_s is None:
        return None
    return asyncio.get_running_loop().time() + plan.time_limit_s


def restore_judgements(source: Path, cache: Path) -> None:
    """Copy the judgements of a trusted baseline, if any, to this run's cache."""
    if not source.is_file() or (cache.exists() and source.samefile(cache)):
        return
    cache.parent.mkdir(parents=True, exist_ok=True)
    with closing(JudgementCache(cache)) as judgements:
        judgements.restore_from(source)
