"""What an answer says besides its claims costs nothing, in every supported language; what it claims stays."""

from __future__ import annotations

import pytest

from ragstone.judge.offline.claims import claim, is_aside
from ragstone.judge.offline.lexicon import language
from ragstone.judge.offline.statements import split_statements

TOWER = {
    "en": "The lighthouse is 34 metres tall.",
    "de": "Der Leuchtturm ist 34 Meter hoch.",
    "fr": "Le phare mesure 34 mètres de haut.",
    "es": "El faro mide 34 metros de altura.",
}
ASIDES = [
    ("en", "I hope this helps!"),
    ("en", "Source: handbook, page 3"),
    ("en", "These steps are based on the information provided in passages 1-2."),
    ("en", "You asked how tall the lighthouse is."),
    ("en", "It is hard to estimate the height without additional information."),
    ("en", "Please check with support if you need more information."),
    ("en", "This information may change."),
    ("en", "The user wants to know when the ferry leaves."),
    ("de", "Es tut mir leid, dass Sie warten mussten."),
    ("fr", "Je suis désolé pour ce désagrément."),
    ("es", "Lamento las molestias."),
    ("de", "Gehen Sie wie folgt vor:"),
    ("de", "Im Zweifel sollten Sie nachfragen."),
    ("fr", "Voici les points principaux :"),
    ("fr", "En cas de doute, il est préférable de demander."),
    ("es", "Aquí están los puntos principales:"),
]
SOURCES = [
    ("en", "According to our documents: "),
    ("en", "Passage 3 mentions that "),
    ("en", "I can confirm that "),
    ("en", "Therefore, based on the passages provided, "),
    ("en", "The answer to your question is: "),
    ("de", "Laut Abschnitt 2: "),
    ("de", "In Abschnitt 2 steht, dass "),
    ("fr", "Selon le passage 2, "),
    ("es", "Por lo tanto, según el pasaje 2, "),
    ("en", "I think that "),
    ("de", "Das Handbuch besagt, dass "),
    ("es", "Según el manual, "),
]
CLAIMS = [
    ("en", "I'm sorry that refunds are not possible."),
    ("en", "Rest assured that a doctor on board will help."),
    ("en", "Disclaimer: dogs are not allowed on deck."),
    ("en", "If you bring more than one dog, ask the crew."),
    ("en", "The ferry runs daily (faq.md, dogs travel free of charge)."),
    ("es", "Lo siento, los perros viajan gratis."),
    ("de", "Es tut mir leid, Hunde fahren gratis mit."),
    ("fr", "Je suis désolé, les chiens voyagent gratuitement."),
    ("en", "Contact support to cancel your subscription."),
    ("en", "Consult a doctor before taking the medicine."),
    ("en", "The price may change without notice."),
    ("en", "The policy is limited to residents."),
    ("en", "This is how the pump works in winter."),
    ("en", "It depends on the wind."),
    ("en", "The user wants a refund."),
    ("en", "Let's Encrypt issues the certificate."),
    ("en", "Hello Kitty was created in 1974."),
    ("en", "In 1871, the lighthouse was built."),
    ("en", "It is important to check the tyres first."),
    ("en", "The contract covers water damage, but does not cover fire."),
    ("en", "It is difficult to open the valve without knowing the code."),
    ("de", "Sie haben Zugang zum Park, wo Hunde erlaubt sind."),
    ("de", "Bitte prüfen Sie den Ölstand vor der Fahrt."),
    ("fr", "Vous avez un mois si le train est annulé."),
    ("es", "Ha cambiado cuando llegó el tren."),
]


@pytest.mark.parametrize(("code", "text"), ASIDES)
def test_greetings_and_offers_are_no_claims(code: str, text: str) -> None:
    assert is_aside(text, code)
    found = split_statements(f"{TOWER[code]} {text}", language(code))
    assert [one.text for one in found] == [TOWER[code]]


@pytest.mark.parametrize(("code", "opening"), SOURCES)
def test_sources_and_hedges_are_taken_off(code: str, opening: str) -> None:
    rest = TOWER[code]
    assert claim(opening + rest[0].lower() + rest[1:], code) == rest


@pytest.mark.parametrize(("code", "text"), CLAIMS)
def test_claims_that_look_alike_stay(code: str, text: str) -> None:
    assert claim(text, code) == text
