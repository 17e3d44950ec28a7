"""Right answers in conversations are supported as the same answers to standalone questions are."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

BENCH = Path(__file__).parents[3] / "bench" / "conversations.py"


@pytest.mark.heavy
def test_turns_are_called_unsupported_no_more_often_than_questions_that_stand_alone() -> None:
    bench = runpy.run_path(str(BENCH))
    found = bench["shares"](list(bench["own_pairs"]()))
    assert {field: size for field, (size, _, _) in found.items()} == {"visitors": 60, "software": 60, "handbook": 60}
    for _, as_turns, alone in found.values():
        assert as_turns - alone <= 0.05
        assert as_turns <= 0.05
