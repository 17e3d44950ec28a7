"""Changes of a healthy system's replies: faults, what a person would call broken, and variants that are harmless."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from tests.corpus.ferry import Passage, Reply, sentences, similarity


@dataclass(frozen=True)
class Item:
    """A reply, and the healthy reply to a question elsewhere in the golden set."""

    reply: Reply
    other: Reply

    @property
    def answer(self) -> str:
        return self.reply.answer

    @property
    def contexts(self) -> tuple[Passage, ...]:
        return self.reply.contexts

    @property
    def draw(self) -> random.Random:
        """Chance that is the same in each run."""
        return random.Random(self.reply.question.id)

    @property
    def texts(self) -> list[str]:
        """The texts of the contexts; an empty one where none were retrieved."""
        return [passage.text for passage in self.contexts] or [""]


Change = Callable[[Item], Reply]
Words = Callable[[Item], str]


def paired(replies: Sequence[Reply]) -> list[Item]:
    """Each reply with that of a question half of the golden set away."""
    answerable = [reply for reply in replies if reply.question.answerable]
    half = len(answerable) // 2
    places = {reply.question.id: at for at, reply in enumerate(answerable)}
    items = []
    for reply in replies:
        place = places.get(reply.question.id)
        other = answerable[0] if place is None else answerable[(place + half) % len(answerable)]
        items.append(Item(reply, other))
    return items


def changed(replies: Sequence[Reply], change: Change, share: float = 1.0) -> list[Reply]:
    """The replies after a change of this share of them, chosen by chance."""
    items = paired(replies)
    order = list(range(len(items)))
    random.Random(29).shuffle(order)
    chosen = set(order[: round(share * len(items))])
    return [change(item) if at in chosen else item.reply for at, item in enumerate(items)]


# -- how a change is built ---------------------------------------------------------------------------------------------


def _answers(words: Words, share: float = 1.0) -> Change:
    """Other words for this share of the answerable questions."""

    def change(item: Item) -> Reply:
        if not item.answer or not item.reply.question.answerable or item.draw.random() >= share:
            return item.reply
        return replace(item.reply, answer=words(item))

    return change


def _unanswerable(words: Words) -> Change:
    def change(item: Item) -> Reply:
        return item.reply if item.reply.question.answerable else replace(item.reply, answer=words(item))

    return change


def _styled(words: Words) -> Change:
    """Another style for the answers that answer."""

    def change(item: Item) -> Reply:
        return item.reply if item.reply.abstains else replace(item.reply, answer=words(item))

    return change


def _retrieves(contexts: Callable[[Item], Sequence[Passage]]) -> Change:
    def change(item: Item) -> Reply:
        return replace(item.reply, contexts=tuple(contexts(item))) if item.reply.question.answerable else item.reply

    return change


def _each_context(change: Callable[[Passage], Passage]) -> Change:
    return lambda item: replace(item.reply, contexts=tuple(change(passage) for passage in item.contexts))


def _always(text: str) -> Words:
    return lambda item: text


def _any_of(*texts: str) -> Words:
    return lambda item: item.draw.choice(texts)


# -- words -------------------------------------------------------------------------------------------------------------


def _topic(item: Item) -> str:
    return " ".join(re.findall(r"[A-Za-z]{5,}", item.reply.question.text)[:2]) or "that"


def _on_its_topic(*texts: str) -> Words:
    return lambda item: item.draw.choice(texts).format(_topic(item))


_from_memory = _on_its_topic(
    "In most places, {} depends on the season, and a manager decides on it within two weeks.",
    "Usually {} is arranged by telephone, with a deposit of about a hundred dollars.",
    "As a rule, {} follows the national guidelines of 2009, which experts revise each spring.",
)
_ungrounded = _on_its_topic(
    "The committee for {} was founded in Lisbon by a retired astronomer, who paid for it with her prize.",
    "As far as {} is concerned, every third Thursday a choir of volunteers rehearses in the old mill.",
    "For {} you need a purple form, a stamp of the ministry and two photographs of your grandmother.",
    "Most experts on {} agree that volcanic soil and long winters make the difference.",
)


def _brief(item: Item) -> str:
    words = [word.strip(".,;:()") for word in item.answer.split()]
    return " ".join(words[: max(3, len(words) // 4)]) + "."


def _cut_in_half(item: Item) -> str:
    words = item.answer.split()
    return " ".join(words[: max(2, len(words) // 2)]).rstrip(".,;:!?")


def _tripled_numbers(item: Item) -> str:
    return re.sub(r"\d+", lambda number: str(int(number.group()) * 3 + 4), item.answer)


def _wrong_numbers(item: Item) -> str:
    """Other numbers; where there is none, two other words."""
    numbers = _tripled_numbers(item)
    return numbers if numbers != item.answer else re.sub(r"\b(\w{6,})\b", "granite", item.answer, count=2)


def _other_answer(item: Item) -> str:
    return item.other.answer


def _negated(item: Item) -> str:
    for pattern, replacement in (
        (r"\bcan't\b|\bcannot\b", "can"),
        (r"\b(is|are|was|were|can|may|must|does|do|has|will) not\b", r"\1"),
        (r"\b(is|are|was|were|can|may|must|will)\b", r"\1 not"),
        (r"\bNo\b", "Yes"),
    ):
        negated = re.sub(pattern, replacement, item.answer)
        if negated != item.answer:
            return negated
    return f"It is not true that {_lower(item.answer)}"


def _shuffled_words(item: Item) -> str:
    words = item.answer.split()
    item.draw.shuffle(words)
    return " ".join(words)


def _word_salad(item: Item) -> str:
    words = " ".join(item.texts).split() or ["nothing"]
    return " ".join(item.draw.choices(words, k=25))


def _grounded_but_wrong(item: Item) -> str:
    """A sentence of a later context."""
    candidates = [text for context in item.texts[1:] for text in sentences(context) if 5 <= len(text.split()) <= 40]
    return item.draw.choice(candidates) if candidates else "See above."


def _elsewhere(item: Item) -> tuple[Passage, ...]:
    """The contexts of the other question, without the passage that answers this one."""
    return tuple(passage for passage in item.other.contexts if passage.id != item.reply.question.passage_id)


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:] if text[1:2].islower() else text


def _rank(item: Item) -> int:
    """The rank, from 1, of the context with most of the answer's words."""
    answer_words = set(re.findall(r"\w+", item.answer.lower()))
    shared = [len(answer_words & set(re.findall(r"\w+", text.lower()))) for text in item.texts]
    return shared.index(max(shared)) + 1


def _listed(item: Item, mark: Callable[[int], str]) -> str:
    return "\n".join(f"{mark(number)}{text}" for number, text in enumerate(sentences(item.answer), start=1))


def _in_other_order(item: Item) -> list[Passage]:
    """The contexts that don't hold the answer change places with each other."""
    right = item.reply.question.passage_id
    others = [passage for passage in reversed(item.contexts) if passage.id != right]
    return [passage if passage.id == right else others.pop(0) for passage in item.contexts]


def _reference(item: Item) -> str:
    """The reference, where its passage was retrieved."""
    question = item.reply.question
    retrieved = {passage.id for passage in item.contexts}
    return question.reference if question.reference and question.passage_id in retrieved else item.answer


def _one_more(item: Item) -> Reply:
    return replace(item.reply, contexts=(*item.contexts, *item.other.contexts[:1]))


def _one_fewer(item: Item) -> Reply:
    """Without the last context, unless the answer may need it."""
    if len(item.contexts) < 2 or similarity(item.contexts[-1].text, item.answer) > 0.1:
        return item.reply
    return replace(item.reply, contexts=item.contexts[:-1])


def _times_out(item: Item) -> Reply:
    return item.reply if item.draw.random() >= 0.3 else replace(item.reply, error="No answer within 20 s.")


UNKNOWN = ("I don't know.", "I do not have enough information to answer this question.")
_GERMAN = (
    "Das ist in den Unterlagen genau beschrieben und gilt seit dem letzten Jahr für alle Fälle dieser Art.",
    "Dafür gibt es eine feste Regel, die in der Regel ohne Ausnahme von allen eingehalten werden muss.",
    "Nach den Angaben in den Texten ist das möglich, wenn es vorher mit der Stelle besprochen wurde.",
)
_REGRET = (
    "I'm sorry, but I couldn't find an answer to that in the documents. Please contact our support team, who will be "
    "happy to help you."
)
_EVASIONS = (
    "Great question! I'd be happy to help you with that. Could you give me some more details?",
    "Thanks for asking! Let me know if there is anything else that I can do for you.",
)
_FACTS = (
    "The capital of France is Paris.",
    "Water boils at 100 degrees Celsius at sea level.",
    "The Beatles released their first album in 1963.",
    "A violin has four strings and is played with a bow.",
    "Honey bees collect nectar and pollen from flowers.",
)
_PROMPT = "You are a helpful assistant. Answer the question with the contexts only, in one paragraph."
_STACK_TRACE = """Traceback (most recent call last):
  File "/srv/app/rag.py", line 87, in answer
    chunks = self.index.search(vector, k=5)
  File "/srv/app/index.py", line 31, in search
    raise ConnectionError("index is not reachable")
ConnectionError: index is not reachable"""
_PADDING = tuple(
    Passage(f"minutes-{number}", f"Minutes of meeting {number}. The chair opened the meeting, and all were approved.")
    for number in range(46)
)


# -- the changes -------------------------------------------------------------------------------------------------------

GENERATION_FAULTS: Mapping[str, Change] = {
    "the prompt has no contexts": _answers(_from_memory),
    'the prompt says "be brief"': _answers(_brief),
    "answers are cut at a length": _answers(_cut_in_half),
    "answers are in another language": _answers(_any_of(*_GERMAN)),
    "the prompt says to abstain in doubt": _answers(_always(UNKNOWN[1]), 0.5),
    "the temperature is too high": _answers(lambda item: f"{item.answer} {_from_memory(item)}", 0.7),
    "replies are lost in parsing": _answers(_always(""), 0.4),
    "another question is answered": _answers(_other_answer, 0.6),
    "numbers are wrong": _answers(_wrong_numbers),
    "questions time out": _times_out,
}
"""Faults of the generator, and one of the service."""

HARMLESS: Mapping[str, Change] = {
    "unchanged": lambda item: item.reply,
    "reworded": _styled(_reference),
    "shorter": _styled(lambda item: sentences(item.answer)[0]),
    "verbose": _styled(lambda item: f"To answer your question: {_lower(item.answer)} That is all there is to it."),
    "cited by passage": _styled(lambda item: f"According to passage {_rank(item)}, {_lower(item.answer)}"),
    "footnoted": _styled(lambda item: f"{item.answer.rstrip('.')} [{_rank(item)}]."),
    "headed list": _styled(lambda item: f"**Answer:**\n\n{_listed(item, lambda number: '- ')}"),
    "numbered steps": _styled(lambda item: f"Here is what to know:\n\n{_listed(item, lambda number: f'{number}. ')}"),
    "question restated": _styled(lambda item: f"You asked: {item.reply.question.text} {item.answer}"),
    "hedged": _styled(lambda item: f"As far as I can tell from the documents, {_lower(item.answer)}"),
    "friendly": _styled(lambda item: f"Sure, I can help you with that! {item.answer}"),
    "table": _styled(
        lambda item: f"| Question | Answer |\n|---|---|\n| {item.reply.question.text.rstrip('?')} | {item.answer} |"
    ),
    "with a summary": _styled(lambda item: f"{item.answer}\n\nIn summary: {_lower(item.answer)}"),
    "politer": _styled(lambda item: f"{item.answer} Please let me know if you have any other questions."),
    "bulleted": _styled(lambda item: _listed(item, lambda number: "* ")),
    "cited with a translated label": _styled(lambda item: f"Laut Quelle {_rank(item)}: {item.answer}"),
    "greeting in another language": _styled(lambda item: f"Guten Tag! {item.answer}"),
    "other contexts in another order": lambda item: replace(item.reply, contexts=tuple(_in_other_order(item))),
    "one more context": _one_more,
    "without a last context that no answer needs": _one_fewer,
    "passages in one line": _each_context(lambda passage: replace(passage, text=" ".join(passage.text.split()))),
    "scores of another retriever": _each_context(lambda passage: replace(passage, score=0.5)),
    "slower": lambda item: replace(item.reply, latency_s=9.0),
}

BROKEN: Mapping[str, Change] = {
    "doesn't know": _answers(_always(UNKNOWN[0])),
    "doesn't know in two wordings": _answers(_any_of(*UNKNOWN)),
    "regrets and refers to the support": _answers(_always(_REGRET)),
    "evades in a friendly way": _answers(_any_of(*_EVASIONS)),
    "empty answers": _answers(_always("")),
    "marks of Markdown only": _answers(_always("## \n\n- \n- \n\n---")),
    "a heading only": _answers(_always("## Answer\n\n")),
    "repeats the question": _answers(lambda item: item.reply.question.text),
    "the same to everything": _answers(_always("Please see our web site for all details.")),
    "the same off topic": _answers(_always(_FACTS[0])),
    "off topic": _answers(_any_of(*_FACTS)),
    "the answer to another question": _answers(_other_answer),
    "invents everything": _answers(_ungrounded),
    "invents and says what is missing": _answers(
        lambda item: f"{_ungrounded(item).rstrip('.')}, but the documents do not say more than that."
    ),
    "adds an invented sentence": _answers(lambda item: f"{item.answer} {_ungrounded(item)}"),
    "another language beside the point": _answers(_any_of(*_GERMAN)),
    "other numbers": _answers(_tripled_numbers),
    "two other words": _answers(lambda item: re.sub(r"\b(\w{6,})\b", "zeppelin", item.answer, count=2)),
    "says the opposite": _answers(_negated),
    "first sentence of the first context": _answers(lambda item: (sentences(item.texts[0]) or [""])[0]),
    "a grounded but wrong sentence": _answers(_grounded_but_wrong),
    "copies the first context": _answers(lambda item: item.texts[0]),
    "copies all contexts": _answers(lambda item: "\n\n".join(item.texts)),
    "cut after 20 characters": _answers(lambda item: item.answer[:20]),
    "shuffles the words": _answers(_shuffled_words),
    "a salad of words": _answers(_word_salad),
    "says its sentence twenty times": _answers(lambda item: " ".join([item.answer] * 20)),
    "says only yes": _answers(_always("Yes.")),
    "a stack trace": _answers(_always(_STACK_TRACE)),
    "an error as JSON": _answers(_always('{"error": {"code": 502, "message": "Bad gateway"}}')),
    "the call of a tool": _answers(
        lambda item: f'{{"tool": "search", "arguments": {{"query": "{item.reply.question.text}"}}}}'
    ),
    "its own prompt": _answers(_always(_PROMPT)),
    "cites contexts that don't exist": _answers(lambda item: re.sub(r"([.!?])(\s|$)", r" [17]\1\2", item.answer)),
    "retrieves for another question and answers that one": lambda item: replace(
        item.reply, answer=item.other.answer, contexts=_elsewhere(item)
    ),
    "retrieves for another question and doesn't know": lambda item: replace(
        item.reply, answer=UNKNOWN[0], contexts=_elsewhere(item)
    ),
    "retrieves for another question and answers from memory": _retrieves(_elsewhere),
    "retrieves nothing": _retrieves(lambda item: ()),
    "cuts contexts after 40 characters": _retrieves(
        lambda item: [replace(passage, text=passage.text[:40]) for passage in item.contexts]
    ),
    "ranks its contexts in reverse": _retrieves(lambda item: item.contexts[::-1]),
    "pads its contexts to 50": _retrieves(lambda item: (*_PADDING, *item.contexts)),
    "answers the unanswerable inventing": _unanswerable(_ungrounded),
    "answers the unanswerable from the contexts": _unanswerable(_grounded_but_wrong),
}
"""Systems that a person would call broken."""
