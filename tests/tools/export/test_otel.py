"""Events of OpenTelemetry, sent by its SDK and read back from the wire with its published messages."""

from __future__ import annotations

import sys
import tracemalloc
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from ragstone._version import __version__
from ragstone.errors import ConfigError, ExportError
from ragstone.golden.sample import Review, Sample
from ragstone.metrics.score import Failed, NotApplicable, Scored
from ragstone.run.directory import RunDirectory
from ragstone.system.response import Response
from ragstone.tools.export.otel import BATCH_EVENTS, export_otel
from tests.tools.export.collector import Collector, collecting, plain
from tests.tools.export.runs import SECRET, SPAN, TRACE, Asked, finished, write_run


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    with collecting() as server:
        for name in ("OTEL_EXPORTER_OTLP_LOGS_ENDPOINT", "OTEL_EXPORTER_OTLP_PROTOCOL", "OTEL_SERVICE_NAME"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", server.url)
        yield server


def environ_of(collector: Collector) -> dict[str, str]:
    return {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url}


def sent(collector: Collector) -> dict[tuple[str, str], dict[str, Any]]:
    """The attributes of each event, by sample and metric."""
    found = {}
    for record in collector.records:
        attributes = plain(record.attributes)
        found[attributes["ragstone.sample.id"], attributes["gen_ai.evaluation.name"]] = attributes
    return found


def many(count: int, text: str = "It is so.") -> tuple[Asked, ...]:
    return tuple(
        (Sample(f"q{i}", f"Question {i}?"), Response(f"q{i}", answer=text), {"faithfulness": Scored(i % 2 / 2)})
        for i in range(count)
    )


def test_a_score_is_an_event_with_the_judge_the_run_and_the_version(collector: Collector, tmp_path: Path) -> None:
    run = write_run(tmp_path / "run")
    export_otel(finished(run.path), environ_of(collector))
    uid = sent(collector)["q1", "faithfulness"].pop("log.record.uid")
    assert len(uid) == 32
    assert sent(collector)["q1", "faithfulness"] == {
        "log.record.uid": uid,
        "gen_ai.evaluation.name": "faithfulness",
        "gen_ai.evaluation.score.value": 0.75,
        "gen_ai.response.id": "resp-1",
        "ragstone.run.fingerprint": run.fingerprint,
        "ragstone.run.verdict": "fail",
        "ragstone.judge.provider": "openai",
        "ragstone.judge.model": "gpt-x",
        "ragstone.judge.version": "abc123",
        "ragstone.judge.endpoint": "https://judge.example/v1",
        "ragstone.judge.embeddings": "embed-y",
        "ragstone.golden.hash": run.manifest.golden.content_hash,
        "ragstone.policy.hash": "p" * 64,
        "ragstone.system.version": "v7",
        "vcs.ref.head.revision": "c" * 40,
        "ragstone.metric.version": "3",
        "ragstone.sample.id": "q1",
        "ragstone.sample.tags": ["geo", "lang:de"],
    }


def test_an_event_has_its_name_time_scope_and_service(collector: Collector, tmp_path: Path) -> None:
    write_run(tmp_path / "run")
    export_otel(finished(tmp_path / "run"), environ_of(collector))
    record = collector.records[0]
    assert record.event_name == "gen_ai.evaluation.result"
    assert record.time_unix_nano == int(datetime(2026, 11, 21, 10, tzinfo=UTC).timestamp()) * 10**9
    assert record.observed_time_unix_nano > record.time_unix_nano
    scope = collector.requests[0].resource_logs[0].scope_logs[0].scope
    assert (scope.name, scope.version) == ("ragstone", __version__)
    assert collector.resource()["service.name"] == "ragstone"
    assert collector.paths == ["/v1/logs"]


def test_an_event_is_in_the_trace_that_the_answer_names(collector: Collector, tmp_path: Path) -> None:
    write_run(tmp_path / "run")
    export_otel(finished(tmp_path / "run"), environ_of(collector))
    places = {
        plain(record.attributes)["ragstone.sample.id"]: (record.trace_id.hex(), record.span_id.hex())
        for record in collector.records
    }
    assert places["q1"] == (TRACE, SPAN)  # trace_id and span_id
    assert places["q2"] == (TRACE, SPAN)  # traceparent
    assert places["q3"] == ("", "")
    assert places["q4"] == ("", "")  # all zeros is no trace


def test_a_score_of_several_answers_is_in_no_trace(collector: Collector, tmp_path: Path) -> None:
    write_run(tmp_path / "run", answers=2)
    export_otel(finished(tmp_path / "run"), environ_of(collector))
    assert {(record.trace_id, record.span_id) for record in collector.records} == {(b"", b"")}
    assert "gen_ai.response.id" not in sent(collector)["q1", "faithfulness"]


def test_a_score_that_is_not_applicable_or_failed_is_no_number(collector: Collector, tmp_path: Path) -> None:
    write_run(tmp_path / "run")
    done = export_otel(finished(tmp_path / "run"), environ_of(collector))
    found = sent(collector)
    assert (done.scores, done.samples) == ({Scored: 4, NotApplicable: 1, Failed: 3}, 4)
    skipped = found["q2", "context_recall"]
    assert "gen_ai.evaluation.score.value" not in skipped
    assert "error.type" not in skipped
    assert skipped["gen_ai.evaluation.score.label"] == "not_applicable"
    assert skipped["gen_ai.evaluation.explanation"] == "the sample has no reference"
    timed_out, undecided = found["q3", "faithfulness"], found["q4", "faithfulness"]
    assert not {"gen_ai.evaluation.score.value", "gen_ai.evaluation.explanation"} & {*timed_out, *undecided}
    assert timed_out["gen_ai.evaluation.score.label"] == undecided["gen_ai.evaluation.score.label"] == "failed"
    assert (timed_out["error.type"], undecided["error.type"]) == ("timeout", "judge")
    assert "gen_ai.evaluation.score.label" not in found["q1", "faithfulness"]
    assert found["q2", "faithfulness"]["gen_ai.evaluation.score.value"] == 0.0


def test_texts_stay_here_unless_they_are_asked_for(collector: Collector, tmp_path: Path) -> None:
    write_run(tmp_path / "run")
    export_otel(finished(tmp_path / "run"), environ_of(collector))
    wire = b"".join(request.SerializeToString() for request in collector.requests)
    for text in (b"Where is it?", b"It is here.", b"Here.", b"Who?", b"Why?", b"3 of 4 statements", SECRET.encode()):
        assert text not in wire


def test_texts_that_are_asked_for_have_no_secrets(collector: Collector, tmp_path: Path) -> None:
    write_run(tmp_path / "run")
    export_otel(finished(tmp_path / "run", texts=True), environ_of(collector))
    found = sent(collector)
    assert found["q1", "faithfulness"]["ragstone.sample.question"] == "Where is it?"
    assert found["q1", "faithfulness"]["ragstone.response.answer"] == "It is here. ***"
    assert found["q1", "faithfulness"]["gen_ai.evaluation.explanation"] == "3 of 4 statements"
    assert found["q3", "faithfulness"]["gen_ai.evaluation.explanation"] == "no answer to 'Who?' in 30 s, ***"
    assert SECRET.encode() not in b"".join(request.SerializeToString() for request in collector.requests)


def test_hostile_texts_arrive_as_they_are_but_bounded(collector: Collector, tmp_path: Path) -> None:
    hostile = "\x00\x1b[31m::error::\u202e <script>" + "A" * 1_000_000
    asked: Asked = (
        Sample("id\u2028\n::error::x", "q?", tags=("\x1b]0;x",)),
        Response("id\u2028\n::error::x", answer=hostile),
        {"faithfulness": NotApplicable(hostile)},
    )
    write_run(tmp_path / "run", (asked,))
    export_otel(finished(tmp_path / "run", texts=True), environ_of(collector))
    ((_, attributes),) = sent(collector).items()
    assert attributes["ragstone.sample.id"] == "id\u2028\n::error::x"
    assert attributes["ragstone.response.answer"].startswith("\x00\x1b[31m::error::\u202e <script>AAA")
    assert len(attributes["ragstone.response.answer"]) < 10_100
    assert len(attributes["gen_ai.evaluation.explanation"]) < 1_100


def test_a_draft_says_so(collector: Collector, tmp_path: Path) -> None:
    draft = Sample("d", "q?", review=Review("draft"))
    asked: tuple[Asked, ...] = (*many(1), (draft, Response("d", answer="a"), {"faithfulness": Scored(1.0)}))
    write_run(tmp_path / "run", asked)
    export_otel(finished(tmp_path / "run"), environ_of(collector))
    found = sent(collector)
    assert found["d", "faithfulness"]["ragstone.sample.draft"] is True
    assert "ragstone.sample.draft" not in found["q0", "faithfulness"]


def test_a_second_export_sends_the_same_ids_and_another_run_has_others(collector: Collector, tmp_path: Path) -> None:
    for name, asked in (("a", many(2)), ("b", many(3))):
        write_run(tmp_path / name, asked)
    for name in ("a", "a", "b"):
        export_otel(finished(tmp_path / name), environ_of(collector))
    uids = [plain(record.attributes)["log.record.uid"] for record in collector.records]
    assert uids[:2] == uids[2:4]
    assert len(set(uids)) == 5


def test_ten_thousand_samples_are_sent_in_batches_and_not_kept(collector: Collector, tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", many(10_000))
    found = finished(run.path)
    collector.replies = [(200, 0)]
    export_otel(finished(write_run(tmp_path / "small", many(1)).path), environ_of(collector))  # loads the SDK
    collector.requests.clear()
    tracemalloc.start()
    done = export_otel(found, environ_of(collector))
    collected = sum(len(request.SerializeToString()) for request in collector.requests)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert done.scores.total() == 10_000
    assert len(collector.requests) == 10_000 // BATCH_EVENTS
    assert collected > 5_000_000  # what the collector, in the same process, keeps outside Python's memory
    assert peak < 8_000_000
    assert {len(request.resource_logs[0].scope_logs[0].log_records) for request in collector.requests} == {BATCH_EVENTS}


def test_long_texts_make_smaller_batches(collector: Collector, tmp_path: Path) -> None:
    write_run(tmp_path / "run", many(400, "x" * 9_990))
    export_otel(finished(tmp_path / "run", texts=True), environ_of(collector))
    assert len(collector.records) == 400
    assert max(request.ByteSize() for request in collector.requests) < 3_000_000


def test_headers_compression_and_the_service_come_from_the_environment(
    collector: Collector, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-team=rag,authorization=Bearer%20t0ken")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip")
    monkeypatch.setenv("OTEL_SERVICE_NAME", "shop-search")
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=ci")
    write_run(tmp_path / "run")
    export_otel(finished(tmp_path / "run"), environ_of(collector))
    assert collector.headers[0]["authorization"] == "Bearer t0ken"
    assert collector.headers[0]["x-team"] == "rag"
    assert collector.headers[0]["content-encoding"] == "gzip"
    assert collector.resource()["service.name"] == "shop-search"
    assert collector.resource()["deployment.environment.name"] == "ci"
    assert len(collector.records) == 8


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        ((401, 0), "401 Unauthorized"),
        ((404, 0), "404 Not Found"),
        ((302, 0), "302 Found"),
        ((200, 3), "it rejected 3 of them: too old"),
    ],
)
def test_a_refusal_is_an_error_that_counts_what_was_accepted_before(
    collector: Collector, tmp_path: Path, reply: tuple[int, int], said: str
) -> None:
    collector.replies = [(200, 0), reply]
    write_run(tmp_path / "run", many(BATCH_EVENTS + 10))
    with pytest.raises(ExportError) as caught:
        export_otel(finished(tmp_path / "run"), environ_of(collector))
    assert caught.value.exit_code == 7
    assert said in str(caught.value)
    assert f"It had accepted {BATCH_EVENTS} events before" in str(caught.value)
    assert len(collector.paths) == 2


def test_a_collector_that_is_busy_is_asked_again(collector: Collector, tmp_path: Path) -> None:
    collector.replies = [(503, 0)]
    write_run(tmp_path / "run")
    assert export_otel(finished(tmp_path / "run"), environ_of(collector)).scores.total() == 8
    assert len(collector.records) == 8


def test_no_collector_is_an_error_without_the_password_in_its_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    with collecting() as gone:
        address = gone.url.replace("http://", "http://user:pa55word@")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", address)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
    write_run(tmp_path / "run")
    with pytest.raises(ExportError) as caught:
        export_otel(finished(tmp_path / "run", secrets=("pa55word",)), {"OTEL_EXPORTER_OTLP_ENDPOINT": address})
    assert f"{gone.url}: the collector did not accept the events: no connection (Connection refused)." in str(
        caught.value
    )
    assert "pa55word" not in str(caught.value)
    assert "It had accepted 0 events before" in str(caught.value)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("environ", "said"),
    [
        ({"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, "OTEL_EXPORTER_OTLP_PROTOCOL: found 'grpc'"),
        ({"OTEL_EXPORTER_OTLP_LOGS_PROTOCOL": "http/json"}, "OTEL_EXPORTER_OTLP_LOGS_PROTOCOL: found 'http/json'"),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "localhost:4318"}, "not an address that starts with http"),
        ({"OTEL_EXPORTER_OTLP_LOGS_ENDPOINT": "http://host:99999999"}, "not an address"),
    ],
)
def test_what_can_not_be_sent_to_is_refused_before_anything_is_sent(
    tmp_path: Path, environ: dict[str, str], said: str
) -> None:
    write_run(tmp_path / "run")
    with pytest.raises(ConfigError, match=said):
        export_otel(finished(tmp_path / "run"), environ)


def test_the_protocol_for_logs_comes_before_that_for_all(collector: Collector, tmp_path: Path) -> None:
    write_run(tmp_path / "run")
    protocols = {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc", "OTEL_EXPORTER_OTLP_LOGS_PROTOCOL": "http/protobuf"}
    assert export_otel(finished(tmp_path / "run"), environ_of(collector) | protocols).scores.total() == 8


def test_without_the_packages_the_error_names_the_command_that_installs_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk._logs", None)
    monkeypatch.delitem(sys.modules, "ragstone.tools.export.otlp", raising=False)
    write_run(tmp_path / "run")
    with pytest.raises(ConfigError, match=r"pip install 'ragstone\[otel\]'"):
        export_otel(finished(tmp_path / "run"), {})


def test_a_run_that_is_changed_while_it_is_sent_is_an_error(collector: Collector, tmp_path: Path) -> None:
    run: RunDirectory = write_run(tmp_path / "run", many(3))
    found = finished(run.path)
    (run.path / "samples.jsonl").write_text("{}\n", encoding="utf-8")
    with pytest.raises(ConfigError, match="not a sample record"):
        export_otel(found, environ_of(collector))
    assert collector.records == []
