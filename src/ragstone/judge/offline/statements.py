"""Statements: what the sentences of an answer claim, split into coordinate clauses if
each of them can stand alone."""

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

_MAX_READ_CHARACTERS = 2000
"""Only the beginning of an answer is read to tell whether it abstains."""
_MAX_LEAD_IN_WORDS = 8
"""A longer sentence with a number is no lead-in, even if it ends with a colon."""
_KINDS_WITHOUT_CLAIMS = (Kind.HEADING, Kind.NOTE, Kind.TABLE_HEAD)
_COLONS = (":", "：")
_DIGIT = re.compile(r"\d")
# Code in backticks and escaped characters may contain the border of a cell.
_TABLE_CELL = re.compile(r"(?:`[^`]*`|\\.|[^|`\\]|`)+")
_SENTENCE_ENDS = tuple(".!?。！？؟")
_QUESTION_MARKS = ("?", "？", "؟")
_QUOTES = "\"'»”」*) "
_CLAUSE_BOUNDARY = re.compile(
    r";\s+|,\s+(?=(?:and|but|while|whereas|although|und|aber|et|mais|y|pero|e|ma|mas|en|maar)\s)"
)
_MIN_CLAUSE_KEYS = 4
"""A clause with fewer content words does not stand alone."""
_FINITE_VERB = re.compile(
    r"\b(?:is|are|was|were|has|have|had|does|do|did|will|would|can|could|may|might|must|shall|should|became|becomes|"
    r"ist|sind|war|waren|hat|haben|wird|wurde|wurden|est|sont|était|étaient|ont|fut|es|son|fue|fueron|era|eran|"
    r"è|sono|ha|hanno|fu|furono|é|são|foi|foram|tem|têm|werd|werden|heeft|hebben)\b"
)


def split_statements(text: str, language: Language) -> list[Sentence]:
    """The statements of normalised `text`, in order.

    Sentences that claim nothing (see judge/offline/claims.py), headings, heads of
    tables and questions to the user are left out, unless there is nothing else.
    """
    statements: list[Sentence] = []
    questions: list[Sentence] = []
    without_claims: list[Sentence] = []
    for sentence, claimed in claimed_sentences(text, language):
        if not claimed:
            without_claims.append(Sentence(sentence, language))
            continue
        for clause in _split_clauses(claimed, language):
            if clause.text.rstrip(_QUOTES).endswith(_QUESTION_MARKS):
                questions.append(clause)
            else:
                statements.append(clause)
    return statements or questions or without_claims


def answer_abstains(answer: str) -> bool:
    """Whether an answer, in any language, abstains, by its beginning."""
    text = normalise(answer[:_MAX_READ_CHARACTERS])
    language = guess_language(text)
    return abstains(split_statements(text, language), language)


def claimed_sentences(text: str, language: Language) -> Iterator[tuple[str, str]]:
    """Each sentence of `text` as written, with what it claims; "" if it claims
    nothing."""
    is_list_of_sources = False
    for kind, sentences in split_blocks(without_thoughts(text), language.code):
        # Items, notes and rows continue the list that the block before them began.
        if kind not in (Kind.ITEM, Kind.NOTE, Kind.ROW):
            is_list_of_sources = lists_sources(" ".join(sentences))
        if kind is Kind.ROW:
            sentences = _sentences_of_row(" ".join(sentences), language)
        for sentence in sentences:
            written = sentence.strip()
            claimed = written if kind is Kind.CODE else claim(written, language.code)
            # A lead-in only announces what follows its colon.
            is_short = len(claimed.split()) <= _MAX_LEAD_IN_WORDS
            has_claim = not is_short and _DIGIT.search(claimed)
            is_lead_in = claimed.endswith(_COLONS) and not has_claim
            if is_list_of_sources or kind in _KINDS_WITHOUT_CLAIMS or is_lead_in:
                claimed = ""
            yield written, claimed


def _sentences_of_row(row: str, language: Language) -> list[str]:
    """The sentences in a row of a table, whose other cells are labels; the row itself
    if no cell ends like a sentence."""
    sentences: list[str] = []
    for cell in _TABLE_CELL.findall(row):
        if without_citations(cell).rstrip().endswith(_SENTENCE_ENDS):
            sentences += split_sentences(cell, language.code)
    return sentences or [row]


def _split_clauses(text: str, language: Language) -> list[Sentence]:
    """The clauses of a sentence that can stand alone, or else the sentence; of a
    refusal, the clauses that claim something."""
    sentence = Sentence(text, language)
    if refuses(text, language.code):
        clauses = claiming_clauses(text, language)
        claims = [claim(clause, language.code) or clause for clause in clauses]
        return _parse(claims, language) or [sentence]
    clauses = _CLAUSE_BOUNDARY.split(text)
    if len(clauses) == 1:
        return [sentence]
    parts = _parse(clauses, language)
    if all(map(_stands_alone, parts)):
        return parts
    return [sentence]


def _parse(clauses: Sequence[str], language: Language) -> list[Sentence]:
    return [Sentence(clause.strip(), language) for clause in clauses]


def _stands_alone(clause: Sentence) -> bool:
    return has_verb(clause) and len(clause.keys) >= _MIN_CLAUSE_KEYS


def has_verb(sentence: Sentence) -> bool:
    """Whether `sentence` has one of the finite verbs that are listed here."""
    return _FINITE_VERB.search(lowered(sentence.text)) is not None
