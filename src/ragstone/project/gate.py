"""What the gate is asked for, from settings."""

from __future__ import annotations

from functools import partial

from ragstone.app.baseline import NamedRun
from ragstone.app.gate import GateRequest
from ragstone.app.history import read_run_history
from ragstone.app.merge import Shards
from ragstone.config import Settings
from ragstone.project.base_commit import base_from_git, with_one_baseline
from ragstone.project.plan import run_plan
from ragstone.project.policy import gate_policy
from ragstone.report.templates import own_templates
from ragstone.rounds.context import RunContext

_STORE_NOT_READ = "The baseline store was not looked at: only the command `ragstone gate` reads it."


def gate_request(settings: Settings, context: RunContext, *, shards: Shards | None = None) -> GateRequest:
    """What the gate is asked for by `settings`, in a trusted checkout. Raises ConfigError, and what reading raises."""
    settings = with_one_baseline(settings)
    policy, gate = gate_policy(settings), settings.gate
    plan = run_plan(settings, context, command="gate")
    named = None if gate.baseline is None else NamedRun(settings.path(gate.baseline), gate.baseline, gate.baseline_any)
    return GateRequest(
        run=plan,
        policy=policy,
        fail_on=gate.fail_on,
        baseline=named,
        baseline_required=named is not None,
        base=None if gate.baseline_commit is None else partial(base_from_git, settings, context, policy),
        past=None if settings.run.history is None else read_run_history(settings.path(settings.run.history)),
        templates=own_templates(settings.root),
        warnings=() if gate.baseline_store is None else (_STORE_NOT_READ,),
        shards=shards,
    )
