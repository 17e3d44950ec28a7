"""`make test-fast`: its list of what is slow names what exists, so that a renamed module does not slip into it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import SLOW

HERE = Path(__file__).parent


@pytest.mark.parametrize("entry", SLOW)
def test_what_is_left_out_exists(entry: str) -> None:
    path, _, test = entry.partition("::")
    assert (HERE / path).exists()
    assert not test or f"def {test}(" in (HERE / path).read_text(encoding="utf-8")
