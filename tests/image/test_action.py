"""The action in its container, under the runner's contract."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.github.api.fake import FakeGitHub
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
    assert not list((step.folder / "runner_temp").glob("*/env")), "nothing is left behind"


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
