"""A small RAG system over the documentation of a made-up product: BM25 over sections, answers of their best sentences.

It needs no key and no model, and abstains if it can't find an answer.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from dataclasses import dataclass
from functools import cache
from itertools import pairwise

import bm25s
import Stemmer
from pages import Passage, read_passages, subject

RETRIEVED = 5
SENTENCES = 2
MIN_COVERAGE = 0.45
"""Share of the question (by weight of its words) that one passage must contain; below it, the system abstains."""

TITLE_SHARE = 0.5
NEARLY_AS_GOOD = 0.75

ABSTAIN = "I don't know: the documentation doesn't say."

_WORD = re.compile(r"[^\W_]+(?:[@.][^\W_]+)*")
_STOP_WORDS = """
    a an and are as at be been being by can could did do does for from had has have how i if in into is it its may me
    must my need no not of on one or our shall should so some than that the their them then there these they this to up
    us was we were what when where which who whom whose why will with would you your many much about get gets use used
    using happen happens mean means say says way ways anything something
"""
_STOP = frozenset(_STOP_WORDS.split())
_stem = Stemmer.Stemmer("english")


def words(text: str) -> list[str]:
    """The stems of the words that carry meaning."""
    plain = text.lower().replace("_", " ").replace("-", " ")
    meaningful = [word for word in _WORD.findall(plain) if word not in _STOP]
    return list(_stem.stemWords(meaningful))


def terms(text: str) -> list[str]:
    """The words and the pairs of adjacent words: "error F204" is more than two words."""
    singles = words(text)
    return singles + [f"{first} {second}" for first, second in pairwise(singles)]


@dataclass(frozen=True)
class Index:
    """Passages, a BM25 index over them, and the weight of each word."""

    passages: list[Passage]
    bm25: bm25s.BM25
    weights: dict[str, float]
    rarest: float

    def weight(self, word: str) -> float:
        """The weight of a word; a word that the documentation never uses weighs most: the question is about that."""
        return self.weights.get(word, 2 * self.rarest)

    def search(self, question: str, k: int) -> list[tuple[Passage, float]]:
        """The `k` best passages with their scores, best first."""
        asked = [term for term in dict.fromkeys(terms(question)) if term in self.weights]
        if not asked:
            return []
        ranks, scores = self.bm25.retrieve([asked], k=min(k, len(self.passages)), show_progress=False)
        return [
            (self.passages[rank], float(score)) for rank, score in zip(ranks[0], scores[0], strict=True) if score > 0
        ]


@cache
def index() -> Index:
    """The index, built once per process."""
    passages = read_passages()
    # A heading and the terms that its section defines say what the section is about: they count double.
    texts = [[*terms(passage.title) * 2, *words(passage.subjects), *terms(passage.text)] for passage in passages]
    bm25 = bm25s.BM25(k1=1.2, b=0.6)
    bm25.index(texts, show_progress=False)
    holding = Counter(word for text in texts for word in set(text))
    weights = {word: math.log(1 + len(texts) / count) for word, count in holding.items()}
    return Index(passages, bm25, weights, max(weights.values()))


def weight(stems: set[str]) -> float:
    """The total weight of these words."""
    return math.fsum(index().weight(stem) for stem in stems)


def coverage(question: str, passage: Passage) -> float:
    """The share of the question's words, by weight, in the passage and its title."""
    asked = set(words(question))
    covered = asked & set(words(f"{passage.title} {passage.text}"))
    return weight(covered) / weight(asked) if asked else 0.0


def best_sentences(question: str, retrieved: list[tuple[Passage, float]]) -> list[str]:
    """The sentence that covers most of the question, and a second one if it is nearly as good, verbatim."""
    asked = set(terms(question))
    top = retrieved[0][1]
    rated = []
    for rank, (passage, score) in enumerate(retrieved):
        about = asked & set(terms(passage.title))
        for place, sentence in enumerate(passage.sentences):
            covered = asked & set(terms(sentence))
            explained = asked & set(terms(subject(sentence)))
            told = weight(covered) + weight(explained) + TITLE_SHARE * weight(about - covered)
            rated.append((told * (0.5 + score / top), -rank, -place, sentence))
    rated.sort(reverse=True)
    best = [item for item in rated[:SENTENCES] if item[0] >= NEARLY_AS_GOOD * rated[0][0]]
    return [sentence for _, _, _, sentence in sorted(best, key=lambda item: (-item[1], -item[2]))]


def answer(question: str) -> dict[str, object]:
    """The documentation's answer to `question`, with the passages it was taken from."""
    retrieved = index().search(question, RETRIEVED)
    contexts = [
        {"id": passage.id, "text": f"{passage.title}\n{passage.text}", "score": score} for passage, score in retrieved
    ]
    if max((coverage(question, passage) for passage, _ in retrieved), default=0.0) < MIN_COVERAGE:
        return {"answer": ABSTAIN, "contexts": contexts}
    return {"answer": " ".join(best_sentences(question, retrieved)) or ABSTAIN, "contexts": contexts}
