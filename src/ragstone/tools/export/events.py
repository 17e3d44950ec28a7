"""A score as an event `gen_ai.evaluation.result` of OpenTelemetry.

Source of the names: OpenTelemetry's semantic conventions for generative AI, events, as of November 2026 (status:
development). Names of our own start with `ragstone.`: the conventions have none for who judged, or for a sample.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ragstone.metrics.score import Failed, NotApplicable, Score, Scored
from ragstone.tools.export.facts import FinishedRun
from ragstone.tools.export.rows import SampleRow

EVENT = "gen_ai.evaluation.result"


@dataclass(frozen=True, slots=True)
class Event:
    """A log record of OpenTelemetry. `trace` and `span` are 0 if the answer names none."""

    attributes: Mapping[str, Any]
    trace: int
    span: int
    failed: bool


def event(found: FinishedRun, shared: Mapping[str, Any], row: SampleRow, metric: str, score: Score) -> Event:
    """The event of one score; `shared` are the attributes that every event of the run has."""
    attributes: dict[str, Any] = {"gen_ai.evaluation.name": metric}
    match score:
        case Scored(value, note):
            attributes["gen_ai.evaluation.score.value"] = value
            explanation = note
        case NotApplicable(reason):
            attributes["gen_ai.evaluation.score.label"] = "not_applicable"
            explanation = reason
        case Failed(by, reason):
            attributes["gen_ai.evaluation.score.label"] = "failed"
            attributes["error.type"] = row.failure if by == "system" and row.failure is not None else by
            explanation = reason
    if explanation:
        attributes["gen_ai.evaluation.explanation"] = explanation
    if row.response_id is not None:
        attributes["gen_ai.response.id"] = row.response_id
    attributes |= shared
    attributes["ragstone.metric.version"] = found.manifest.metrics[metric]
    attributes["ragstone.sample.id"] = row.id
    if row.tags:
        attributes["ragstone.sample.tags"] = row.tags
    if row.draft:
        attributes["ragstone.sample.draft"] = True
    if row.texts is not None:
        attributes["ragstone.sample.question"] = row.texts["question"]
        attributes["ragstone.response.answer"] = row.texts["answer"]
    attributes["log.record.uid"] = _uid(found.fingerprint, row.id, metric)
    return Event(attributes, row.trace, row.span, isinstance(score, Failed))


def facts_of_run(found: FinishedRun) -> Iterator[tuple[str, Any]]:
    """The attributes of every event of a run: which run it is, and who judged."""
    given = found.parameters
    yield "ragstone.run.fingerprint", found.fingerprint
    if found.verdict is not None:
        yield "ragstone.run.verdict", found.verdict
    judge = (f"judge.{name}" for name in ("provider", "model", "version", "endpoint", "embeddings"))
    for name in (*judge, "golden.hash", "policy.hash", "system.version", "system.commit"):
        if name in given:
            yield "vcs.ref.head.revision" if name == "system.commit" else f"ragstone.{name}", given[name]


def _uid(fingerprint: str, sample: str, metric: str) -> str:
    """An id that is stable, however often the score is exported."""
    body = f"{fingerprint}\0{sample}\0{metric}"
    return hashlib.sha256(body.encode("utf-8", "surrogatepass")).hexdigest()[:32]
