"""What an answer says besides its claims costs nothing, in every supported language; what it claims stays."""

from __future__ import annotations

import pytest

from ragstone.judge.offline.claims import claim, is_aside
from ragstone.judge.offline.lexicon import language
from ragstone.judge.offline.statements import split_statements
from tests.judge.offline.cases import CASES

TOWER = CASES["tower"]


@pytest.mark.parametrize(("code", "text"), CASES["asides"])
def test_greetings_and_offers_are_no_claims(code: str, text: str) -> None:
    assert is_aside(text, code)
    found = split_statements(f"{TOWER[code]} {text}", language(code))
    assert [one.text for one in found] == [TOWER[code]]


@pytest.mark.parametrize(("code", "opening"), CASES["sources"])
def test_sources_and_hedges_are_taken_off(code: str, opening: str) -> None:
    rest = TOWER[code]
    assert claim(opening + rest[0].lower() + rest[1:], code) == rest


@pytest.mark.parametrize(("code", "text"), CASES["claims"])
def test_claims_that_look_alike_stay(code: str, text: str) -> None:
    assert claim(text, code) == text
