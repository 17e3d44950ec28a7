"""The verdict of a gate as it is kept in the run: what its reports show, and the terms on which it was decided."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Literal

from pydantic import TypeAdapter

from ragstone.app.decide import ComparedRun, FailOn, Terms
from ragstone.app.history import RunHistory
from ragstone.errors import BaselineError, RunDirectoryError, disk_errors, parse_errors
from ragstone.files import read_regular
from ragstone.gate.accepted import AcceptedEntry
from ragstone.gate.calibration import Calibration
from ragstone.gate.policy import Policy
from ragstone.gate.policy_table import PolicyTable
from ragstone.gate.source import Source
from ragstone.history.file import History
from ragstone.report.escape import encodable
from ragstone.report.parts import ReportView
from ragstone.run.directory import BASE_COMMIT, MANIFEST, VERDICT, RunDirectory
from ragstone.run.files import replace_text
from ragstone.run.lineage import CARRIED
from ragstone.run.redact import Redactor

MAX_VERDICT_BYTES = 512 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class RecordedPast:
    """How the run is related to the history that it was compared with; see `RunHistory`."""

    main: bool
    pull_request: int | None = None
    github_run: int | None = None
    event: str | None = None
    releases: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, past: RunHistory, commit: str | None) -> RecordedPast:
        """That of the run of `commit`, with the releases that it can need."""
        commits = {commit, *(one.commit for one in past.history.runs)}
        releases = {name: release for name, release in past.releases.items() if name in commits}
        return cls(past.main, past.pull_request, past.github_run, past.event, releases)

    def again(self, history: History) -> RunHistory:
        """`history` as the run was compared with it."""
        return RunHistory(history, None, self.main, self.pull_request, self.github_run, self.event, self.releases)


@dataclass(frozen=True, slots=True)
class RecordedTerms:
    """The terms of a verdict. `baseline` is the place of the baseline, `fingerprint` is which run it was.
    `history` is the place of a history that is not in the run. `unproven` is as in `decide`, `level` as in `Terms`.
    `limited`: a limit left samples out. `rejudged`: the baseline's scores are
    not those of its records, because it was judged again. `fail_on` is applied to the policy. `required`: there had to
    be a baseline. `given` are the keys of the policy's tables that were not left out.
    """

    policy: PolicyTable
    policy_file: str | None = None
    calibration: Calibration | None = None
    accepted: tuple[AcceptedEntry, ...] = ()
    baseline: str | None = None
    fingerprint: str | None = None
    history: str | None = None
    seed: int = 0
    unproven: str | None = None
    limited: bool = False
    level: bool = False
    past: RecordedPast | None = None
    rejudged: bool = False
    fail_on: FailOn | None = None
    required: bool = False
    given: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        terms: Terms,
        past: RunHistory | None,
        *,
        commit: str | None,
        unproven: str | None,
        limited: bool,
        rejudged: bool,
        fail_on: FailOn | None,
    ) -> RecordedTerms:
        policy, run = terms.policy, terms.baseline.run if terms.baseline is not None else None
        return cls(
            policy=policy.table,
            policy_file=policy.file,
            calibration=policy.calibration,
            accepted=policy.accepted,
            baseline=None if run is None else os.path.abspath(run.path),  # noqa: PTH100 - links are not followed
            fingerprint=None if run is None else run.fingerprint,
            history=None if past is None or past.file is None else os.path.abspath(past.file),  # noqa: PTH100
            seed=terms.seed,
            unproven=unproven,
            limited=limited,
            level=terms.level,
            past=None if past is None else RecordedPast.of(past, commit),
            rejudged=rejudged,
            fail_on=fail_on,
            required=terms.baseline_required,
            given={name: tuple(sorted(getattr(policy.table, name).model_fields_set)) for name in ("gate", "system")},
        )

    def policy_again(self) -> Policy:
        tables = {name: getattr(self.policy, name) for name in self.given if name in ("gate", "system")}
        tables = {name: type(one).model_construct({*self.given[name]}, **dict(one)) for name, one in tables.items()}
        return Policy(
            self.policy.model_copy(update=tables),
            Source(self.policy_file),
            calibration=self.calibration,
            accepted=self.accepted,
        )

    def baseline_again(self, run: RunDirectory) -> ComparedRun | None:
        """The baseline of `run` as it was, if there was one: in the run, or where it was then.

        Raises BaselineError if it is there no more.
        """
        if self.baseline is None:
            return None
        for place in (run.path / BASE_COMMIT, run.path / CARRIED, Path(self.baseline)):
            if (place / MANIFEST).is_file():
                found = ComparedRun.baseline(RunDirectory.open(place))
                if found is not None and found.run is not None and found.run.fingerprint == self.fingerprint:
                    return found
        raise BaselineError(
            f"the baseline that this run was compared with is no longer in {self.baseline}.",
            where=str(run.path),
            hint="Name it, or another run, with --baseline.",
        )


@dataclass(frozen=True, slots=True)
class RecordedVerdict:
    """The content of verdict.json. `run` is the fingerprint of the run, `view` has no secrets."""

    run: str
    terms: RecordedTerms
    view: ReportView
    schema_version: Literal[1] = 1


@cache
def _adapter() -> TypeAdapter[RecordedVerdict]:
    return TypeAdapter(RecordedVerdict)


def write_verdict(run: RunDirectory, terms: RecordedTerms, view: ReportView, redact: Redactor) -> None:
    """Record the verdict of `run`. `view` is already redacted."""
    body = _adapter().dump_python(RecordedVerdict(run.fingerprint, terms, view), mode="json")
    body["terms"] = redact.view(body["terms"])
    replace_text(run.path / VERDICT, json.dumps(encodable(body), ensure_ascii=True, separators=(",", ":")) + "\n")


def read_verdict(run: RunDirectory) -> RecordedVerdict | None:
    """The recorded verdict of `run`; None if it has none, or was evaluated again since. Raises RunDirectoryError."""
    file = run.path / VERDICT
    hint = "Remove the file to decide again, or run the gate again."
    if run.manifest.verdict is None or not os.path.lexists(file):
        return None
    kind = RunDirectoryError
    with disk_errors(file, kind=kind, hint=hint), parse_errors(file, "not a valid verdict", kind=kind, hint=hint):
        found = _adapter().validate_json(read_regular(file, limit=MAX_VERDICT_BYTES))
    its_own = found.run == run.fingerprint and found.view.status.value == run.manifest.verdict
    return found if its_own else None
