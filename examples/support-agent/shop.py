"""The shop's records and policies as passages, the search in them, and its two tools."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from dataclasses import dataclass
from functools import cache
from pathlib import Path

SHOP = Path(__file__).parent / "shop"
_WORD = re.compile(r"\w+(?:-\w+)*")


@dataclass(frozen=True)
class Passage:
    """A passage of the corpus. `source` is ``orders``, ``invoices`` or ``policies``."""

    id: str
    source: str
    text: str


class ToolError(Exception):
    """A tool has no result for its arguments."""


@cache
def orders() -> dict[str, dict[str, str]]:
    """The shop's orders by their numbers."""
    rows = json.loads((SHOP / "orders.json").read_text("utf-8"))
    return {row["order"]: row for row in rows}


@cache
def passages() -> tuple[Passage, ...]:
    """All passages: one of each order, one of each invoice, and the sections of the policies."""
    corpus = []
    for number, order in orders().items():
        bought = "Order {order}: {customer} bought {article} on {date}. Its invoice is {invoice}, on terms {terms}."
        sent = "The order is sent with {carrier}. It is from the {sale}, kind of article: {kind}."
        corpus.append(Passage(f"orders/{number}", "orders", f"{bought} {sent}".format(**order)))
        billed = "Invoice {invoice} is over {price} euros. It is due on {due}."
        corpus.append(Passage(f"invoices/{order['invoice']}", "invoices", billed.format(**order)))
    for section in (SHOP / "policies.md").read_text("utf-8").split("\n## ")[1:]:
        title, _, text = section.partition("\n")
        name = title.lower().replace(" ", "-")
        corpus.append(Passage(f"policies/{name}", "policies", f"{title}\n{text.strip()}"))
    return tuple(corpus)


def words(text: str) -> list[str]:
    """The words of a text; numbers of orders and invoices are words."""
    return _WORD.findall(text.lower())


@cache
def weights() -> dict[str, float]:
    """The weight of each word of the corpus: rare ones weigh more."""
    counts = Counter(word for passage in passages() for word in set(words(passage.text)))
    return {word: math.log(len(passages()) / count) for word, count in counts.items()}


def search(query: str, source: str, k: int = 3) -> list[dict[str, object]]:
    """The `k` passages of one source that share most with the query, best first, as contexts."""
    wanted = set(words(query))
    rated = []
    for passage in passages():
        if passage.source == source:
            score = math.fsum(weights()[word] for word in sorted(wanted & set(words(passage.text))))
            rated.append((-score, passage.id, passage))
    rated.sort()
    return [{"id": passage.id, "text": passage.text, "score": -score} for score, _, passage in rated[:k] if score < 0]


def lookup_order(order_id: str) -> str:
    """Where an order is now. Raises ToolError if there is no such order."""
    if order_id not in orders():
        raise ToolError(f"no order {order_id}")
    return "Order {order}: {state}.".format(**orders()[order_id])


def find_invoice(order_id: str | None = None, customer: str | None = None) -> str:
    """Whether the invoice of an order, or a customer's newest one, is paid. Raises ToolError if there is none."""
    rows = [order for order in orders().values() if order_id == order["order"] or customer == order["customer"]]
    if not rows:
        raise ToolError(f"no invoice for {order_id or customer}")
    return "Invoice {invoice} of order {order}: {payment}.".format(**rows[-1])
