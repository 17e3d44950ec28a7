"""The recipes in docs/other-ci.md, run as their CI systems would run them: a job on main, then one of a merge request.

The commands come from the page. Each job is a fresh clone of a bare repository with the variables of its CI system;
what a system does itself (artifacts, annotations) is done here in its place.
"""

from __future__ import annotations

import io
import os
import re
import shutil
import stat
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.ci.fakes import WORSE, Fake, Repository, azure, gitlab, serving, storage
from tests.commands.project import environment

PAGE = (Path(__file__).parents[2] / "docs" / "other-ci.md").read_text(encoding="utf-8")


def recipe(heading: str) -> str:
    section = PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    (block,) = re.findall(r"^```(?:yaml|groovy)\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    return str(block)


@dataclass
class Machine:
    """The machine of a job: `tools` come first on its PATH, `asked` is what was to be installed."""

    root: Path

    @property
    def tools(self) -> Path:
        return self.root / "tools"

    @property
    def asked(self) -> str:
        return (self.root / "installed").read_text()

    def tool(self, name: str, script: str, folder: Path | None = None) -> None:
        path = (folder or self.tools) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)

    def run(self, lines: Sequence[str], folder: Path, environ: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
        """Run the lines as one script that stops at the first failure, as all of these systems do."""
        base = {name: value for name, value in environment().items() if not name.startswith(("CI", "AWS_", "BUILD"))}
        path = f"{self.tools}{os.pathsep}{base['PATH']}"
        return subprocess.run(
            ["sh", "-e", "-c", "\n".join(lines)],
            cwd=folder,
            env={**base, "PATH": path, "HOME": str(self.root), **environ},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """`pip` installs nothing: `ragstone` is the one that is tested. A virtual environment gets the same tools."""
    found = Machine(tmp_path / "machine")
    found.tool("ragstone", f'exec "{sys.executable}" -m ragstone "$@"')
    found.tool("pip", f'echo "$@" >> "{found.root}/installed"')
    venv = f'mkdir -p "$3/bin" && cp "{found.tools}/pip" "{found.tools}/ragstone" "$3/bin"'
    found.tool("python3", f'if [ "$1 $2" = "-m venv" ]; then {venv}; else exec "{sys.executable}" "$@"; fi')
    return found


@dataclass(frozen=True)
class Season:
    """A repository with a good commit on main, a worse one in a branch, and their jobs."""

    repository: Repository
    good: str
    worse: str

    def main(self) -> Path:
        return self.repository.job("main", self.good)

    def request(self) -> Path:
        return self.repository.job("request", self.worse)

    def judge(self, main: subprocess.CompletedProcess[str], request: subprocess.CompletedProcess[str]) -> None:
        """The job on main passed and was kept; the merge request was compared with it, and failed."""
        assert main.returncode == 0, main.stdout + main.stderr
        assert "No baseline" in main.stdout
        assert "as a baseline" in main.stderr
        assert request.returncode == 1, request.stdout + request.stderr
        assert f"Baseline: commit {self.good[:12]}" in request.stderr
        assert "not saved as a baseline" in request.stderr


@pytest.fixture
def season(tmp_path: Path) -> Season:
    repository = Repository.make(tmp_path / "origin")
    good = repository.commit("first")
    return Season(repository, good, repository.commit("worse", WORSE, branch="feature"))


def artifact(job: Path, patterns: Sequence[str]) -> bytes:
    """The zip file that GitLab makes of the paths of a job's artifacts."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for pattern in patterns:
            for path in sorted((job / pattern).rglob("*")):
                archive.write(path, path.relative_to(job))
    return packed.getvalue()


def test_gitlab(machine: Machine, season: Season) -> None:
    jobs = yaml.safe_load(recipe("GitLab"))
    gate, comment = jobs["rag-gate"], jobs["rag-comment"]
    fake = Fake()
    with serving(fake, gitlab) as url, serving(fake, storage) as fake.storage:
        common = {
            "GITLAB_CI": "true",
            "CI_API_V4_URL": f"{url}/api/v4",
            "CI_PROJECT_ID": "7",
            "CI_DEFAULT_BRANCH": "main",
            "CI_JOB_NAME": "rag-gate",
            "CI_JOB_TOKEN": fake.job_token,
        }
        branch = {**common, "CI_COMMIT_BRANCH": "main"}
        merge = {**common, "CI_MERGE_REQUEST_IID": "5", "CI_MERGE_REQUEST_TARGET_BRANCH_NAME": "main"}
        job = season.main()
        main = machine.run(gate["script"], job, {**branch, "CI_PROJECT_DIR": str(job)})
        assert gate["artifacts"]["when"] == "always"
        fake.artifacts["main", "rag-gate"] = artifact(job, gate["artifacts"]["paths"])
        job = season.request()
        request = machine.run(gate["script"], job, {**merge, "CI_PROJECT_DIR": str(job)})
        season.judge(main, request)
        assert not fake.leaked
        assert fake.token not in str(common)  # the job that runs the system has no token that can write
        # The next job starts with the artifacts of those it needs.
        assert comment["needs"] == ["rag-gate"]
        fresh = season.repository.job("comment", season.worse)
        shutil.copytree(job / "ragstone-run", fresh / "ragstone-run")
        for _ in range(2):
            posted = machine.run(comment["script"], fresh, {**merge, "GITLAB_TOKEN": fake.token})
            assert posted.returncode == 0, posted.stdout + posted.stderr
        (note,) = fake.notes
        assert "❌" in note["body"]
        assert season.good[:12] in note["body"]
    assert (job / gate["artifacts"]["reports"]["junit"]).is_file()
    assert "ragstone" in machine.asked


def azure_steps(job: Path, machine: Machine, environ: Mapping[str, str], published: dict[str, Path]) -> Iterator[Any]:
    """The results of the scripts, one step after the other, with what the tasks in between do."""
    failed = False
    on_main = environ["BUILD_SOURCEBRANCH"] == "refs/heads/main"
    for step in yaml.safe_load(recipe("Azure Pipelines"))["steps"]:
        condition = step.get("condition", "succeeded()")
        if "script" not in condition and "succeeded()" in condition and failed:
            continue
        if "'PullRequest'" in condition and environ["BUILD_REASON"] != "PullRequest":
            continue
        if "'refs/heads/main'" in condition and not on_main:
            continue
        if step.get("checkout"):
            assert step["fetchDepth"] == 0
        elif "task" in step:
            assert step["task"].startswith("DownloadPipelineArtifact@")
            assert step["continueOnError"]
            assert step["inputs"]["runBranch"] == "refs/heads/main"
            source = published.get(step["inputs"]["artifact"])
            if source is not None:
                shutil.copytree(source, job / step["inputs"]["path"])
        elif "publish" in step:
            published[step["artifact"]] = job / step["publish"]
            assert published[step["artifact"]].is_dir()
        else:
            mapped = {
                name: value.replace("$(System.AccessToken)", Fake.token) for name, value in step.get("env", {}).items()
            }
            done = machine.run([step["script"]], job, {**environ, **mapped})
            failed = failed or done.returncode != 0
            yield done


def test_azure_pipelines(machine: Machine, season: Season) -> None:
    fake = Fake()
    published: dict[str, Path] = {}
    with serving(fake, azure) as url:
        common = {
            "TF_BUILD": "True",
            "SYSTEM_COLLECTIONURI": f"{url}/org/",
            "SYSTEM_TEAMPROJECTID": "proj",
            "BUILD_REPOSITORY_ID": "repo",
        }
        branch = {**common, "BUILD_SOURCEBRANCH": "refs/heads/main", "BUILD_REASON": "IndividualCI"}
        merge = {
            **common,
            "BUILD_SOURCEBRANCH": "refs/pull/5/merge",
            "BUILD_REASON": "PullRequest",
            "SYSTEM_PULLREQUEST_PULLREQUESTID": "5",
        }
        _, main = azure_steps(season.main(), machine, branch, published)
        assert {path.name for path in published.values()} == {"ragstone-run", "ragstone-baselines"}
        _, request, posted = azure_steps(season.request(), machine, merge, dict(published))
        season.judge(main, request)
        assert posted.returncode == 0, posted.stdout + posted.stderr
    (thread,) = fake.threads
    assert "❌" in thread["comments"][0]["content"]


def test_jenkins(machine: Machine, season: Season) -> None:
    text = recipe("Jenkins")
    lines = re.findall(r"\bsh '([^'\n]+)'", text)
    assert len(lines) == text.count("sh '") == 3
    common = {"JENKINS_URL": "https://ci.example.org/"}
    branch = {**common, "BRANCH_NAME": "main", "BRANCH_IS_PRIMARY": "true"}
    merge = {**common, "BRANCH_NAME": "PR-5", "CHANGE_ID": "5", "CHANGE_TARGET": "main"}
    job = season.main()
    main = machine.run(lines, job, branch)
    season.judge(main, machine.run(lines, season.request(), merge))
    assert (machine.root / "ragstone-baselines" / "shop" / f"{season.good}.zip").is_file()
    for place in re.findall(r"'(ragstone-run/[\w.]+)'", text):
        assert (job / place).is_file()


def test_every_system_of_the_page_is_run_here() -> None:
    sections = dict(re.findall(r"^## ([^\n]+)\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL))
    recipes = {name for name, text in sections.items() if re.search(r"^```(yaml|groovy)$", text, re.MULTILINE)}
    assert len(recipes) == 3
    assert {f"test_{name.lower().replace(' ', '_')}" for name in recipes} <= globals().keys()
