"""Changes to a sentence whose effect on its truth is certain: harmful ones make it unsupported, harmless ones don't.

Each change takes a sentence copied word for word from the context, the context and a source of randomness, and returns
the changed sentence, or None if it does not apply. English only; the frames of other languages are in
`contrast_frames.py`.
"""

from __future__ import annotations

import hashlib
import random
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from data_sets import read_rows

from ragstone.judge.normal import normalise
from ragstone.judge.sentences import split_sentences

Change = Callable[[str, str, random.Random], str | None]

_WORDS: Mapping[str, Any] = tomllib.loads((Path(__file__).parent / "contrast_words.toml").read_text(encoding="utf-8"))
_MONTHS: list[str] = _WORDS["months"]
_NAMES: list[str] = _WORDS["names"]
_NO_NAME: frozenset[str] = frozenset(_WORDS["no_name"])
_ANTONYMS: dict[str, str] = _WORDS["antonyms"]
_QUANTIFIERS: dict[str, str] = _WORDS["quantifiers"]
_UNITS: dict[str, str] = _WORDS["units"]
_DIRECTIONS: dict[str, str] = _WORDS["directions"]
_SYNONYMS: dict[str, str] = _WORDS["synonyms"]
_DIRECTION = re.compile(rf"\b(?:{'|'.join(_DIRECTIONS)})\b(?= (?:the )?[A-Z0-9])")
_MAX_BETWEEN = 7
_BE = re.compile(r"\b(is|are|was|were|has|have|had|can|will|could|would|did|does)\b(?! not\b|n't)")
_NEGATION = re.compile(r"\b(?:not|never|no|n't|cannot|without|none|neither|nor)\b", re.IGNORECASE)
_NUMBER = re.compile(r"(?<![\w.,/-])(\d{1,3}(?:,\d{3})+|\d+(?:\.\d+)?)(?![\w/-]|[.,]\d)")
_NAME = re.compile(r"(?<=[a-z,] )(?:[A-Z][a-z]{2,}(?: [A-Z][a-z]{2,}){0,2})(?![\w'-])")
_PASSIVE = re.compile(
    r"^(?!But |And |Some )([A-Z][^,;:.]{3,60}?) (?:was|were) (\w{2,}ed) by ((?:[A-Z][\w'-]+ ?){1,4})((?<= )[^,;:]*)?\.$"
)
_YEAR_LAST = re.compile(r"^([A-Z][^,;:]{10,200}?) (in (?:[A-Z][a-z]+ )?\d{4})\s?\.$")


def _replaced(sentence: str, table: dict[str, str], draw: random.Random) -> str | None:
    found = [word for word in re.finditer(r"\b[a-z]+\b", sentence) if word.group() in table]
    if not found:
        return None
    word = draw.choice(found)
    return sentence[: word.start()] + table[word.group()] + sentence[word.end() :]


def number(sentence: str, context: str, draw: random.Random) -> str | None:
    """Another number, which is not in the context."""
    found = [one for one in _NUMBER.finditer(sentence) if not re.fullmatch(r"1\d{3}|20\d\d", one.group())]
    if not found:
        return None
    one = draw.choice(found)
    value = float(one.group().replace(",", ""))
    for step in (3, 7, 11, 40, 90):
        other = value + step
        text = f"{other:,.0f}" if "," in one.group() else f"{other:g}"
        if text not in context:
            return sentence[: one.start()] + text + sentence[one.end() :]
    return None


def date(sentence: str, context: str, draw: random.Random) -> str | None:
    """Another month or year."""
    found = list(re.finditer(rf"\b(?:{'|'.join(_MONTHS)}|1[0-9]{{3}}|20[0-2]\d)\b", sentence))
    found = [one for one in found if one.group() != "May" and one.group() != "March"]
    if not found:
        return None
    one = draw.choice(found)
    if one.group() in _MONTHS:
        others = [month for month in _MONTHS if month not in context and month not in ("May", "March")]
    else:
        others = [year for step in (-13, -6, 4, 9) if (year := str(int(one.group()) + step)) not in context]
    return sentence[: one.start()] + draw.choice(others) + sentence[one.end() :] if others else None


def name(sentence: str, context: str, draw: random.Random) -> str | None:
    """Another name, which is not in the context."""
    found = [
        one
        for one in _NAME.finditer(sentence)
        if one.group().split()[0] not in _MONTHS and not sentence[: one.start()].split()[-1][0].isupper()
    ]
    if not found:
        return None
    one = draw.choice(found)
    return sentence[: one.start()] + draw.choice(_NAMES) + sentence[one.end() :]


def negation(sentence: str, context: str, draw: random.Random) -> str | None:
    """A "not" after the first auxiliary."""
    found = _BE.search(sentence)
    if found is None or _NEGATION.search(sentence):
        return None
    return sentence[: found.end()] + " not" + sentence[found.end() :]


def antonym(sentence: str, context: str, draw: random.Random) -> str | None:
    """The opposite of a word."""
    return _replaced(sentence, _ANTONYMS, draw)


def quantifier(sentence: str, context: str, draw: random.Random) -> str | None:
    """Another quantity: few for many, all for some."""
    return _replaced(sentence, _QUANTIFIERS, draw)


def direction(sentence: str, context: str, draw: random.Random) -> str | None:
    """Before for after, at most for at least, less for more than."""
    found = list(_DIRECTION.finditer(sentence))
    if not found:
        return None
    one = draw.choice(found)
    return sentence[: one.start()] + _DIRECTIONS[one.group()] + sentence[one.end() :]


def unit(sentence: str, context: str, draw: random.Random) -> str | None:
    """Another unit after the same number."""
    found = [one for one in re.finditer(r"(\d[\d,.]*) ([a-z]+)\b", sentence) if one.group(2) in _UNITS]
    if not found:
        return None
    one = draw.choice(found)
    return sentence[: one.start(2)] + _UNITS[one.group(2)] + sentence[one.end(2) :]


def roles(sentence: str, context: str, draw: random.Random) -> str | None:
    """Two names swapped around a verb."""
    found = list(re.finditer(r"(?<![\w-])(?:[A-Z][a-z]{2,}(?: [A-Z][a-z]{2,}){0,2})(?![\w'-]| [A-Z])", sentence))
    for first, second in pairwise(found):
        between = sentence[first.end() : second.start()]
        verbs = re.findall(r"\b[a-z]{3,}(?:ed|es|ught|ote|ew)\b", between)
        if verbs and "," not in between and not re.search(r"\b(?:and|or|with|married|met)\b", between):
            one, two = first.group(), second.group()
            firsts = {one.split()[0], two.split()[0]}
            if not first.start() and " " not in one:
                continue
            if one in two or two in one or firsts & {*_MONTHS, *_NO_NAME} or len(between.split()) > _MAX_BETWEEN:
                continue
            return sentence[: first.start()] + two + between + one + sentence[second.end() :]
    return None


def synonym(sentence: str, context: str, draw: random.Random) -> str | None:
    """A word with the same meaning."""
    return _replaced(sentence, _SYNONYMS, draw)


def voice(sentence: str, context: str, draw: random.Random) -> str | None:
    """Passive to active."""
    found = _PASSIVE.match(sentence)
    if found is None:
        return None
    what, verb, who, rest = found.groups()
    if " who " in what or " which " in what or " that " in what:
        return None
    return f"{who.strip()} {verb} {what} {rest or ''}".strip() + "."


def order(sentence: str, context: str, draw: random.Random) -> str | None:
    """The year in front."""
    found = _YEAR_LAST.match(sentence)
    return f"I{found.group(2)[1:]}, {found.group(1)}." if found else None


def greeting(sentence: str, context: str, draw: random.Random) -> str | None:
    """Politeness around it."""
    return str(draw.choice(_WORDS["greetings"]) + sentence + draw.choice(_WORDS["farewells"]))


def attribution(sentence: str, context: str, draw: random.Random) -> str | None:
    """A source named before it or after it."""
    form: str = draw.choice(_WORDS["attributions"])
    return form.format(sentence=sentence, plain=sentence.rstrip(" ."))


def formatting(sentence: str, context: str, draw: random.Random) -> str | None:
    """The same as a list item, in bold, as a quotation or under a heading."""
    form: str = draw.choice(_WORDS["formats"])
    return form.format(sentence=sentence)


HARMFUL: dict[str, Change] = {
    change.__name__: change for change in (number, date, name, negation, antonym, quantifier, direction, unit, roles)
}
HARMLESS: dict[str, Change] = {
    change.__name__: change for change in (synonym, voice, order, greeting, attribution, formatting)
}


@dataclass(frozen=True, slots=True)
class Copied:
    """A sentence of a context. By their hash, half of all sentences are for training and half for measuring."""

    source: str
    text: str
    context: str

    @property
    def training(self) -> bool:
        return hashlib.sha256(self.text.encode()).digest()[0] % 2 == 0


def copied_sentences(data: Path) -> Iterator[Copied]:
    """The sentences of 8 to 40 words in the contexts of BEGIN dev (without topicalchat) and WiCE dev."""
    seen: set[str] = set()
    for source, context in _contexts(data):
        for text in split_sentences(normalise(context), "en"):
            if 8 <= len(text.split()) <= 40 and text[0].isupper() and text.endswith(".") and text not in seen:
                seen.add(text)
                yield Copied(source, text, context)


def _contexts(data: Path) -> Iterator[tuple[str, str]]:
    for row in read_rows(data / "begin.jsonl.gz"):
        if row["split"] == "dev" and row["label_faithful"] is not None and row["source"] != "tc":
            yield f"begin/{row['source']}", row["context"]
    for row in read_rows(data / "wice_claim.jsonl.gz"):
        if row["split"] == "dev":
            yield "wice", "\n".join(row["evidence_sentences"])


def contrasts(name: str, change: Change, sentences: Sequence[Copied], most: int) -> list[tuple[Copied, str]]:
    """Up to `most` of the `sentences` to which the change applies, drawn with a fixed seed, with their changed form."""
    draw = random.Random(name)
    shuffled = list(sentences)
    draw.shuffle(shuffled)
    found: list[tuple[Copied, str]] = []
    for one in shuffled:
        text = change(one.text, one.context, draw)
        if text is not None and text != one.text:
            found.append((one, text))
            if len(found) == most:
                break
    return found
