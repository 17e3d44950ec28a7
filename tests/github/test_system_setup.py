"""What a job sets up for the user's system, and where its report says to run commands."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ragstone.github.annotations import Places
from ragstone.github.container.user_environment import SystemSetup
from ragstone.github.evaluate import _policy_folder
from ragstone.settings.settings import Settings


@pytest.mark.parametrize(
    ("setup", "needs_environment"),
    [
        (SystemSetup(), False),
        (SystemSetup(script="make"), True),
        (SystemSetup(requirements=("requirements.txt",)), True),
        (SystemSetup(python_version="3.12"), True),
    ],
)
def test_a_system_has_an_environment_of_its_own_if_anything_is_set_up(
    setup: SystemSetup, needs_environment: bool
) -> None:
    assert setup.needs_environment is needs_environment


@pytest.mark.parametrize(
    ("policy", "folder"),
    [(None, "rag"), ({"file": None}, "rag"), ({"file": "policies/thresholds.toml"}, "policies")],
)
def test_commands_are_run_where_the_policy_is(tmp_path: Path, policy: dict[str, Any] | None, folder: str) -> None:
    file = None if policy is None or policy["file"] is None else str(tmp_path / policy["file"])
    job: Any = SimpleNamespace(
        policy=None if policy is None else SimpleNamespace(file=file),
        settings=Settings(root=tmp_path / "rag"),
        places=Places(tmp_path, tmp_path),
    )
    assert _policy_folder(job) == folder
