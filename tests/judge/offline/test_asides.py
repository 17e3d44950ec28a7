"""What an answer says besides its claims costs nothing, in every supported language; what it claims stays."""

from __future__ import annotations

from pathlib import Path

import pytest

import ragstone
from ragstone.golden.sample import GoldenSet, Sample
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
    ("en", "Sure!"),
    ("en", "Let me know if you need anything else."),
    ("en", "If you have any more questions, feel free to ask."),
    ("en", "You're welcome."),
    ("en", "Here is a summary of the answer:"),
    ("en", "Source: handbook, page 3"),
    ("en", "I can help you with that!"),
    ("en", "To fold a sail, follow these steps:"),
    ("en", "This is mentioned in passage 2."),
    ("en", "The second passage repeats the same information."),
    ("en", "These steps are based on the information provided in passages 1-2."),
    ("en", "You asked how tall the lighthouse is."),
    ("en", "That's terrible!"),
    ("en", "I can understand that."),
    ("en", "It is hard to estimate the height without additional information."),
    ("en", "To get a better estimate, it would be best to consult with a professional surveyor."),
    ("en", "Guten Tag!"),
    ("en", "Please check with support if you need more information."),
    ("en", "I'd recommend checking the official documentation."),
    ("en", "You may want to contact your administrator."),
    ("en", "You can find more details in the documentation."),
    ("en", "More information is available in the FAQ."),
    ("en", "Let's take a closer look."),
    ("en", "I found this in the documentation."),
    ("en", "See document 2 for details."),
    ("en", "As of my last update, this is correct."),
    ("en", "This information may change."),
    ("en", "Policies may change over time."),
    ("en", "Please verify this information before acting on it."),
    ("en", "This is not legal advice."),
    ("en", "I'm just an AI assistant."),
    ("en", "Sorry for the inconvenience."),
    ("en", "The information in the context is limited."),
    ("en", "The user wants to know when the ferry leaves."),
    ("en", "It depends on your situation."),
    ("en", "We appreciate your feedback."),
    ("de", "Für weitere Informationen wenden Sie sich bitte an den Support."),
    ("de", "Weitere Informationen finden Sie in der Dokumentation."),
    ("de", "Es tut mir leid, dass Sie warten mussten."),
    ("fr", "Pour plus d'informations, consultez la documentation."),
    ("fr", "Veuillez consulter la documentation pour plus de détails."),
    ("fr", "Plus d'informations sont disponibles dans la documentation."),
    ("fr", "Je suis désolé pour ce désagrément."),
    ("es", "Para más información, consulte la documentación."),
    ("es", "Por favor, consulte la documentación para más detalles."),
    ("es", "Más información disponible en la documentación."),
    ("es", "Lamento las molestias."),
    ("de", "Gehen Sie wie folgt vor:"),
    ("de", "Das steht in Abschnitt 2."),
    ("de", "Im Zweifel sollten Sie nachfragen."),
    ("fr", "Voici les points principaux :"),
    ("fr", "Le passage 2 donne plus d'informations."),
    ("fr", "En cas de doute, il est préférable de demander."),
    ("es", "Aquí están los puntos principales:"),
    ("es", "Es mejor preguntar a un experto."),
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
]
SOURCES = [
    ("en", "According to our documents: "),
    ("en", "Passage 3 mentions that "),
    ("en", "I can confirm that "),
    ("en", "Therefore, based on the passages provided, "),
    ("en", "Towers: According to passage 2, "),
    ("en", "Step 3: "),
    ("en", "The answer to your question is: "),
    ("en", "Laut Quelle 2: "),
    ("de", "Laut Abschnitt 2: "),
    ("de", "In Abschnitt 2 steht, dass "),
    ("fr", "Selon le passage 2, "),
    ("fr", "Étape 2 : "),
    ("es", "Por lo tanto, según el pasaje 2, "),
    ("en", "I think that "),
    ("en", "Perhaps, "),
    ("de", "Das Handbuch besagt, dass "),
    ("de", "Ich glaube, dass "),
    ("fr", "Le manuel indique que "),
    ("fr", "Je pense que "),
    ("es", "Según el manual, "),
    ("es", "El documento indica que "),
    ("es", "Creo que "),
]
CLAIMS = [
    ("en", "I'm sorry that refunds are not possible."),
    ("en", "Rest assured that a doctor on board will help."),
    ("en", "Disclaimer: dogs are not allowed on deck."),
    ("en", "If you bring more than one dog, ask the crew."),
    ("en", "We checked the boat, and found a leak."),
    ("en", "The ferry runs daily (faq.md, dogs travel free of charge)."),
    ("es", "Lo siento, los perros viajan gratis."),
    ("de", "Es tut mir leid, Hunde fahren gratis mit."),
    ("fr", "Je suis désolé, les chiens voyagent gratuitement."),
    ("en", "Contact support to cancel your subscription."),
    ("en", "Consult a doctor before taking the medicine."),
    ("en", "Nothing else is included in the price."),
    ("en", "The price may change without notice."),
    ("en", "Visit the settings page to change your password."),
    ("en", "Check the box to accept the terms."),
    ("en", "For more information call 0800 123 456."),
    ("en", "The policy is limited to residents."),
    ("en", "This is how the pump works in winter."),
    ("en", "It depends on the wind."),
    ("en", "You can get additional storage for a fee."),
    ("en", "More rooms are available in the annex."),
    ("en", "I recommend visiting the old lighthouse."),
    ("en", "Enjoy a free breakfast in the hall."),
    ("en", "The user wants a refund."),
    ("en", "Let's Encrypt issues the certificate."),
    ("en", "Speak with your doctor if you have any chest pain."),
    ("en", "Hello Kitty was created in 1974."),
    ("en", "No boats sail on Sunday."),
    ("en", "Thanks to the wind, the boat arrived early."),
    ("en", "In 1871, the lighthouse was built."),
    ("en", "I can tell there is no boat."),
    ("en", "It is important to check the tyres first."),
    ("en", "A, B and C are vitamins."),
    ("en", "The contract covers water damage, but does not cover fire."),
    ("en", "It is difficult to open the valve without knowing the code."),
    ("de", "Hallo Berlin ist eine Zeitung."),
    ("de", "Das ist ein langer Text."),
    ("de", "Sie haben Zugang zum Park, wo Hunde erlaubt sind."),
    ("de", "Bitte prüfen Sie den Ölstand vor der Fahrt."),
    ("fr", "Vous avez un mois si le train est annulé."),
    ("es", "Ha cambiado cuando llegó el tren."),
    ("fr", "Bonjour Tristesse est un roman de 1954."),
    ("es", "Gracias a la lluvia, el río creció."),
]


@pytest.mark.parametrize(
    ("code", "text", "said"),
    [
        ("en", "Passage 2 mentions an old tower, but does not provide any details of its height.", "An old tower"),
        ("en", "The passages discuss old towers, although they don't offer a list.", "Old towers"),
    ],
)
def test_what_a_source_is_silent_about_is_no_claim_but_what_it_says_is(code: str, text: str, said: str) -> None:
    assert claim(text, code) == said
    assert "34" in claim(f"{text[:-1]}; 34 metres.", code), "nothing that may be a claim is lost"


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
        "**Answer:**\n\n- {}",
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
