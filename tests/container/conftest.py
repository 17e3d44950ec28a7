from __future__ import annotations

import tempfile
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def temporary_folders(
    open_folder: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is made for the user's code is removed with the test."""
    tmp_path_factory.getbasetemp()  # pytest's own folder is made before, elsewhere
    monkeypatch.setattr(tempfile, "tempdir", str(open_folder))
