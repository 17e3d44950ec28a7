"""Saying that one can't answer, and saying that something is not so."""

from __future__ import annotations

import asyncio
import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ragstone.judge.offline import OfflineJudge
from ragstone.judge.offline.abstention import refuses
from ragstone.judge.offline.lexicon import load_data
from ragstone.judge.offline.normal import normalise
from ragstone.judge.protocol import Call

ABSTENTIONS = (
    "I do not have enough information to answer this question.",
    "The provided context does not contain information about the release date.",
    "Based on the provided documents, I cannot determine who founded the company.",
    "Sorry, I couldn't find anything about that.",
    "I'm not able to answer that.",
    "There is insufficient information in the sources to answer.",
    "The answer is not available in the given context.",
    "It is not specified in the text.",
    "No information is provided about the price.",
    "I don't know",
    "I have no idea.",
    "Unfortunately, the documents don't say when it was built. You may want to check the official site.",
    "The context doesn't say.",
    "This question cannot be answered from the given passages.",
    "We could not find an answer to your question in our documentation. Please contact support.",
    "I apologize, but I don't have access to that information.",
    "The passage only talks about the lighthouse and does not mention the harbour's age.",
    "I can't help with that.",
    "Not enough context.",
    "My documents don't cover this topic.",
    "I was unable to find relevant information.",
    "Nothing in the documents answers this.",
    "The text gives no answer.",
    "That information isn't in the knowledge base.",
    "Ich habe keine Informationen dazu.",
    "Leider kann ich diese Frage nicht beantworten.",
    "Der Kontext enthält keine Angaben zum Preis.",
    "Désolé, je n'ai pas trouvé d'information à ce sujet.",
    "Je ne peux pas répondre à cette question.",
    "Il n'y a pas d'information sur le prix.",
    "Lo siento, no tengo información sobre eso.",
    "El contexto no menciona el precio.",
    "Mi dispiace, non ho informazioni al riguardo.",
    "Desculpe, não encontrei informações sobre isso.",
    "Ik weet het niet.",
    "情報が見つかりませんでした。",
    "문서에서 정보를 찾을 수 없습니다.",
    "Я не знаю.",
    "لا أعرف.",
    "As an AI language model, I don't have personal opinions.",
    "Unable to answer.",
    "The documents I have access to do not include any details regarding refunds.",
    "I'm afraid I don't know the answer to that.",
)

ANSWERS = (
    "The company does not offer refunds after 30 days.",
    "No, you cannot cancel the order after it has shipped.",
    "I don't know of any exception: refunds are always paid within 30 days.",
    "The device is not available in Europe.",
    "There is no limit on the number of users.",
    "The API does not provide a bulk endpoint; call it once for each record.",
    "It is not known to cause side effects in children under twelve.",
    "Passwords are not stored in plain text.",
    "You can't use the cache with the batch API.",
    "The exact date is unknown, but historians place it around 1450.",
    "While the context does not mention the price, it says that entry is free for children.",
    "None of the planets in the system has an atmosphere.",
    "The bridge could not be completed before 1890.",
    "If you are not sure which plan you need, choose the Team plan, which includes SSO.",
    "We do not have a phone line; write to the help desk instead.",
    "The report doesn't include figures for 2020 because the survey was cancelled.",
    "No answer is sent when the queue is full; the client must retry.",
    "The error means that the server could not find the file.",
    "Nobody knows who wrote it.",
    "The treaty was not signed by France.",
    "Sie können die Bestellung nicht stornieren.",
    "Die Batterie ist nicht im Lieferumfang enthalten.",
    "Le produit n'est pas disponible en France.",
    "No hay límite de usuarios.",
    "Non è possibile annullare l'ordine dopo la spedizione.",
    "Não há limite de usuários.",
)


def abstains(answer: str) -> bool:
    return asyncio.run(OfflineJudge().statements("What is it?", answer, call=Call("a"))).abstains


@pytest.mark.parametrize("answer", ABSTENTIONS)
def test_an_answer_that_gives_none_abstains(answer: str) -> None:
    assert abstains(answer)


@pytest.mark.parametrize("answer", ANSWERS)
def test_an_answer_that_denies_something_is_an_answer(answer: str) -> None:
    assert not abstains(answer)


def test_a_refusal_beside_a_claim_is_no_statement() -> None:
    answer = "The lighthouse was built in 1871. The documents do not mention who paid for it."
    found = asyncio.run(OfflineJudge().statements("Who built it?", answer, call=Call("a")))
    assert not found.abstains
    assert [statement.text for statement in found.statements] == ["The lighthouse was built in 1871."]


PATTERNS = [
    (code, pattern)
    for code, lists in load_data("abstention.json").items()
    for pattern in lists["refusals"]
    if "refusal_words" in lists
]


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
