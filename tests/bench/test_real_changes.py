"""The bench of real changes: its systems are healthy, its changes are made, and a few of them are gated."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from real_systems.changes import HARMFUL, HARMLESS, Change, system_after
from real_systems.corpus import read_corpus
from real_systems.system import SORRY, RagSystem

SCRIPT = Path(__file__).parents[2] / "bench" / "real_changes.py"


@pytest.mark.parametrize("name", ["gardens", "coffee"])
def test_a_system_quotes_what_answers_the_question(name: str) -> None:
    system = RagSystem(name)
    questions = read_corpus(name).questions
    answerable = [question for question in questions if question.passage_id is not None]
    right = [question for question in answerable if question.sentence in system.reply(question.text).sentences]
    assert 60 <= len(answerable) <= 100
    assert len(right) >= 0.95 * len(answerable)
    others = [question for question in questions if question.passage_id is None]
    assert {system.reply(question.text).answer for question in others} == {SORRY}


@pytest.mark.parametrize("change", [*HARMLESS[1:], *HARMFUL], ids=lambda change: change.name)
def test_a_change_changes_what_is_returned(change: Change) -> None:
    before, after = RagSystem("gardens"), system_after("gardens", change.name)
    questions = [question.text for question in before.corpus.questions]
    assert sum(after(question) != before.answer(question) for question in questions) >= 10


@pytest.mark.heavy
def test_harmless_changes_pass_and_harmful_ones_are_blocked() -> None:
    changes = ["top_k 8", "second prompt", "cited by id", "off-by-one", "numbers altered", "invented additions"]
    command = [sys.executable, str(SCRIPT), "--systems", "coffee", "--only", *changes]
    completed = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    assert completed.returncode == 0, completed.stderr
    assert completed.stdout.splitlines()[-1] == (
        "Harmless: 3, of them 0 blocked and 0 yellow. Harmful: 3, of them 3 blocked, and the half is right in 3."
    )
