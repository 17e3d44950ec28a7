"""Recomputes what an attestation says from the run and from what the verifier has, part by part, offline.

Run and attestation may come from somebody who wants another answer. Everything read is bounded and validated, nothing
is executed, and no place outside the run that they name is opened.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError
from pydantic_core import from_json

from ragstone.app.attestation import (
    Attestation,
    Attested,
    baseline_digests,
    canonical,
    derive,
    file_digests,
    history_digest,
    judge_digest,
    sample_digest,
    score_digests,
    subjects,
    without_places,
)
from ragstone.app.decide import ComparedRun, Terms, decide
from ragstone.app.history import RunHistory
from ragstone.app.recorded import RecordedTerms, read_verdict
from ragstone.errors import RagstoneError, RunDirectoryError, disk_errors, first_problem
from ragstone.files import read_regular
from ragstone.formatting import counted, some
from ragstone.gate.policy import Policy, policy_hash
from ragstone.gate.policy_table import PolicyTable
from ragstone.gate.verdict import Check, Status
from ragstone.golden.sample import GoldenSet
from ragstone.history.file import History, read_history
from ragstone.metrics.metric import Metric
from ragstone.run.directory import ATTESTATION, BASE_COMMIT, HISTORY, MANIFEST, SAMPLES, RunDirectory
from ragstone.run.lineage import CARRIED
from ragstone.run.record import SampleRecord
from ragstone.run.redact import MASK
from ragstone.run.replay import contradicted, recomputable, unverified
from ragstone.run.serialise import RecordFacts

MAX_ATTESTATION_BYTES = 64 * 1024 * 1024
_MAX_SHOWN = 20
_AHEAD = timedelta(hours=1)
"""How far the clock of the machine that made a run may be ahead."""
_UNFIT = (ArithmeticError, LookupError, TypeError, ValueError)
"""What records and terms end in that are valid each, and fit together in no run that was ever made."""


class State(StrEnum):
    RECOMPUTED = "recomputed"
    MATCHES = "matches"
    DIFFERS = "differs"
    NOT_AVAILABLE = "not available"


@dataclass(frozen=True, slots=True)
class Part:
    """A part of an attestation: whether it holds, and where it differs, or what would supply it."""

    name: str
    state: State
    what: str = ""

    @property
    def holds(self) -> bool:
        return self.state in (State.RECOMPUTED, State.MATCHES)


@dataclass(frozen=True, slots=True)
class Deployment:
    """What a commit must have before it is deployed: a passed run at most `days` old at the time `now`."""

    now: datetime
    days: int


@dataclass(frozen=True, slots=True)
class Own:
    """What the verifier has of their own, for what the run says; None: nothing."""

    policy: Policy | None = None
    golden: GoldenSet | None = None
    baseline: Path | None = None
    history: Path | None = None
    commit: str | None = None
    metrics: Sequence[Metric] = ()
    deployment: Deployment | None = None


def verify(path: Path, own: Own, attestation: Path | None = None) -> list[Part]:
    """The parts of the attestation of the run in `path`, or of the one that `path` is.

    Raises RunDirectoryError if there is none.
    """
    folder = path if path.is_dir() else path.parent
    file = attestation or (path / ATTESTATION if path.is_dir() else path)
    with disk_errors(file, kind=RunDirectoryError, hint="Name a run of `ragstone gate`, or its attestation."):
        body = read_regular(file, limit=MAX_ATTESTATION_BYTES)
    try:
        found = Attestation.model_validate_json(body)
        whole = "".join(canonical(from_json(body))).encode() == body
    except ValidationError as error:
        return [Part("attestation", State.DIFFERS, first_problem(error))]
    except ValueError as error:
        return [Part("attestation", State.DIFFERS, f"not JSON: {error}")]
    run, unread = None, Part("run", State.NOT_AVAILABLE, "there is none beside the attestation")
    if (folder / MANIFEST).is_file():
        try:
            run = RunDirectory.open(folder)
        except RagstoneError as error:
            unread = Part("run", State.DIFFERS, error.message)
    known = _Verifying(found.predicate, own, folder, run)
    parts = [_attestation(found, body, known, whole=whole)]
    if run is None:
        parts.append(unread)
    return [*parts, *known.parts()]


def _attestation(found: Attestation, body: bytes, known: _Verifying, *, whole: bool) -> Part:
    """The text itself, and what was derived from it."""
    wrong = [] if whole else ["not canonical JSON"]
    subject = [one.model_dump() for one in found.subject]
    if known.run is None:
        return _part("attestation", wrong, State.MATCHES)
    if known.scores is not None and subject != subjects(known.run):
        wrong.append("subject")
    for name, text in derive(found.predicate, subject, hashlib.sha256(body).hexdigest()).items():
        if _read(known.folder / name) != text.encode():
            wrong.append(name)
    return _part("attestation", wrong, State.RECOMPUTED)


def _read(file: Path) -> bytes | None:
    try:
        return read_regular(file, limit=MAX_ATTESTATION_BYTES)
    except OSError:
        return None


def _part(name: str, wrong: Sequence[str], otherwise: State, what: str = "") -> Part:
    return Part(name, State.DIFFERS, some(list(wrong), _MAX_SHOWN)) if wrong else Part(name, otherwise, what)


def _missing(name: str, what: str) -> Part:
    return Part(name, State.NOT_AVAILABLE, what)


class _Verifying:
    """What is known of a run while its parts are checked, each after those that it needs."""

    def __init__(self, said: Attested, own: Own, folder: Path, run: RunDirectory | None) -> None:
        self.said, self.own, self.folder, self.run = said, own, folder, run
        self.wrong_samples: list[str] = []
        self.contradicted: list[str] = []
        self.scores = None
        if run is not None:
            golden = {one.id: one.golden for one in said.samples}
            metrics = recomputable(run.manifest, own.metrics)

            def replay(record: SampleRecord, facts: RecordFacts) -> None:
                name = record.sample.id
                if golden.get(name) != sample_digest(record.sample) and MASK not in str(record.sample):
                    self.wrong_samples.append(f"sample '{name}'")
                if facts.content_hash != record.sample.content_hash():
                    self.wrong_samples.append(f"content hash of '{name}'")
                if (metric := contradicted(metrics, record)) is not None:
                    self.contradicted.append(f"{metric} of '{name}'")

            try:
                self.scores = run.scores(replay)
            except RagstoneError as error:
                self.contradicted.append(f"{Path(error.where or SAMPLES).name}: {error.message}")
            except _UNFIT as error:
                self.contradicted.append(f"{SAMPLES}: {' '.join(str(error).split())}")

    def parts(self) -> Iterator[Part]:
        if self.run is not None:
            yield self._manifest(self.run)
            yield self._files(self.run)
            yield self._records(self.run)
        yield self._commit()
        if self.own.deployment is not None:
            yield self._deployment(self.own.deployment)
        yield self._policy()
        yield self._golden()
        if self.run is None:
            for name in ("scores", "checks", "verdict"):
                yield _missing(name, "needs the run")
            return
        yield self._scores()
        baseline, part = self._baseline(self.run)
        yield from part
        past, part = self._history()
        yield from part
        yield from self._decision(self.run, baseline, past)
        yield from self._bar()

    def _manifest(self, run: RunDirectory) -> Part:
        wrong = list(_differences(self.said.run.model_dump(mode="json"), run.manifest.model_dump(mode="json")))
        if self.said.digests.judge != judge_digest(run.manifest.judge):
            wrong.append("judge")
        return _part("run", wrong, State.MATCHES, "cost, times, judge, accepted drops in force")

    def _files(self, run: RunDirectory) -> Part:
        try:
            there = file_digests(run.path)
        except RagstoneError as error:
            return Part("files", State.DIFFERS, error.message)
        said = self.said.files
        wrong = [f"{name} {_change(said.get(name), there.get(name))}" for name in sorted(said.keys() | there.keys())]
        return _part("files", [one for one in wrong if not one.endswith(" same")], State.MATCHES)

    def _records(self, run: RunDirectory) -> Part:
        """Which lines of samples.jsonl were changed, left out, added, doubled or moved."""
        said = {one.record: one.id for one in self.said.samples if one.record is not None}
        ids: list[str] = []
        changed = list(self.wrong_samples)
        try:
            for number, line in run.lines():
                digest = hashlib.sha256(line).hexdigest()
                name = said.get(digest) or _id_of(line)
                ids.append(name or f"line {number}")
                if digest not in said:
                    changed.append(f"line {number}{f', {name}' if name else ''} changed")
        except RagstoneError as error:
            changed.append(error.message)
        expected, there = list(said.values()), Counter(ids)
        changed += [f"'{name}' left out" for name in expected if name not in there]
        changed += [f"'{name}' doubled" for name, count in there.items() if count > 1]
        if not changed and ids != expected:
            changed += [f"'{now}' moved" for now, then in zip(ids, expected, strict=True) if now != then]
        left = sum(one.record is None for one in self.said.samples)
        more = f", {left} not evaluated" if left else ""
        return _part("records", changed, State.MATCHES, f"{counted(len(ids), 'sample')}{more}")

    def _commit(self) -> Part:
        said, mine = self.said.run.system.commit, self.own.commit
        if mine is None or said is None:
            return _missing("commit", "name it with --commit" if said else "the run does not know its commit")
        start = self.said.run.invocation
        dirty = f", with {start.changed} changed files" if start is not None and start.changed else ""
        return _part("commit", [] if said == mine else [f"{said} is attested"], State.MATCHES, f"{said[:12]}{dirty}")

    def _deployment(self, wanted: Deployment) -> Part:
        """Whether this verdict lets its commit be deployed."""
        said, wrong = self.said, list[str]()
        if said.verdict is not Status.PASS:
            wrong.append(f"the verdict is {said.verdict.value}")
        elif said.run.verdict != said.verdict.value:
            wrong.append(f"the verdict of its run is {said.run.verdict}")
        if said.terms.limited:
            wrong.append("only a part of the golden set was evaluated")
        if (part := said.run.system.part) is not None:
            wrong.append(f"only the {part} was evaluated")
        start = said.run.invocation
        if start is not None and start.changed:
            wrong.append(f"{counted(start.changed, 'file')} differed from the commit")
        try:
            age = wanted.now - datetime.fromisoformat(said.run.created_at).astimezone(UTC)
        except (ValueError, OverflowError):
            return _part("deployment", [*wrong, "its time can't be read"], State.MATCHES)
        if age > timedelta(days=wanted.days):
            wrong.append(f"it is {counted(age.days, 'day')} old, more than {wanted.days}")
        if age < -_AHEAD:
            wrong.append("it is from the future")
        return _part("deployment", wrong, State.MATCHES, f"passed, {counted(max(0, age.days), 'day')} ago")

    def _policy(self) -> Part:
        """The policy that is attested: against its digest, the terms in the run, and the verifier's own."""
        terms, wrong = self.said.terms, []
        if not terms.limited and policy_hash(terms.policy_again()) != self.said.digests.policy:
            wrong.append("digest")
        if self.said.digests.policy != self.said.run.policy_hash:
            wrong.append("policy_hash of the run")
        if self.run is not None:
            try:
                recorded = read_verdict(self.run)
            except RagstoneError as error:
                wrong.append(f"verdict.json: {error.message}")
            else:
                if recorded is None:
                    wrong.append("verdict.json is of another run")
                else:
                    there = _tree(without_places(recorded.terms), RecordedTerms)
                    wrong += [f"verdict.json {one}" for one in _differences(_tree(terms, RecordedTerms), there)]
        policy = self.own.policy
        if policy is None:
            return _part("policy", wrong, State.NOT_AVAILABLE, "name it with --policy")
        if terms.fail_on in ("fail", "inconclusive"):
            policy = policy.with_inconclusive("fail" if terms.fail_on == "inconclusive" else "warn")
        if policy_hash(policy) != self.said.digests.policy:
            table = _differences(_tree(terms.policy, PolicyTable), _tree(policy.table, PolicyTable))
            wrong += [f"--policy {one}" for one in table] or ["--policy digest"]
        theirs, mine = ([_tree(one, type(one)) for one in entries] for entries in (terms.accepted, policy.accepted))
        wrong += [f"accepted.toml {one}" for one in _differences(theirs, mine)]
        if terms.calibration != policy.calibration:
            wrong.append("calibration")
        return _part("policy", wrong, State.MATCHES, terms.policy_file or "default rules")

    def _golden(self) -> Part:
        said, wrong = {one.id: one.golden for one in self.said.samples}, list[str]()
        if self.said.digests.golden != self.said.run.golden.content_hash:
            wrong.append("content hash of the run")
        if self.own.golden is None:
            return _part("golden", wrong, State.NOT_AVAILABLE, "name it with --golden")
        mine = {sample.id: sample_digest(sample) for sample in self.own.golden}
        size = f"{len(said)} of {counted(len(mine), 'sample')}"
        if self.said.terms.limited:
            mine = {name: digest for name, digest in mine.items() if name in said}
        names = dict.fromkeys((*said, *mine))
        wrong += [
            f"'{name}' {_change(said.get(name), mine.get(name))}" for name in names if said.get(name) != mine.get(name)
        ]
        if not wrong and not self.said.terms.limited and self.own.golden.content_hash() != self.said.digests.golden:
            wrong.append("content hash")
        return _part("golden", wrong, State.MATCHES, size)

    def _scores(self) -> Part:
        wrong = list(self.contradicted)
        if self.scores is None or self.run is None:
            return _part("scores", wrong, State.RECOMPUTED)
        wrong += list(_differences(self.said.scores, score_digests(self.scores)))
        unknown = unverified(self.run, self.own.metrics)
        if unknown and not wrong:
            name, why = next(iter(unknown.items()))
            return _missing("scores", f"{name}: {why}")
        return _part("scores", wrong, State.RECOMPUTED, counted(len(self.said.scores), "metric"))

    def _baseline(self, run: RunDirectory) -> tuple[RunDirectory | None, list[Part]]:
        said, found = self.said.baseline, list[str]()
        if said is None:
            return None, []
        given = self.own.baseline
        places = [run.path / BASE_COMMIT, run.path / CARRIED, *([given, given / CARRIED] if given is not None else [])]
        for place in places:
            if (place / MANIFEST).is_file():
                try:
                    one = RunDirectory.open(place)
                    wrong = list(_differences(said.model_dump(), baseline_digests(one).model_dump()))
                except RagstoneError as error:
                    wrong = [error.message]
                if not wrong:
                    return one, [Part("baseline", State.MATCHES, said.fingerprint)]
                found = found or wrong
        return None, [_part("baseline", found, State.NOT_AVAILABLE, "name it with --baseline")]

    def _history(self) -> tuple[RunHistory | None, list[Part]]:
        said, own, terms = self.said.digests.history, self.own, self.said.terms
        if said is None or terms.past is None or self.run is None:
            return None, []
        first = terms.past.again(History())
        if history_digest(first) == said:
            return first, [Part("history", State.MATCHES, "no earlier run")]
        places = [self.folder / HISTORY, own.history, None if own.baseline is None else own.baseline / HISTORY]
        there = False
        for place in places:
            if place is None or not place.is_file():
                continue
            there = True
            try:
                whole = read_history(place)
                mine = [one for one in whole.runs if one.run == self.run.fingerprint]
                before = [one for one in whole.runs if one not in mine]
            except RagstoneError:
                continue
            earlier = [one for one in before if not mine or one.time < mine[0].time]
            for runs in (whole.runs, tuple(before), tuple(earlier)):
                past = terms.past.again(replace(whole, runs=runs))
                if history_digest(past) == said:
                    return past, [Part("history", State.MATCHES, counted(len(runs), "earlier run"))]
        wrong = ["not as it was before the run"] if there and own.history is not None else []
        return None, [_part("history", wrong, State.NOT_AVAILABLE, "name it, as it was then, with --history")]

    def _decision(self, run: RunDirectory, baseline: RunDirectory | None, past: RunHistory | None) -> Iterator[Part]:
        """The checks from the scores, and the verdict from the checks."""
        said, terms = self.said, self.said.terms
        lacking = ""
        if self.scores is None:
            lacking = "the scores can't be read"
        elif said.baseline is not None and baseline is None:
            lacking = "needs the baseline"
        elif said.digests.history is not None and past is None:
            lacking = "needs the history"
        elif terms.rejudged:
            lacking = "the baseline was judged again in the job"
        if lacking:
            yield from (_missing("checks", lacking), _missing("verdict", lacking))
            return
        before = run.manifest.model_copy(update={"verdict": None, "baseline": None, "retrieval": None})
        try:
            current = ComparedRun.of(run.with_manifest(before))
            again = decide(
                current,
                Terms.of(
                    terms.policy_again(),
                    ComparedRun.baseline(baseline),
                    current.day,
                    required=terms.required,
                    seed=terms.seed,
                    level=terms.level,
                ),
                past=past,
                unproven=terms.unproven,
            )
        except (RagstoneError, *_UNFIT) as error:
            why = f"can't be decided: {' '.join(str(error).split())}"
            yield from (Part("checks", State.DIFFERS, why), Part("verdict", State.DIFFERS, why))
            return
        mine, theirs = ({one.name: _tree(one, Check) for one in checks} for checks in (again.checks, said.checks))
        yield _part("checks", list(_differences(theirs, mine)), State.RECOMPUTED, counted(len(mine), "check"))
        wrong = (
            [f"{said.verdict.value} is attested, {again.status.value} follows"] if said.verdict != again.status else []
        )
        if not said.reason.startswith(again.reason):
            wrong.append("reason")
        if said.run.verdict != said.verdict.value:
            wrong.append("verdict of the run")
        yield _part("verdict", wrong, State.RECOMPUTED, said.verdict.value)

    def _bar(self) -> Iterator[Part]:
        """What the job said before any code of the change ran."""
        if (bar := self.said.bar) is not None:
            known, digests = bar.model_dump(exclude_none=True), self.said.digests.model_dump()
            wrong = list(_differences(known, {name: digests[name] for name in known}))
            yield _part("bar", wrong, State.MATCHES, "compare it with the line 'Bar:' in the job's log")


def _change(then: str | None, now: str | None) -> str:
    return "same" if then == now else "added" if then is None else "missing" if now is None else "changed"


def _id_of(line: bytes) -> str | None:
    """The id in a line of samples.jsonl, whatever else is wrong with it."""
    try:
        return str(from_json(line)["sample"]["id"])[:100]
    except (ValueError, LookupError, TypeError):
        return None


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def _tree(value: Any, kind: Any) -> Any:
    return _adapter(kind).dump_python(value, mode="json")


def _differences(then: Any, now: Any, place: str = "") -> Iterator[str]:
    """The places at which two trees of JSON differ; numbers may, in the last digits, on another machine."""
    if isinstance(then, Mapping) and isinstance(now, Mapping):
        for key in dict.fromkeys((*then, *now)):
            yield from _differences(then.get(key), now.get(key), f"{place}.{key}" if place else str(key))
    elif isinstance(then, list | tuple) and isinstance(now, list | tuple) and len(then) == len(now):
        for index, pair in enumerate(zip(then, now, strict=True)):
            yield from _differences(*pair, f"{place}[{index}]")
    elif isinstance(then, float) and isinstance(now, float) and math.isclose(then, now, rel_tol=1e-9, abs_tol=1e-12):
        return
    elif then != now:
        yield place or "all of it"
