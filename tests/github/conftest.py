"""A fake GitHub, and a checkout with a job's own run on it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.github.api.conftest import api, connect, contract, github, pauses
from tests.github.api.fake import FakeGitHub
from tests.github.builders import Checkout

__all__ = ["api", "connect", "contract", "github", "pauses"]


@pytest.fixture
def own_run(github: FakeGitHub) -> None:
    """The workflow run that the job is part of."""
    github.add_run(900, event="pull_request", branch="topic", status="in_progress", conclusion="neutral")


@pytest.fixture
def checkout(own_run: None, github: FakeGitHub, tmp_path: Path) -> Checkout:
    return Checkout(github, tmp_path)
