"""The support agent of a made-up shop: two tools, two hops of retrieval, and a memory of the order in question.

It needs no key and no model: what it says is taken from the passages that it retrieves and what its tools return.
"""

from __future__ import annotations

import re

import shop

ABSTAIN = "I don't know: the shop has no record of that."
ASK_BACK = "Which order do you mean? Please tell me its number, such as TF-4101."

ORDER = re.compile(r"\bTF-\d{4}\b")
CUSTOMER = re.compile(r"\b[Mm]y name is (\w+ \w+)")
SENTENCE = re.compile(r"(?<=\.)\s+")

TOPICS = {
    "status": ("where is", "arrived", "status", "on its way", "been sent yet", "tracking"),
    "late": ("too late", "miss", "overdue", "don't pay"),
    "due": ("due", "pay by", "pay it by", "last day"),
    "paid": ("paid", "settled", "still open", "open invoice"),
    "amount": ("how much", "amount", "owe", "total"),
    "returns": ("send it back", "return", "give it back", "money back"),
    "warranty": ("warranty", "guarantee", "breaks", "broken"),
    "payment": ("ways to pay", "pay in cash", "pay with"),
    "cancelling": ("cancel",),
    "gift": ("gift card",),
    "delivery": ("how long", "carrier", "delivery", "who brings"),
}
"""Words by which a question is known to be about a topic; the first topic that fits counts."""

REFERS_TO = {
    "amount": ("invoice", r"invoice is ([\w-]+)"),
    "due": ("invoice", r"invoice is ([\w-]+)"),
    "late": ("terms", r"terms ([\w-]+)"),
    "delivery": ("carrier", r"sent with (\w+)"),
    "returns": ("goods", r"from the ([\w ]+),"),
    "warranty": ("warranty", r"kind of article: (\w+)"),
}
"""What the passage of an order refers to, by topic, and where it stands there: the second hop looks for that."""

GENERAL = {"payment": "ways to pay", "cancelling": "cancelling an order", "gift": "gift cards valid"}
"""Topics that are the same for every order, and the query for their policy."""


def topic_of(question: str) -> str | None:
    """What a question is about; None if it is about nothing that the agent knows."""
    text = question.lower()
    return next((topic for topic, hints in TOPICS.items() if any(hint in text for hint in hints)), None)


class Agent:
    """One conversation: Ragstone makes an object for each, which remembers the order and what was asked about it."""

    search = staticmethod(shop.search)

    def __init__(self) -> None:
        self.order_id: str | None = None
        self.topic: str | None = None
        self.turn = 0
        self.contexts: list[dict[str, object]] = []
        self.steps: list[dict[str, object]] = []

    def answer(self, question: str) -> dict[str, object]:
        """The answer to the next question of the conversation, with the contexts and the steps that it took."""
        self.turn += 1
        self.contexts, self.steps = [], []
        self.remember(question)
        return {"answer": self.reply(question), "contexts": self.contexts, "steps": self.steps}

    def remember(self, question: str) -> None:
        """Keep the order and the topic of the conversation. A question with an order alone is about the last topic."""
        number = ORDER.search(question)
        if number is not None:
            self.order_id = number.group()
        topic = topic_of(question)
        if topic is not None or number is None:
            self.topic = topic

    def reply(self, question: str) -> str:
        """The answer to a question about the topic of the conversation."""
        if self.topic is None:
            self.retrieve(question, "policies")
            return ABSTAIN
        if self.topic in GENERAL:
            passage = self.first(self.retrieve(GENERAL[self.topic], "policies"))
            return passage.partition("\n")[2] or ABSTAIN
        customer = CUSTOMER.search(question)
        if customer is not None:
            return self.of_customer(customer.group(1))
        if self.order_id is None:
            return ASK_BACK
        if self.topic == "status":
            return self.tool_result("lookup_order", order_id=self.order_id)
        return self.of_order(self.order_id)

    def of_customer(self, customer: str) -> str:
        """A customer's newest invoice, whose order is the one in question from now on."""
        result = self.tool_result("find_invoice", customer=customer)
        number = ORDER.search(result)
        if number is not None:
            self.order_id = number.group()
        return result

    def of_order(self, order_id: str) -> str:
        """What follows for an order: the first hop finds the order, the second what it refers to."""
        order = self.first(self.retrieve(f"order {order_id}", "orders"))
        if order_id not in order:
            return f"I can't find order {order_id}. Please check its number."
        if self.topic == "paid":
            return self.tool_result("find_invoice", order_id=order_id)
        query, source = self.second_hop(order)
        passage = self.first(self.retrieve(query, source))
        if not passage:
            return ABSTAIN
        return f"For order {order_id}: {self.wording(passage)}"

    def second_hop(self, order: str) -> tuple[str, str]:
        """What to look for, and where, by what the passage of the order says."""
        what, pattern = REFERS_TO[self.topic or ""]
        name = re.search(pattern, order)
        query = what if name is None else f"{what} {name.group(1)}"
        return query, "invoices" if what == "invoice" else "policies"

    def wording(self, passage: str) -> str:
        """The part of a passage that answers the question."""
        sentences = SENTENCE.split(passage.rpartition("\n")[2])
        if self.topic == "amount":
            return sentences[0]
        if self.topic == "due":
            return " ".join(sentences[:2])
        return " ".join(sentences)

    def retrieve(self, query: str, source: str) -> list[dict[str, object]]:
        """A step of retrieval: the passages of `source` for a query."""
        contexts = self.search(query, source)
        self.steps.append({"type": "retrieval", "query": query, "source": source, "contexts": contexts})
        self.contexts += contexts
        return contexts

    def tool_result(self, name: str, **arguments: str) -> str:
        """A step with a tool: its result, or what to say if it has none."""
        step: dict[str, object] = {"type": "tool", "name": name, "arguments": arguments}
        self.steps.append(step)
        try:
            step["result"] = getattr(shop, name)(**arguments)
        except shop.ToolError as error:
            step["error"] = str(error)
            return f"I can't find {' '.join(arguments.values())}. Please check it."
        return str(step["result"])

    def first(self, contexts: list[dict[str, object]]) -> str:
        """The text of the best passage; empty if there is none."""
        return str(contexts[0]["text"]) if contexts else ""
