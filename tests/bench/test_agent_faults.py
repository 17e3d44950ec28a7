"""The bench of an agent's faults: each change shows in what is returned, and the gate names the faults alone."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from agent_faults import CHANGES, EXAMPLE

SCRIPT = Path(__file__).parents[2] / "bench" / "agent_faults.py"


def responses(change: str) -> list[str]:
    """What the agent returns after a change in all conversations of the example."""
    returned = []
    for line in (EXAMPLE / "golden.jsonl").read_text("utf-8").splitlines():
        conversation = CHANGES[change].agent()
        for turn in json.loads(line)["turns"]:
            returned.append(json.dumps(conversation.answer(turn["question"])))
    return returned


@pytest.fixture(scope="module")
def unchanged() -> list[str]:
    return responses("takes longer")


@pytest.mark.parametrize("change", [name for name in CHANGES if name != "takes longer"])
def test_a_change_changes_what_is_returned(change: str, unchanged: list[str]) -> None:
    pairs = zip(responses(change), unchanged, strict=True)
    assert sum(changed != before for changed, before in pairs) >= 6


@pytest.mark.heavy
def test_faults_are_blocked_and_named_and_harmless_changes_pass() -> None:
    completed = subprocess.run([sys.executable, str(SCRIPT)], capture_output=True, text=True, check=False, timeout=1800)
    assert completed.returncode == 0, completed.stderr
    assert completed.stdout.splitlines()[-1] == "Faults: 20, 20 blocked, 20 named. Harmless: 10, 0 blocked."
