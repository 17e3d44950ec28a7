"""The bench of seeded faults, on one system and a few faults: the right half and cause are named."""

from __future__ import annotations

import pytest
import seeded_faults


@pytest.mark.heavy
@pytest.mark.parametrize(
    "name", ["half empty", "top k", "reranker", "be brief", "at a length", "abstain", "judge", "time"]
)
def test_a_seeded_fault_is_named(name: str) -> None:
    (found,) = seeded_faults.seeded(("ferry",), name)
    assert found.half, found.said
    assert found.cause or found.fault.name == 'the prompt says "be brief"', found.said


@pytest.mark.heavy
@pytest.mark.parametrize("name", ["unchanged", "numbered steps", "one more context", "slower"])
def test_a_harmless_change_has_no_cause(name: str) -> None:
    ((_, _, said),) = seeded_faults.harmless(("ferry",), name)
    assert (said.side, said.cause) == (None, None), said


@pytest.mark.heavy
def test_the_faults_of_the_second_system_are_named() -> None:
    found = list(seeded_faults.seeded(("ferry",)))
    assert sum(one.half for one in found) >= 18
    assert sum(one.cause for one in found) >= 15
    false = [said.line for _, _, said in seeded_faults.harmless(("ferry",)) if said.side or said.cause]
    assert len(false) <= 1, false
