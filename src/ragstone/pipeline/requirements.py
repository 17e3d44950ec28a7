"""Checks what a stored run must be before it is decided again. All checks are pure
comparisons with what the caller names.

The run may come from somebody who wants another verdict, so it is refused if a
requirement can't be verified.
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
from ragstone.formatting import clipped, counted, join_first
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
from ragstone.report.escape import clean_line

MAX_NAMED = 20
"""How many questions or checks a message names; the others are counted."""

MAX_ID_CHARACTERS = 100
"""Longer ids are cut in messages."""

_IN_GIT = "Run the gate in a git checkout."


def require_run(manifest: Manifest, part: str | None, commit: str, where: str) -> None:
    """Raise an error unless the run is finished, is of `part` of the system, and is of
    exactly this commit, with no changed file."""
    expected_part = part or "the whole system"
    run_part = manifest.system.part or "the whole system"
    run_commit = manifest.system.commit or ""
    changed = None if manifest.invocation is None else manifest.invocation.changed

    def require(
        is_met: bool, kind: type[RagstoneError], message: str, hint: str | None = None
    ) -> None:
        if not is_met:
            raise kind(message, where=where, hint=hint)

    require(
        manifest.state == "finished",
        JudgeError,
        f"the run was {manifest.state}, not finished.",
        "Finish it with --resume, then decide.",
    )
    require(
        manifest.oracle_of is None,
        RunDirectoryError,
        "it is the oracle half of a run, whose answers were given the right contexts.",
        "Name the directory of the run itself.",
    )
    require(
        manifest.system.part == part,
        RunDirectoryError,
        f"it evaluated {run_part}, but the config says {expected_part}.",
    )
    require(
        bool(run_commit),
        ConfigError,
        "the run does not say which commit it evaluated.",
        _IN_GIT,
    )
    require(
        run_commit == commit,
        ConfigError,
        f"the run is of commit {run_commit[:40]}, not of {commit}.",
    )
    require(
        changed is not None,
        ConfigError,
        "it is not known whether files differed from the commit.",
        _IN_GIT,
    )
    require(
        not changed,
        ConfigError,
        f"{counted(changed or 0, 'file')} differed from the commit.",
    )


def require_judge(judge: JudgeIdentity, name: str, where: str) -> None:
    """Raise JudgeError unless `judge` is what the setting ``judge.name`` calls
    `name`."""
    provider, model = split_name(name)
    provider_info = find_provider(provider)
    names_model = provider_info is not None and provider_info.names == "model"
    if judge.provider != provider or (names_model and judge.model != model):
        raise JudgeError(
            f"the run was judged by {judge.label()}, but the config names '{name}'.",
            where=where,
            hint="Name the judge that the run must have had with --judge.",
        )


def require_metrics(
    measured: Collection[str],
    required: Iterable[str],
    unverified: Mapping[str, str],
    where: str,
) -> None:
    """Raise JudgeError unless each of the `required` metrics is `measured`.
    `unverified` maps metrics that can't be recomputed to the reason."""
    for name in required:
        if name not in measured:
            why = unverified.get(name, "this run did not measure it")
            raise JudgeError(
                f"{name} can't be computed from the stored judgements: {why}.",
                where=where,
                hint="The policy or the config needs this metric. Decide with the version of Ragstone that made the run.",
            )


def require_questions(
    records: Iterable[SampleRecord], golden: GoldenSet, where: str
) -> None:
    """Raise GoldenSetError if the records are not exactly those of the questions in
    `golden`, with the ids that are missing, changed, repeated or were not asked."""
    missing = {sample.id: sample for sample in golden}
    ids: set[str] = set()
    problems: list[str] = []
    for record in records:
        sample_id = record.sample.id
        expected = missing.pop(sample_id, None)
        if sample_id in ids:
            problem = "is repeated"
        elif expected is None:
            problem = "is not in the golden set"
        elif replace(record.sample, origin=None) != replace(expected, origin=None):
            problem = "differs from that of the golden set"
        else:
            problem = "" if was_asked(record) else "was not asked"
        ids.add(sample_id)
        if problem:
            problems.append(f"{shown_id(sample_id)} {problem}")
    problems += [f"{shown_id(sample_id)} is missing" for sample_id in missing]
    if problems:
        raise GoldenSetError(
            f"the questions of the run are not those of the golden set: {join_first(problems, MAX_NAMED)}.",
            where=where,
            hint="Evaluate the whole golden set, without a limit.",
        )


def shown_id(sample_id: str) -> str:
    """An untrusted id of a sample, safe and short enough for a message."""
    return f"'{clipped(clean_line(sample_id), MAX_ID_CHARACTERS)}'"


def uncompared_drops(
    policy: Policy, checks: Iterable[Check], scored: Collection[str]
) -> list[str]:
    """The titles of the blocking drops of `policy` that `checks` leave out, although
    their metrics have scores."""
    compared = {check.place for check in checks if check.kind in CHANGE_KINDS}
    rules: dict[tuple[str, str | None], MetricRule] = {}
    rules |= {(name, None): rule for name, rule in policy.rules_in_force.items()}
    for tag, slice_policy in policy.slices.items():
        rules |= {(name, tag): rule for name, rule in slice_policy.metrics.items()}
    drops = []
    for place, rule in rules.items():
        limits_drop = rule.max_drop is not None or rule.max_rise is not None
        is_scored = place[0] in scored and not is_relative(place[0])
        blocks = rule.action is not Action.WARN
        if limits_drop and blocks and is_scored and place not in compared:
            drops.append(title_of(*place))
    return drops
