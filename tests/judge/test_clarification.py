"""Which answers ask the user back, in the languages that abstention is known in."""

from __future__ import annotations

import pytest

from ragstone.judge.clarification import asks_back

ASKS = [
    *("Which order do you mean?", "I'd be glad to help. Could you please tell me your order number?"),
    "There are two plans. Which one do you use?\n- Basic\n- Pro",
    *("Could you give me your order number? Then I can look it up for you.", "Should I cancel order 7 or order 8?"),
    *("Welche Bestellung meinen Sie?", "Dafür brauche ich Ihre Kundennummer.", "De quelle commande parlez-vous ?"),
    *("Merci de préciser le numéro de la commande.", "Por favor, indíqueme el número de pedido."),
    *("A quale ordine si riferisce?", "A qual pedido você se refere?", "Welke bestelling bedoelt u?"),
    *("どの注文のことですか。", "您指的是哪个订单？", "어떤 주문을 말씀하시는 건가요?"),
    *("Какой заказ вы имеете в виду?", "أي طلب تقصد؟"),
]
ANSWERS = [
    *("", "I don't know.", "What is the warranty? It is 24 months.", "The order needs your signature."),
    "The warranty is 24 months. Would you like me to register it for you?",
    "The warranty is 24 months. Do you have any other questions?",
    "Die Garantie gilt 24 Monate. Kann ich Ihnen sonst noch helfen?",
    "La garantie est de 24 mois. Puis-je vous aider pour autre chose ?",
    *("La garantía es de 24 meses. ¿Puedo ayudarle en algo más?", "保証は24か月です。他にご質問はありますか？"),
]


@pytest.mark.parametrize("answer", ASKS)
def test_a_question_or_request_at_the_end_asks_back(answer: str) -> None:
    assert asks_back(answer)


@pytest.mark.parametrize("answer", ANSWERS)
def test_an_answer_that_offers_help_does_not_ask_back(answer: str) -> None:
    assert not asks_back(answer)


def test_a_long_answer_is_read_in_part() -> None:
    assert not asks_back("The warranty is 24 months. " * 2_000 + "Which order?")
