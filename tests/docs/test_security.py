"""The threat model names the tests that show what it says, and lists the attacks they try."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from scripts.attack_table import ATTACKERS, attacks_in, with_lists

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "threat-model.md").read_text(encoding="utf-8")


def test_the_lists_of_attacks_are_those_of_the_marked_tests() -> None:
    assert with_lists(PAGE, list(attacks_in(ROOT / "tests"))) == PAGE, "make generated"


def test_each_attacker_has_attacks() -> None:
    attacks = list(attacks_in(ROOT / "tests"))
    assert {attack.by for attack in attacks} == ATTACKERS.keys()
    assert len(attacks) > 90
    assert [attack for attack in attacks if not (attack.tries and attack.stopped_by)] == []


def test_a_mark_that_says_too_little_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "test_x.py").write_text(
        'import pytest\n\n\n@pytest.mark.attack(by="nobody", tries="x", stopped_by="y")\ndef test_x() -> None: ...\n'
    )
    with pytest.raises(ValueError, match="test_x"):
        list(attacks_in(tmp_path))


def test_each_file_of_tests_that_is_named_exists() -> None:
    named = set(re.findall(r"`([\w/]+\.py)`", PAGE))
    assert named
    assert [name for name in named if not (ROOT / "tests" / name).is_file()] == []
