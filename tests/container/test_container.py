"""The container's side of a job: where results may go. What needs a container is in tests/image."""

from __future__ import annotations

from pathlib import Path

import pytest

from ragstone.errors import ConfigError
from ragstone.evaluation.rounds.project_metrics import ProjectMetrics
from ragstone.evaluation.rounds.rounds_plan import RunPlan
from ragstone.evaluation.rounds.sources import JudgeSource, SystemSource
from ragstone.github.container.confinement import Confinement
from ragstone.github.container.container import Container
from ragstone.github.container.runner_folders import RunnerFolders
from ragstone.github.container.user_environment import SystemSetup
from ragstone.golden.sample import GoldenSet
from ragstone.settings.settings import JudgeSettings, SystemSettings
from ragstone.system.environment import RunAs


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    found = tmp_path / "workspace"
    for name in ("service/src/main.py", "service/.git/HEAD", "src/main.py", "run/manifest.json"):
        path = found / name
        path.parent.mkdir(parents=True)
        path.write_text('{"ragstone_version": "1"}', encoding="utf-8")
    (found / "manifest.json").write_text('{"ragstone_version": "1"}', encoding="utf-8")
    (tmp_path / "home").mkdir()
    (found / "service" / "home").symlink_to(tmp_path / "home")
    (found / "service" / "source").symlink_to("src")
    (found / "service" / "older").symlink_to("../run")
    (found / "service" / "circle").symlink_to("circle")
    return found


def staged(workspace: Path, out: str) -> RunPlan:
    private = workspace.parent / "private"
    confinement, folders = Confinement(RunAs(1, 1, private), private), RunnerFolders({}, workspace)
    container = Container(confinement, private, workspace, workspace, SystemSetup(), folders)
    metrics = ProjectMetrics(SystemSource(SystemSettings()))
    return container.staged(RunPlan(GoldenSet(()), JudgeSource(JudgeSettings()), metrics, workspace / "service" / out))


SOMETHING_ELSE = (
    *(".", "..", "../..", "src", "../src", ".git", ".git/run", "home", "home/run", "source", "circle", "src/main.py"),
    *("../../elsewhere", "/github/home", "/"),
)


@pytest.mark.parametrize("out", SOMETHING_ELSE)
def test_a_run_directory_that_is_something_else_is_refused(workspace: Path, out: str) -> None:
    with pytest.raises(ConfigError):
        staged(workspace, out)


@pytest.mark.parametrize("out", ["ragstone-run", "deep/er/run", "../run", "older", "../ragstone-run"])
def test_a_new_folder_or_an_older_run_in_the_workspace_is_taken(workspace: Path, out: str) -> None:
    assert staged(workspace, out).out == (workspace.parent / "private" / "run").resolve()
