"""The policy of a project."""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import replace

from ragstone.config import Settings
from ragstone.gate.policy import Policy, default_policy, load_policy
from ragstone.gate.policy_table import POLICY_FILE


def read_policy(settings: Settings, scored: Collection[str] = ()) -> Policy:
    """The policy file in `settings`, else thresholds.toml if it exists, else the defaults.

    It can name the built-in metrics, those of `settings`, and `scored`. Its error rate is shared as the settings say.
    """
    return replace(_policy_in(settings, scored), gates=settings.gate.gates)


def _policy_in(settings: Settings, scored: Collection[str]) -> Policy:
    known = {*settings.metrics, *scored}
    if settings.gate.thresholds is not None:
        return load_policy(settings.path(settings.gate.thresholds), known_metrics=known, within=settings.within)
    beside = settings.path(POLICY_FILE)
    # A folder or a dangling link with that name is a policy that can't be read, not a missing one.
    if os.path.lexists(beside):
        return load_policy(beside, known_metrics=known, within=settings.within)
    return default_policy(settings.root, within=settings.within)


def gate_policy(settings: Settings, scored: Collection[str] = ()) -> Policy:
    """The policy as the gate uses it: `read_policy` with `fail-on` applied."""
    policy, fail_on = read_policy(settings, scored), settings.gate.fail_on
    if fail_on in ("fail", "inconclusive"):
        return policy.with_inconclusive("fail" if fail_on == "inconclusive" else "warn")
    return policy
