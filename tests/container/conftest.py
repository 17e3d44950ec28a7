from __future__ import annotations

import tempfile
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def temporary_folders(open_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is made for the user's code is removed with the test."""
    monkeypatch.setattr(tempfile, "tempdir", str(open_folder))
