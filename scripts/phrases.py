"""Write `src/ragstone/judge/offline/phrases.json` from `scripts/phrases.json`: patterns, with the words that they name.

All are in lower case, as are the texts that they are looked for in. Each has beginnings, of which a text that it
matches at its start has one, and words, of which every match contains one; "" if none were recognised. The judge
compiles a pattern at the first text that has both.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from re import _constants as ops  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

SOURCE = Path(__file__).with_suffix(".json")
FILE = Path(__file__).parents[1] / "src" / "ragstone" / "judge" / "offline" / "phrases.json"
SHARED = "shared"
AT_THE_START = ("asides", "openings", "citations", "source_lists", "yes", "no")
"""Kinds that are only matched at the start of a text."""

NAME = re.compile(r"\{([a-z]\w*)\}")

MAX_WORDS = 40
MAX_BEGINNINGS = 80
MAX_LENGTH = 12
"""Longer words are cut: so many characters are rare enough."""

Words = frozenset[str]
EMPTY: Words = frozenset({""})
ZERO_WIDTH = (ops.AT, ops.ASSERT, ops.ASSERT_NOT)
REPEATS = (ops.MAX_REPEAT, ops.MIN_REPEAT)


def needed_words(pattern: str) -> list[str]:
    """Words of which every match of `pattern` contains one; [""] if no such words were recognised."""
    texts, words = _of_sequence(parser.parse(pattern))
    return _shortest(_rarer(texts, words) or EMPTY, str.__contains__)


def beginnings(pattern: str) -> list[str]:
    """Texts with one of which each text begins that `pattern` matches at its start; [""] if none were recognised."""
    texts, _ = _beginnings(parser.parse(pattern))
    return _shortest(texts, str.startswith)


def _shortest(words: Words, has: Callable[[str, str], bool]) -> list[str]:
    """`words`, cut, without those that have a shorter one."""
    cut = sorted({word[:MAX_LENGTH] for word in words}, key=lambda word: (len(word), word))
    return [word for position, word in enumerate(cut) if not any(has(word, shorter) for shorter in cut[:position])]


def _beginnings(sequence: Iterable[tuple[Any, Any]]) -> tuple[Words, bool]:
    """What a match of a sequence begins with, and whether these are whole matches."""
    begun = EMPTY
    for op, argument in sequence:
        texts, is_whole = _beginnings_of_item(op, argument)
        longer = frozenset(before + after for before in begun for after in texts)
        if len(longer) > MAX_BEGINNINGS:
            return begun, False
        begun = longer
        if not is_whole:
            return begun, False
    return begun, True


def _beginnings_of_item(op: Any, argument: Any) -> tuple[Words, bool]:
    """As `_beginnings`, of one item of a sequence."""
    if op is ops.SUBPATTERN:
        return _beginnings(argument[3])
    if op is ops.BRANCH:
        branches = [_beginnings(branch) for branch in argument[1]]
        return frozenset().union(*(texts for texts, _ in branches)), all(is_whole for _, is_whole in branches)
    if op in ZERO_WIDTH:
        return EMPTY, True
    if op in REPEATS:
        least, most, repeated = argument
        texts, is_whole = _beginnings(repeated)
        return (texts if least else texts | EMPTY), is_whole and most == 1
    texts_of_item, _ = _of_item(op, argument)
    return (EMPTY, False) if texts_of_item is None else (texts_of_item, True)


def _of_sequence(sequence: Iterable[tuple[Any, Any]]) -> tuple[Words | None, Words | None]:
    """All texts that a sequence matches, or None if they are too many; and the rarest words that it contains."""
    run = EMPTY
    is_whole = True
    best: Words | None = None
    for op, argument in sequence:
        texts, words = _of_item(op, argument)
        best = _rarer(best, words)
        if texts is not None and len(run) * len(texts) <= MAX_WORDS:
            run = frozenset(before + after for before in run for after in texts)
        else:
            is_whole = False
            best = _rarer(best, run)
            run = texts or EMPTY
    return (run if is_whole else None), _rarer(best, run)


def _of_item(op: Any, argument: Any) -> tuple[Words | None, Words | None]:
    """As `_of_sequence`, of one item of it."""
    if op is ops.LITERAL:
        return frozenset({chr(argument)}), None
    if op is ops.SUBPATTERN:
        return _of_sequence(argument[3])
    if op is ops.BRANCH:
        return _of_branches(argument[1])
    if op is ops.ASSERT:
        texts, words = _of_sequence(argument[1])
        return EMPTY, _rarer(texts, words)
    if op in ZERO_WIDTH:
        return EMPTY, None
    if op is ops.IN and all(kind is ops.LITERAL for kind, _ in argument):
        return frozenset(chr(letter) for _, letter in argument), None
    if op in REPEATS:
        least, most, repeated = argument
        texts, words = _of_sequence(repeated)
        if most == 1 and texts is not None:
            return (texts if least else texts | EMPTY), None
        return None, (_rarer(texts, words) if least else None)
    return None, None


def _of_branches(branches: Sequence[Any]) -> tuple[Words | None, Words | None]:
    all_texts: Words | None = frozenset()
    all_words: Words | None = frozenset()
    for branch in branches:
        texts, words = _of_sequence(branch)
        best = _rarer(texts, words)
        all_texts = None if all_texts is None or texts is None else all_texts | texts
        all_words = None if all_words is None or best is None else all_words | best
    return all_texts, all_words


def _rarer(first: Words | None, second: Words | None) -> Words | None:
    """Which of two sets of words fewer texts will contain; None has no words, as has a set with ""."""
    candidates = [words for words in (first, second) if words and "" not in words]
    return min(candidates, key=_commonness, default=None)


def _commonness(words: Words) -> float:
    """Lower for words that are longer, or of letters that few texts have."""
    return float(sum(8.0 ** -min(len(word.encode()), MAX_LENGTH) for word in words))


def filled(pattern: str, words: Mapping[str, str]) -> str:
    """`pattern` with the words that it names."""
    result = NAME.sub(lambda name: words[name[1]], pattern)
    return pattern if result == pattern else filled(result, words)


def text() -> str:
    """The file, a pattern per line."""
    source = json.loads(SOURCE.read_text(encoding="utf-8"))
    return "{\n" + ",\n".join(f"{json.dumps(name)}: {_of_language(name, source)}" for name in source) + "\n}\n"


def _of_language(name: str, source: Mapping[str, Mapping[str, Any]]) -> str:
    shared, own = source[SHARED], source[name]
    words = shared["words"] | own.get("words", {})
    kinds = []
    # A kind that languages have, too, is shared by them; another is the same in all.
    elsewhere = {"words"} | (source["en"].keys() if name == SHARED else set())
    for kind in sorted(own.keys() - elsewhere):
        unfilled = [*own[kind], *(() if name == SHARED else shared.get(kind, ()))]
        patterns = [filled(pattern, words) for pattern in unfilled]
        lines = [f"{_json(pattern)}: {_json(_marks(kind, pattern))}" for pattern in patterns]
        kinds.append(f"{_json(kind)}: {{\n" + ",\n".join(lines) + "\n}")
    return "{\n" + ",\n".join(kinds) + "\n}"


def _marks(kind: str, pattern: str) -> tuple[list[str], list[str]]:
    return beginnings(pattern) if kind in AT_THE_START else [""], needed_words(pattern)


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


if __name__ == "__main__":
    FILE.write_text(text(), encoding="utf-8")
