"""Evaluate one version of the system: golden set in, run directory out."""

from __future__ import annotations

from ragstone.evaluation.directory import RunDirectory
from ragstone.evaluation.lock import run_lock
from ragstone.evaluation.rounds.base_commit import BaseSystem
from ragstone.evaluation.rounds.context import RunContext
from ragstone.evaluation.rounds.oracle import follow_with_oracle, refuse_oracle
from ragstone.evaluation.rounds.rounds_plan import RunPlan
from ragstone.evaluation.rounds.session import open_session


async def evaluate_run(plan: RunPlan, context: RunContext) -> RunDirectory:
    """Evaluate the system as `plan` says, with the oracle half if it asks for one, and
    return the run directory.

    Raises RagstoneError. Finished samples are then saved, and the run can be resumed.
    """
    refuse_impossible(plan)
    with run_lock(plan.out):
        async with open_session(plan, context) as session:
            run = await session.evaluate()
            return await follow_with_oracle(run, session) if plan.oracle else run


def refuse_impossible(plan: RunPlan, base: BaseSystem | None = None) -> None:
    """Raise ConfigError or GoldenSetError if parts of the plan can't be combined with
    each other or with a `base` commit, or would measure nothing."""
    plan.refuse_conflicts(compares_base=base is not None)
    if plan.oracle:
        refuse_oracle(plan.golden, plan.selected_metrics())
