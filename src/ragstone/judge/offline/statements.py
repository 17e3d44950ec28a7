"""Statements: what the sentences of an answer claim, split at coordinate clauses if
both halves can stand alone."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence

from ragstone.judge.offline.abstention import abstains, may_abstain, parted, refuses
from ragstone.judge.offline.claims import (
    bare_answer,
    claim,
    lists_sources,
    without_citations,
)
from ragstone.judge.offline.lexicon import Language, guess_language
from ragstone.judge.offline.normal import normalise
from ragstone.judge.offline.passage import Sentence
from ragstone.judge.sentences import MAX_SENTENCE, Kind, split_blocks, split_sentences

MAX_STATEMENTS = 400
"""An answer with more statements than this is refused by the judge rather than judged
in part."""

_LOOK_AT_ANSWER = 2000
_SHORTEST_QUOTE = 20
_LEAD_IN_WORDS = 8
_DIGIT = re.compile(r"\d")
_CELL = re.compile(r"(?:`[^`]*`|\\.|[^|`\\]|`)+")
_STOPS = tuple(".!?。！？؟")
_QUOTES = "\"'»”」*) "
_ELLIPSIS = re.compile(r"(?:(?<=\.\.\.)|(?<=…))\s+(?=[A-ZÀ-Þ])")
_CLAUSES = re.compile(
    r";\s+|,\s+(?=(?:and|but|while|whereas|although|und|aber|et|mais|y|pero|e|ma|mas|en|maar)\s)"
)
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

    What claims nothing (see `claims`), headings, heads of tables and questions to the
    user are left out, unless there is nothing else. A fragment in a list is read with
    its heading. A sentence that opens with a pronoun and has a single content word is
    joined to the previous one.
    """
    statements: list[list[Sentence]] = []
    length = 0
    questions: list[Sentence] = []
    unclaimed: list[Sentence] = []
    for whole, bare in claimed_sentences(text, language):
        if not bare:
            unclaimed.append(Sentence(whole, language))
            continue
        for clause in _split_clauses(bare, language):
            if clause.text.rstrip(_QUOTES).endswith(("?", "？", "؟")):
                questions.append(clause)
            elif (
                statements
                and length + len(clause.text) < MAX_SENTENCE
                and _leans(clause, language)
            ):
                statements[-1].append(clause)
                length += 1 + len(clause.text)
            else:
                statements.append([clause])
                length = len(clause.text)
    return (
        [_joined(clauses, language) for clauses in statements] or questions or unclaimed
    )


def answer_abstains(answer: str) -> bool:
    """Whether an answer in any language abstains, quickly where it holds no refusal."""
    text = normalise(answer[:_LOOK_AT_ANSWER])
    if not may_abstain(text):
        return False
    language = guess_language(text)
    return abstains(split_statements(text, language), language)


def claimed_sentences(text: str, language: Language) -> Iterator[tuple[str, str]]:
    """Each sentence as written, and what it claims; "" where that is nothing."""
    topic = ""
    sources = False
    for kind, sentences in split_blocks(bare_answer(text), language.code):
        sources = (
            sources
            if kind in (Kind.ITEM, Kind.NOTE, Kind.ROW)
            else lists_sources(" ".join(sentences))
        )
        if kind is Kind.ROW:
            sentences = _cells(" ".join(sentences), language)
        for whole in itertools.chain.from_iterable(
            _ELLIPSIS.split(sentence) for sentence in sentences
        ):
            whole = whole.strip()
            if sources or kind in (Kind.NOTE, Kind.TABLE_HEAD):
                yield whole, ""
                continue
            bare = claim(whole, language.code) if kind is not Kind.CODE else whole
            if kind is Kind.HEADING or (bare.endswith((":", "：")) and _leads_in(bare)):
                topic = (
                    bare.rstrip(":： ") if len(bare.split()) <= _LEAD_IN_WORDS else ""
                )
                bare = ""
            elif kind is Kind.ITEM and topic and bare and _is_fragment(bare, language):
                bare = f"{topic}: {bare}"
            for sentence in _unquoted(bare, language):
                yield whole, sentence
        if kind is Kind.TEXT and not (
            sentences and sentences[-1].endswith((":", "："))
        ):
            topic = ""


def _unquoted(sentence: str, language: Language) -> list[str]:
    """The sentences of a quotation of several, as if it were none: all of `sentence` is
    in quotes, and a stop."""
    inner = sentence.rstrip(".")[1:-1]
    if (
        len(sentence) < _SHORTEST_QUOTE
        or sentence[0] != '"'
        or sentence.rstrip(".")[-1] != '"'
        or '"' in inner
    ):
        return [sentence]
    return split_sentences(inner, language.code) or [sentence]


def _leads_in(sentence: str) -> bool:
    """Whether a sentence that ends with a colon only announces what follows, rather
    than claim numbers besides."""
    return len(sentence.split()) <= _LEAD_IN_WORDS or not _DIGIT.search(sentence)


def _is_fragment(item: str, language: Language) -> bool:
    short = (
        not item.endswith(_STOPS) and len(Sentence(item, language).keys) < _CLAUSE_KEYS
    )
    return short and not FINITE_VERB.search(item)


def _cells(row: str, language: Language) -> list[str]:
    """The sentences in a row of a table, whose other cells are labels; the row itself
    if no cell ends as one does."""
    cells = [
        (cell.strip(), without_citations(cell).strip()) for cell in _CELL.findall(row)
    ]
    ended = [bare for _, bare in cells if bare.endswith(_STOPS)]
    if not ended:
        return [row]
    claiming = [
        cell
        for cell, bare in cells
        if bare in ended or (_DIGIT.search(bare) and not bare.isdecimal())
    ]
    return [
        sentence
        for cell in claiming
        for sentence in split_sentences(cell, language.code)
    ]


def _joined(clauses: Sequence[Sentence], language: Language) -> Sentence:
    if len(clauses) == 1:
        return clauses[0]
    return Sentence(" ".join(clause.text for clause in clauses), language)


def _leans(clause: Sentence, language: Language) -> bool:
    """Whether a statement says too little without the previous one: "It is tall."."""
    if not 0 < len(clause.keys) < _ALONE or refuses(clause.text, language.code):
        return False
    opening = clause.surface[0].lower() if clause.surface else ""
    return opening in language.pronouns


def _split_clauses(sentence: str, language: Language) -> list[Sentence]:
    if len(apart := parted(sentence, language)) > 1:
        return [
            clause
            for part in apart
            for clause in _split_clauses(claim(part, language.code) or part, language)
        ]
    whole = Sentence(sentence, language)
    if len(whole.keys) < 2 * _CLAUSE_KEYS or (
        "," not in sentence and ";" not in sentence
    ):
        return [whole]
    clauses = _CLAUSES.split(sentence)
    if len(clauses) == 1:
        return [whole]
    parts = [Sentence(part.strip(), language) for part in clauses]
    if any(
        len(part.keys) < _CLAUSE_KEYS or not FINITE_VERB.search(part.text)
        for part in parts
    ):
        return [whole]
    return parts
