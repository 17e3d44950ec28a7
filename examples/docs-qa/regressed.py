"""The same system after three bad changes: worst passage first, truncated passages, and an invented sentence.

It shows what the gate reports when answers get worse. See README.md.
"""

from __future__ import annotations

import app

CUT_AT = 90
MADE_UP = "This was introduced in version 7.2 and costs 19 dollars a month for teams of up to 12 people."


def answer(question: str) -> dict[str, object]:
    """The answer of `app.answer`, made worse."""
    response = app.answer(question)
    contexts = [{**context, "text": context["text"][:CUT_AT]} for context in reversed(response["contexts"])]
    text = response["answer"]
    return {"answer": text if text == app.ABSTAIN else f"{text} {MADE_UP}", "contexts": contexts}
