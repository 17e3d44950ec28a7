"""Evaluate one version of the system: golden set in, run directory out."""

from __future__ import annotations

from ragstone.evaluation.directory import RunDirectory
from ragstone.evaluation.lock import run_lock
from ragstone.evaluation.rounds.context import RunContext
from ragstone.evaluation.rounds.oracle import follow_with_oracle, refuse_oracle
from ragstone.evaluation.rounds.plan import RunPlan
from ragstone.evaluation.rounds.session import open_session


async def evaluate_run(plan: RunPlan, context: RunContext) -> RunDirectory:
    """Evaluate what `plan` describes, with the rounds that follow, and return the run
    directory.

    Raises the matching RagstoneError; finished samples are saved and the run can be
    resumed.
    """
    plan.refuse_conflicts()
    if plan.oracle:
        refuse_oracle(plan.golden, plan.selected_metrics())
    with run_lock(plan.out):
        async with open_session(plan, context) as session:
            run = await session.evaluate()
            return await follow_with_oracle(run, session) if plan.oracle else run
