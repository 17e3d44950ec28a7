"""Statements: sentences of an answer, split at coordinate clauses if both halves can stand alone."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from ragstone.judge.offline.lexicon import Language, load_data
from ragstone.judge.offline.passage import Sentence, read_sentence
from ragstone.judge.sentences import MAX_SENTENCE, split_sentences

_LONGEST_ASIDE = 200
"""A longer sentence is no greeting, so patterns are not applied to more than this."""

_LOOK_AT = 160
_OPENING_MARKS = "¡¿\"'(*- "
_MAX_TAKEN_OFF = 4


@dataclass(frozen=True, slots=True)
class _Patterns:
    """`opening` is removed from the start of a sentence, `source` from its end; an `aside` is dropped as a whole."""

    opening: re.Pattern[str]
    source: re.Pattern[str] | None
    aside: re.Pattern[str]


def claim(sentence: str, code: str) -> str:
    """`sentence` without sources, openings and hedges; empty when it claims nothing at all.

    "According to the manual, sales rose." gives "Sales rose."; "I hope this helps!" gives nothing.
    """
    found = sentence
    for _ in range(_MAX_TAKEN_OFF):
        if is_aside(found, code):
            return ""
        rest = _without_opening(found, code)
        if rest == found:
            break
        found = rest
    bare = _without_source(found, code)
    return bare[:1].upper() + bare[1:] if found != sentence else bare


def is_aside(sentence: str, code: str) -> bool:
    """Whether `sentence` as a whole is a greeting, thanks, an offer of help, or a list of sources."""
    if len(sentence) > _LONGEST_ASIDE:
        return False
    bare = sentence.lstrip(_OPENING_MARKS)
    return any(patterns.aside.match(bare) for patterns in _known(code))


def _without_opening(sentence: str, code: str) -> str:
    head = sentence[:_LOOK_AT].lstrip(_OPENING_MARKS)
    skipped = len(sentence[:_LOOK_AT]) - len(head)
    for patterns in _known(code):
        found = patterns.opening.match(head)
        if found and found.end():
            return sentence[skipped + found.end() :].lstrip()
    return sentence


def _without_source(sentence: str, code: str) -> str:
    start = max(0, len(sentence) - _LOOK_AT)
    tail = sentence[start:]
    for patterns in _known(code):
        found = patterns.source.search(tail) if patterns.source else None
        if found:
            return sentence[: start + found.start()] + sentence[start + found.end() :]
    return sentence


@cache
def _known(code: str) -> tuple[_Patterns, ...]:
    """The patterns of a language plus those of English: assistants use English phrases in all languages."""
    return tuple(found for name in dict.fromkeys((code, "en")) if (found := _patterns(name)))


@cache
def _patterns(code: str) -> _Patterns | None:
    lists = load_data("asides.json").get(code)
    if lists is None:
        return None
    openings = [*lists["openers"], *lists["attributions"], *lists["hedges"]]
    return _Patterns(
        opening=_any_of(openings),
        source=_any_of(lists["sources"]) if lists["sources"] else None,
        aside=re.compile(rf"(?:{_any_of(lists['asides']).pattern})", re.IGNORECASE),
    )


def _any_of(patterns: Sequence[str]) -> re.Pattern[str]:
    return re.compile("|".join(f"(?:{pattern})" for pattern in patterns), re.IGNORECASE)


MAX_STATEMENTS = 400
"""An answer with more statements than this is refused by the judge rather than judged in part."""

_CITATION = re.compile(
    r"(`[^`]+`)|\s*\[(?:\d{1,3}|\^\d{1,3}|c\d{1,3}|[Dd]oc(?:ument)? ?\d{1,3})(?:\s*[,;–-]\s*\d{1,3})*\]"
)
_HEADING = re.compile(
    r"^[ \t]{0,3}#{1,6}[ \t][^\n]*$|^[ \t]{0,3}(?:\*\*|__(?!\w+__))[^\n*_]{1,80}(?:\*\*|__):?[ \t]*$", re.MULTILINE
)
_LEAD_IN_WORDS = 8
_BREAK = re.compile(r"(?<=[.!?])\s+(?=[^\W\d_a-z])")
_STOPS = frozenset(".!?")
_ELLIPSIS = re.compile(r"(?:(?<=\.\.\.)|(?<=…))\s+(?=[A-ZÀ-Þ])")
_CLAUSES = re.compile(r";\s+|,\s+(?=(?:and|but|while|whereas|although|und|aber|et|mais|y|pero|e|ma|mas|en|maar)\s)")
_CLAUSE_KEYS = 4
_ALONE = 2
FINITE_VERB = re.compile(
    r"\b(?:is|are|was|were|has|have|had|does|do|did|will|would|can|could|may|might|must|shall|should|became|becomes|"
    r"ist|sind|war|waren|hat|haben|wird|wurde|wurden|est|sont|était|étaient|ont|fut|es|son|fue|fueron|era|eran|"
    r"è|sono|ha|hanno|fu|furono|é|são|foi|foram|tem|têm|werd|werden|heeft|hebben)\b",
    re.IGNORECASE,
)


def split_statements(text: str, language: Language) -> list[Sentence]:
    """The statements of normalised `text`, in order.

    Greetings, offers of help and questions to the user claim nothing and are left out, unless there is nothing else;
    sources and hedges are removed. A sentence that opens with a pronoun and has a single content word is joined to the
    previous one.
    """
    found: list[list[Sentence]] = []
    length = 0
    questions: list[Sentence] = []
    asides: list[Sentence] = []
    sentences = split_sentences(_without_headings(text), language.code)
    for whole in itertools.chain.from_iterable(_ELLIPSIS.split(sentence) for sentence in sentences):
        bare = claim(_without_closing(_without_citations(whole).strip(), language.code), language.code)
        if not bare and (whole := whole.strip()):
            asides.append(read_sentence(whole, language))
        if not bare or (bare.endswith((":", "：")) and len(bare.split()) <= _LEAD_IN_WORDS):
            continue
        for clause in _split_clauses(bare, language):
            if clause.text.endswith(("?", "？", "؟")):
                questions.append(clause)
            elif found and length + len(clause.text) < MAX_SENTENCE and _leans(clause, language):
                found[-1].append(clause)
                length += 1 + len(clause.text)
            else:
                found.append([clause])
                length = len(clause.text)
    return [_joined(clauses, language) for clauses in found] or questions or asides


def _without_headings(text: str) -> str:
    """`text` without its headings; unchanged if there is nothing else."""
    if "#" not in text and "*" not in text and "_" not in text:
        return text
    rest = _HEADING.sub("", text)
    return rest if rest.strip() else text


def _without_citations(sentence: str) -> str:
    return _CITATION.sub(r"\1", sentence) if "[" in sentence else sentence


def _without_closing(sentence: str, code: str) -> str:
    """`sentence` without closing phrases after what looks like an abbreviation: "works of art. I hope this helps!"."""
    if _STOPS.isdisjoint(sentence[:-1]):
        return sentence
    for found in reversed(list(_BREAK.finditer(sentence))):
        if not is_aside(sentence[found.end() :], code):
            break
        sentence = sentence[: found.start()].rstrip()
    return sentence


def _joined(clauses: Sequence[Sentence], language: Language) -> Sentence:
    if len(clauses) == 1:
        return clauses[0]
    return read_sentence(" ".join(clause.text for clause in clauses), language)


def _leans(clause: Sentence, language: Language) -> bool:
    """Whether a statement says too little without the previous one: "It is tall."."""
    if not 0 < len(clause.keys) < _ALONE:
        return False
    opening = clause.surface[0].lower() if clause.surface else ""
    return opening in language.pronouns


def _split_clauses(sentence: str, language: Language) -> list[Sentence]:
    whole = read_sentence(sentence, language)
    if len(whole.keys) < 2 * _CLAUSE_KEYS or ("," not in sentence and ";" not in sentence):
        return [whole]
    clauses = _CLAUSES.split(sentence)
    if len(clauses) == 1:
        return [whole]
    parts = [read_sentence(part.strip(), language) for part in clauses]
    if any(len(part.keys) < _CLAUSE_KEYS or not FINITE_VERB.search(part.text) for part in parts):
        return [whole]
    return parts
