"""Which answers ask the user back, in the languages that abstention is known in."""

from __future__ import annotations

import pytest

from ragstone.judge.offline.clarification import asks_back

ASKS = [
    "Which order do you mean?",
    "I'd be glad to help. Could you please tell me your order number?",
    "Please provide your order number.",
    "I couldn't find that order. Can you check the number?",
    "There are two plans. Which one do you use?\n- Basic\n- Pro",
    "Could you give me your order number? Then I can look it up for you.",
    "Sorry, which city do you mean? Thank you!",
    "To look that up, I need your order number.",
    "Should I cancel order 7 or order 8?",
    "Welche Bestellung meinen Sie?",
    "Bitte nennen Sie mir Ihre Bestellnummer.",
    "Dafür brauche ich Ihre Kundennummer.",
    "De quelle commande parlez-vous ?",
    "Veuillez m'indiquer votre numéro. Pourriez-vous préciser la date ?",
    "Merci de préciser le numéro de la commande.",
    "¿A qué pedido se refiere?",
    "Por favor, indíqueme el número de pedido.",
    "A quale ordine si riferisce?",
    "Mi indichi il numero dell'ordine.",
    "A qual pedido você se refere?",
    "Por favor, informe o número do pedido.",
    "Welke bestelling bedoelt u?",
    "Geef alstublieft uw bestelnummer door.",
    "どの注文のことですか。",
    "注文番号を教えてください。",
    "您指的是哪个订单？",
    "请提供您的订单号。",
    "어떤 주문을 말씀하시는 건가요?",
    "주문 번호를 알려 주세요.",
    "Какой заказ вы имеете в виду?",
    "Пожалуйста, укажите номер заказа.",
    "أي طلب تقصد؟",
    "يرجى تزويدي برقم الطلب.",
]
ANSWERS = [
    "",
    "The warranty is 24 months.",
    "The warranty is 24 months. Is there anything else I can help you with?",
    "The warranty is 24 months. Would you like me to register it for you?",
    "The warranty is 24 months. Does that help?",
    "The warranty is 24 months. Do you have any other questions?",
    "What is the warranty? It is 24 months.",
    "How can I help you today?",
    "I don't know.",
    "The order needs your signature.",
    "Die Garantie gilt 24 Monate. Kann ich Ihnen sonst noch helfen?",
    "Die Garantie gilt 24 Monate. Soll ich sie für Sie eintragen?",
    "La garantie est de 24 mois. Puis-je vous aider pour autre chose ?",
    "La garantie est de 24 mois. Souhaitez-vous que je l'enregistre ?",
    "La garantía es de 24 meses. ¿Puedo ayudarle en algo más?",
    "La garanzia è di 24 mesi. Posso aiutarla con altro?",
    "A garantia é de 24 meses. Posso ajudar em mais alguma coisa?",
    "De garantie is 24 maanden. Kan ik u nog ergens mee helpen?",
    "保証は24か月です。他にご質問はありますか？",
    "保修期为24个月。还有其他问题吗？",
    "보증 기간은 24개월입니다. 다른 질문이 있으신가요?",
    "Гарантия — 24 месяца. Могу ли я ещё чем-нибудь помочь?",
    "الضمان 24 شهرًا. هل هناك شيء آخر؟",
]


@pytest.mark.parametrize("answer", ASKS)
def test_a_question_or_request_at_the_end_asks_back(answer: str) -> None:
    assert asks_back(answer)


@pytest.mark.parametrize("answer", ANSWERS)
def test_an_answer_that_offers_help_does_not_ask_back(answer: str) -> None:
    assert not asks_back(answer)


def test_a_long_answer_is_read_in_part() -> None:
    assert not asks_back("The warranty is 24 months. " * 2_000 + "Which order?")
