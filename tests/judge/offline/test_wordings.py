"""What assistants say around an answer adds no claim to it, and takes none away."""

from __future__ import annotations

import asyncio
import itertools
import json
import re
from pathlib import Path

import pytest

from ragstone.judge.offline import OfflineJudge
from ragstone.judge.protocol import Call

WORDINGS = json.loads(Path(__file__).with_name("wordings.json").read_text(encoding="utf-8"))
QUESTION = "When does the night ferry to the island leave?"
ANSWERS = (
    "The night ferry leaves at 23:40 from pier 4.",
    "Tickets cost 12 euros. Children under six travel free of charge, and dogs need a muzzle.",
    "You must not smoke on deck unless the captain allows it.",
    "No dogs are allowed. The price is not refunded if the ferry is late.",
)


def claims(answer: str) -> list[str]:
    found = asyncio.run(OfflineJudge().statements(QUESTION, answer, call=Call("a")))
    assert not found.abstains
    texts = (" ".join(re.findall(r"\w+", one.text.lower())) for one in found.statements)
    return [text for text in dict.fromkeys(texts) if text]


@pytest.mark.parametrize(("wording", "answer"), list(zip(WORDINGS, itertools.cycle(ANSWERS), strict=False)))
def test_a_wording_adds_no_claim_and_takes_none_away(wording: str, answer: str) -> None:
    lower = answer[0].lower() + answer[1:]
    assert claims(wording.format(answer=answer, lower=lower, open=answer[:-1], question=QUESTION)) == claims(answer)


@pytest.mark.parametrize("hidden", ["dogs travel free of any charge", "only 12 euros"])
def test_a_claim_in_the_place_of_a_source_is_judged(hidden: str) -> None:
    for answer in (f"It runs daily ([{hidden}](https://example.com/x)).", f"It runs daily (faq.md, {hidden})."):
        assert hidden in " ".join(claims(answer))
