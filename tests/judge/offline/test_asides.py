"""What an answer says besides its claims costs nothing, in every supported language; what it claims stays."""

from __future__ import annotations

from pathlib import Path

import pytest

import ragstone
from ragstone.golden.sample import GoldenSet, Sample
from ragstone.judge.offline.lexicon import language
from ragstone.judge.offline.statements import claim, is_aside, split_statements

TOWER = {
    "en": "The lighthouse is 34 metres tall.",
    "de": "Der Leuchtturm ist 34 Meter hoch.",
    "fr": "Le phare mesure 34 mètres de haut.",
    "es": "El faro mide 34 metros de altura.",
    "it": "Il faro è alto 34 metri.",
    "pt": "O farol tem 34 metros de altura.",
    "nl": "De vuurtoren is 34 meter hoog.",
    "zh": "灯塔高34米。",
    "ja": "灯台の高さは34メートルである。",
}
ASIDES = [
    ("en", "I hope this helps!"),
    ("en", "Sure!"),
    ("en", "Great question!"),
    ("en", "Let me know if you need anything else."),
    ("en", "If you have any more questions, feel free to ask."),
    ("en", "You're welcome."),
    ("en", "Here is a summary of the answer:"),
    ("en", "Source: handbook, page 3"),
    ("de", "Gerne!"),
    ("de", "Guten Tag!"),
    ("de", "Ich hoffe, das hilft Ihnen weiter!"),
    ("de", "Bei weiteren Fragen stehe ich Ihnen gerne zur Verfügung."),
    ("de", "Vielen Dank für Ihre Frage."),
    ("fr", "Bien sûr !"),
    ("fr", "Bonjour !"),
    ("fr", "J'espère que cela vous aide."),
    ("fr", "N'hésitez pas à me contacter."),
    ("es", "¡Claro!"),
    ("es", "¡Hola!"),
    ("es", "Espero que esto te ayude."),
    ("es", "No dudes en preguntar."),
    ("it", "Certo!"),
    ("it", "Buongiorno!"),
    ("it", "Spero che questo sia utile."),
    ("it", "Non esitare a chiedere."),
    ("pt", "Claro!"),
    ("pt", "Bom dia!"),
    ("pt", "Espero que isto ajude."),
    ("pt", "Não hesite em perguntar."),
    ("nl", "Natuurlijk!"),
    ("nl", "Goedemorgen!"),
    ("nl", "Ik hoop dat dit helpt."),
    ("nl", "Laat het me weten als je nog vragen hebt."),
    ("zh", "好的！"),
    ("zh", "希望这对您有帮助！"),
    ("zh", "如果您还有其他问题，请随时告诉我。"),
    ("ja", "はい。"),
    ("ja", "お役に立てれば幸いです。"),
    ("ja", "他にご質問があればお知らせください。"),
]
SOURCES = [
    ("en", "According to our documents: "),
    ("en", "According to the employee handbook, "),
    ("en", "Based on the provided context, "),
    ("en", "Passage 3 mentions that "),
    ("en", "The document states that "),
    ("en", "I can confirm that "),
    ("en", "I found that "),
    ("en", "I think that "),
    ("en", "Perhaps, "),
    ("en", "As far as I know, "),
    ("de", "Laut Dokument: "),
    ("de", "Das Handbuch besagt, dass "),
    ("de", "Ich glaube, dass "),
    ("fr", "Selon le document, "),
    ("fr", "Le manuel indique que "),
    ("fr", "Je pense que "),
    ("es", "Según el manual, "),
    ("es", "El documento indica que "),
    ("es", "Creo que "),
    ("it", "Secondo il documento, "),
    ("it", "Il manuale indica che "),
    ("it", "Penso che "),
    ("pt", "De acordo com o documento, "),
    ("pt", "O manual indica que "),
    ("pt", "Acho que "),
    ("nl", "Volgens het document: "),
    ("nl", "De handleiding vermeldt dat "),
    ("nl", "Ik denk dat "),
    ("zh", "根据文档，"),
    ("zh", "据我所知，"),
    ("ja", "文書によると、"),
    ("ja", "私の知る限り、"),
]
CLAIMS = [
    ("en", "Hello Kitty was created in 1974."),
    ("en", "No boats sail on Sunday."),
    ("en", "Thanks to the wind, the boat arrived early."),
    ("en", "In 1871, the lighthouse was built."),
    ("en", "If you have lost your card, call the bank."),
    ("en", "From 1990 to 2000 the road was closed."),
    ("de", "Hallo Berlin ist eine Zeitung."),
    ("de", "Keine Boote fahren am Sonntag."),
    ("fr", "Bonjour Tristesse est un roman de 1954."),
    ("es", "Gracias a la lluvia, el río creció."),
    ("it", "Grazie al vento la barca arrivò presto."),
    ("pt", "Não há barcos no domingo."),
    ("nl", "Er varen geen boten op zondag."),
    ("zh", "希望小学建于1998年。"),
    ("ja", "もし雨が降ったら窓を閉めてください。"),
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


@pytest.mark.parametrize("text", ["I hope this helps!", "Is there anything else I can help you with?"])
def test_what_is_nothing_but_an_aside_is_judged_as_it_is(text: str) -> None:
    assert [one.text for one in split_statements(text, language("en"))] == [text]


@pytest.mark.parametrize(
    "answer",
    [
        "{} I hope this helps!",
        "Sure! {} Is there anything else I can help you with?",
        "According to our documents: {}",
        "{} According to the source, it opened in March 1871.",
        "## Answer\n\n{}",
        "**Answer:**\n\n- {}",
        "I think {}",
        "Here is what I found: {}",
    ],
)
def test_politeness_and_form_move_the_public_score_by_next_to_nothing(answer: str, tmp_path: Path) -> None:
    context = "The lighthouse of Grey Point is 34 metres tall. It opened in March 1871 and was renovated in 1990."
    fact = "The lighthouse of Grey Point is 34 metres tall."
    answers = {"Plain?": fact, "Polite?": answer.format(fact)}
    golden = GoldenSet(tuple(Sample(question, question) for question in answers))
    run = ragstone.evaluate(
        golden,
        lambda question: {"answer": answers[question], "contexts": [context]},
        metrics=["faithfulness"],
        out=tmp_path / "run",
    )
    values = run.scores.metrics["faithfulness"].values
    assert values["Plain?"] >= 0.95
    assert abs(values["Plain?"] - values["Polite?"]) <= 0.02
