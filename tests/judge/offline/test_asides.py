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
    ("en", "I can help you with that!"),
    ("en", "To fold a sail, follow these steps:"),
    ("en", "This is mentioned in passage 2."),
    ("en", "The second passage repeats the same information."),
    ("en", "These steps are based on the information provided in passages 1-2."),
    ("en", "If in doubt, it's always best to ask."),
    ("en", "You asked how tall the lighthouse is."),
    ("en", "That's terrible!"),
    ("en", "I can understand that."),
    ("en", "It is hard to estimate the height without additional information."),
    ("en", "These figures are based on the given passages and may not be complete."),
    ("en", "To get a better estimate, it would be best to consult with a professional surveyor."),
    ("en", "Guten Tag!"),
    ("en", "Please check with support if you need more information."),
    ("en", "Please contact support for further assistance."),
    ("en", "Please refer to the official documentation for more details."),
    ("en", "For the most up-to-date information, check the official website."),
    ("en", "I'd recommend checking the official documentation."),
    ("en", "You may want to contact your administrator."),
    ("en", "You can find more details in the documentation."),
    ("en", "More information is available in the FAQ."),
    ("en", "Let's take a closer look."),
    ("en", "I found this in the documentation."),
    ("en", "See document 2 for details."),
    ("en", "See also the FAQ."),
    ("en", "As of my last update, this is correct."),
    ("en", "This information may change."),
    ("en", "Policies may change over time."),
    ("en", "This answer may not be complete."),
    ("en", "Please verify this information before acting on it."),
    ("en", "Always verify it with the official source."),
    ("en", "This is not legal advice."),
    ("en", "I'm just an AI assistant."),
    ("en", "Sorry for the inconvenience."),
    ("en", "The information in the context is limited."),
    ("en", "The user wants to know when the ferry leaves."),
    ("en", "It depends on your situation."),
    ("en", "I understand how frustrating this can be."),
    ("en", "We appreciate your feedback."),
    ("de", "Für weitere Informationen wenden Sie sich bitte an den Support."),
    ("de", "Weitere Informationen finden Sie in der Dokumentation."),
    ("de", "Bei weiteren Fragen kontaktieren Sie bitte den Kundendienst."),
    ("de", "Weitere Einzelheiten sind in der Dokumentation zu finden."),
    ("de", "Es tut mir leid, dass Sie warten mussten."),
    ("de", "Bitte lesen Sie die Dokumentation."),
    ("fr", "Pour plus d'informations, consultez la documentation."),
    ("fr", "Pour plus de détails, veuillez contacter le support."),
    ("fr", "Veuillez consulter la documentation pour plus de détails."),
    ("fr", "Plus d'informations sont disponibles dans la documentation."),
    ("fr", "Je suis désolé pour ce désagrément."),
    ("es", "Para más información, consulte la documentación."),
    ("es", "Por favor, consulte la documentación para más detalles."),
    ("es", "Más información disponible en la documentación."),
    ("es", "Puede encontrar más detalles en la documentación."),
    ("es", "Lamento las molestias."),
    ("it", "Per maggiori informazioni, consulta la documentazione."),
    ("it", "Per ulteriori dettagli, si prega di contattare l'assistenza."),
    ("it", "Ulteriori informazioni sono disponibili nella documentazione."),
    ("it", "Mi dispiace per il disagio."),
    ("pt", "Para mais informações, consulte a documentação."),
    ("pt", "Para mais detalhes, entre em contato com o suporte."),
    ("pt", "Mais informações estão disponíveis na documentação."),
    ("pt", "Lamento o incómodo."),
    ("nl", "Voor meer informatie, raadpleeg de documentatie."),
    ("nl", "Raadpleeg de documentatie voor meer details."),
    ("nl", "Meer informatie is beschikbaar in de documentatie."),
    ("nl", "Het spijt me voor het ongemak."),
    ("zh", "如需更多信息，请参阅文档。"),
    ("zh", "请联系客服获取更多帮助。"),
    ("zh", "更多信息请查看官方网站。"),
    ("ja", "詳細はドキュメントをご参照ください。"),
    ("ja", "詳しくはサポートまでお問い合わせください。"),
    ("de", "Gehen Sie wie folgt vor:"),
    ("de", "Das steht in Abschnitt 2."),
    ("de", "Im Zweifel sollten Sie nachfragen."),
    ("fr", "Voici les points principaux :"),
    ("fr", "Le passage 2 donne plus d'informations."),
    ("fr", "En cas de doute, il est préférable de demander."),
    ("es", "Aquí están los puntos principales:"),
    ("es", "Es mejor preguntar a un experto."),
    ("it", "Ecco i punti principali:"),
    ("it", "È sempre meglio chiedere."),
    ("pt", "Aqui estão os pontos principais:"),
    ("pt", "É sempre melhor perguntar."),
    ("nl", "Hier zijn de belangrijkste punten:"),
    ("nl", "Het is altijd beter om te vragen."),
    ("zh", "我可以帮您解答。"),
    ("zh", "以下是要点："),
    ("ja", "喜んでお手伝いします。"),
    ("ja", "以下の通りです："),
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
    ("en", "Passage 3 specifically states that "),
    ("en", "The document states that "),
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
    ("it", "Secondo il passaggio 2, "),
    ("pt", "De acordo com o trecho 2, "),
    ("nl", "Volgens passage 2, "),
    ("zh", "文档2指出，"),
    ("ja", "資料2によると、"),
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
    ("en", "Contact support to cancel your subscription."),
    ("en", "Contact support for refunds over 100 euros."),
    ("en", "Consult a doctor before taking the medicine."),
    ("en", "You can find more shops in the old town."),
    ("en", "Nothing else is included in the price."),
    ("en", "The price may change without notice."),
    ("en", "Prices may change in winter."),
    ("en", "Visit the settings page to change your password."),
    ("en", "See the harbour office to buy tickets."),
    ("en", "Ask the captain for permission."),
    ("en", "Check the box to accept the terms."),
    ("en", "For more information call 0800 123 456."),
    ("en", "Refer to section 4 of the contract to cancel."),
    ("en", "Verify the account with the code that was sent."),
    ("en", "The policy is limited to residents."),
    ("en", "The results are insufficient for a permit."),
    ("en", "This is how the pump works in winter."),
    ("en", "It depends on the wind."),
    ("en", "You can read the meter at night."),
    ("en", "You can get additional storage for a fee."),
    ("en", "Further discounts are available in winter."),
    ("en", "More rooms are available in the annex."),
    ("en", "Additional guides are available at the museum."),
    ("en", "I recommend visiting the old lighthouse."),
    ("en", "Enjoy a free breakfast in the hall."),
    ("en", "The user wants a refund."),
    ("en", "Rest assured that refunds take a week."),
    ("en", "The customer asks the bank for a loan."),
    ("en", "Let's Encrypt issues the certificate."),
    ("en", "Speak with your doctor if you have any chest pain."),
    ("en", "Hello Kitty was created in 1974."),
    ("en", "No boats sail on Sunday."),
    ("en", "Thanks to the wind, the boat arrived early."),
    ("en", "In 1871, the lighthouse was built."),
    ("en", "If you have lost your card, call the bank."),
    ("en", "From 1990 to 2000 the road was closed."),
    ("en", "The green colour comes from several minerals."),
    ("en", "I can tell there is no boat."),
    ("en", "Follow the guide through the cave."),
    ("en", "It is important to check the tyres first."),
    ("en", "A, B and C are vitamins."),
    ("en", "We can help you move house."),
    ("en", "The contract covers water damage, but does not cover fire."),
    ("en", "It is difficult to open the valve without knowing the code."),
    ("en", "The instructions are not included in the box."),
    ("de", "Hallo Berlin ist eine Zeitung."),
    ("de", "Wir können auf dem See segeln."),
    ("de", "Das ist ein langer Text."),
    ("de", "Sie haben Zugang zum Park, wo Hunde erlaubt sind."),
    ("de", "Bitte prüfen Sie den Ölstand vor der Fahrt."),
    ("fr", "Vous avez un mois si le train est annulé."),
    ("es", "Ha cambiado cuando llegó el tren."),
    ("nl", "Hier staat een molen."),
    ("zh", "下面是停车场。"),
    ("ja", "これは港から見える。"),
    ("ja", "次の駅は東京です。"),
    ("de", "Keine Boote fahren am Sonntag."),
    ("fr", "Bonjour Tristesse est un roman de 1954."),
    ("es", "Gracias a la lluvia, el río creció."),
    ("it", "Grazie al vento la barca arrivò presto."),
    ("pt", "Não há barcos no domingo."),
    ("nl", "Er varen geen boten op zondag."),
    ("zh", "希望小学建于1998年。"),
    ("ja", "もし雨が降ったら窓を閉めてください。"),
]


@pytest.mark.parametrize(
    ("code", "text", "said"),
    [
        ("en", "Passage 2 mentions an old tower, but does not provide any details of its height.", "An old tower"),
        ("en", "The passages discuss old towers, although they don't offer a list.", "Old towers"),
        ("nl", "Passage 2 vermeldt een oude toren, maar noemt geen hoogte.", "Een oude toren"),
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
