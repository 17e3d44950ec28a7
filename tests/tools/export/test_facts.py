"""What is said of a finished run, whatever the tool."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

from ragstone.config.settings import Settings
from ragstone.errors import RunDirectoryError
from ragstone.golden.sample import Review, Sample
from ragstone.metrics.score import Failed, NotApplicable, Scored
from ragstone.project.known_secrets import export_secrets
from ragstone.run.manifest import Cost, OracleFact, SystemManifest
from ragstone.run.redact import Redactor
from ragstone.run.writer import write_manifest
from ragstone.stats.intervals import mean_interval
from ragstone.system.response import Response, SystemFailure, SystemFailureKind
from ragstone.tools.export.facts import LeftOut, read_finished
from ragstone.tools.export.rows import sample_rows, table
from ragstone.tools.export.tracker import digest
from ragstone.tools.export.tracker import write_manifest as send_manifest
from tests.tools.export.runs import MIXED, SECRET, Asked, finished, write_run


def test_means_have_their_interval_and_only_what_was_scored_counts(tmp_path: Path) -> None:
    write_run(tmp_path / "run")
    figures = finished(tmp_path / "run").figures
    interval = mean_interval(np.array([0.75, 0.0]))
    assert figures["faithfulness/mean"] == pytest.approx(0.375)
    assert figures["faithfulness/low"] == pytest.approx(interval.low, abs=1e-4)
    assert figures["faithfulness/high"] == pytest.approx(interval.high, abs=1e-4)
    assert figures["faithfulness/n"] == 2
    assert (figures["faithfulness/failed"], figures["faithfulness/not_applicable"]) == (2, 0)
    assert figures["faithfulness/coverage"] == 0.5
    assert figures["context_recall/mean"] == pytest.approx(0.75)
    assert (figures["context_recall/failed"], figures["context_recall/not_applicable"]) == (1, 1)
    assert figures["coverage"] == 0.5
    assert (figures["latency/p50_s"], figures["samples/total"], figures["samples/system_failed"]) == (0.5, 4, 1)


def test_what_has_no_score_is_counted_with_its_reason(tmp_path: Path) -> None:
    write_run(tmp_path / "run")
    assert finished(tmp_path / "run").left_out == (
        LeftOut("faithfulness", "failed", "system", "", 1),
        LeftOut("faithfulness", "failed", "judge", "", 1),
        LeftOut("context_recall", "not_applicable", None, "the sample has no reference", 1),
        LeftOut("context_recall", "failed", "system", "", 1),
    )
    with_texts = finished(tmp_path / "run", texts=True).left_out
    assert with_texts[0] == LeftOut("faithfulness", "failed", "system", "no answer to 'Who?' in 30 s, ***", 1)


def test_why_a_metric_of_the_users_does_not_apply_is_a_text(tmp_path: Path) -> None:
    said = "'Hi, Bob' is no answer"
    asked: Asked = (Sample("q", "?"), Response("q", answer="a"), {"politeness": NotApplicable(said)})
    ours = write_run(tmp_path / "run", (asked,))
    found, with_texts = finished(ours.path), finished(ours.path, texts=True)
    assert found.left_out == (LeftOut("politeness", "not_applicable", None, "", 1),)
    assert [row.scores["politeness"] for row in sample_rows(found)] == [NotApplicable("")]
    assert [row[-1] for row in table(found)] == ["not applicable"]
    assert with_texts.left_out == (LeftOut("politeness", "not_applicable", None, said, 1),)
    assert [row.scores["politeness"] for row in sample_rows(with_texts)] == [NotApplicable(said)]


@pytest.mark.parametrize("texts", [False, True])
def test_the_manifest_that_is_sent_has_no_secret(tmp_path: Path, texts: bool) -> None:
    ours = write_run(
        tmp_path / "run", system=SystemManifest(entrypoint=f"command:./rag --key {SECRET}", version=SECRET)
    )
    sent = send_manifest(finished(ours.path, texts=texts), tmp_path).read_text()
    assert json.loads(sent)["system"]["entrypoint"] == "command:./rag --key ***"
    assert SECRET not in sent


def test_the_message_of_an_error_in_the_manifest_is_a_text(tmp_path: Path) -> None:
    ours = write_run(tmp_path / "run")
    oracle = OracleFact(asked=1, without=0, unanswered=0, incomplete="no answer to 'Who?'")
    write_manifest(ours.path, ours.manifest.model_copy(update={"oracle": oracle}))
    for texts, told in ((False, "not sent"), (True, "no answer to 'Who?'")):
        body = json.loads(send_manifest(finished(ours.path, texts=texts), tmp_path).read_text())
        assert body["oracle"]["incomplete"] == told


def test_a_metric_without_any_score_has_no_mean_and_the_run_no_coverage_to_speak_of(tmp_path: Path) -> None:
    failure = SystemFailure(SystemFailureKind.CRASHED, "gone")
    asked: Asked = (Sample("q", "?"), Response("q", failure=failure), {"faithfulness": Failed("system", "gone")})
    write_run(tmp_path / "run", (asked,), cost=Cost(calls=3, usd=None))
    figures = finished(tmp_path / "run").figures
    missing = {"mean", "low", "high", "n"}
    assert not {f"faithfulness/{name}" for name in missing} & figures.keys()
    assert not {"latency/p50_s", "latency/p95_s", "judge/cost_usd"} & figures.keys()
    assert figures["judge/calls"] == 3
    assert figures["coverage"] == figures["faithfulness/coverage"] == 0.0
    assert all(math.isfinite(value) for value in figures.values())


def test_drafts_are_in_no_mean(tmp_path: Path) -> None:
    draft = Sample("d", "?", review=Review("draft"))
    asked: tuple[Asked, ...] = (
        (Sample("q", "?"), Response("q", answer="a"), {"faithfulness": Scored(1.0)}),
        (draft, Response("d", answer="a"), {"faithfulness": Scored(0.0)}),
    )
    write_run(tmp_path / "run", asked)
    found = finished(tmp_path / "run")
    assert (found.figures["faithfulness/mean"], found.figures["samples/drafts"]) == (1.0, 1)
    assert [(row.id, row.draft) for row in sample_rows(found)] == [("q", False), ("d", True)]


def test_parameters_say_who_judged_what_with_which_policy(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", cost=Cost(calls=9, usd=0.25))
    found = finished(tmp_path / "run")
    assert found.parameters == {
        "judge": "openai gpt-x",
        "judge.provider": "openai",
        "judge.model": "gpt-x",
        "judge.version": "abc123",
        "judge.endpoint": "https://judge.example/v1",
        "judge.embeddings": "embed-y",
        "judge.parameters.temperature": "0",
        "golden.files": "golden.jsonl",
        "golden.hash": run.manifest.golden.content_hash,
        "system.entrypoint": "python:app:answer",
        "system.commit": "c" * 40,
        "system.version": "v7",
        "policy.hash": "p" * 64,
        "metrics": "faithfulness 3, context_recall 3",
        "repeats": "1",
        "answers": "1",
        "ragstone.version": "1.2.3",
    }
    assert found.figures["judge/cost_usd"] == 0.25
    assert (found.name, found.verdict) == ("2026-11-21T10:00 ccccccc", "fail")


def test_slices_are_those_of_the_policy(tmp_path: Path) -> None:
    (tmp_path / "thresholds.toml").write_text(
        '[metrics.faithfulness]\nmin = 0.5\n[slices."geo".metrics.faithfulness]\nmin = 0.5\n', encoding="utf-8"
    )
    write_run(tmp_path / "run")
    figures = finished(tmp_path / "run").figures
    assert figures["slices/geo/faithfulness/mean"] == pytest.approx(0.375)
    assert not any("lang:de" in name for name in figures)


def test_no_text_has_a_secret(tmp_path: Path) -> None:
    asked: Asked = (
        Sample(f"id-{SECRET}", "?", tags=(SECRET,)),
        Response(f"id-{SECRET}", answer="a", extra={"response_id": SECRET}),
        {"faithfulness": Scored(1.0)},
    )
    system = SystemManifest(entrypoint=f"http://host/{SECRET}", commit=SECRET, version=SECRET)
    slices = f'[slices."{SECRET}".metrics.faithfulness]\nmin = 0.5\n'
    (tmp_path / "thresholds.toml").write_text(slices, encoding="utf-8")
    write_run(tmp_path / "run", (asked,), system=system)
    found = finished(tmp_path / "run", texts=True)
    assert found.figures["slices/***/faithfulness/mean"] == 1.0
    (row,) = sample_rows(found)
    assert (row.id, row.tags, row.response_id) == ("id-***", ("***",), "***")
    assert SECRET[:12] not in f"{found.parameters}{found.figures}{row}"


def test_headers_and_passwords_in_addresses_are_secrets() -> None:
    environ = {
        "OTEL_EXPORTER_OTLP_HEADERS": "authorization=Bearer%20abc-def-ghi,x=12345",
        "MLFLOW_TRACKING_URI": "https://user:p%40ssword@mlflow.example",
        "WANDB_BASE_URL": "https://[not-an-address",
    }
    assert set(export_secrets(environ)) == {"Bearer abc-def-ghi", "abc-def-ghi", "p%40ssword", "p@ssword"}
    environ = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": "https://only-a-token@otlp.example/v1?team=shop-search&api_key=also%2Dsecret",
        "DATABRICKS_TOKEN": "dapi-0123",
        "DATABRICKS_HOST": "https://dbc.example",
    }
    assert set(export_secrets(environ)) == {"only-a-token", "also%2Dsecret", "also-secret", "dapi-0123"}
    assert export_secrets({}) == ()


def test_an_export_with_texts_or_another_verdict_is_another_export(tmp_path: Path) -> None:
    ours = write_run(tmp_path / "run", verdict="fail")
    first = digest(finished(ours.path))
    assert digest(finished(ours.path)) == first
    with_texts = digest(finished(ours.path, texts=True))
    write_manifest(ours.path, ours.manifest.model_copy(update={"verdict": "pass"}))
    assert len({first, with_texts, digest(finished(ours.path))}) == 3


def test_a_run_that_is_not_finished_is_refused(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run")
    write_manifest(run.path, run.manifest.model_copy(update={"state": "stopped"}))
    with pytest.raises(RunDirectoryError, match="stopped, not finished"):
        finished(run.path)
    with pytest.raises(RunDirectoryError, match="there is no such directory"):
        finished(tmp_path / "nothing")


def test_times_and_numbers_that_no_tool_can_store_are_left_out(tmp_path: Path) -> None:
    ours = write_run(tmp_path / "run", cost=Cost(calls=3, input_tokens=10**400))
    found = finished(ours.path)
    assert found.figures["judge/calls"] == 3
    assert "judge/input_tokens" not in found.figures
    assert found.ended_s == pytest.approx(1_795_255_212.5)
    for changed, begun in (({"wall_s": 1e308}, True), ({"created_at": "2600-01-01T00:00:00+00:00"}, False)):
        write_manifest(ours.path, ours.manifest.model_copy(update=changed))
        assert (finished(ours.path).started is not None, finished(ours.path).ended_s) == (begun, None)


@pytest.mark.parametrize(
    "changed",
    [
        {"created_at": "yesterday"},
        {"created_at": "0001-01-01T00:00:00+23:00"},
        {"metrics": {"faithfulness": "3", "context_recall": "3", "m" * 501: "1"}},
    ],
)
def test_a_manifest_that_ragstone_would_not_write_is_an_error(tmp_path: Path, changed: dict[str, object]) -> None:
    ours = write_run(tmp_path / "run")
    write_manifest(ours.path, ours.manifest.model_copy(update=changed))
    with pytest.raises(RunDirectoryError, match="is not valid") as caught:
        finished(ours.path)
    assert len(str(caught.value)) < 500


def test_a_run_without_a_verdict_has_figures_and_no_verdict(tmp_path: Path) -> None:
    write_run(tmp_path / "run", verdict=None)
    found = finished(tmp_path / "run")
    assert (found.verdict, found.reason) == (None, None)
    assert found.figures["faithfulness/mean"] == pytest.approx(0.375)


def test_the_run_of_the_config_is_meant_if_none_is_named(tmp_path: Path) -> None:
    run = write_run(tmp_path / "ragstone-run")
    assert read_finished(None, Settings(root=tmp_path), Redactor(())).run.fingerprint == run.fingerprint


def test_the_records_of_a_run_are_read_one_by_one(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run")
    rows = sample_rows(finished(tmp_path / "run"))
    assert next(rows).id == "q1"
    lines = (run.path / "samples.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["sample"]["id"] for line in lines] == [sample.id for sample, _, _ in MIXED]
    assert [row.id for row in rows] == ["q2", "q3", "q4"]
