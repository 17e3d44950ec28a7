"""docs/limits.md names the bounds that the code has."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "limits.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| (.+?) \| ([\d,.]+) (MB|MiB|GB|GiB|KiB|kB|samples) \| `([\w.]+):(\w+)` \|$", PAGE, re.MULTILINE)
UNITS = {"samples": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}


@pytest.mark.parametrize(("what", "size", "unit", "module", "name"), ROWS)
def test_each_bound_is_that_of_the_code(what: str, size: str, unit: str, module: str, name: str) -> None:
    bound = getattr(importlib.import_module(f"ragstone.{module}"), name)
    assert bound == round(float(size.replace(",", "")) * UNITS[unit]), what


def test_every_public_bound_on_a_file_is_in_the_table() -> None:
    named = {f"{module}:{name}" for _, _, _, module, name in ROWS}
    assert len(ROWS) == len([line for line in PAGE.splitlines() if line.startswith("| ") and "`" in line])
    found = set()
    for path in (ROOT / "src" / "ragstone").rglob("*.py"):
        module = ".".join(path.relative_to(ROOT / "src" / "ragstone").with_suffix("").parts)
        names = re.findall(r"^(MAX_\w*BYTES) = ", path.read_text(encoding="utf-8"), re.MULTILINE)
        found |= {f"{module}:{name}" for name in names}
    assert found - named == {"system.python_worker:MAX_FRAME_BYTES"}, "which follows from the size of an answer"
