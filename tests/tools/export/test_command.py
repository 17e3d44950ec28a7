"""`ragstone export` as a user types it, on a run that a gate made."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from ragstone.config.settings import Settings
from ragstone.run.redact import Redactor
from ragstone.tools.export.facts import read_finished
from tests.commands.project import SYSTEM, make_project, ragstone
from tests.tools.export.collector import collecting, plain


@pytest.fixture(scope="module")
def gated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project whose gate has run."""
    project = make_project(tmp_path_factory.mktemp("exported") / "repo", n=40)
    done = ragstone(["gate"], project)
    assert done.returncode == 0, done.stderr
    return project


def test_a_gated_run_is_sent_with_its_verdict(gated: Path) -> None:
    with collecting() as collector:
        done = ragstone(["export", "otel"], gated, env={"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url})
    assert done.returncode == 0, done.stderr
    manifest = json.loads((gated / "ragstone-run" / "manifest.json").read_text(encoding="utf-8"))
    events = len(manifest["metrics"]) * 40
    scored = sum("gen_ai.evaluation.score.value" in plain(record.attributes) for record in collector.records)
    assert 0 < scored < events
    counted = f"{scored} scores, {events - scored} not applicable"
    assert done.stdout == f"Sent {events} events of 40 samples to {collector.url}: {counted}.\n"
    assert done.stderr == ""
    assert len(collector.records) == events
    attributes = plain(collector.records[0].attributes)
    assert attributes["ragstone.run.verdict"] == "pass"
    assert attributes["ragstone.judge.provider"] == "offline"


def test_the_reason_of_the_gate_has_no_secret(gated: Path) -> None:
    def reason(*secrets: str) -> str:
        found = read_finished(gated / "ragstone-run", Settings(root=gated), Redactor(secrets))
        assert found.reason
        return found.reason

    secret = max(reason().split(), key=len)
    assert reason(secret) == reason().replace(secret, "***")


def test_a_run_that_was_copied_elsewhere_needs_neither_config_nor_policy(gated: Path, tmp_path: Path) -> None:
    shutil.copytree(gated / "ragstone-run", tmp_path / "run")
    with collecting() as collector:
        done = ragstone(["export", "otel", "run"], tmp_path, env={"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url})
    assert done.returncode == 0, done.stderr
    assert collector.records


def test_a_refusal_exits_with_7_and_shows_no_credential(gated: Path) -> None:
    with collecting() as collector:
        collector.replies = [(401, 0)]
        environ = {
            "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url,
            "OTEL_EXPORTER_OTLP_HEADERS": "authorization=Bearer%20sesame-0123",
        }
        done = ragstone(["export", "otel"], gated, env=environ)
    assert collector.headers[0]["authorization"] == "Bearer sesame-0123"
    assert done.returncode == 7
    assert done.stdout == ""
    assert done.stderr.startswith(f"error: {collector.url}: the collector did not accept the events: it answered 401")
    assert "sesame" not in done.stderr
    assert "Traceback" not in done.stderr


def test_a_credential_of_the_export_is_in_nothing_that_is_sent(gated: Path) -> None:
    with collecting() as collector:
        given = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url, "OTEL_EXPORTER_OTLP_HEADERS": "x-key=house-1"}
        assert ragstone(["export", "otel"], gated, env=given).returncode == 0
    ids = [plain(record.attributes)["ragstone.sample.id"] for record in collector.records]
    assert "***" in ids
    assert "house-1" not in ids


def test_events_are_in_the_trace_that_the_system_names_with_its_answer(tmp_path: Path) -> None:
    traced = SYSTEM.replace('" It has a door."}]}', '" It has a door."}], "trace_id": "a" * 32, "span_id": "b" * 16}')
    assert traced != SYSTEM
    project = make_project(tmp_path / "repo", n=5, system=traced)
    assert ragstone(["gate"], project).returncode == 0
    rescored = ragstone(["rescore", "ragstone-run", "--out", "again"], project)
    assert rescored.returncode == 0, rescored.stderr
    for run in ("ragstone-run", "again"):
        with collecting() as collector:
            done = ragstone(["export", "otel", run], project, env={"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url})
        assert done.returncode == 0, done.stderr
        assert {(one.trace_id.hex(), one.span_id.hex()) for one in collector.records} == {("a" * 32, "b" * 16)}
