"""docs/reference.md, limits: the bounds are those of the code."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
REFERENCE = (ROOT / "docs" / "reference.md").read_text(encoding="utf-8")
PAGE = REFERENCE.partition("\n## Limits\n")[2].partition("\n## ")[0]
ROWS = re.findall(r"^\| (.+?) \| ([\d,.]+) (MB|MiB|GB|GiB|KiB|kB|samples) \| `([\w.]+):(\w+)` \|$", PAGE, re.MULTILINE)
UNITS = {"samples": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}


@pytest.mark.parametrize(("what", "size", "unit", "module", "name"), ROWS)
def test_each_bound_is_that_of_the_code(what: str, size: str, unit: str, module: str, name: str) -> None:
    bound = getattr(importlib.import_module(f"ragstone.{module}"), name)
    assert bound == round(float(size.replace(",", "")) * UNITS[unit]), what


def test_each_row_is_read_here() -> None:
    assert len(ROWS) == len([line for line in PAGE.splitlines() if line.startswith("| ") and "`" in line])
