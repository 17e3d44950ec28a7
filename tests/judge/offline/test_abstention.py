"""Saying that one can't answer, and saying that something is not so."""

from __future__ import annotations

import asyncio
import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ragstone.judge.normal import normalise
from ragstone.judge.offline import OfflineJudge
from ragstone.judge.offline.abstention import refuses
from ragstone.judge.offline.lexicon import load_data
from ragstone.judge.offline.statements import answer_abstains
from ragstone.judge.protocol import Call
from tests.judge.offline.cases import CASES


def abstains(answer: str) -> bool:
    return asyncio.run(OfflineJudge().statements("What is it?", answer, call=Call("a"))).abstains


@pytest.mark.parametrize("answer", CASES["abstentions"])
def test_an_answer_that_gives_none_abstains(answer: str) -> None:
    assert abstains(answer)
    assert answer_abstains(answer)


@pytest.mark.parametrize("answer", CASES["answers"])
def test_an_answer_that_denies_something_is_an_answer(answer: str) -> None:
    assert not abstains(answer)


@pytest.mark.parametrize(("answer", "claim"), CASES["besides"])
def test_what_is_claimed_beside_a_refusal_in_one_sentence_is_judged(answer: str, claim: str) -> None:
    for before in ("", f"{claim.rstrip('.')}. "):
        found = asyncio.run(OfflineJudge().statements("Is it far?", before + answer, call=Call("a")))
        assert not found.abstains
        assert [one.text for one in found.statements][-1:] == [claim]
        assert not answer_abstains(before + answer)


PATTERNS = [
    (code, pattern) for code, kinds in load_data("phrases.json").items() for pattern in kinds.get("refusals", ())
]


@pytest.mark.heavy
@pytest.mark.parametrize("place", range(len(PATTERNS)))
@settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_whatever_a_pattern_of_refusal_matches_is_a_refusal(place: int, data: st.DataObject) -> None:
    code, pattern = PATTERNS[place]
    compiled = re.compile(pattern, re.IGNORECASE)
    text = normalise(data.draw(st.from_regex(compiled)))[:400]
    if compiled.search(text):
        assert refuses(text, code)


@pytest.mark.parametrize("text", ["I am UNAWARE of that.", "This İS NOT specıfied.", "Unanswerable"])
def test_refusals_are_found_in_any_case(text: str) -> None:
    assert refuses(text, "en")
