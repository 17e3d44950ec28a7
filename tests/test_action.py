"""The action's front door, as far as it goes without a container."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from ragstone import action
from ragstone.errors import EXIT_BUG, ConfigError
from ragstone.github.inputs import read_inputs
from ragstone.settings.settings import Settings
from tests.github.api.test_text_channels import acting, parse_outputs


def environ(tmp_path: Path, **inputs: str) -> dict[str, str]:
    workspace = tmp_path / "workspace"
    workspace.mkdir(exist_ok=True)
    (tmp_path / "output").touch()
    return {
        "GITHUB_WORKSPACE": str(workspace),
        "GITHUB_OUTPUT": str(tmp_path / "output"),
        **{f"INPUT_{name.upper().replace('_', '-')}": value for name, value in inputs.items()},
    }


def settings(tmp_path: Path, **inputs: str) -> Settings:
    given = environ(tmp_path, **inputs)
    return action.action_settings(read_inputs(given), given, tmp_path / "workspace")


def test_a_bad_input_ends_with_2_an_annotation_and_outputs(tmp_path: Path) -> None:
    out = io.StringIO()
    assert action.run(environ(tmp_path, comment="loudly"), out) == 2
    assert any(line.startswith("::error") and "input 'comment'" in line for line in acting(out.getvalue()))
    assert parse_outputs((tmp_path / "output").read_text(encoding="utf-8")) == {"verdict": "error", "passed": "false"}


def test_a_fault_of_our_own_is_told_apart_from_a_failed_gate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("::error::boom with sk-very-secret-key")

    monkeypatch.setattr(action, "action_settings", broken)
    out = io.StringIO()
    assert action.run(environ(tmp_path, judge_api_key="sk-very-secret-key"), out) == EXIT_BUG
    acted = acting(out.getvalue())
    assert not any(line.startswith("::error::boom") for line in acted)
    assert "sk-very-secret-key" not in out.getvalue()
    assert any("Ragstone itself failed" in line for line in acted)


@pytest.mark.parametrize(
    ("name", "is_wiped"),
    [("INPUT_COMMENT", True), ("input_comment", True), ("DATABASE_DSN", True), ("BASIC_AUTH", True), ("PATH", False)],
)
def test_whatever_may_be_a_secret_is_wiped_from_the_environment(name: str, is_wiped: bool) -> None:
    assert action._may_be_secret(name) is is_wiped


@pytest.mark.parametrize("name", ["..", "../..", "/etc", "sub/../.."])
def test_a_working_directory_outside_of_the_workspace_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError, match="outside the workspace"):
        settings(tmp_path, working_directory=name)


def test_paths_of_the_workflow_start_from_the_working_directory(tmp_path: Path) -> None:
    workspace = Path(environ(tmp_path)["GITHUB_WORKSPACE"])
    (workspace / "conf").mkdir()
    (workspace / "conf" / "ragstone.toml").write_text('[run]\nout = "run"\n', encoding="utf-8")
    for name in ("golden.jsonl", "t.toml"):
        (workspace / name).touch()
    found = settings(tmp_path, config="conf/ragstone.toml", golden_set="golden.jsonl", thresholds="t.toml")
    assert [found.path(path).resolve() for path in found.golden.paths] == [workspace / "golden.jsonl"]
    assert found.path(found.gate.thresholds or "").resolve() == workspace / "t.toml"
    assert found.path(found.run.out).resolve() == workspace / "conf" / "run"


def test_a_config_that_leads_out_of_the_workspace_is_refused(tmp_path: Path) -> None:
    workspace = Path(environ(tmp_path)["GITHUB_WORKSPACE"])
    (tmp_path / "secret").write_text("[run]\n", encoding="utf-8")
    (workspace / "ragstone.toml").symlink_to(tmp_path / "secret")
    for named in ({}, {"config": "ragstone.toml"}):
        with pytest.raises(ConfigError, match="outside the workspace"):
            settings(tmp_path, **named)
