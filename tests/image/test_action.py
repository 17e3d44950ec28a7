"""The action in its container, under the runner's contract."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from ragstone.evaluation.directory import RunDirectory
from tests.github.api.fake import FORK_ID, FakeGitHub
from tests.github.api.payloads import HEAD_SHA, pull_request, workflow_run
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


def test_inputs_with_dashes_arrive_and_a_bad_gate_ends_with_1(step: Runner) -> None:
    step.checkout.answer_badly()
    assert step.run(**RECORDED).code == 1
    assert step.run(fail_on="never", **RECORDED).code == 0


def test_a_bad_input_is_named(step: Runner) -> None:
    found = step.run(comment="loudly", **RECORDED)
    assert found.code == 2
    assert any("input 'comment'" in line for line in found.annotations)
    assert found.outputs == {"verdict": "error", "passed": "false"}


@pytest.mark.parametrize("event", ["push", "merge_group"])
def test_each_event_without_a_pull_request(step: Runner, github: FakeGitHub, event: str) -> None:
    found = step.run(event, **RECORDED)
    assert found.code == 0, found.log
    assert github.bodies() == []
    assert found.summary


def test_a_fork(step: Runner, github: FakeGitHub) -> None:
    found = step.run("pull_request", pull_request(fork=True), **RECORDED)
    assert found.code == 0, found.log
    assert found.outputs["verdict"] == "pass"


def test_a_workflow_run_posts_what_the_fork_found(step: Runner, github: FakeGitHub) -> None:
    step.checkout.answer_badly()
    step.run("push", **RECORDED)
    github.add_run(555, event="pull_request", branch="main", head_repository_id=FORK_ID, sha=HEAD_SHA)
    github.add_pull(7, owner="mallory", branch="main", sha=HEAD_SHA, head_id=FORK_ID)
    github.add_artifact(555, files_of(RunDirectory.open(step.checkout.root / "ragstone-run")))
    found = step.run("workflow_run", workflow_run(), **RECORDED)
    assert found.code == 0, found.log
    assert len(github.bodies(7)) == 1


def test_the_baseline_of_a_push_is_compared_with(step: Runner, github: FakeGitHub) -> None:
    assert step.run("push", **RECORDED).code == 0
    github.add_run(1, artifact=files_of(RunDirectory.open(step.checkout.root / "ragstone-run")))
    assert step.run(**RECORDED).outputs["baseline-run-id"] == "1"


def test_requirements_go_into_an_environment_of_the_users_own_and_are_kept(step: Runner) -> None:
    step.checkout.write("requirements.txt", "iniconfig==2.0.0\n")
    step.checkout.write(
        "rag.py",
        """
        import importlib.metadata, sys
        assert importlib.metadata.version("iniconfig") == "2.0.0"
        assert "env-" in sys.prefix

        def answer(question):
            return {"answer": "I do not know.", "contexts": ["Nothing."]}
        """,
    )
    inputs: dict[str, Any] = {
        "golden_set": "golden.jsonl",
        "entrypoint": "python:rag:answer",
        "requirements": "requirements.txt",
    }
    first = step.run(**inputs)
    assert first.code in (0, 1, 5), first.log
    assert "4" not in first.outputs["verdict"]
    kept = list((step.folder / "runner_temp").glob("ragstone-*/env-*/ragstone-complete"))
    assert len(kept) == 1
    before = kept[0].stat().st_mtime_ns
    assert step.run(**inputs).code == first.code
    assert kept[0].stat().st_mtime_ns == before
    step.checkout.write("requirements.txt", "iniconfig==2.0.0  # changed\n")
    step.run(**inputs)
    assert len(list((step.folder / "runner_temp").glob("ragstone-*/env-*/ragstone-complete"))) == 2


@pytest.mark.parametrize(
    ("name", "inputs"),
    [
        ("examples/docs-qa", {"requirements": "examples/docs-qa/requirements.txt"}),
        ("examples/support-agent", {}),
    ],
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
