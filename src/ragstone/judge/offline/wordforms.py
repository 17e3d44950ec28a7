"""Irregular forms, synonyms and opposites, by language."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache

from ragstone.judge.offline.lexicon import load_data


@dataclass(frozen=True, slots=True)
class WordForms:
    """`base` maps a lower-case form to the word that represents all of its forms and synonyms.

    `opposites` are pairs of groups of such words: the words of the first group mean the opposite of those of the
    second.
    """

    base: Mapping[str, str]
    opposites: tuple[tuple[frozenset[str], frozenset[str]], ...]


@cache
def word_forms(code: str) -> WordForms:
    """The forms of the language with this code; empty if there are none."""
    lists = load_data("wordforms.json").get(code, {})
    base: dict[str, str] = {}
    for group in (*_rows(lists.get("same", "")), *_rows(lists.get("irregular", ""))):
        first = base.get(group[0], group[0])
        base.update({form: first for form in group[1:] if form not in base})
    opposites = []
    for row in lists.get("opposite", "").split(";"):
        one, slash, other = row.partition("/")
        if slash:
            opposites.append((frozenset(one.split()), frozenset(other.split())))
    return WordForms(base, tuple(opposites))


def opposite_keys(forms: WordForms, key: Callable[[str], str]) -> Mapping[str, tuple[frozenset[str], frozenset[str]]]:
    """For the key of each word that has an opposite: the keys of its own side, and those of the other side."""
    found: dict[str, tuple[frozenset[str], frozenset[str]]] = {}
    nothing = frozenset[str]()
    for one, other in forms.opposites:
        sides = _keys(one, key), _keys(other, key)
        for mine, theirs in (sides, sides[::-1]):
            for word in mine:
                own, contrary = found.get(word, (nothing, nothing))
                found[word] = (own | mine, contrary | theirs)
    return {word: (own, contrary - own) for word, (own, contrary) in found.items()}


def _keys(words: Iterable[str], key: Callable[[str], str]) -> frozenset[str]:
    return frozenset(found for word in words if (found := key(word)))


def _rows(text: str) -> list[list[str]]:
    return [row.split() for row in text.split(";") if row.strip()]
