"""Run directories to export: scores of every kind, texts that someone hostile wrote, and a verdict."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from ragstone.config.settings import Settings
from ragstone.golden.sample import GoldenSet, Sample
from ragstone.judge.protocol import JudgeIdentity
from ragstone.metrics.score import Failed, NotApplicable, Score, Scored
from ragstone.run.directory import RunDirectory
from ragstone.run.manifest import Cost, GoldenManifest, Manifest, SystemManifest
from ragstone.run.redact import Redactor
from ragstone.run.writer import RunWriter, write_manifest
from ragstone.system.response import Response, SystemFailure, SystemFailureKind, TokenUsage
from ragstone.tools.export.facts import FinishedRun, read_finished
from tests.run.builders import one_answer

SECRET = "sk-very-secret-0123456789"
JUDGE = JudgeIdentity(
    provider="openai",
    model="gpt-x",
    version="abc123",
    endpoint="https://judge.example/v1",
    parameters=(("temperature", "0"),),
    embeddings="embed-y",
)
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
SPAN = "00f067aa0ba902b7"

Asked = tuple[Sample, Response, Mapping[str, Score]]

MIXED: tuple[Asked, ...] = (
    (
        Sample("q1", "Where is it?", reference="Here.", tags=("geo", "lang:de")),
        Response(
            "q1",
            answer=f"It is here. {SECRET}",
            latency_s=0.5,
            usage=TokenUsage(10, 5),
            extra={"response_id": "resp-1", "trace_id": TRACE, "span_id": SPAN},
        ),
        {"faithfulness": Scored(0.75, "3 of 4 statements"), "context_recall": Scored(1.0)},
    ),
    (
        Sample("q2", "And when?", tags=("geo",)),
        Response("q2", answer="Never.", latency_s=1.5, extra={"traceparent": f"00-{TRACE}-{SPAN}-01"}),
        {"faithfulness": Scored(0.0), "context_recall": NotApplicable("the sample has no reference")},
    ),
    (
        Sample("q3", "Who?", reference="Nobody."),
        Response("q3", failure=SystemFailure(SystemFailureKind.TIMEOUT, f"no answer to 'Who?' in 30 s, {SECRET}")),
        {
            "faithfulness": Failed("system", f"no answer to 'Who?' in 30 s, {SECRET}"),
            "context_recall": Failed("system", f"no answer to 'Who?' in 30 s, {SECRET}"),
        },
    ),
    (
        Sample("q4", "Why?", reference="Because."),
        Response("q4", answer="Because.", latency_s=0.25, extra={"trace_id": "0" * 32, "span_id": "xyz"}),
        {"faithfulness": Failed("judge", "no verdict for s2, about 'Why?'"), "context_recall": Scored(0.5)},
    ),
)


def write_run(
    path: Path,
    asked: tuple[Asked, ...] = MIXED,
    *,
    verdict: str | None = "fail",
    cost: Cost | None = None,
    system: SystemManifest | None = None,
    answers: int = 1,
) -> RunDirectory:
    """A finished run of the metrics of its first sample, which was asked `answers` times with the same answer."""
    golden = GoldenSet(tuple(sample for sample, _, _ in asked))
    manifest = Manifest(
        ragstone_version="1.2.3",
        state="running",
        created_at="2026-11-21T10:00:00+00:00",
        golden=GoldenManifest(files=("golden.jsonl",), content_hash=golden.content_hash(), samples=len(asked)),
        judge=JUDGE,
        system=system or SystemManifest(entrypoint="python:app:answer", commit="c" * 40, version="v7"),
        metrics=dict.fromkeys(asked[0][2], "3"),
        answers=answers,
        policy_hash="p" * 64,
    )
    writer = RunWriter.create(path, manifest)
    for sample, response, scores in asked:
        record = one_answer(sample, response, (), scores)
        writer.append(replace(record, answers=record.answers * answers))
    run = writer.finish([sample.id for sample, _, _ in asked], wall_s=12.5)
    changed = {"verdict": verdict, "cost": cost or run.manifest.cost}
    write_manifest(run.path, run.manifest.model_copy(update=changed))
    return RunDirectory.open(run.path)


def finished(path: Path, *, texts: bool = False, secrets: tuple[str, ...] = (SECRET,)) -> FinishedRun:
    return read_finished(path, Settings(root=path.parent), Redactor(secrets), texts=texts)
