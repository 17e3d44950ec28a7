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
ACTION: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")


def test_the_inputs_of_the_code_are_declared_with_defaults_that_are_accepted() -> None:
    assert {name: spec["default"] for name, spec in ACTION["inputs"].items()} == {
        spec.name: spec.default for spec in INPUTS
    }
    assert not any(spec.get("required") for spec in ACTION["inputs"].values())
    given = {f"INPUT_{name.upper()}": spec["default"] for name, spec in ACTION["inputs"].items()}
    assert dict(read_inputs(given).overrides) == {}
    assert {spec.key for spec in INPUTS if spec.key is not None} <= {option.key for option in OPTIONS}


def test_every_output_is_declared_and_every_plain_metric_has_one() -> None:
    assert list(ACTION["outputs"]) == list(OUTPUTS)
    for name in METRICS:
        assert is_output_name(metric_output(name))
        assert "@" in name or metric_output(name) in ACTION["outputs"]


@pytest.mark.usefixtures("processes")
def test_the_generated_files_are_what_the_script_writes() -> None:
    script = [sys.executable, str(ROOT / "scripts" / "action_file.py"), "--check"]
    done = subprocess.run(script, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_action_runs_our_dockerfile_or_an_image_by_digest() -> None:
    assert ACTION["runs"]["using"] == "docker"
    assert set(ACTION["runs"]) == {"using", "image"}  # runs.env would be overridden by a workflow's env
    image = ACTION["runs"]["image"]
    released = re.fullmatch(r"docker://ghcr\.io/[a-z0-9-]+/ragstone@sha256:[0-9a-f]{64}", image)
    assert image == "Dockerfile" or released, image


def test_version_image_and_changelog_agree() -> None:
    assert f"ARG VERSION={__version__}\n" in DOCKERFILE
    assert f"## [{__version__}]" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_the_base_image_is_pinned_and_the_entrypoint_keeps_the_workspace_off_the_import_path() -> None:
    assert re.search(r"^ARG PYTHON_IMAGE=docker\.io/library/python:\S+-slim\S*@sha256:[0-9a-f]{64}$", DOCKERFILE, re.M)
    assert re.findall(r"^FROM (\S+)", DOCKERFILE, re.M) == ["${PYTHON_IMAGE}", "${PYTHON_IMAGE}"]
    assert 'ENTRYPOINT ["/opt/ragstone/bin/python", "-I", "-m", "ragstone.action"]' in DOCKERFILE
