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

ABSTENTIONS = (
    "I don't know: the records don't say.",
    "The provided context does not contain information about the release date.",
    "I'm not able to answer that.",
    "There is insufficient information in the sources to answer.",
    "No information is provided about the price.",
    "Das weiß ich leider nicht.",
    "No lo sé.",
    "Non lo so.",
    "Não sei.",
    "我不知道。",
    "わかりません。",
    "Leider kann ich diese Frage nicht beantworten.",
    "Désolé, je n'ai pas trouvé d'information à ce sujet.",
    "Lo siento, no tengo información sobre eso.",
    "Ik weet het niet.",
    "문서에서 정보를 찾을 수 없습니다.",
    "Я не знаю.",
    "لا أعرف.",
    "As an AI language model, I don't have personal opinions.",
    "The price of the ticket, however, is not given in the documents.",
    "The ferry's price, its schedule, and the number of seats are not mentioned in the documents.",
    "The context describes the building of the lighthouse, but it does not mention its age.",
    "I understand that you want to know when it leaves, but I don't have that information.",
    "Unfortunately the documents do not yet mention the price; please contact the harbour office.",
    "The sources are silent on this point.",
    "The answer to the given question is not present in the context.",
)

ANSWERS = (
    "Records are kept for five years.",
    "No, you cannot cancel the order after it has shipped.",
    "I don't know of any exception: refunds are always paid within 30 days.",
    "It is not known to cause side effects in children under twelve.",
    "The exact date is unknown, but historians place it around 1450.",
    "While the context does not mention the price, it says that entry is free for children.",
    "If you are not sure which plan you need, choose the Team plan, which includes SSO.",
    "No answer is sent when the queue is full; the client must retry.",
    "Sie können die Bestellung nicht stornieren.",
    "The documents do not mention exchanges. You can return items within 30 days.",
    "It's 50 minutes, but I'm not sure.",
    "Nothing else is included in the price.",
    "The data showed a clear tendency, but no indication of an ordered state was observed.",
    "I can't help but note that the ferry takes 50 minutes to the island.",
    "I don't know the exact year, but the lighthouse was built by Ada Brown in the nineteenth century.",
    "Unknown Pleasures is the debut album by Joy Division.",
)

BESIDES = (
    ("The ferry takes 50 minutes, but the documents do not say when it leaves.", "The ferry takes 50 minutes"),
    ("The ferry takes 50 minutes (the price is not mentioned).", "The ferry takes 50 minutes"),
    ("The ferry takes 50 minutes – I don't know when it leaves.", "The ferry takes 50 minutes"),
    ("Although the ferry takes 50 minutes, the documents do not say when it leaves.", "the ferry takes 50 minutes"),
    ("The price is not specified in the documents, but the ferry takes 50 minutes.", "the ferry takes 50 minutes."),
    ("Die Fähre braucht 50 Minuten, aber ich weiß nicht, wann sie fährt.", "Die Fähre braucht 50 Minuten"),
    ("Le ferry met 50 minutes, mais les documents ne précisent pas le prix.", "Le ferry met 50 minutes"),
    ("El ferry tarda 50 minutos, pero no sé a qué hora sale.", "El ferry tarda 50 minutos"),
    ("渡轮到岛上需要50分钟，但我不知道什么时候出发。", "渡轮到岛上需要50分钟"),
    ("フェリーは島まで50分かかりますが、出発時刻はわかりません。", "フェリーは島まで50分かかりますが"),
    ("تستغرق العبارة 50 دقيقة، لكن لا أعرف متى تغادر.", "تستغرق العبارة 50 دقيقة"),
    ("I'm not sure, but the ferry takes 50 minutes.", "the ferry takes 50 minutes."),
)
"""Sentences that refuse one thing and claim another, and the claim."""


def abstains(answer: str) -> bool:
    return asyncio.run(OfflineJudge().statements("What is it?", answer, call=Call("a"))).abstains


@pytest.mark.parametrize("answer", ABSTENTIONS)
def test_an_answer_that_gives_none_abstains(answer: str) -> None:
    assert abstains(answer)
    assert answer_abstains(answer)


@pytest.mark.parametrize("answer", ANSWERS)
def test_an_answer_that_denies_something_is_an_answer(answer: str) -> None:
    assert not abstains(answer)


@pytest.mark.parametrize(("answer", "claim"), BESIDES)
def test_what_is_claimed_beside_a_refusal_in_one_sentence_is_judged(answer: str, claim: str) -> None:
    for before in ("", f"{claim.rstrip('.')}. "):
        found = asyncio.run(OfflineJudge().statements("Is it far?", before + answer, call=Call("a")))
        assert not found.abstains
        assert [one.text for one in found.statements][-1:] == [claim]
        assert not answer_abstains(before + answer)


PATTERNS = [
    (code, pattern)
    for code, lists in load_data("abstention.json").items()
    for pattern in lists["refusals"]
    if "refusal_words" in lists
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
