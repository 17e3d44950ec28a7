"""The action in its container, under the runner's contract."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from ragstone.evaluation.directory import RunDirectory
from tests.github.api.fake import FORK_ID, FakeGitHub
from tests.github.api.payloads import HEAD_SHA, workflow_run
from tests.github.runs import files_of
from tests.image.conftest import RECORDED, Runner

pytestmark = pytest.mark.container

ROOT = Path(__file__).parents[2]


def test_a_pull_request_is_gated_and_commented_on(step: Runner, github: FakeGitHub) -> None:
    found = step.run(**RECORDED)
    assert found.code == 0, found.log
    assert found.outputs["verdict"] == "pass"
    assert found.outputs["comment-url"]
    assert len(github.bodies()) == 1
    assert "Faithfulness" in found.summary


def test_a_workflow_run_posts_what_the_fork_found(step: Runner, github: FakeGitHub) -> None:
    step.checkout.answer_badly()
    step.run("push", **RECORDED)
    github.add_run(555, event="pull_request", branch="main", head_repository_id=FORK_ID, sha=HEAD_SHA)
    github.add_pull(7, owner="mallory", branch="main", sha=HEAD_SHA, head_id=FORK_ID)
    github.add_artifact(555, files_of(RunDirectory.open(step.checkout.root / "ragstone-run")))
    found = step.run("workflow_run", workflow_run(), **RECORDED)
    assert found.code == 0, found.log
    assert len(github.bodies(7)) == 1


INSTALLED = """
import importlib.metadata, sys
assert importlib.metadata.version("iniconfig") == "2.0.0"
assert sys.prefix.endswith("/env")

def answer(question):
    return {"answer": "I do not know.", "contexts": ["Nothing."]}
"""


def test_requirements_go_into_an_environment_of_the_users_own(step: Runner) -> None:
    step.checkout.write("requirements.txt", "iniconfig==2.0.0\n")
    step.checkout.write("rag.py", INSTALLED)
    inputs: dict[str, Any] = {**RECORDED, "entrypoint": "python:rag:answer", "requirements": "requirements.txt"}
    first = step.run(**inputs)
    assert first.code in (0, 1, 5), first.log
    assert "4" not in first.outputs["verdict"]
    assert step.run(**inputs).code == first.code
    (environment,) = (step.folder / "runner_temp").glob("ragstone-*/env")
    assert environment.is_dir()


@pytest.mark.parametrize(
    ("name", "inputs"),
    [("examples/docs-qa", {"requirements": "examples/docs-qa/requirements.txt"}), ("examples/support-agent", {})],
)
def test_our_own_example_is_gated_as_our_workflow_does(step: Runner, name: str, inputs: dict[str, Any]) -> None:
    shutil.rmtree(step.checkout.root)
    generated = shutil.ignore_patterns(".venv", "__pycache__", "ragstone-run*")
    shutil.copytree(ROOT / name, step.checkout.root / name, ignore=generated)
    found = step.run("push", config=f"{name}/ragstone.toml", **inputs)
    assert found.code == 0, found.log
    assert found.outputs["verdict"] == "pass"
    assert found.outputs["run-directory"] == f"{name}/ragstone-run"


def test_a_setup_that_fails_shows_its_end_and_exits_with_4(step: Runner) -> None:
    found = step.run(setup="echo '::error::forged'; echo my own words; false", **RECORDED)
    assert found.code == 4
    assert "my own words" in found.log
    assert not any(line == "::error::forged" for line in found.annotations)


def test_a_working_directory_of_its_own(step: Runner) -> None:
    service = step.checkout.root / "service"
    service.mkdir()
    for name in ("golden.jsonl", "outputs.jsonl", "thresholds.toml"):
        (step.checkout.root / name).rename(service / name)
    found = step.run(working_directory="service", **RECORDED)
    assert found.code == 0, found.log
    assert found.outputs["run-directory"] == "service/ragstone-run"
    assert step.run(working_directory="../..", **RECORDED).code == 2
