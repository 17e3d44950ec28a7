"""Turns settings into what the gate and its reports are asked for: a policy, a request,
or the terms of a decision."""

from __future__ import annotations

import os
from datetime import date
from pathlib import Path

from msgspec.structs import replace

from ragstone.evaluation.directory import HISTORY
from ragstone.evaluation.rounds.context import RunContext
from ragstone.gate.policy import Policy, default_policy, load_policy
from ragstone.gate.policy_table import POLICY_FILE
from ragstone.history.file import read_history
from ragstone.pipeline.base_checkout import refuse_two_baselines
from ragstone.pipeline.baseline import open_baseline, refuse_overlap
from ragstone.pipeline.decide_again import DecisionTerms
from ragstone.pipeline.gate import GateRequest
from ragstone.pipeline.history import RunHistory
from ragstone.pipeline.run_plan import project_metrics, read_golden_set, run_plan
from ragstone.report.templates import own_templates
from ragstone.settings.settings import Settings


def decision_terms(settings: Settings, commit: str, today: date) -> DecisionTerms:
    """What a stored run of `commit` must be, and what it is decided by.

    The run must be of the whole golden set, even if `settings` limit it. Raises
    ConfigError and GoldenSetError.
    """
    metrics = project_metrics(settings)
    policy = read_policy(settings)
    golden_settings = settings.golden.model_copy(
        update={"limit": None, "only": (), "tags": ()}
    )
    golden = read_golden_set(settings.model_copy(update={"golden": golden_settings}))
    names = [
        metric.info.name
        for metric in replace(metrics, required=policy.named_metrics).select(golden)
    ]
    if settings.run.metrics is None:
        in_force = {*policy.rules_in_force, *policy.named_metrics}
        names = [name for name in names if name in in_force]
    return DecisionTerms(
        policy=policy,
        golden=golden,
        baseline=settings.path_or_none(settings.gate.baseline),
        commit=commit,
        judge=settings.judge.name,
        today=today,
        metrics=metrics.custom_metrics(),
        required=names,
        part=settings.system.part,
        price=settings.system.price,
    )


def history_file(settings: Settings) -> Path:
    """The history that `settings` name, else the one in the run directory."""
    in_run = settings.path(settings.run.out) / HISTORY
    return settings.path_or_none(settings.run.history) or in_run


def read_policy(settings: Settings, *, of_stored: bool = False) -> Policy:
    """The policy that `settings` name, else thresholds.toml if it exists, else the
    default one.

    It may name the built-in metrics and those of `settings`. With `of_stored`, for
    scores that are stored, it may name any metric, and its calibration is not read.
    """
    file = settings.path(settings.gate.thresholds or POLICY_FILE)
    # A folder or a dangling link of that name is a policy that can't be read, which is
    # an error.
    if settings.gate.thresholds is None and not os.path.lexists(file):
        return default_policy(settings.root, within=settings.within)
    return load_policy(
        file,
        known_metrics=None if of_stored else settings.metrics,
        calibration=not of_stored,
        within=settings.within,
    )


def gate_policy(settings: Settings) -> Policy:
    """The policy that `settings` name, with `fail-on` applied."""
    policy, fail_on = read_policy(settings), settings.gate.fail_on
    if fail_on in ("fail", "inconclusive"):
        return policy.with_inconclusive("fail" if fail_on == "inconclusive" else "warn")
    return policy


def gate_request(settings: Settings, context: RunContext) -> GateRequest:
    """What `settings` ask the gate for, in a checkout that is trusted. Raises
    ConfigError, GoldenSetError and BaselineError."""
    refuse_two_baselines(settings)
    policy, gate = gate_policy(settings), settings.gate
    plan = run_plan(settings, context, command="gate")
    baseline, past, notes = None, None, tuple[str, ...]()
    if gate.baseline is not None:
        path = settings.path(gate.baseline)
        refuse_overlap(path, plan.out)
        baseline = open_baseline(path)
        if baseline.path != path:
            notes = (
                f"The run in {gate.baseline} can't be a baseline. The baseline that it was compared with is used instead.",
            )
    file = settings.path_or_none(settings.run.history)
    if file is not None:
        past = RunHistory(read_history(file), file)
    return GateRequest(
        run=plan.requiring(policy.named_metrics),
        policy=policy,
        fail_on=gate.fail_on,
        baseline=baseline,
        is_baseline_named=baseline is not None,
        baseline_required=baseline is not None,
        past=past,
        templates=own_templates(settings.root),
        notes=notes,
    )
