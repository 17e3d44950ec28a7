"""Runs of MLflow: its client against its own tracking server on loopback, with a database and an artifact store."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from ragstone.config.settings import Settings
from ragstone.errors import ConfigError, ExportError
from ragstone.golden.sample import Sample
from ragstone.metrics.score import Scored
from ragstone.run.writer import write_manifest
from ragstone.system.response import Response
from ragstone.tools.export.mlflow import export_mlflow, key
from ragstone.tools.export.tracker import Exported
from tests.commands.project import make_project, ragstone
from tests.tools.export.runs import SECRET, Asked, finished, write_run

integrations = [
    pytest.mark.integrations,
    # Warnings of MLflow's, its client's and its server's dependencies.
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::ResourceWarning"),
]
NOW = datetime(2026, 11, 22, tzinfo=UTC)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a tracking server."""
    folder = tmp_path_factory.mktemp("mlflow")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    arguments = ["server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
    arguments += ["--backend-store-uri", f"sqlite:///{folder}/db.sqlite", "--artifacts-destination", str(folder / "a")]
    log = (folder / "log").open("wb")
    process = subprocess.Popen(
        [sys.executable, "-m", "mlflow", *arguments],
        cwd=folder,
        stdout=log,
        stderr=subprocess.STDOUT,
        env=os.environ | {"MLFLOW_DISABLE_TELEMETRY": "true", "PYTHONWARNINGS": "ignore"},
        start_new_session=True,
    )
    url = f"http://127.0.0.1:{port}"
    try:
        while process.poll() is None:
            try:
                urllib.request.urlopen(f"{url}/health", timeout=5).close()
            except (urllib.error.URLError, OSError):
                time.sleep(0.2)
                continue
            break
        assert process.poll() is None, (folder / "log").read_text(encoding="utf-8")[-2000:]
        yield url
    finally:
        os.killpg(process.pid, 9)
        process.wait()
        log.close()


@pytest.fixture
def tracking(server: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The environment that names the server; MLflow's client reads that of the process."""
    for name in [name for name in os.environ if name.startswith("MLFLOW_")]:
        monkeypatch.delenv(name)
    environ = {
        "MLFLOW_TRACKING_URI": server,
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
    }
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    return environ


def export(
    path: Path, environ: dict[str, str], *, texts: bool = False, experiment: str | None = None, at: datetime = NOW
) -> Exported:
    found = finished(path, texts=texts)
    return export_mlflow(found, Settings(root=path.parent), environ, experiment=experiment, now=lambda: at)


def client(server: str) -> Any:
    from mlflow import MlflowClient

    return MlflowClient(server)


def runs(server: str, experiment: str) -> list[Any]:
    found = client(server).get_experiment_by_name(experiment)
    return [] if found is None else list(client(server).search_runs([found.experiment_id]))


def artifact(server: str, run: str, name: str, folder: Path) -> str:
    folder.mkdir(exist_ok=True)
    return Path(client(server).download_artifacts(run, name, str(folder))).read_text(encoding="utf-8")


class TestOnAServer:
    pytestmark = integrations

    def test_a_run_has_parameters_figures_verdict_and_golden_set(
        self, server: str, tracking: dict[str, str], tmp_path: Path
    ) -> None:
        ours = write_run(tmp_path / "run")
        done = export(ours.path, tracking, experiment="whole")
        (run,) = runs(server, "whole")
        found = finished(ours.path)
        assert run.data.params == dict(found.parameters)
        assert run.data.metrics == pytest.approx(dict(found.figures))
        assert run.data.metrics["faithfulness/mean"] == pytest.approx(0.375)
        tags = run.data.tags
        assert (tags["ragstone.verdict"], tags["ragstone.judge"]) == ("fail", "openai gpt-x")
        assert (tags["ragstone.run.fingerprint"], tags["mlflow.source.git.commit"]) == (ours.fingerprint, "c" * 40)
        assert (run.info.run_name, run.info.status) == ("2026-11-21T10:00 ccccccc", "FINISHED")
        begun = int(datetime(2026, 11, 21, 10, tzinfo=UTC).timestamp() * 1000)
        assert (run.info.start_time, run.info.end_time) == (begun, begun + 12_500)
        ((golden,), name) = (run.inputs.dataset_inputs, "golden.jsonl")
        assert (golden.dataset.name, golden.dataset.digest) == (name, ours.manifest.golden.content_hash[:36])
        assert done.where == f"{server}/#/experiments/{run.info.experiment_id}/runs/{run.info.run_id}"
        assert done.state == "new"

    def test_samples_are_a_table_without_texts(self, server: str, tracking: dict[str, str], tmp_path: Path) -> None:
        write_run(tmp_path / "run")
        done = export(tmp_path / "run", tracking, experiment="table")
        text = artifact(server, done.id, "samples.json", tmp_path / "down")
        table = json.loads(text)
        rows = {row[0]: dict(zip(table["columns"], row, strict=True)) for row in table["data"]}
        assert rows["q1"] == {
            "id": "q1",
            "tags": "geo, lang:de",
            "draft": False,
            "latency_s": 0.5,
            "input_tokens": 10,
            "output_tokens": 5,
            "failure": None,
            "faithfulness": 0.75,
            "faithfulness.no_score": None,
            "context_recall": 1.0,
            "context_recall.no_score": None,
        }
        assert rows["q2"]["context_recall"] is None
        assert rows["q2"]["context_recall.no_score"] == "not applicable: the sample has no reference"
        assert (rows["q3"]["failure"], rows["q3"]["faithfulness.no_score"]) == ("timeout", "failed by system")
        assert rows["q4"]["faithfulness.no_score"] == "failed by judge"
        assert (rows["q2"]["faithfulness"], rows["q4"]["faithfulness"]) == (0.0, None)
        files = {one.path for one in client(server).list_artifacts(done.id)}
        assert files == {"samples.json", "left_out.json", "manifest.json"}
        everything = "".join(artifact(server, done.id, name, tmp_path / "down") for name in files)
        for private in ("Where is it?", "It is here.", "Who?", "Why?", SECRET):
            assert private not in everything

    def test_the_table_is_one_that_mlflow_reads(self, server: str, tracking: dict[str, str], tmp_path: Path) -> None:
        write_run(tmp_path / "run")
        done = export(tmp_path / "run", tracking, experiment="pandas")
        (run,) = runs(server, "pandas")
        number = run.info.experiment_id
        table = client(server).load_table(number, "samples.json", run_ids=[done.id])
        assert list(table["id"]) == ["q1", "q2", "q3", "q4"]
        assert table["faithfulness"].count() == 2  # the others are missing, not 0
        left = client(server).load_table(number, "left_out.json", run_ids=[done.id])
        assert list(left["samples"]) == [1, 1, 1, 1]

    def test_texts_that_are_asked_for_have_no_secrets(
        self, server: str, tracking: dict[str, str], tmp_path: Path
    ) -> None:
        write_run(tmp_path / "run")
        done = export(tmp_path / "run", tracking, texts=True, experiment="texts")
        files = {one.path for one in client(server).list_artifacts(done.id)}
        assert files == {"samples.json", "left_out.json", "manifest.json", "report.html"}
        table = json.loads(artifact(server, done.id, "samples.json", tmp_path / "down"))
        first = dict(zip(table["columns"], table["data"][0], strict=True))
        assert (first["question"], first["answer"], first["reference"]) == ("Where is it?", "It is here. ***", "Here.")
        everything = "".join(artifact(server, done.id, name, tmp_path / "down") for name in files)
        assert SECRET not in everything

    def test_a_second_export_changes_nothing(self, server: str, tracking: dict[str, str], tmp_path: Path) -> None:
        write_run(tmp_path / "run")
        first = export(tmp_path / "run", tracking, experiment="twice")
        second = export(tmp_path / "run", tracking, experiment="twice")
        assert (second.state, second.id, second.where) == ("same", first.id, first.where)
        assert len(runs(server, "twice")) == 1

    def test_a_run_that_has_changed_since_is_brought_up_to_date(
        self, server: str, tracking: dict[str, str], tmp_path: Path
    ) -> None:
        ours = write_run(tmp_path / "run", verdict=None)
        first = export(ours.path, tracking, experiment="changed")
        (before,) = runs(server, "changed")
        write_manifest(ours.path, ours.manifest.model_copy(update={"verdict": "pass", "wall_s": 9.0}))
        second = export(ours.path, tracking, texts=True, experiment="changed", at=datetime(2026, 11, 23, tzinfo=UTC))
        (run,) = runs(server, "changed")
        assert (second.state, second.id) == ("updated", first.id)
        assert (before.data.tags["ragstone.verdict"], run.data.tags["ragstone.verdict"]) == ("none", "pass")
        assert (before.data.metrics["wall_s"], run.data.metrics["wall_s"]) == (12.5, 9.0)
        history = client(server).get_metric_history(first.id, "faithfulness/mean")
        assert len(history) == 1
        assert "question" in artifact(server, first.id, "samples.json", tmp_path / "down")

    def test_an_export_that_broke_off_is_completed(
        self, server: str, tracking: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from mlflow import MlflowClient

        def full(*_: object, **__: object) -> None:
            raise OSError(28, f"No space left for {SECRET}")

        write_run(tmp_path / "run")
        with monkeypatch.context() as broken:
            broken.setattr(MlflowClient, "log_artifact", full)
            with pytest.raises(ExportError) as caught:
                export(tmp_path / "run", tracking, experiment="broken")
        assert caught.value.exit_code == 7
        assert "No space left for ***" in str(caught.value)
        (run,) = runs(server, "broken")
        assert (run.info.status, run.data.tags["ragstone.export"]) == ("FAILED", "incomplete")
        done = export(tmp_path / "run", tracking, experiment="broken")
        (run,) = runs(server, "broken")
        assert (done.state, done.id, run.info.status) == ("updated", run.info.run_id, "FINISHED")
        assert len(run.data.tags["ragstone.export"]) == 16

    def test_two_runs_are_two_runs(self, server: str, tracking: dict[str, str], tmp_path: Path) -> None:
        for name, asked in (("a", MANY[:2]), ("b", MANY[:3])):
            write_run(tmp_path / name, asked)
            export(tmp_path / name, tracking, experiment="two")
        assert len(runs(server, "two")) == 2

    def test_hostile_names_arrive_and_stay_apart(self, server: str, tracking: dict[str, str], tmp_path: Path) -> None:
        tags = ("../../etc", "a/../b", "a\nb", "::error::x", "é" * 300, "x" * 300, "x" * 299 + "y")
        asked: Asked = (
            Sample("\x1b[31m", "<script>", tags=tags),
            Response("\x1b[31m", answer="=cmd()"),
            {"faithfulness": Scored(0.5)},
        )
        tables = "".join(f"[slices.{json.dumps(tag)}.metrics.faithfulness]\nmin = 0.1\n" for tag in tags)
        (tmp_path / "thresholds.toml").write_text(f"[metrics.faithfulness]\nmin = 0.1\n{tables}", encoding="utf-8")
        write_run(tmp_path / "run", (asked,))
        export(tmp_path / "run", tracking, experiment="hostile")
        (run,) = runs(server, "hostile")
        assert sum(name.startswith("slices") for name in run.data.metrics) == 4 * len(tags)

    def test_the_experiment_is_that_of_the_environment_or_ragstone(
        self, server: str, tracking: dict[str, str], tmp_path: Path
    ) -> None:
        write_run(tmp_path / "run")
        export(tmp_path / "run", tracking)
        export(tmp_path / "run", tracking | {"MLFLOW_EXPERIMENT_NAME": "named"})
        number = client(server).create_experiment("numbered")
        export(tmp_path / "run", tracking | {"MLFLOW_EXPERIMENT_ID": number, "MLFLOW_EXPERIMENT_NAME": ""})
        assert [len(runs(server, name)) for name in ("ragstone", "named", "numbered")] == [1, 1, 1]

    def test_an_experiment_that_was_deleted_is_an_error(
        self, server: str, tracking: dict[str, str], tmp_path: Path
    ) -> None:
        write_run(tmp_path / "run")
        client(server).delete_experiment(client(server).create_experiment("gone"))
        with pytest.raises(ExportError, match="MLflow did not accept the run"):
            export(tmp_path / "run", tracking, experiment="gone")

    def test_ten_thousand_samples_arrive(self, server: str, tracking: dict[str, str], tmp_path: Path) -> None:
        write_run(tmp_path / "run", MANY)
        done = export(tmp_path / "run", tracking, experiment="many")
        table = json.loads(artifact(server, done.id, "samples.json", tmp_path / "down"))
        assert len(table["data"]) == 10_000

    def test_from_the_command_line(self, server: str, tracking: dict[str, str], tmp_path: Path) -> None:
        project = make_project(tmp_path / "repo", n=20)
        assert ragstone(["gate"], project).returncode == 0
        first = ragstone(["export", "mlflow", "--experiment", "cli"], project, env=tracking)
        second = ragstone(["export", "mlflow", "--experiment", "cli"], project, env=tracking)
        assert first.returncode == second.returncode == 0, first.stderr + second.stderr
        (run,) = runs(server, "cli")
        page = f"{server}/#/experiments/{run.info.experiment_id}/runs/{run.info.run_id}"
        assert first.stdout == f"Exported: 20 samples, {page}\n"
        assert second.stdout == f"Already exported, and nothing has changed: {page}\n"
        assert first.stderr == second.stderr == ""
        assert run.data.tags["ragstone.verdict"] == "pass"

    def test_no_server_exits_with_7_and_shows_no_password(self, tmp_path: Path) -> None:
        project = make_project(tmp_path / "repo", n=5)
        assert ragstone(["run"], project).returncode == 0
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))  # nothing listens
            port = free.getsockname()[1]
            uri = f"http://someone:pa55word@127.0.0.1:{port}"
            environ = {"MLFLOW_TRACKING_URI": uri, "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1"}
            done = ragstone(["export", "mlflow"], project, env=environ)
        assert done.returncode == 7
        assert done.stdout == ""
        assert done.stderr.startswith(f"error: http://127.0.0.1:{port}: MLflow did not accept the run: ")
        assert "pa55word" not in done.stderr
        assert "Traceback" not in done.stderr


MANY: tuple[Asked, ...] = tuple(
    (Sample(f"q{i}", f"Question {i}?"), Response(f"q{i}", answer="It is so."), {"faithfulness": Scored(i % 2 / 2)})
    for i in range(10_000)
)


def test_names_are_changed_only_if_they_must_be() -> None:
    for name in ("faithfulness/mean", "slices/lang:de/context_recall/low", "judge.provider", "slices/a b/x/n"):
        assert key(name) == name
    odd = (
        "slices/../x/mean",
        "/x",
        "a//b",
        "x" * 300,
        "x" * 301,
        "a\nb",
        "a\rb",
        "slices/ä?/x/n",
        "slices/ä!/x/n",
        "..",
    )
    changed = {key(name) for name in odd}
    assert len(changed) == len(odd)
    assert all(len(name) <= 250 for name in changed)


def test_without_an_address_nothing_is_written_into_the_current_folder(tmp_path: Path) -> None:
    write_run(tmp_path / "run")
    with pytest.raises(ConfigError, match="MLFLOW_TRACKING_URI: it is not set"):
        export(tmp_path / "run", {})


def test_without_the_package_the_error_names_the_command_that_installs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "mlflow", None)
    write_run(tmp_path / "run")
    with pytest.raises(ConfigError, match=r"pip install 'ragstone\[mlflow\]'"):
        export(tmp_path / "run", {"MLFLOW_TRACKING_URI": "http://127.0.0.1:1"})


def test_a_database_needs_all_of_mlflow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    write_run(tmp_path / "run")
    with pytest.raises(ConfigError, match="pip install mlflow"):
        export(tmp_path / "run", {"MLFLOW_TRACKING_URI": f"sqlite:///{tmp_path}/db.sqlite"})
    assert not (tmp_path / "db.sqlite").exists()
