"""Forty changes that teams make to a RAG system: twenty that harm nobody, and twenty that do."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from real_systems.corpus import Passage, Question, read_corpus
from real_systems.system import SORRY, Passages, RagSystem, Reply, Steps

Words = Callable[[Reply, "World"], str]


@dataclass(frozen=True)
class World:
    """The system before the change, for changes that need to know it."""

    name: str

    @property
    def passages(self) -> Passages:
        return read_corpus(self.name).passages

    def question(self, text: str) -> Question:
        return next(question for question in read_corpus(self.name).questions if question.text == text)

    def neighbour(self, text: str) -> Question:
        """The next question that has an answer."""
        questions = [question for question in read_corpus(self.name).questions if question.passage_id is not None]
        places = [place for place, question in enumerate(questions) if question.text == text]
        return questions[(places[0] + 1) % len(questions)] if places else questions[0]

    def wording(self, reply: Reply, number: int) -> str:
        """The answer in other words, sentence by sentence."""
        wordings = read_corpus(self.name).wordings
        return " ".join(wordings[text][number] if text in wordings else text for text in reply.sentences)

    def passage_of(self, reply: Reply) -> Passage:
        return next(passage for passage in reply.contexts if reply.sentences[0] in passage.sentences)


@dataclass(frozen=True)
class Change:
    """`half` is the one that the change harms; None if it harms nobody."""

    name: str
    steps: Callable[[World], Steps]
    half: str | None = None
    returned: Callable[[dict[str, Any]], dict[str, Any]] = lambda reply: reply


def chance(text: str) -> random.Random:
    """Chance that is the same in each run."""
    return random.Random(text)


# -- how a change is made ----------------------------------------------------------------------------------------------


def _says(words: Words, share: float = 1.0) -> Callable[[World], Steps]:
    """Other words for the answers that answer; of this share of the questions."""

    def steps(world: World) -> Steps:
        def reply(before: Reply) -> Reply:
            if not before.sentences or chance(before.question).random() >= share:
                return before
            return replace(before, answer=words(before, world))

        return Steps(reply=reply)

    return steps


def _retrieves(change: Callable[[Passages, str, World], Passages], top_k: int = 4) -> Callable[[World], Steps]:
    return lambda world: Steps(top_k, retrieved=lambda passages, question: change(passages, question, world))


def _indexes(change: Callable[[Passages], Passages]) -> Callable[[World], Steps]:
    return lambda world: Steps(index=change)


def _each(change: Callable[[Passage], Passage]) -> Callable[[Passages], Passages]:
    return lambda passages: tuple(change(passage) for passage in passages)


def _top_k(top_k: int) -> Callable[[World], Steps]:
    return lambda world: Steps(top_k)


# -- harmless ----------------------------------------------------------------------------------------------------------


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:] if text[1:2].islower() else text


def _polite(reply: Reply, world: World) -> str:
    return chance(reply.question).choice(
        [
            f"Happy to help! {reply.answer} Please let me know if you have any other questions.",
            f"Thank you for your question. {reply.answer} Is there anything else that I can do for you?",
            f"Good question! {reply.answer} Have a lovely day!",
        ]
    )


def _cites(mark: Callable[[Reply, Passage], str]) -> Words:
    def words(reply: Reply, world: World) -> str:
        return f"{reply.answer.rstrip('.')} [{mark(reply, world.passage_of(reply))}]."

    return words


def _brief(reply: Reply, world: World) -> str:
    question = world.question(reply.question)
    return question.reference or "" if question.sentence in reply.sentences else reply.answer


def _bullets(reply: Reply, world: World) -> str:
    points = "\n".join(f"- {part}" for part in re.split(r", and |; |(?<=\.) ", reply.answer))
    return f"**Answer**\n\n{points}"


def _quoting(reply: Reply, world: World) -> str:
    passage = world.passage_of(reply)
    return f'{reply.answer}\n\nThe passage "{passage.title}" says: "{" ".join(passage.sentences)}"'


def _bold(reply: Reply, world: World) -> str:
    return re.sub(r"\b\d[\d.:]*(?<=\d)\b", lambda number: f"**{number.group()}**", reply.answer)


def _other_order(passages: Passages, question: str, world: World) -> Passages:
    """Those behind the first one are as good as each other, and come in another order."""
    return (passages[0], *passages[:0:-1])


def _overlapping(passages: Passages) -> Passages:
    """Each passage ends with the first sentence of the next one."""
    following = (*passages[1:], passages[0])
    return tuple(
        replace(passage, sentences=(*passage.sentences, after.sentences[0]))
        for passage, after in zip(passages, following, strict=True)
    )


def _with_metadata(reply: dict[str, Any]) -> dict[str, Any]:
    contexts = [
        {**context, "score": round(1 / (rank + 1), 3), "metadata": {"source": f"{context['id']}.md", "version": 7}}
        for rank, context in enumerate(reply["contexts"])
    ]
    return {**reply, "contexts": contexts, "model": "small-2026"}


def _position(reply: Reply, passage: Passage) -> int:
    return reply.contexts.index(passage)


HARMLESS: tuple[Change, ...] = (
    Change("refactoring", lambda world: Steps()),
    Change("top_k 6", _top_k(6)),
    Change("top_k 8", _top_k(8)),
    Change("top_k 20", _top_k(20)),
    Change("top_k 3", _top_k(3)),
    Change("the first prompt's wording", _says(lambda reply, world: world.wording(reply, 0))),
    Change("the second prompt's wording", _says(lambda reply, world: world.wording(reply, 1))),
    Change("a third of the answers reworded", _says(lambda reply, world: world.wording(reply, 0), 0.34)),
    Change("polite", _says(_polite)),
    Change("cited by position", _says(_cites(lambda reply, passage: str(_position(reply, passage) + 1)))),
    Change("cited by position, from 0", _says(_cites(lambda reply, passage: str(_position(reply, passage))))),
    Change("cited by id", _says(_cites(lambda reply, passage: passage.id))),
    Change("cited by title", _says(_cites(lambda reply, passage: passage.title))),
    Change("bullets", _says(_bullets)),
    Change("shorter", _says(_brief)),
    Change("longer, with quotations", _says(_quoting)),
    Change("numbers in bold", _says(_bold)),
    Change("other order of equal contexts", _retrieves(_other_order)),
    Change("chunks that overlap", _indexes(_overlapping)),
    Change("more metadata", lambda world: Steps(), returned=_with_metadata),
)


# -- harmful -----------------------------------------------------------------------------------------------------------


def _elsewhere(passages: Passages, question: str, world: World) -> Passages:
    """The passages of another topic, as after a mix-up of vectors."""
    places = [place for place, passage in enumerate(world.passages) if passage not in passages]
    return tuple(world.passages[place] for place in chance(question).sample(places, len(passages)))


def _off_by_one(passages: Passages, question: str, world: World) -> Passages:
    every = world.passages
    return tuple(every[(every.index(passage) + 1) % len(every)] for passage in passages)


def _stale_text(text: str) -> str:
    return re.sub(r"\d+", lambda number: str(int(number.group()) + 3 + int(number.group()) // 10), text)


def _stale(passage: Passage) -> Passage:
    return replace(passage, sentences=tuple(_stale_text(sentence) for sentence in passage.sentences))


def _from_memory(reply: Reply, world: World) -> str:
    topic = " ".join(re.findall(r"[A-Za-z]{5,}", reply.question)[-2:]) or "this"
    return chance(reply.question).choice(
        [
            f"In most places, {topic} depends on the season, and a manager decides on it within two weeks.",
            f"Usually {topic} is arranged by telephone, with a deposit of about a hundred dollars.",
            f"As a rule, {topic} follows the national guidelines of 2009, which experts revise each spring.",
        ]
    )


def _with_addition(reply: Reply, world: World) -> str:
    addition = chance(reply.question).choice(
        [
            "Since 2019 an inspector from the ministry has checked this every Thursday.",
            "Experts recommend to repeat it after 45 days with a certified laboratory.",
            "Customers in Portugal have to send a copy of their passport as well.",
        ]
    )
    return f"{reply.answer} {addition}"


def _negated(reply: Reply, world: World) -> str:
    for pattern, replacement in (
        (r"\bcan't\b|\bcannot\b", "can"),
        (r"\b(is|are|was|may|must|does) not\b", r"\1"),
        (r"\bmay\b(?! not)", "may not"),
        (r"\b(is|are|was|were|can|must|should)\b(?! not)", r"\1 not"),
        (r"\b(costs|takes|needs|lasts|ends|means|has|holds|reaches|covers|comes|wins|opens)\b", r"never \1"),
    ):
        text = re.sub(pattern, replacement, reply.answer, count=1)
        if text != reply.answer:
            return text
    return f"It is not true that {_lower(reply.answer)}"


_GERMAN = (
    "Das ist in den Unterlagen genau beschrieben und gilt seit dem letzten Jahr für alle Fälle dieser Art.",
    "Dafür gibt es eine feste Regel, die in der Regel ohne Ausnahme von allen eingehalten werden muss.",
    "Nach den Angaben in den Texten ist das möglich, wenn es vorher mit der Stelle besprochen wurde.",
)


def _other_sentence(reply: Reply, world: World) -> str:
    """A sentence of the same passage that answers something else."""
    others = [text for text in world.passage_of(reply).sentences if text not in reply.sentences]
    return chance(reply.question).choice(others or [reply.answer])


def _first_words(reply: Reply, world: World) -> str:
    return " ".join(reply.answer.split()[:6])


@cache
def _unchanged(name: str) -> RagSystem:
    return RagSystem(name)


def _neighbours_answer(reply: Reply, world: World) -> str:
    return _unchanged(world.name).reply(world.neighbour(reply.question).text).answer


def _empty_for_a_tag(reply: Reply, world: World) -> str:
    """Those whose passage has a name from a to e fail in a filter."""
    return "" if world.passage_of(reply).id[:1] in "abcde" else reply.answer


def _cut(passage: Passage) -> Passage:
    return replace(passage, sentences=(passage.sentences[0][:25],))


def _first_half(passage: Passage) -> Passage:
    return replace(passage, sentences=passage.sentences[: len(passage.sentences) // 2])


def _without_every_second(passages: Passages) -> Passages:
    return passages[::2]


def _without_a_folder(passages: Passages) -> Passages:
    return tuple(passage for place, passage in enumerate(passages) if place % 10 not in (3, 7, 8))


def _reversed(passages: Passages, question: str, world: World) -> Passages:
    """A reranker that takes the worst for the best, and passes four on."""
    return passages[:3:-1]


def _cuts_the_query(world: World) -> Steps:
    return Steps(query=lambda question: " ".join(question.split()[:3]))


def _reads_nothing(world: World) -> Steps:
    """The contexts are returned, but no longer in the prompt: the model answers from memory."""
    return _says(_from_memory)(world)


RETRIEVAL = "retrieval"
GENERATION = "generation"

HARMFUL: tuple[Change, ...] = (
    Change("vectors mixed up", _retrieves(_elsewhere), RETRIEVAL),
    Change("off-by-one retrieval", _retrieves(_off_by_one), RETRIEVAL),
    Change("contexts cut after 25 characters", _indexes(_each(_cut)), RETRIEVAL),
    Change("half of the corpus lost", _indexes(_without_every_second), RETRIEVAL),
    Change("a folder of the corpus lost", _indexes(_without_a_folder), RETRIEVAL),
    Change("the end of each passage lost", _indexes(_each(_first_half)), RETRIEVAL),
    Change("stale corpus", _indexes(_each(_stale)), RETRIEVAL),
    Change("reranker reversed", _retrieves(_reversed, 8), RETRIEVAL),
    Change("query cut to three words", _cuts_the_query, RETRIEVAL),
    Change("empty index", _retrieves(lambda passages, question, world: ()), RETRIEVAL),
    Change("numbers altered", _says(lambda reply, world: _stale_text(reply.answer)), GENERATION),
    Change("negation flipped", _says(_negated), GENERATION),
    Change("the neighbouring question's answer", _says(_neighbours_answer), GENERATION),
    Change("invented additions", _says(_with_addition), GENERATION),
    Change("refuses four of ten", _says(lambda reply, world: SORRY, 0.4), GENERATION),
    Change("empty for a part of the topics", _says(_empty_for_a_tag), GENERATION),
    Change("answers in German", _says(lambda reply, world: chance(reply.question).choice(_GERMAN)), GENERATION),
    Change("cut after six words", _says(_first_words), GENERATION),
    Change("another sentence of the passage", _says(_other_sentence), GENERATION),
    Change("contexts missing in the prompt", _reads_nothing, GENERATION),
)

CHANGES = {change.name: change for change in (*HARMLESS, *HARMFUL)}


def system_after(name: str, change_name: str) -> Callable[[str], dict[str, Any]]:
    """The system `name` after that change, as an entrypoint."""
    change = CHANGES[change_name]
    system = RagSystem(name, change.steps(World(name)))
    return lambda question: change.returned(system.answer(question))
