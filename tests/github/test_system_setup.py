"""What a job sets up for the user's system, and where its report says to run commands."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ragstone.github.annotations import Places
from ragstone.github.container.user_environment import SystemSetup
from ragstone.github.evaluate import _policy_folder


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


@pytest.mark.parametrize(("file", "folder"), [(None, "rag"), ("policies/thresholds.toml", "policies")])
def test_commands_are_run_where_the_policy_is(tmp_path: Path, file: str | None, folder: str) -> None:
    policy: Any = SimpleNamespace(file=None if file is None else str(tmp_path / file))
    assert _policy_folder(policy, tmp_path / "rag", Places(tmp_path, tmp_path)) == folder
