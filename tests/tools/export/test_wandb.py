"""Runs of Weights & Biases: its SDK against a server on loopback that speaks the part of its protocol that is used."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ragstone.config.settings import Settings
from ragstone.errors import ConfigError, ExportError
from ragstone.golden.sample import Sample
from ragstone.metrics.score import Scored
from ragstone.run.writer import write_manifest
from ragstone.system.response import Response
from ragstone.tools.export.tracker import Exported
from ragstone.tools.export.wandb import PANEL_ROWS, export_wandb, nested
from tests.commands.project import make_project, ragstone
from tests.tools.export.runs import SECRET, Asked, finished, write_run
from tests.tools.export.wandb_server import Server, tracking

KEY = "k" * 40
integrations = [pytest.mark.integrations, pytest.mark.filterwarnings("ignore::DeprecationWarning")]


@pytest.fixture
def environ(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The environment without a server; the SDK reads that of the process."""
    for name in [name for name in os.environ if name.startswith("WANDB_")]:
        monkeypatch.delenv(name)
    given = {
        "WANDB_SILENT": "true",
        "WANDB_ERROR_REPORTING": "false",
        "WANDB_DIR": str(tmp_path),
        "WANDB_DATA_DIR": str(tmp_path / "data"),
        "WANDB_CACHE_DIR": str(tmp_path / "cache"),
        "WANDB_CONFIG_DIR": str(tmp_path / "config"),
        "NETRC": str(tmp_path / "netrc"),
    }
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    return given


@pytest.fixture
def server(environ: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    with tracking() as found:
        given = {"WANDB_BASE_URL": found.url, "WANDB_API_KEY": KEY}
        for name, value in given.items():
            monkeypatch.setenv(name, value)
        environ |= given
        yield found
        assert found.refused == []


def export(path: Path, environ: dict[str, str], *, texts: bool = False) -> Exported:
    settings = Settings(root=path.parent)
    return export_wandb(finished(path, texts=texts), settings, environ, project="shop", entity="team")


def config(server: Server) -> dict[str, Any]:
    ((_, run),) = server.runs.items()
    return {name: one["value"] for name, one in json.loads(run["config"]).items() if name != "_wandb"}


def uploaded(server: Server, name: str) -> bytes:
    (found,) = (body for path, body in server.uploads.items() if "ragstone-run-" in path and path.endswith(f"/{name}"))
    return found


def everything(server: Server) -> str:
    sent = (server.sent, server.history, server.summaries, {path: str(body) for path, body in server.uploads.items()})
    return json.dumps(sent)


class TestOnAServer:
    pytestmark = integrations

    def test_a_run_has_config_figures_and_verdict(
        self, server: Server, environ: dict[str, str], tmp_path: Path
    ) -> None:
        ours = write_run(tmp_path / "run")
        done = export(ours.path, environ)
        found = finished(ours.path)
        assert done == Exported(
            f"{server.url}/team/shop/runs/ragstone-{ours.fingerprint}", f"ragstone-{ours.fingerprint}", "new"
        )
        assert (list(server.runs), len(config(server).pop("ragstone_export"))) == ([done.id], 16)
        assert {k: v for k, v in config(server).items() if k != "ragstone_export"} == nested(found.parameters)
        assert config(server)["judge"]["model"] == "gpt-x"
        (line,) = server.history[done.id]
        assert {name: line[name] for name in found.figures} == pytest.approx(dict(found.figures))
        summary = server.summaries[done.id]
        assert (summary["verdict"], summary["faithfulness/mean"]) == ("fail", pytest.approx(0.375))
        assert server.sent[0]["displayName"] == "2026-11-21T10:00 ccccccc"
        assert {artifact["state"] for artifact in server.artifacts.values()} == {"COMMITTED"}

    def test_samples_are_a_table_without_texts(self, server: Server, environ: dict[str, str], tmp_path: Path) -> None:
        write_run(tmp_path / "run")
        done = export(tmp_path / "run", environ)
        table = json.loads(uploaded(server, "samples.table.json"))
        rows = {row[0]: dict(zip(table["columns"], row, strict=True)) for row in table["data"]}
        assert (rows["q1"]["faithfulness"], rows["q1"]["tags"]) == (0.75, "geo, lang:de")
        assert (rows["q2"]["faithfulness"], rows["q2"]["context_recall"]) == (0.0, None)
        assert rows["q2"]["context_recall.no_score"] == "not applicable: the sample has no reference"
        assert (rows["q4"]["faithfulness"], rows["q4"]["faithfulness.no_score"]) == (None, "failed by judge")
        left = json.loads(uploaded(server, "left_out.table.json"))
        assert left["data"][1] == ["faithfulness", "failed", "judge", "", 1]
        assert server.summaries[done.id]["samples"]["nrows"] == 4
        for private in ("Where is it?", "It is here.", "Who?", "Why?", SECRET):
            assert private not in everything(server)

    def test_the_tables_are_ones_that_the_sdk_reads(
        self, server: Server, environ: dict[str, str], tmp_path: Path
    ) -> None:
        import wandb

        write_run(tmp_path / "run")
        export(tmp_path / "run", environ)
        table = wandb.Table.from_json(json.loads(uploaded(server, "samples.table.json")), wandb.Artifact("a", "b"))
        assert [row[0] for row in table.data] == ["q1", "q2", "q3", "q4"]
        assert table.get_column("faithfulness") == [0.75, 0.0, None, None]

    def test_nothing_of_this_machine_is_sent(self, server: Server, environ: dict[str, str], tmp_path: Path) -> None:
        write_run(tmp_path / "run")
        export(tmp_path / "run", environ)
        assert {one[name] for one in server.sent for name in ("host", "commit", "repo")} == {None}
        assert {one["program"] for one in server.sent} == {"ragstone", None}
        names = {path.rsplit("/", 1)[-1] for path in server.uploads if "/artifact-" not in path}
        assert not {"requirements.txt", "wandb-metadata.json", "output.log"} & names

    def test_texts_that_are_asked_for_have_no_secrets(
        self, server: Server, environ: dict[str, str], tmp_path: Path
    ) -> None:
        write_run(tmp_path / "run")
        export(tmp_path / "run", environ, texts=True)
        table = json.loads(uploaded(server, "samples.table.json"))
        first = dict(zip(table["columns"], table["data"][0], strict=True))
        assert (first["question"], first["answer"], first["reference"]) == ("Where is it?", "It is here. ***", "Here.")
        assert uploaded(server, "report.html").startswith(b"<!doctype html>")
        assert SECRET not in everything(server)

    def test_a_second_export_changes_nothing(self, server: Server, environ: dict[str, str], tmp_path: Path) -> None:
        write_run(tmp_path / "run")
        first = export(tmp_path / "run", environ)
        second = export(tmp_path / "run", environ)
        assert (second.state, second.id, second.where) == ("same", first.id, first.where)
        assert len(server.history[first.id]) == 1
        assert len(server.artifacts) == 2  # ours, and the SDK's own for the table on the page

    def test_a_run_that_has_changed_since_is_brought_up_to_date(
        self, server: Server, environ: dict[str, str], tmp_path: Path
    ) -> None:
        ours = write_run(tmp_path / "run", verdict=None)
        first = export(ours.path, environ)
        assert server.summaries[first.id]["verdict"] == "none"
        write_manifest(ours.path, ours.manifest.model_copy(update={"verdict": "pass"}))
        second = export(ours.path, environ, texts=True)
        assert (second.state, second.id, len(server.runs)) == ("updated", first.id, 1)
        assert server.summaries[first.id]["verdict"] == "pass"
        assert export(ours.path, environ, texts=True).state == "same"

    def test_an_upload_that_is_refused_is_an_error_and_the_next_export_completes_it(
        self, server: Server, environ: dict[str, str], tmp_path: Path
    ) -> None:
        write_run(tmp_path / "run")
        server.no_uploads = True
        with pytest.raises(ExportError) as caught:
            export(tmp_path / "run", environ)
        assert caught.value.exit_code == 7
        assert "ragstone_export" not in config(server)
        server.no_uploads = False
        assert export(tmp_path / "run", environ).state == "updated"
        assert len(server.runs) == 1

    def test_a_key_that_is_refused_is_an_error_that_does_not_show_it(
        self, server: Server, environ: dict[str, str], tmp_path: Path
    ) -> None:
        server.status, server.says = 401, f"not the key {SECRET}\n\x1b[2J"
        write_run(tmp_path / "run")
        with pytest.raises(ExportError) as caught:
            export(tmp_path / "run", environ)
        assert str(caught.value).startswith(f"{server.url}: Weights & Biases did not accept the run: ")
        assert "not the key ***" in str(caught.value)
        assert not any(text in str(caught.value) for text in (KEY, SECRET, "\x1b"))

    def test_ten_thousand_samples_and_more_are_all_in_the_artifact(
        self, server: Server, environ: dict[str, str], tmp_path: Path
    ) -> None:
        asked: tuple[Asked, ...] = tuple(
            (Sample(f"q{i}", f"Q {i}?"), Response(f"q{i}", answer="a"), {"faithfulness": Scored(i % 2 / 2)})
            for i in range(PANEL_ROWS + 5)
        )
        write_run(tmp_path / "run", asked)
        done = export(tmp_path / "run", environ)
        assert len(json.loads(uploaded(server, "samples.table.json"))["data"]) == PANEL_ROWS + 5
        assert server.summaries[done.id]["samples"]["nrows"] == PANEL_ROWS

    def test_from_the_command_line(self, server: Server, environ: dict[str, str], tmp_path: Path) -> None:
        project = make_project(tmp_path / "repo", n=20)
        assert ragstone(["gate"], project).returncode == 0
        before = {path.name for path in project.iterdir()}
        given = {name: environ[name] for name in ("WANDB_BASE_URL", "WANDB_API_KEY", "WANDB_CONFIG_DIR")}
        arguments = ["export", "wandb", "--project", "shop", "--entity", "team"]
        first = ragstone(arguments, project, env=given)
        second = ragstone(arguments, project, env=given)
        assert first.returncode == second.returncode == 0, first.stderr + second.stderr
        (name,) = server.runs
        page = f"{server.url}/team/shop/runs/{name}"
        assert first.stdout == f"Exported: 20 samples, {page}\n"
        assert second.stdout == f"Already exported, and nothing has changed: {page}\n"
        assert first.stderr == second.stderr == ""
        assert {path.name for path in project.iterdir()} == before

    def test_a_settings_file_of_the_current_folder_sends_nothing_elsewhere(
        self, server: Server, environ: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.delenv("WANDB_BASE_URL")
        own = environ["WANDB_CONFIG_DIR"]
        with tracking() as elsewhere:
            for folder, url in ((own, server.url), (tmp_path / "wandb", elsewhere.url)):
                Path(folder).mkdir(exist_ok=True)
                (Path(folder) / "settings").write_text(f"[default]\nbase_url = {url}\nmode = online\n")
            monkeypatch.chdir(tmp_path)
            write_run(tmp_path / "run")
            done = export(
                tmp_path / "run", {name: value for name, value in environ.items() if name != "WANDB_BASE_URL"}
            )
            assert (elsewhere.runs, elsewhere.sent) == ({}, [])
        assert done.where.startswith(server.url)
        assert list(server.runs) == [done.id]

    def test_offline_runs_are_written_below_the_current_folder(
        self, environ: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for name, value in (("WANDB_DIR", ""), ("WANDB_MODE", "offline")):
            monkeypatch.setenv(name, value)
        monkeypatch.chdir(tmp_path)
        write_run(tmp_path / "run")
        done = export(tmp_path / "run", {**environ, "WANDB_DIR": "", "WANDB_MODE": "offline"})
        assert Path(done.where).parent == tmp_path / "wandb"

    def test_what_was_written_offline_can_be_sent_later(
        self, server: Server, environ: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        write_run(tmp_path / "run")
        with monkeypatch.context() as offline:
            offline.setenv("WANDB_MODE", "offline")
            done = export(tmp_path / "run", environ | {"WANDB_MODE": "offline"})
        assert server.runs == {}
        assert (done.state, Path(done.where).is_dir()) == ("waiting", True)
        sync = [sys.executable, "-m", "wandb", "sync", "--no-include-synced", done.where]
        sent = subprocess.run(sync, env=os.environ | environ, capture_output=True, text=True, check=False)
        assert sent.returncode == 0, sent.stdout + sent.stderr
        assert list(server.runs) == [done.id]
        assert server.summaries[done.id]["faithfulness/mean"] == pytest.approx(0.375)
        assert json.loads(uploaded(server, "samples.table.json"))["data"][0][0] == "q1"

    def test_without_a_key_the_error_says_how_to_log_in(self, environ: dict[str, str], tmp_path: Path) -> None:
        project = make_project(tmp_path / "repo", n=5)
        assert ragstone(["run"], project).returncode == 0
        done = ragstone(["export", "wandb"], project, env=environ | {"HOME": str(tmp_path)})
        assert done.returncode == 2
        assert "wandb login" in done.stderr
        assert "Set WANDB_API_KEY, or WANDB_MODE=offline" in done.stderr
        assert done.stdout == ""
        assert "Traceback" not in done.stderr


def test_parameters_become_a_config_of_tables() -> None:
    given = {"judge": "openai gpt-x", "judge.model": "gpt-x", "judge.parameters.top.p": "1", "answers": "1"}
    assert nested(given) == {
        "ragstone": {"answers": "1"},
        "judge": {"label": "openai gpt-x", "model": "gpt-x", "parameters.top.p": "1"},
    }


def test_a_mode_that_sends_nothing_is_refused(tmp_path: Path) -> None:
    write_run(tmp_path / "run")
    with pytest.raises(ConfigError, match="WANDB_MODE: it is 'disabled'"):
        export(tmp_path / "run", {"WANDB_MODE": "disabled"})


def test_without_the_package_the_error_names_the_command_that_installs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "wandb", None)
    write_run(tmp_path / "run")
    with pytest.raises(ConfigError, match=r"pip install 'ragstone\[wandb\]'"):
        export(tmp_path / "run", {})
