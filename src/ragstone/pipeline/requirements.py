"""What a stored run must be before it is decided anew: pure comparisons with what the
caller names.

The run may come from somebody who wants another answer, so nothing that it says of
itself excuses it. What can't be established is an error that says where.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, fields

from ragstone.errors import ConfigError, GoldenSetError, JudgeError, RunDirectoryError
from ragstone.evaluation.manifest import Manifest
from ragstone.evaluation.record import SampleRecord
from ragstone.formatting import clipped, counted, some
from ragstone.gate.diagnosis import was_asked
from ragstone.gate.policy import Policy
from ragstone.gate.policy_table import MetricRule
from ragstone.gate.verdict import CHANGES, Action, Check
from ragstone.golden.sample import GoldenSet, Sample
from ragstone.judge.names import split_name
from ragstone.judge.protocol import JudgeIdentity
from ragstone.judge.providers import find_provider
from ragstone.metrics.registry import is_relative
from ragstone.report.escape import one_line

MAX_NAMED = 20
"""Questions and checks that a message names; the others are counted."""

MAX_ID_CHARACTERS = 100
"""Longer ids are cut in messages."""

_NOT_COMPARED = frozenset({"id", "origin"})


def require_whole(manifest: Manifest, part: str | None, where: str) -> None:
    """Raise an error unless the run is a finished one of the whole golden set, and of
    `part` of the system."""
    if manifest.state != "finished":
        raise JudgeError(
            f"the run was {manifest.state}, not finished.",
            where=where,
            hint="Finish it with --resume, then decide.",
        )
    if manifest.oracle_of is not None:
        raise RunDirectoryError(
            "it is an oracle half: its answers were given the right contexts.",
            where=where,
        )
    if manifest.system.part != part:
        evaluated, expected = (
            name or "the whole system" for name in (manifest.system.part, part)
        )
        raise RunDirectoryError(
            f"it evaluated {evaluated}, and the config says {expected}.", where=where
        )


def require_commit(manifest: Manifest, commit: str, where: str) -> None:
    """Raise ConfigError unless the run is of exactly this commit, with no changed
    file."""
    evaluated = manifest.system.commit
    if evaluated is None:
        raise ConfigError(
            "the run does not know its commit.",
            where=where,
            hint="Run the gate in a git checkout.",
        )
    if evaluated != commit:
        raise ConfigError(
            f"the run is of commit {evaluated[:40]}, not of {commit}.", where=where
        )
    changed = None if manifest.invocation is None else manifest.invocation.changed
    if changed is None:
        raise ConfigError(
            "it is not known whether files differed from the commit.",
            where=where,
            hint="Run the gate in a git checkout.",
        )
    if changed:
        raise ConfigError(
            f"{counted(changed, 'file')} differed from the commit.", where=where
        )


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


@dataclass(slots=True)
class QuestionCheck:
    """Compares the records of a run, one by one, with the questions that must have been
    asked."""

    golden: Mapping[str, Sample]
    problems: list[str] = field(default_factory=list)
    """A clause on each question that differs."""
    _seen: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, golden: GoldenSet) -> QuestionCheck:
        return cls({sample.id: sample for sample in golden})

    def golden_sample(self, record: SampleRecord) -> Sample | None:
        """The golden sample that `record` answers; None, and a problem more, if it does
        not answer one."""
        name = record.sample.id
        expected = self.golden.get(name)
        problem = self._problem(record, expected)
        if problem is not None:
            self.problems.append(f"{shown_id(name)} {problem}")
        if expected is not None:
            self._seen.add(name)
        return expected if problem is None else None

    def _problem(self, record: SampleRecord, expected: Sample | None) -> str | None:
        if expected is None:
            return "is not in the golden set"
        if expected.id in self._seen:
            return "is doubled"
        different = differing_fields(record.sample, expected)
        if different:
            return f"has another {some(different)}"
        return None if was_asked(record) else "was not asked"

    def require_all(self, where: str) -> None:
        """Raise GoldenSetError that names the questions that are missing, changed,
        doubled or were not asked."""
        missing = [name for name in self.golden if name not in self._seen]
        problems = [
            *self.problems,
            *(f"{shown_id(name)} is missing" for name in missing),
        ]
        if problems:
            raise GoldenSetError(
                f"the questions of the run are not those of the golden set: {some(problems, MAX_NAMED)}.",
                where=where,
                hint="Evaluate the whole golden set, without a limit.",
            )


def shown_id(name: str) -> str:
    """The id of a sample, from anywhere, for a message."""
    return f"'{clipped(one_line(name), MAX_ID_CHARACTERS)}'"


def differing_fields(recorded: Sample, expected: Sample) -> list[str]:
    """The fields in which two samples of one id differ, wherever they were written."""
    names = (field.name for field in fields(Sample) if field.name not in _NOT_COMPARED)
    return [
        name.replace("_", " ")
        for name in names
        if getattr(recorded, name) != getattr(expected, name)
    ]


def uncompared_drops(
    policy: Policy, checks: Iterable[Check], scored: Collection[str]
) -> list[str]:
    """The blocking drops of `policy`, of metrics with scores, that none of `checks` is
    about."""
    compared = {
        (check.metric, check.slice) for check in checks if check.kind in CHANGES
    }
    rules: list[tuple[str, str | None, MetricRule]] = [
        (name, None, rule) for name, rule in policy.metrics.items()
    ]
    for tag, part in policy.slices.items():
        rules += [(name, tag, rule) for name, rule in part.metrics.items()]
    return [
        name if tag is None else f"{name} on '{tag}'"
        for name, tag, rule in rules
        if (rule.max_drop is not None or rule.max_rise is not None)
        and rule.action is not Action.WARN
        and name in scored
        and not is_relative(name)
        and (name, tag) not in compared
    ]
