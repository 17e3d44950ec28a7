"""What a stored run must be before it is decided anew: pure comparisons with what the
caller names.

The run may come from somebody who wants another answer, so nothing that it says of
itself excuses it. What can't be established is an error that says where.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from ragstone.errors import (
    ConfigError,
    GoldenSetError,
    JudgeError,
    RagstoneError,
    RunDirectoryError,
)
from ragstone.evaluation.manifest import Manifest
from ragstone.evaluation.record import SampleRecord
from ragstone.formatting import clipped, counted, some
from ragstone.gate.accepted import title_of
from ragstone.gate.diagnosis import was_asked
from ragstone.gate.policy import Policy
from ragstone.gate.policy_table import MetricRule
from ragstone.gate.verdict import CHANGE_KINDS, Action, Check
from ragstone.golden.sample import GoldenSet
from ragstone.judge.names import split_name
from ragstone.judge.protocol import JudgeIdentity
from ragstone.judge.providers import find_provider
from ragstone.metrics.registry import is_relative
from ragstone.report.escape import one_line

MAX_NAMED = 20
"""Questions and checks that a message names; the others are counted."""

MAX_ID_CHARACTERS = 100
"""Longer ids are cut in messages."""


def require_run(manifest: Manifest, part: str | None, commit: str, where: str) -> None:
    """Raise the error of the first thing that the run is not: a finished one of the
    whole golden set, of `part` of the system, and of exactly this commit, with no
    changed file."""
    whole = "the whole system"
    evaluated = manifest.system.commit or ""
    changed = None if manifest.invocation is None else manifest.invocation.changed
    in_git = "Run the gate in a git checkout."
    requirements: list[tuple[bool, type[RagstoneError], str, str | None]] = [
        (
            manifest.state == "finished",
            JudgeError,
            f"the run was {manifest.state}, not finished.",
            "Finish it with --resume, then decide.",
        ),
        (
            manifest.oracle_of is None,
            RunDirectoryError,
            "it is an oracle half: its answers were given the right contexts.",
            None,
        ),
        (
            manifest.system.part == part,
            RunDirectoryError,
            f"it evaluated {manifest.system.part or whole}, and the config says {part or whole}.",
            None,
        ),
        (bool(evaluated), ConfigError, "the run does not know its commit.", in_git),
        (
            evaluated == commit,
            ConfigError,
            f"the run is of commit {evaluated[:40]}, not of {commit}.",
            None,
        ),
        (
            changed is not None,
            ConfigError,
            "it is not known whether files differed from the commit.",
            in_git,
        ),
        (
            not changed,
            ConfigError,
            f"{counted(changed or 0, 'file')} differed from the commit.",
            None,
        ),
    ]
    for is_met, kind, message, hint in requirements:
        if not is_met:
            raise kind(message, where=where, hint=hint)


def require_judge(judge: JudgeIdentity, name: str, where: str) -> None:
    """Raise JudgeError unless `judge` is what the setting ``judge.name`` calls
    `name`."""
    provider, model = split_name(name)
    provider_info = find_provider(provider)
    names_model = provider_info is not None and provider_info.names == "model"
    if judge.provider != provider or (names_model and judge.model != model):
        raise JudgeError(
            f"the run was judged by {judge.label()}, and the config names '{name}'.",
            where=where,
            hint="Name the judge that it must have been with --judge.",
        )


def require_metrics(
    measured: Collection[str],
    required: Iterable[str],
    unverified: Mapping[str, str],
    where: str,
) -> None:
    """Raise JudgeError unless each of the `required` metrics is `measured`;
    `unverified` says why some are not."""
    for name in required:
        if name not in measured:
            why = unverified.get(name, "this run did not measure it")
            raise JudgeError(
                f"{name} can't be computed from the stored judgements: {why}.",
                where=where,
                hint="The policy or the config needs it. Decide with the version of Ragstone that made the run.",
            )


def require_questions(
    records: Iterable[SampleRecord], golden: GoldenSet, where: str
) -> None:
    """Raise GoldenSetError that names the questions of `golden` that the records don't
    answer: missing, changed, doubled or not asked."""
    missing = {sample.id: sample for sample in golden}
    seen: set[str] = set()
    problems: list[str] = []
    for record in records:
        name = record.sample.id
        expected = missing.pop(name, None)
        if name in seen:
            problem = "is doubled"
        elif expected is None:
            problem = "is not in the golden set"
        elif replace(record.sample, origin=None) != replace(expected, origin=None):
            problem = "differs from that of the golden set"
        else:
            problem = "" if was_asked(record) else "was not asked"
        seen.add(name)
        if problem:
            problems.append(f"{shown_id(name)} {problem}")
    problems += [f"{shown_id(name)} is missing" for name in missing]
    if problems:
        raise GoldenSetError(
            f"the questions of the run are not those of the golden set: {some(problems, MAX_NAMED)}.",
            where=where,
            hint="Evaluate the whole golden set, without a limit.",
        )


def shown_id(name: str) -> str:
    """The id of a sample, from anywhere, for a message."""
    return f"'{clipped(one_line(name), MAX_ID_CHARACTERS)}'"


def uncompared_drops(
    policy: Policy, checks: Iterable[Check], scored: Collection[str]
) -> list[str]:
    """The blocking drops of `policy`, of metrics with scores, that none of `checks` is
    about."""
    compared = {check.place for check in checks if check.kind in CHANGE_KINDS}
    rules: dict[tuple[str, str | None], MetricRule] = {}
    rules |= {(name, None): rule for name, rule in policy.in_force.items()}
    for tag, part in policy.slices.items():
        rules |= {(name, tag): rule for name, rule in part.metrics.items()}
    drops = []
    for place, rule in rules.items():
        limits_drop = rule.max_drop is not None or rule.max_rise is not None
        is_scored = place[0] in scored and not is_relative(place[0])
        blocks = rule.action is not Action.WARN
        if limits_drop and blocks and is_scored and place not in compared:
            drops.append(title_of(*place))
    return drops
