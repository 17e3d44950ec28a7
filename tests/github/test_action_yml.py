"""action.yml, the documentation, the code and the release agree with each other."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from ragstone import __version__
from ragstone.github.api.commands import is_output_name
from ragstone.github.inputs import INPUTS, read_inputs
from ragstone.github.outputs import OUTPUTS, metric_output
from ragstone.metrics.registry import METRICS
from ragstone.settings.load import OPTIONS

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def action() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
    return found


def table(page: str, name: str) -> dict[str, list[str]]:
    text = (ROOT / page).read_text(encoding="utf-8")
    found = re.search(rf"<!-- {name}:begin -->\n(.*?)<!-- {name}:end -->", text, re.DOTALL)
    assert found is not None, f"{page} has no table of {name}"
    rows = [re.split(r"(?<!\\)\|", line)[1:-1] for line in found[1].splitlines()[2:]]
    return {cells[0].strip().strip("`"): [cell.strip() for cell in cells[1:]] for cells in rows}


def test_every_input_of_the_code_is_declared_with_its_default(action: dict[str, Any]) -> None:
    assert {name: spec["default"] for name, spec in action["inputs"].items()} == {
        spec.name: spec.default for spec in INPUTS
    }
    assert not any(spec.get("required") for spec in action["inputs"].values())


def test_the_defaults_of_action_yml_are_accepted(action: dict[str, Any]) -> None:
    given = {f"INPUT_{name.upper()}": spec["default"] for name, spec in action["inputs"].items()}
    assert dict(read_inputs(given).overrides) == {}


def test_every_input_that_is_a_setting_names_one() -> None:
    keys = {option.key for option in OPTIONS}
    assert {spec.key for spec in INPUTS if spec.key is not None} <= keys


def test_every_output_is_declared_and_every_plain_metric_has_one(action: dict[str, Any]) -> None:
    assert list(action["outputs"]) == [output.name for output in OUTPUTS]
    for name in METRICS:
        output = name.replace("_", "-").replace("@", "-at-")
        assert is_output_name(output)
        assert "@" in name or output in action["outputs"]


def test_every_input_is_documented() -> None:
    documented = table("docs/github-action.md", "inputs")
    assert list(documented) == [spec.name for spec in INPUTS]
    for spec in INPUTS:
        assert documented[spec.name][0].strip("`") == spec.default
        assert documented[spec.name][1].replace("\\|", "|") == spec.description


def test_every_output_is_documented() -> None:
    page = (ROOT / "docs" / "github-action.md").read_text(encoding="utf-8")
    outputs = page.partition("<!-- outputs:begin -->")[2].partition("<!-- outputs:end -->")[0]
    rows = [line.split("|")[1] for line in outputs.strip().splitlines()[2:]]
    metrics = {metric_output(name) for name in METRICS}
    assert set(re.findall(r"`([\w-]+)`", " ".join(rows))) == {output.name for output in OUTPUTS} - metrics


@pytest.mark.usefixtures("processes")
def test_the_generated_files_are_what_the_script_writes() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "action_file.py"), "--check"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_the_action_runs_our_dockerfile_or_an_image_by_digest(action: dict[str, Any]) -> None:
    assert action["runs"]["using"] == "docker"
    assert set(action["runs"]) == {"using", "image"}  # runs.env would be overridden by a workflow's env
    image = action["runs"]["image"]
    released = re.fullmatch(r"docker://ghcr\.io/[a-z0-9-]+/ragstone@sha256:[0-9a-f]{64}", image)
    assert image == "Dockerfile" or released, image


def test_version_image_and_changelog_agree() -> None:
    dockerfile = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    assert f"ARG VERSION={__version__}\n" in dockerfile
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert f"## [{__version__}]" in changelog


def test_the_base_image_is_pinned_by_digest() -> None:
    dockerfile = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    assert re.search(r"^ARG PYTHON_IMAGE=docker\.io/library/python:\S+-slim\S*@sha256:[0-9a-f]{64}$", dockerfile, re.M)
    assert re.findall(r"^FROM (\S+)", dockerfile, re.M) == ["${PYTHON_IMAGE}", "${PYTHON_IMAGE}"]


def test_the_entrypoint_is_exec_form_and_keeps_the_workspace_off_the_import_path() -> None:
    dockerfile = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    assert 'ENTRYPOINT ["/opt/ragstone/bin/python", "-I", "-m", "ragstone.action"]' in dockerfile
