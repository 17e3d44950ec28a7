"""The attestation of a verdict, and what policy engines and public logs read of it: what `ragstone verify` checks.

in-toto Statement v1 (https://github.com/in-toto/attestation), as canonical JSON. Nothing in it comes from the clock or
the machine: the same run gives the same bytes.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, replace
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from ragstone.app.history import RunHistory
from ragstone.app.recorded import RecordedTerms
from ragstone.errors import RunDirectoryError, disk_errors
from ragstone.files import open_regular
from ragstone.gate.policy import policy_hash
from ragstone.gate.verdict import Action, Check, GateVerdict, Status
from ragstone.golden.sample import Sample
from ragstone.judge.protocol import JudgeIdentity
from ragstone.report.escape import encodable
from ragstone.run.directory import ATTESTATION, DIGESTS, LOCK, MANIFEST, SAMPLES, TEST_RESULT, RunDirectory
from ragstone.run.files import replace_texts
from ragstone.run.manifest import Counts, Manifest
from ragstone.run.redact import Redactor
from ragstone.run.scores import MetricScores, RunScores

STATEMENT = "https://in-toto.io/Statement/v1"
PREDICATE = "https://ragstone.github.io/ragstone/attestation/verdict/v1"
DIGESTS_PREDICATE = "https://ragstone.github.io/ragstone/attestation/verdict-digests/v1"
TEST_RESULT_PREDICATE = "https://in-toto.io/attestation/test-result/v0.1"
MAX_FILES = 1_000
MAX_FILE_BYTES = 8 * 1024 * 1024 * 1024
_DERIVED = frozenset({ATTESTATION, TEST_RESULT, DIGESTS})


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Digests(_Part):
    """SHA-256 (hex) of what a verdict rests on: the rules of the policy, the questions, the judge's identity with its
    prompts, the history before this run. None: there is none, or it was not known yet.
    """

    policy: str
    golden: str
    judge: str | None = None
    history: str | None = None

    def line(self) -> str:
        """For the log of a job."""
        return "Bar: " + ", ".join(f"{name} {value or 'not known'}" for name, value in self)


class AttestedSample(_Part):
    """A sample of the golden set, and the SHA-256 (hex) of all that it says, but for where it was written.

    `record` is the SHA-256 (hex) of its line in samples.jsonl; null if it was not evaluated.
    """

    id: str
    golden: str
    record: str | None = None


class AttestedBaseline(_Part):
    """The run that was compared with: its fingerprint, and SHA-256 (hex) of its manifest and of its samples.jsonl."""

    fingerprint: str
    manifest: str
    records: str


class Attested(_Part):
    """The predicate: a verdict with all that it was decided on.

    `run` is the manifest, with judge, metrics, cost, times, and the accepted drops in force. `terms` have the content
    of the policy and of accepted.toml. `bar` are the digests that the job logged before any code of the change ran.
    `image` is the digest of Ragstone's own image, `trusted` what was trusted and from where. `scores` has a digest per
    metric, `files` one per other file of the run.
    """

    verdict: Status
    reason: str
    checks: tuple[Check, ...]
    digests: Digests
    run: Manifest
    terms: RecordedTerms
    samples: tuple[AttestedSample, ...]
    scores: dict[str, str]
    files: dict[str, str]
    baseline: AttestedBaseline | None = None
    bar: Digests | None = None
    image: str | None = None
    trusted: dict[str, str] = {}


class AttestedVersion(_Part):
    """Ragstone's own version, and the digest of its image."""

    version: str
    image: str | None = None


class PublishedVerdict(_Part):
    """The predicate for logs that everybody can read: digests, counts and the verdict, and no text of anything else.

    `attestation` is the digest of the whole attestation, `tests` has the numbers of passed, warned and failed checks.
    """

    attestation: dict[Literal["sha256"], str]
    verdict: Status
    tests: dict[Literal["passed", "warned", "failed"], int]
    samples: Counts
    digests: Digests
    bar: Digests | None = None
    ragstone: AttestedVersion


class Subject(_Part):
    name: str
    digest: dict[str, str]


class Attestation(_Part):
    """An in-toto Statement v1 on the verdict of a run. Its subject is the commit that was evaluated."""

    kind: Literal["https://in-toto.io/Statement/v1"] = Field(alias="_type")
    subject: tuple[Subject, ...]
    predicate_type: Literal["https://ragstone.github.io/ragstone/attestation/verdict/v1"] = Field(alias="predicateType")
    predicate: Attested


def attestation_schema() -> dict[str, Any]:
    """The JSON Schema of an attestation."""
    schema = Attestation.model_json_schema()
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": "Ragstone attestation"}


def digests_schema() -> dict[str, Any]:
    """The JSON Schema of the predicate for public logs."""
    schema = PublishedVerdict.model_json_schema()
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": "Ragstone verdict, digests"}


def write_attestation(
    run: RunDirectory,
    verdict: GateVerdict,
    terms: RecordedTerms,
    golden: Iterable[Sample],
    redact: Redactor,
    *,
    past: RunHistory | None = None,
    baseline: AttestedBaseline | None = None,
    bar: Digests | None = None,
    image: str | None = None,
    trusted: Mapping[str, str] | None = None,
) -> str:
    """Write the attestation of a finished `run`, last of all its files, and what is derived from it.

    Returns the predicate for public logs. `terms` are those of verdict.json. Raises RunDirectoryError.
    """
    manifest, scores = run.manifest, run.scores()
    found = Attested(
        verdict=verdict.status,
        reason=verdict.reason,
        checks=verdict.checks,
        digests=Digests(
            policy=manifest.policy_hash or policy_hash(terms.policy_again()),
            golden=manifest.golden.content_hash,
            judge=judge_digest(manifest.judge),
            history=history_digest(past),
        ),
        run=manifest,
        terms=without_places(terms),
        samples=(),
        scores=score_digests(scores),
        files=file_digests(run.path),
        baseline=baseline,
        bar=bar,
        image=image,
        trusted=dict(trusted or {}),
    )
    body = encodable(redact.view(found.model_dump(mode="json")))
    records = run.record_digests
    samples = (
        {"id": encodable(redact(sample.id)), "golden": sample_digest(sample), "record": records.get(sample.id)}
        for sample in golden
    )
    subject = subjects(run)
    statement = _statement(PREDICATE, subject, {**body, "samples": samples})
    digest = hashlib.sha256()

    def text() -> Iterator[str]:
        for piece in canonical(statement):
            digest.update(piece.encode())
            yield piece

    replace_texts(run.path / ATTESTATION, text())
    texts = {name: redact(text) for name, text in derive(found, subject, digest.hexdigest()).items()}
    for name, derived in texts.items():
        replace_texts(run.path / name, (derived,))
    return texts[DIGESTS]


def _statement(kind: str, subject: Any, predicate: Any) -> dict[str, Any]:
    return {"_type": STATEMENT, "subject": subject, "predicateType": kind, "predicate": predicate}


def subjects(run: RunDirectory) -> list[dict[str, Any]]:
    """What the verdict is on: the commit and the image that were evaluated; if neither is known, the records."""
    commit, image = run.manifest.system.commit, run.manifest.system.image
    found = [{"name": "commit", "digest": {"gitCommit": commit}}] if commit else []
    found += [{"name": "image", "digest": {"sha256": image.removeprefix("sha256:")}}] if image else []
    return found or [{"name": SAMPLES, "digest": {"sha256": run.records_digest}}]


def derive(found: Attested, subject: Any, digest: str) -> dict[str, str]:
    """The files that follow from an attestation, by name; `digest` is that of its text.

    One is in-toto's Test Results, the other for logs that everybody can read: digests, counts and the verdict.
    """
    blocks = found.terms.policy.gate.inconclusive == "fail"
    fails = {Status.FAIL, Status.ERROR, *([Status.INCONCLUSIVE] if blocks else [])}
    tests: dict[str, list[str]] = {"passed": [], "warned": [], "failed": []}
    for check in found.checks:
        bad = "failed" if check.action is Action.BLOCK and check.status in fails else "warned"
        tests["passed" if check.status is Status.PASS else bad].append(check.name)
    result = "FAILED" if found.verdict in fails else "WARNED" if found.verdict is not Status.PASS else "PASSED"
    digests = found.digests.model_dump(exclude_none=True)
    tested = {
        "result": result,
        "configuration": [{"name": name, "digest": {"sha256": value}} for name, value in digests.items()],
        **{f"{name}Tests": names for name, names in tests.items()},
    }
    published = PublishedVerdict(
        attestation={"sha256": digest},
        verdict=found.verdict,
        tests={"passed": len(tests["passed"]), "warned": len(tests["warned"]), "failed": len(tests["failed"])},
        samples=found.run.counts,
        digests=found.digests,
        bar=found.bar,
        ragstone=AttestedVersion(version=found.run.ragstone_version, image=found.image),
    )
    statement = encodable(_statement(TEST_RESULT_PREDICATE, subject, tested))
    public = published.model_dump(mode="json", exclude_none=True)
    return {TEST_RESULT: "".join(canonical(statement)), DIGESTS: "".join(canonical(public))}


# -- digests -----------------------------------------------------------------------------------------------------------


def judge_digest(judge: JudgeIdentity) -> str:
    """Of the judge's identity, prompts included."""
    return _sha256("".join(canonical(asdict(judge))))


def history_digest(past: RunHistory | None) -> str | None:
    """Of the history before a run."""
    return None if past is None else _sha256(past.history.with_releases(past.releases).text())


def sample_digest(sample: Sample) -> str:
    body = _sample().dump_json(replace(sample, origin=None), exclude_defaults=True)
    return hashlib.sha256(body).hexdigest()


@cache
def _sample() -> TypeAdapter[Sample]:
    return TypeAdapter(Sample)


def baseline_digests(run: RunDirectory) -> AttestedBaseline:
    with disk_errors(run.path / MANIFEST, kind=RunDirectoryError):
        manifest = _file_digest(run.path / MANIFEST)
    return AttestedBaseline(fingerprint=run.fingerprint, manifest=manifest, records=run.records_digest)


def score_digests(scores: RunScores) -> dict[str, str]:
    """Of the scores of all samples, by metric: each the number, or why there is none."""

    def lines(metric: MetricScores) -> Iterator[str]:
        for name in scores.samples:
            value = metric.values.get(name)
            state = "failed" if name in metric.failed else "not applicable"
            yield f"{name}\0{state if value is None else _number(value)}\n"

    return {name: _sha256("".join(lines(metric))) for name, metric in scores.metrics.items()}


def file_digests(folder: Path) -> dict[str, str]:
    """Of the content of all files in the run `folder` but its records, and what is derived from them here; empty for
    what is no file. Raises RunDirectoryError."""
    found: dict[str, str] = {}
    for place, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not (Path(place) / name).is_symlink()]
        for name in names:
            file = Path(place) / name
            shown = file.relative_to(folder).as_posix()
            if shown in _DERIVED or shown == SAMPLES or name == LOCK:
                continue
            with disk_errors(file, kind=RunDirectoryError):
                found[shown] = _file_digest(file)
            if len(found) > MAX_FILES:
                raise RunDirectoryError(f"more than {MAX_FILES:,} files in a run.", where=str(folder))
    return found


def _file_digest(file: Path) -> str:
    if file.is_symlink() or not file.is_file():
        return ""
    with open_regular(file, limit=MAX_FILE_BYTES) as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()  # type: ignore[arg-type]  # BinaryIO lacks readinto


def without_places(terms: RecordedTerms) -> RecordedTerms:
    """`terms` without paths of the machine."""
    policy_file = None if terms.policy_file is None else Path(terms.policy_file).name
    return replace(terms, baseline=None, history=None, policy_file=policy_file)


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


# -- canonical JSON ----------------------------------------------------------------------------------------------------


def canonical(value: Any) -> Iterator[str]:
    """Pieces of the canonical JSON of `value` (RFC 8785). Any iterable is a list, so a long one can be a stream."""
    if isinstance(value, str) or value is None or isinstance(value, bool):
        yield json.dumps(value, ensure_ascii=False)
    elif isinstance(value, int):
        yield str(value)
    elif isinstance(value, float):
        yield _number(value)
    elif isinstance(value, Mapping):
        comma = "{"
        for key in sorted(value, key=lambda one: one.encode("utf-16-be", "surrogatepass")):
            yield f"{comma}{json.dumps(key, ensure_ascii=False)}:"
            yield from canonical(value[key])
            comma = ","
        yield "}" if value else "{}"
    else:
        comma = "["
        for item in value:
            yield comma
            yield from canonical(item)
            comma = ","
        yield "[]" if comma == "[" else "]"


def _number(value: float) -> str:
    """The shortest digits that give `value` again, as ECMAScript writes them (RFC 8785, section 3.2.2.3)."""
    if not math.isfinite(value):
        return "null"
    if value == 0.0:
        return "0"
    sign, found, exponent = Decimal(repr(value)).normalize().as_tuple()
    digits, minus = "".join(map(str, found)), "-" if sign else ""
    point = len(digits) + int(exponent)
    if 0 < point <= 21:
        whole = digits[:point].ljust(point, "0")
        return minus + whole + (f".{digits[point:]}" if digits[point:] else "")
    if -6 < point <= 0:
        return f"{minus}0.{'0' * -point}{digits}"
    rest = f".{digits[1:]}" if digits[1:] else ""
    return f"{minus}{digits[0]}{rest}e{point - 1:+d}"
