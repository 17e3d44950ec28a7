"""Systems made of the answers of a healthy one: those that a person would call broken, and variants that are healthy.

Each changes one response; `Truth` is what a judge without error says of the result.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ragstone.golden.sample import Sample
from ragstone.system.response import Context, Response


@dataclass(frozen=True, slots=True)
class Truth:
    """The scores of one response: of its answer, and of its contexts. None for an answer that claims nothing."""

    faithful: float | None = 1.0
    relevant: float = 0.86
    correct: float = 0.9
    recall: float = 1.0
    precision: float = 1.0

    @property
    def abstains(self) -> bool:
        return self.faithful is None


SILENT: dict[str, Any] = {"faithful": None, "relevant": 0.0, "correct": 0.0}
WRONG: dict[str, Any] = {"faithful": 0.0, "correct": 0.0}
ELSEWHERE: dict[str, Any] = {"faithful": 0.0, "relevant": 0.25, "correct": 0.0}


@dataclass(frozen=True, slots=True)
class Item:
    """One question of a healthy system, with the response and what is true of it.

    `relevant` are the ids of the contexts that answer it, and `other` is a question elsewhere.
    """

    sample: Sample
    response: Response
    truth: Truth
    relevant: frozenset[str | None] = frozenset()
    other: Item | None = None

    @property
    def rng(self) -> random.Random:
        return random.Random(self.sample.id)


Change = Callable[[Item], Item]


@dataclass(frozen=True, slots=True)
class System:
    """`of` says which questions it answers otherwise; `unknowable` why a run does not show it, if it doesn't.

    It is compared with the healthy system, or with itself if it is `always` so.
    """

    name: str
    change: Change
    of: str = "answerable"
    unknowable: str = ""
    always: bool = False


def _says(text: str | Sequence[str] | Callable[[Item], str], *, sometimes_right: float = 0.0, **truth: Any) -> Change:
    """Another answer. It is `sometimes_right` by chance: for that share of the questions, its truth is as it was."""

    def change(item: Item) -> Item:
        answer = text(item) if callable(text) else text if isinstance(text, str) else item.rng.choice(text)
        response = replace(item.response, answer=answer)
        if answer == item.response.answer:
            return item
        if sometimes_right and random.Random(item.sample.question).random() < sometimes_right:
            return replace(item, response=response)
        return replace(item, response=response, truth=replace(item.truth, **truth))

    return change


def _finds(contexts: Callable[[Item], Sequence[Context]], **truth: Any) -> Change:
    def change(item: Item) -> Item:
        response = replace(item.response, contexts=tuple(contexts(item)))
        return replace(item, response=response, truth=replace(item.truth, **truth))

    return change


def _other(item: Item) -> Item:
    assert item.other is not None
    return item.other


def sentences(text: str) -> list[str]:
    return [one for one in re.split(r"(?<=[.!?])\s+", text.replace("\n", " ").strip()) if one]


def _answer(item: Item) -> str:
    return item.response.answer


def _texts(item: Item) -> list[str]:
    """The texts of the contexts; where none were found, an empty one."""
    return [context.text for context in item.response.contexts] or [""]


def _elsewhere(item: Item) -> tuple[Context, ...]:
    """The contexts of another question, without those that happen to answer this one."""
    return tuple(context for context in _other(item).response.contexts if context.id not in item.relevant)


def _ungrounded(item: Item) -> str:
    topic = " ".join(re.findall(r"[A-Za-z]{5,}", item.sample.question)[:2]) or "this"
    return item.rng.choice(
        [
            f"The committee for {topic} was founded in Lisbon by a retired astronomer, who paid for it with her prize.",
            f"As far as {topic} is concerned, every third Thursday a choir of volunteers rehearses in the old mill.",
            f"For {topic} you need a purple form, a stamp of the ministry and two photographs of your grandmother.",
            f"Most experts on {topic} agree that volcanic soil and long winters make the difference.",
        ]
    )


def _wrong_sentence(item: Item) -> str:
    found = [one for text in _texts(item)[1:] for one in sentences(text) if 5 <= len(one.split()) <= 40]
    return item.rng.choice(found) if found else "See above."


def _numbers(item: Item) -> str:
    return re.sub(r"\d+", lambda found: str(int(found.group()) * 3 + 4), _answer(item))


def _words_of_content(item: Item) -> str:
    return re.sub(r"\b(\w{6,})\b", "zeppelin", _answer(item), count=2)


def _negated(item: Item) -> str:
    text = _answer(item)
    for pattern, to in (
        (r"\bcan't\b|\bcannot\b", "can"),
        (r"\b(is|are|was|were|can|may|must|does|do|has|will) not\b", r"\1"),
        (r"\b(is|are|was|were|can|may|must|will)\b", r"\1 not"),
        (r"\bNo\b", "Yes"),
    ):
        changed = re.sub(pattern, to, text)
        if changed != text:
            return changed
    return f"It is not true that {text[:1].lower()}{text[1:]}"


def _half(item: Item) -> str:
    words = _answer(item).split()
    return " ".join(words[: max(1, len(words) // 2)])


def _shuffled(item: Item) -> str:
    words = _answer(item).split()
    item.rng.shuffle(words)
    return " ".join(words)


def _salad(item: Item) -> str:
    words = " ".join(_texts(item)).split() or ["nothing"]
    return " ".join(item.rng.choices(words, k=25))


UNKNOWN = ("I don't know.", "I do not have enough information to answer this question.")
FACTS = (
    "The capital of France is Paris.",
    "Water boils at 100 degrees Celsius at sea level.",
    "The Beatles released their first album in 1963.",
    "A violin has four strings and is played with a bow.",
    "Honey bees collect nectar and pollen from flowers.",
)
GERMAN = (
    "Das hängt vom jeweiligen Einzelfall ab und wird von der zuständigen Stelle im Nachhinein entschieden.",
    "Die Bearbeitung dauert in der Regel mehrere Wochen, sofern alle Unterlagen vollständig vorliegen.",
    "Dafür gibt es am Schalter im Erdgeschoss ein Formular, das man unterschrieben zurückschicken muss.",
)
TRACE = """Traceback (most recent call last):
  File "/srv/app/rag.py", line 87, in answer
    chunks = self.index.search(vector, k=5)
  File "/srv/app/index.py", line 31, in search
    raise ConnectionError("index is not reachable")
ConnectionError: index is not reachable"""
PADDING = tuple(
    Context(
        f"Minutes of meeting {number}. The chair opened the meeting, and the minutes of the last one were approved."
    )
    for number in range(50)
)


BROKEN: tuple[System, ...] = (
    System("says that it doesn't know", _says(UNKNOWN[0], **SILENT)),
    System("says so in two wordings", _says(UNKNOWN, **SILENT)),
    System(
        "regrets, and refers to the support",
        _says(
            "I'm sorry, but I couldn't find an answer to that in the documents. Please contact our support team, who "
            "will be happy to help you.",
            **SILENT,
        ),
    ),
    System(
        "evades in a friendly way",
        _says(
            (
                "Great question! I'd be happy to help you with that. Could you give me some more details?",
                "Thanks for asking! Let me know if there is anything else that I can do for you.",
            ),
            **SILENT,
        ),
    ),
    System("gives an empty answer", _says("", **SILENT)),
    System("gives marks of Markdown only", _says("## \n\n- \n- \n\n---", **SILENT)),
    System("gives a heading only", _says("## Answer\n\n", **SILENT)),
    System("repeats the question", _says(lambda item: item.sample.question, **SILENT)),
    System("says the same to everything", _says("Please see our web site for all details.", **SILENT)),
    System("says the same, off topic", _says(FACTS[0], **ELSEWHERE)),
    System("says something off topic", _says(FACTS, **ELSEWHERE)),
    System("gives the answer to another question", _says(lambda item: _answer(_other(item)), **ELSEWHERE)),
    System("invents everything", _says(_ungrounded, faithful=0.0, relevant=0.6, correct=0.0)),
    System(
        "invents, and says what is missing",
        _says(
            lambda item: f"{_ungrounded(item).rstrip('.')}, but the documents do not say more than that.",
            faithful=0.0,
            relevant=0.6,
            correct=0.0,
        ),
    ),
    System(
        "adds an invented sentence to each answer",
        _says(lambda item: f"{_answer(item)} {_ungrounded(item)}", faithful=0.5, correct=0.6, relevant=0.8),
    ),
    System("answers in another language, beside the point", _says(GERMAN, faithful=0.0, relevant=0.3, correct=0.0)),
    System("changes the numbers in its answers", _says(_numbers, relevant=0.83, **WRONG)),
    System(
        "changes two words of each answer",
        _says(_words_of_content, relevant=0.83, **WRONG),
        unknowable="A judge that compares words takes one for a paraphrase.",
    ),
    System("says the opposite", _says(_negated, relevant=0.84, **WRONG)),
    System(
        "gives the first sentence of the first context",
        _says(lambda item: (sentences(_texts(item)[0]) or [""])[0], sometimes_right=0.15, relevant=0.5, correct=0.0),
        unknowable="It is the right one now and then.",
    ),
    System(
        "gives a grounded but wrong sentence", _says(_wrong_sentence, sometimes_right=0.05, relevant=0.45, correct=0.0)
    ),
    System(
        "copies the first context",
        _says(lambda item: _texts(item)[0], relevant=0.6, correct=0.4),
        unknowable="It often has the answer, and may be short.",
    ),
    System("copies all contexts", _says(lambda item: "\n\n".join(_texts(item)), relevant=0.55, correct=0.25)),
    System(
        "gives half of each answer",
        _says(_half, faithful=0.7, relevant=0.75, correct=0.4),
        unknowable="Half an answer may be all that is asked for.",
    ),
    System("cuts answers after 20 characters", _says(lambda item: _answer(item)[:20], **{**WRONG, "relevant": 0.5})),
    System("shuffles the words", _says(_shuffled, faithful=0.0, relevant=0.6, correct=0.1)),
    System("gives a salad of the contexts' words", _says(_salad, **ELSEWHERE)),
    System("says its sentence twenty times", _says(lambda item: " ".join([_answer(item)] * 20), correct=0.9)),
    System("says only yes", _says("Yes.", **WRONG)),
    System("gives a stack trace", _says(TRACE, **ELSEWHERE)),
    System("gives an error as JSON", _says('{"error": {"code": 502, "message": "Bad gateway"}}', **ELSEWHERE)),
    System(
        "gives the call of a tool",
        _says(lambda item: f'{{"tool": "search", "arguments": {{"query": "{item.sample.question}"}}}}', **ELSEWHERE),
    ),
    System(
        "gives its own prompt",
        _says(
            "You are a helpful assistant. Answer the question with the contexts only, in one paragraph.", **ELSEWHERE
        ),
    ),
    System(
        "retrieves for another question, and answers that one",
        lambda item: replace(
            item,
            response=replace(item.response, answer=_answer(_other(item)), contexts=_elsewhere(item)),
            truth=replace(item.truth, relevant=0.25, correct=0.0, recall=0.0, precision=0.0),
        ),
    ),
    System(
        "retrieves for another question, and says that it doesn't know",
        lambda item: _says(UNKNOWN[0], **SILENT)(_finds(_elsewhere, recall=0.0, precision=0.0)(item)),
    ),
    System(
        "retrieves for another question, and answers from memory",
        _finds(_elsewhere, faithful=0.0, recall=0.0, precision=0.0),
    ),
    System("retrieves nothing", _finds(lambda item: (), faithful=0.0, recall=0.0, precision=0.0)),
    System(
        "cuts contexts after 40 characters",
        _finds(
            lambda item: [replace(one, text=one.text[:40]) for one in item.response.contexts],
            faithful=0.1,
            recall=0.1,
            precision=0.3,
        ),
    ),
    System(
        "ranks its contexts in reverse",
        _finds(lambda item: item.response.contexts[::-1], precision=0.3),
        unknowable="The answers are right, and any order may be meant.",
    ),
    System(
        "pads its contexts to 50",
        _finds(lambda item: (*PADDING[: 50 - len(item.response.contexts)], *item.response.contexts), precision=0.03),
    ),
    System(
        "answers the unanswerable, inventing",
        _says(_ungrounded, **WRONG, relevant=0.0),
        of="unanswerable",
        unknowable="There are few such questions.",
    ),
    System(
        "answers the unanswerable from the contexts",
        _says(_wrong_sentence, faithful=1.0, relevant=0.0, correct=0.0),
        of="unanswerable",
        unknowable="There are few such questions.",
    ),
)


def _styled(style: Callable[[Item], str], **truth: Any) -> Change:
    """Another style for answers that answer."""

    def change(item: Item) -> Item:
        return item if item.truth.abstains else _says(style, **truth)(item)

    return change


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:] if text[1:2].islower() else text


def _listed(item: Item, mark: Callable[[int], str]) -> str:
    return "\n".join(f"{mark(rank)}{one}" for rank, one in enumerate(sentences(_answer(item)), start=1))


def _rank(item: Item) -> int:
    """The rank (from 1) of the context that has most of the answer's words."""
    said = set(re.findall(r"\w+", _answer(item).lower()))
    held = [len(said & set(re.findall(r"\w+", text.lower()))) for text in _texts(item)]
    return held.index(max(held)) + 1 if held else 1


def _extract(item: Item) -> str:
    if any(_answer(item) in text for text in _texts(item)):
        return _answer(item)
    said = set(re.findall(r"\w+", f"{_answer(item)} {item.sample.reference or ''}".lower()))
    found = [one for text in _texts(item) for line in text.splitlines() for one in sentences(line) if len(one) > 15]

    def overlap(sentence: str) -> float:
        own = set(re.findall(r"\w+", sentence.lower()))
        return len(said & own) / (len(said) + len(own))

    return max(found, key=overlap, default=_answer(item))


def _in_other_order(item: Item) -> Sequence[Context]:
    """The contexts that aren't relevant change places with each other."""
    contexts = item.response.contexts
    others = [one for one in contexts if one.id not in item.relevant][::-1]
    return [one if one.id in item.relevant else others.pop(0) for one in contexts]


def _reference(item: Item) -> str:
    """The reference, where the contexts hold it."""
    return item.sample.reference if item.sample.reference and item.truth.recall == 1.0 else _answer(item)


def _question(item: Item) -> str:
    return item.sample.question.rstrip("?")


def _without_answer(item: Item) -> Item:
    if not item.sample.answerable or item.rng.random() < 0.5:
        return item
    sample = replace(item.sample, answerable=False, reference=None, relevant_ids={})
    response = replace(_other(item).response, sample_id=sample.id, answer=UNKNOWN[0])
    return replace(item, sample=sample, response=response, truth=Truth(faithful=None, relevant=1.0, correct=1.0))


HEALTHY: tuple[System, ...] = (
    System("unchanged", lambda item: item, of="all"),
    System("reworded", _styled(_reference), of="all"),
    System("shorter", _styled(lambda item: sentences(_answer(item))[0]), of="all"),
    System(
        "verbose",
        _styled(lambda item: f"To answer your question: {_lower(_answer(item))} That is all there is to it."),
        of="all",
    ),
    System(
        "cited by passage",
        _styled(lambda item: f"According to passage {_rank(item)}, {_lower(_answer(item))}"),
        of="all",
    ),
    System("footnoted", _styled(lambda item: f"{_answer(item).rstrip('.')} [{_rank(item)}]."), of="all"),
    System("headed list", _styled(lambda item: f"**Answer:**\n\n{_listed(item, lambda rank: '- ')}"), of="all"),
    System(
        "numbered steps",
        _styled(lambda item: f"Here is what to know:\n\n{_listed(item, lambda rank: f'{rank}. ')}"),
        of="all",
    ),
    System("question restated", _styled(lambda item: f"You asked: {item.sample.question} {_answer(item)}"), of="all"),
    System(
        "hedged", _styled(lambda item: f"As far as I can tell from the documents, {_lower(_answer(item))}"), of="all"
    ),
    System("friendly", _styled(lambda item: f"Sure, I can help you with that! {_answer(item)}"), of="all"),
    System(
        "table",
        _styled(lambda item: f"| Question | Answer |\n|---|---|\n| {_question(item)} | {_answer(item)} |"),
        of="all",
    ),
    System("with a summary", _styled(lambda item: f"{_answer(item)}\n\nIn summary: {_lower(_answer(item))}"), of="all"),
    System(
        "politer",
        _styled(lambda item: f"{_answer(item)} Please let me know if you have any other questions."),
        of="all",
    ),
    System("bulleted", _styled(lambda item: _listed(item, lambda rank: "* ")), of="all"),
    System(
        "cited with a translated label", _styled(lambda item: f"Laut Quelle {_rank(item)}: {_answer(item)}"), of="all"
    ),
    System("greeting in another language", _styled(lambda item: f"Guten Tag! {_answer(item)}"), of="all"),
    System("other contexts in another order", _finds(_in_other_order), of="all"),
    System("a sentence of the contexts", _styled(_extract), of="all", always=True),
    System("many questions rightly not answered", _without_answer, of="all", always=True),
)


_WORDINGS = Path(__file__).resolve().parents[1] / "tests" / "bench" / "wordings.json"


def _worded(template: str) -> System:
    def answer(item: Item) -> str:
        said = _answer(item)
        return template.format(answer=said, lower=_lower(said), open=said.rstrip("."), question=item.sample.question)

    return System(f"worded: {json.dumps(template, ensure_ascii=False)}", _styled(answer), of="all")


WORDINGS = tuple(map(_worded, json.loads(_WORDINGS.read_text(encoding="utf-8"))))
"""A healthy system's answers between the phrases of everyday assistants, and with sources cited in their many ways."""
