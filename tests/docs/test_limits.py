"""docs/reference.md, limits: the bounds are those of the code."""

from __future__ import annotations

import importlib
import re

import pytest

from tests.docs.page import page

PAGE = page("reference", "Limits")
ROWS = re.findall(r"^\| (.+?) \| ([\d,.]+) (MB|MiB|GB|GiB|KiB|kB|samples) \| `([\w.]+):(\w+)` \|$", PAGE, re.MULTILINE)
UNITS = {"samples": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}


@pytest.mark.parametrize(("what", "size", "unit", "module", "name"), ROWS)
def test_each_bound_is_that_of_the_code(what: str, size: str, unit: str, module: str, name: str) -> None:
    bound = getattr(importlib.import_module(f"ragstone.{module}"), name)
    assert bound == round(float(size.replace(",", "")) * UNITS[unit]), what


def test_each_row_is_read_here() -> None:
    assert len(ROWS) == len([line for line in PAGE.splitlines() if line.startswith("| ") and "`" in line])
