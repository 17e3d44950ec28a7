"""Evaluate one version of the system: golden set in, run directory out."""

from __future__ import annotations

from ragstone.rounds.context import RunContext
from ragstone.rounds.needs import refuse_conflicts
from ragstone.rounds.oracle import follow_with_oracle, refuse_oracle
from ragstone.rounds.session import RunPlan, open_session
from ragstone.run.directory import RunDirectory
from ragstone.run.lock import run_lock


async def evaluate_run(plan: RunPlan, context: RunContext) -> RunDirectory:
    """Evaluate what `plan` describes, with the rounds that follow, and return the run directory.

    Raises the matching RagstoneError; finished samples are saved and the run can be resumed.
    """
    refuse_conflicts(plan.parts())
    if plan.oracle:
        refuse_oracle(plan.golden, plan.selected_metrics())
    with run_lock(plan.out):
        async with open_session(plan, context) as session:
            run = await session.evaluate()
            return await follow_with_oracle(run, session) if plan.oracle else run
