"""Statements: what the sentences of an answer claim, split at coordinate clauses if
both halves can stand alone."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ragstone.judge.normal import normalise
from ragstone.judge.offline.abstention import abstains, claiming_clauses, refuses
from ragstone.judge.offline.claims import (
    claim,
    lists_sources,
    without_citations,
    without_thoughts,
)
from ragstone.judge.offline.lexicon import Language, guess_language
from ragstone.judge.offline.passage import Sentence
from ragstone.judge.offline.phrases import lowered
from ragstone.judge.sentences import Kind, split_blocks, split_sentences

MAX_STATEMENTS = 400
"""An answer with more statements than this is refused by the judge rather than judged
in part."""

_LOOK_AT_ANSWER = 2000
_LEAD_IN_WORDS = 8
_NO_CLAIMS = (Kind.HEADING, Kind.NOTE, Kind.TABLE_HEAD)
_COLONS = (":", "：")
_DIGIT = re.compile(r"\d")
_CELL = re.compile(r"(?:`[^`]*`|\\.|[^|`\\]|`)+")
_STOPS = tuple(".!?。！？؟")
_QUESTION_MARKS = ("?", "？", "؟")
_QUOTES = "\"'»”」*) "
_CLAUSES = re.compile(
    r";\s+|,\s+(?=(?:and|but|while|whereas|although|und|aber|et|mais|y|pero|e|ma|mas|en|maar)\s)"
)
_CLAUSE_KEYS = 4
_FINITE_VERB = re.compile(
    r"\b(?:is|are|was|were|has|have|had|does|do|did|will|would|can|could|may|might|must|shall|should|became|becomes|"
    r"ist|sind|war|waren|hat|haben|wird|wurde|wurden|est|sont|était|étaient|ont|fut|es|son|fue|fueron|era|eran|"
    r"è|sono|ha|hanno|fu|furono|é|são|foi|foram|tem|têm|werd|werden|heeft|hebben)\b"
)


def split_statements(text: str, language: Language) -> list[Sentence]:
    """The statements of normalised `text`, in order.

    What claims nothing (see `claims`), headings, heads of tables and questions to the
    user are left out, unless there is nothing else.
    """
    statements: list[Sentence] = []
    questions: list[Sentence] = []
    unclaimed: list[Sentence] = []
    for whole, bare in claimed_sentences(text, language):
        if not bare:
            unclaimed.append(Sentence(whole, language))
            continue
        for clause in _split_clauses(bare, language):
            if clause.text.rstrip(_QUOTES).endswith(_QUESTION_MARKS):
                questions.append(clause)
            else:
                statements.append(clause)
    return statements or questions or unclaimed


def answer_abstains(answer: str) -> bool:
    """Whether an answer in any language abstains, by its beginning."""
    text = normalise(answer[:_LOOK_AT_ANSWER])
    language = guess_language(text)
    return abstains(split_statements(text, language), language)


def claimed_sentences(text: str, language: Language) -> Iterator[tuple[str, str]]:
    """Each sentence as written, and what it claims; "" where that is nothing."""
    is_list_of_sources = False
    for kind, sentences in split_blocks(without_thoughts(text), language.code):
        if kind not in (Kind.ITEM, Kind.NOTE, Kind.ROW):
            is_list_of_sources = lists_sources(" ".join(sentences))
        if kind is Kind.ROW:
            sentences = _cells(" ".join(sentences), language)
        for sentence in sentences:
            whole = sentence.strip()
            bare = whole if kind is Kind.CODE else claim(whole, language.code)
            # What only announces what follows its colon, rather than claim numbers.
            is_short = len(bare.split()) <= _LEAD_IN_WORDS
            leads_in = bare.endswith(_COLONS) and (is_short or not _DIGIT.search(bare))
            if is_list_of_sources or kind in _NO_CLAIMS or leads_in:
                bare = ""
            yield whole, bare


def _cells(row: str, language: Language) -> list[str]:
    """The sentences in a row of a table, whose other cells are labels; the row itself
    if no cell ends as one does."""
    sentences: list[str] = []
    for cell in _CELL.findall(row):
        if without_citations(cell).rstrip().endswith(_STOPS):
            sentences += split_sentences(cell, language.code)
    return sentences or [row]


def _split_clauses(sentence: str, language: Language) -> list[Sentence]:
    whole = Sentence(sentence, language)
    if refuses(sentence, language.code):
        clauses = claiming_clauses(sentence, language)
        claims = [claim(clause, language.code) or clause for clause in clauses]
        return _read(claims, language) or [whole]
    clauses = _CLAUSES.split(sentence)
    if len(clauses) == 1:
        return [whole]
    parts = _read(clauses, language)
    if all(map(_stands_alone, parts)):
        return parts
    return [whole]


def _read(clauses: Sequence[str], language: Language) -> list[Sentence]:
    return [Sentence(clause.strip(), language) for clause in clauses]


def _stands_alone(clause: Sentence) -> bool:
    return has_verb(clause) and len(clause.keys) >= _CLAUSE_KEYS


def has_verb(sentence: Sentence) -> bool:
    """Whether `sentence` has a finite verb that is known."""
    return _FINITE_VERB.search(lowered(sentence.text)) is not None
