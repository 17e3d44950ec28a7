"""What not every machine has that the tests run on. `--no-skips` allows no other reason to skip a test."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = "needs root (make test-as-root)"
DATA_SETS = "needs the data sets in ../shared/data"
ALLOWED_SKIPS = (ROOT, DATA_SETS)

needs_root = pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason=ROOT)


def need_data(path: Path) -> None:
    """Skip the test if a file or folder of the data sets is not on this machine."""
    if not path.exists():
        pytest.skip(f"{DATA_SETS}: {path.name}")
