"""What the gate and its reports are asked for, from settings: policy, request,
terms."""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import replace
from datetime import date
from functools import partial
from pathlib import Path

from ragstone.evaluation.directory import HISTORY
from ragstone.evaluation.rounds.context import RunContext
from ragstone.gate.policy import Policy, default_policy, load_policy
from ragstone.gate.policy_table import POLICY_FILE
from ragstone.history.file import read_history
from ragstone.pipeline.base_checkout import base_from_git, refuse_two_baselines
from ragstone.pipeline.baseline import NamedRun
from ragstone.pipeline.decide_again import DecisionTerms
from ragstone.pipeline.gate import GateRequest
from ragstone.pipeline.history import RunHistory
from ragstone.pipeline.report import ReportTerms
from ragstone.pipeline.run_plan import project_metrics, read_golden_set, run_plan
from ragstone.report.templates import own_templates
from ragstone.settings.settings import Settings


def report_terms(settings: Settings) -> ReportTerms:
    """The terms in `settings`."""
    gate = settings.gate
    return ReportTerms(
        policy=partial(gate_policy, settings),
        baseline=None
        if gate.baseline is None
        else NamedRun(settings.path(gate.baseline), gate.baseline),
        history=None
        if settings.run.history is None
        else settings.path(settings.run.history),
        templates=own_templates(settings.root),
    )


def decision_terms(settings: Settings, commit: str, today: date) -> DecisionTerms:
    """What a stored run of `commit` must be, and is decided by: the whole golden set,
    whatever a limit says.

    Raises ConfigError, and what reading raises.
    """
    metrics = project_metrics(settings)
    own = metrics.own()
    policy = read_policy(settings)
    golden = read_golden_set(_whole(settings))
    in_force = {*policy.in_force, *policy.named_metrics}
    expected = replace(metrics, required=policy.named_metrics).select(golden)
    selected = settings.run.metrics is not None
    return DecisionTerms(
        policy=policy,
        golden=golden,
        baseline=None
        if settings.gate.baseline is None
        else settings.path(settings.gate.baseline),
        commit=commit,
        judge=settings.judge.name,
        today=today,
        metrics=own,
        required=[
            metric.info.name
            for metric in expected
            if selected or metric.info.name in in_force
        ],
        part=settings.system.part,
        price=settings.system.price,
    )


def _whole(settings: Settings) -> Settings:
    """`settings` for all samples of the golden set."""
    return (
        settings.having("golden.limit", None)
        .having("golden.only", ())
        .having("golden.tags", ())
    )


def history_file(settings: Settings) -> Path:
    """The history that `settings` name, else that of the run directory."""
    named = settings.run.history
    return (
        settings.path(settings.run.out) / HISTORY
        if named is None
        else settings.path(named)
    )


def read_policy(settings: Settings, scored: Collection[str] = ()) -> Policy:
    """The policy file in `settings`, else thresholds.toml if it exists, else the
    defaults.

    It can name the built-in metrics, those of `settings`, and `scored`.
    """
    metric_names = {*settings.metrics, *scored}
    if settings.gate.thresholds is not None:
        return load_policy(
            settings.path(settings.gate.thresholds),
            known_metrics=metric_names,
            within=settings.within,
        )
    beside = settings.path(POLICY_FILE)
    # A folder or a dangling link with that name is a policy that can't be read, not a
    # missing one.
    if os.path.lexists(beside):
        return load_policy(beside, known_metrics=metric_names, within=settings.within)
    return default_policy(settings.root, within=settings.within)


def gate_policy(settings: Settings, scored: Collection[str] = ()) -> Policy:
    """The policy as the gate uses it: `read_policy` with `fail-on` applied."""
    policy, fail_on = read_policy(settings, scored), settings.gate.fail_on
    if fail_on in ("fail", "inconclusive"):
        return policy.with_inconclusive("fail" if fail_on == "inconclusive" else "warn")
    return policy


_FOLDER_NOT_READ = (
    "The baseline folder was not looked at: only the command `ragstone gate` reads it."
)


def gate_request(settings: Settings, context: RunContext) -> GateRequest:
    """What the gate is asked for by `settings`, in a trusted checkout. Raises
    ConfigError, and what reading raises."""
    refuse_two_baselines(settings)
    policy, gate = gate_policy(settings), settings.gate
    plan = run_plan(settings, context, command="gate")
    named = (
        None
        if gate.baseline is None
        else NamedRun(settings.path(gate.baseline), gate.baseline)
    )
    past = None
    if settings.run.history is not None:
        file = settings.path(settings.run.history)
        past = RunHistory(read_history(file), file)
    return GateRequest(
        run=plan.requiring(policy.named_metrics),
        policy=policy,
        fail_on=gate.fail_on,
        baseline=named,
        baseline_required=named is not None,
        base=None
        if gate.baseline_commit is None
        else partial(base_from_git, settings, context, policy),
        past=past,
        templates=own_templates(settings.root),
        warnings=() if gate.baseline_folder is None else (_FOLDER_NOT_READ,),
    )
