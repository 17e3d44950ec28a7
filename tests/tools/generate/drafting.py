"""Documents to ask about, and a model that writes questions on them: realistic replies over the providers' protocol."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

_CASES = {
    "Northwind": "before a winter journey",
    "Larkspur": "for my grandmother",
    "Bramblewood": "after moving house",
    "Quartzite": "as a student abroad",
    "Juniperus": "with two children",
    "Meadowlark": "during parental leave",
}
PLANS = tuple(_CASES)
_TOPICS: Mapping[str, tuple[str, str, str]] = {
    "mail": ("The {0} plan stores mail for {1} days.", "For how many days does the {0} plan store mail?", "{1} days."),
    "price": ("Members of {0} pay {1} euros each month.", "What do members of {0} pay each month?", "{1} euros."),
    "support": (
        "{0} answers requests for help within {1} hours.",
        "Within which time does {0} answer requests for help?",
        "{1} hours.",
    ),
    "notice": (
        "To cancel {0}, give {1} weeks of notice in writing.",
        "How much notice must be given to cancel {0}?",
        "{1} weeks.",
    ),
}
_FILLER = (
    "Our colleagues in the {0} team wrote this paragraph for {1}, and it is read again every spring by someone who "
    "knows {1} well and changes what has changed."
)


class Fact:
    """A sentence of a document on a plan, and a question that it answers."""

    def __init__(self, plan: str, topic: str, number: int) -> None:
        self.case = _CASES[plan]
        self.sentence, self.question, self.answer = (text.format(plan, number) for text in _TOPICS[topic])
        self.filler = _FILLER.format(plan, topic)


FACTS = {
    (plan, topic): Fact(plan, topic, 3 + 7 * plan_number + 2 * topic_number)
    for plan_number, plan in enumerate(PLANS)
    for topic_number, topic in enumerate(_TOPICS)
}


def write_documents(folder: Path) -> Path:
    """A Markdown file for each plan, with a section for each topic."""
    folder.mkdir(parents=True, exist_ok=True)
    for plan in PLANS:
        sections = [
            f"## {topic.title()} of {plan}\n\n{FACTS[plan, topic].sentence} {FACTS[plan, topic].filler}"
            for topic in _TOPICS
        ]
        (folder / f"{plan.lower()}.md").write_text("\n\n".join([f"# {plan}", *sections]) + "\n", encoding="utf-8")
    return folder


def block(data: str, name: str) -> str | None:
    """The text of the block called `name` in a request."""
    found = re.search(rf"<<<{name} \w+>>>\n(.*?)\n(?=<<<)", data, re.DOTALL)
    return found[1] if found else None


def passages(data: str) -> list[str]:
    """The texts of the passages in a request."""
    return [text for number in range(1, 20) if (text := block(data, f"passage p{number}")) is not None]


def facts_in(text: str) -> list[Fact]:
    """The facts that a text states."""
    return [fact for fact in FACTS.values() if fact.sentence in text]


def facts_asked_for(question: str) -> list[Fact]:
    """The facts that a question asks for, in its order."""
    found = [fact for fact in FACTS.values() if fact.question in question]
    return sorted(found, key=lambda fact: question.find(fact.question))


class Writer:
    """Fills in the forms as a good model would. `faults` has a function for each task with a wrong reply, which changes
    the right one, given the data of the request."""

    def __init__(self) -> None:
        self.faults: dict[str, Callable[[dict[str, Any], str], Any]] = {}
        self.tasks: list[str] = []

    def __call__(self, schema: Mapping[str, Any], data: str) -> Any:
        task = task_of(schema)
        self.tasks.append(task)
        reply = getattr(self, task)(data)
        return self.faults[task](reply, data) if task in self.faults else reply

    def question(self, data: str) -> dict[str, Any]:
        texts = passages(data)
        known = block(data, "asked") or ""
        facts = [facts_in(text)[:1] for text in texts]
        if not all(facts) or facts[0][0].question in known:
            return {"draft": {"possible": "no", "question": "", "answer": "", "quotes": [], "difficulty": "easy"}}
        chosen = [found[0] for found in facts]
        question = chosen[0].question
        if len(chosen) == 2:
            question = f"I ask {chosen[0].case}: {question} And {chosen[1].case}: {chosen[1].question}"
        return {
            "draft": {
                "possible": "yes",
                "question": question,
                "answer": " ".join(fact.answer for fact in chosen),
                "quotes": [
                    {"passage": f"p{number}", "quote": fact.sentence} for number, fact in enumerate(chosen, start=1)
                ],
                "difficulty": "easy" if len(chosen) == 1 else "hard",
            }
        }

    def unanswerable(self, data: str) -> dict[str, Any]:
        heading = passages(data)[0].splitlines()[0].lstrip("# ")
        return {"draft": {"possible": "yes", "question": f"Which person first invented {heading} in history?"}}

    def attempt(self, data: str) -> dict[str, Any]:
        facts = facts_asked_for(block(data, "question") or "")
        is_answered = bool(facts) and all(fact.sentence in "\n".join(passages(data)) for fact in facts)
        return {
            "attempt": {
                "answerable": "yes" if is_answered else "no",
                "answer": " ".join(fact.answer for fact in facts) if is_answered else "",
            }
        }

    def inspection(self, data: str) -> dict[str, Any]:
        reference = block(data, "reference")
        answers = [(f"a{number}", block(data, f"answer a{number}")) for number in range(1, 4)]
        return {
            "checks": [
                {"id": "question", "reason": "It is clear.", "standalone": "yes", "sensible": "yes", "trivial": "no"}
            ],
            "answers": [
                {"id": name, "match": "same" if text == reference else "different"}
                for name, text in answers
                if text is not None
            ],
        }

    def worse(self, data: str) -> dict[str, Any]:
        return {"worse": {"ungrounded": "Exactly 999 years.", "poor": "There is a rule for that."}}


def task_of(schema: Mapping[str, Any]) -> str:
    """Which task a request is, by its form."""
    name = next(iter(schema["properties"]))
    if name == "draft":
        return "question" if "quotes" in json.dumps(schema) else "unanswerable"
    return "inspection" if name == "checks" else name
