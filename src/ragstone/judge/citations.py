"""Finds the citations of an answer, and judges whether they support its statements."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Awaitable, Callable, Container, Sequence
from itertools import islice

from msgspec import Struct

from ragstone.judge.judgements import (
    CitationTable,
    CitedStatement,
    Statement,
    Verdict,
    context_id,
)
from ragstone.judge.normal import FOOTNOTE, normalise
from ragstone.judge.offline.lexicon import guess_language
from ragstone.judge.offline.statements import (
    MAX_STATEMENTS,
    answer_abstains,
    claimed_sentences,
)
from ragstone.judge.protocol import Call, Judge, JudgementFailed
from ragstone.system.response import Response

_BRACKET = re.compile(r"[\[【]([^\[\]【】\n]{1,80})[\]】](?!\()")
"""A bracket on one line that is not the text of a link in Markdown."""
_RANGE = re.compile(r"(\d{1,3})\s*[-–]\s*(\d{1,3})")
"""Positions from one to another, such as ``2-4``."""
_POSITION = re.compile(
    r"^(?:doc(?:ument)?|source|context|passage|ref|chunk|c)?\s*#?\s*(\d{1,3})$",
    re.IGNORECASE,
)
"""One position, such as ``2``, ``doc 2`` or ``#2``."""
_MAX_RANGE_STEPS = 20
MAX_BRACKETS = 100
"""How many different brackets of an answer are looked up in the contexts."""
MAX_CITED = 10
"""How many of the contexts that a statement cites are judged."""
_CITATIONS_AFTER_STOP = re.compile(
    r"([.!?。！？])((?:[^\S\n]*[\[【][^\[\]【】\n]{1,80}[\]】])+)"
)
"""The end of a sentence with brackets behind it, which belong to that sentence."""
_SUPERSCRIPT_TAG = re.compile(r"<sup>\s*\[?(\d{1,3})\]?\s*</sup>")
_FOOTNOTE_TEXT = re.compile(
    r"^[ \t]*\[\^?(\d{1,3})\]:?[ \t]+(\S.{0,500})", re.MULTILINE
)
"""A line with the number of a footnote and its text, such as ``[^1]: handbook.md``."""
_BETWEEN_WORDS = re.compile(r"[\s,;()<>\"'`]+|[.:](?:\s|$)")
_NUMBER = re.compile(r"\d+")
_QUESTION_MARKS = ("?", "？", "؟")


class Citation(Struct, frozen=True):
    """A citation of a context."""

    label: str
    """The citation as it is written."""
    rank: int | None
    """The rank of the context, from 0; None if there is no such context."""


class Citable:
    """What an answer can cite: its contexts, by their ids and by positions, and those
    of earlier turns by their ids.

    Positions are from 1, or from 0 if the answer cites 0 and not the number of the
    contexts. The number of a footnote whose text names an id stands for that context.
    """

    def __init__(self, response: Response) -> None:
        earlier = () if response.so_far is None else response.so_far.contexts
        self.contexts = (*response.contexts, *earlier)
        # Superscript numbers that are marks of footnotes become ``[^1]``.
        answer = _SUPERSCRIPT_TAG.sub(r"[^\1]", response.answer)
        self.answer = FOOTNOTE.sub(_footnote_mark, answer)
        self._count = len(response.contexts)
        self._first_position = 1
        self._ranks: dict[str, int] = {}
        for rank, context in enumerate(self.contexts):
            if context.id is not None:
                self._ranks.setdefault(context.id, rank)
        self._id_patterns = set(map(_id_pattern, self._ranks)) - {""}
        for footnote in islice(_FOOTNOTE_TEXT.finditer(self.answer), MAX_BRACKETS):
            number, text = footnote.groups()
            for word in (text.strip(), *_BETWEEN_WORDS.split(text)):
                if word in self._ranks:
                    self._ranks.setdefault(number, self._ranks[word])
        labels = {citation.label for citation in self.citations(self.answer)}
        if "0" in labels and str(self._count) not in labels:
            self._first_position = 0

    def citations(self, text: str) -> list[Citation]:
        """What `text` cites, in order.

        Recognises ``[1]``, ``[1, 3]``, ``[2-4]``, ``[doc 2]``, ``[^1]`` and
        ``[the-context-id]``. A bracket with neither a number, nor an id of a context,
        nor an id like one of theirs with other digits, is not a citation.
        """
        citations = []
        for bracket in _BRACKET.finditer(text):
            for part in _parts(bracket[1], self._ranks):
                if part in self._ranks:
                    citations.append(Citation(part, self._ranks[part]))
                    continue
                positions = _positions(part)
                citations += map(self._cite_position, positions)
                if not positions and _id_pattern(part) in self._id_patterns:
                    citations.append(Citation(part, rank=None))
        return citations

    def _cite_position(self, position: int) -> Citation:
        rank = position - self._first_position
        if 0 <= rank < self._count:
            return Citation(str(position), rank)
        return Citation(str(position), rank=None)

    def statements(self) -> list[tuple[str, list[Citation]]]:
        """Each sentence of the answer that states something, without its citations, and
        its citations."""
        text = _CITATIONS_AFTER_STOP.sub(r"\2\1", normalise(self.answer))
        statements = []
        for sentence, claimed in claimed_sentences(text, guess_language(text)):
            without_citations = _BRACKET.sub(self._drop_if_citation, claimed)
            statement = " ".join(without_citations.split())
            if statement and not statement.endswith(_QUESTION_MARKS):
                statements.append((statement, self.citations(sentence)))
        return statements

    def _drop_if_citation(self, bracket: re.Match[str]) -> str:
        if self.citations(bracket[0]):
            return ""
        return bracket[0]


def _footnote_mark(superscript: re.Match[str]) -> str:
    number = unicodedata.normalize("NFKC", superscript[0])
    return f"[^{number}]"


def _id_pattern(name: str) -> str:
    """An id with 0 for each of its numbers, by which ids of the same form are
    recognised; empty for an id without a number, or with nothing else."""
    pattern, numbers = _NUMBER.subn("0", name)
    if numbers and pattern != "0":
        return pattern
    return ""


def cites_only_contexts(response: Response) -> bool | None:
    """Whether all citations in an answer are of contexts that it was given; None if it
    cites nothing.

    A bracket that one of the contexts has, too, may be a quote, and is not a citation.
    """
    citable = Citable(response)
    matches = _BRACKET.finditer(citable.answer)
    brackets = dict.fromkeys(match.group() for match in matches)
    citations: list[Citation] = []
    for bracket in islice(brackets, MAX_BRACKETS):
        if not any(bracket in context.text for context in response.contexts):
            citations += citable.citations(bracket)
    if not citations:
        return None
    return all(citation.rank is not None for citation in citations)


def _parts(content: str, context_ids: Container[str]) -> list[str]:
    """The parts of a bracket's content between commas; only one, if all of it is the id
    of a context."""
    content = content.strip()
    if content in context_ids:
        return [content]
    return [part.strip().lstrip("^") for part in re.split(r"[,;]", content)]


def _positions(part: str) -> list[int]:
    """The positions that a part of a bracket cites, such as ``2-4`` or ``doc 2``; none
    if it cites no position."""
    positions = _RANGE.fullmatch(part)
    if positions:
        first = int(positions[1])
        last = int(positions[2])
        if last > first + _MAX_RANGE_STEPS:
            return []
        return list(range(first, last + 1))
    position = _POSITION.match(part)
    if position:
        return [int(position[1])]
    return []


async def judge_citations(
    judge: Judge, response: Response, call: Call
) -> CitationTable:
    """The contexts that each statement of an answer cites, whether they support it, and
    which of them are irrelevant.

    As ALCE defines it (Gao et al. 2023, section 3.3), with the judge's verdicts of
    support: all cited contexts together must support the statement, and one of several
    is irrelevant if it doesn't support it alone and the others do without it. A
    statement that cites a context that does not exist counts as not supported, without
    a judgement. A judge with a method `citations` is asked for the table instead.
    Raises JudgementFailed.
    """
    judge_itself: Callable[..., Awaitable[CitationTable]] | None = getattr(
        judge, "citations", None
    )
    if judge_itself is not None:
        return await judge_itself(response, call=call)
    if answer_abstains(response.answer):
        return CitationTable(())
    citable = Citable(response)
    statements = citable.statements()
    if len(statements) > MAX_STATEMENTS:
        raise JudgementFailed(
            f"the answer has {len(statements)} statements, more than {MAX_STATEMENTS}"
        )

    async def is_supported(statement: Statement, ranks: Sequence[int]) -> bool:
        """Whether the contexts of these ranks together support a statement."""
        contexts = [citable.contexts[rank] for rank in ranks]
        table = await judge.support(contexts, [statement], call=call)
        return [support.verdict for support in table.supports] == [Verdict.SUPPORTED]

    cited_statements = []
    for number, (text, citations) in enumerate(statements, start=1):
        statement = Statement(f"s{number}", text)
        missing = [citation.label for citation in citations if citation.rank is None]
        cited_ranks = [
            citation.rank for citation in citations if citation.rank is not None
        ]
        ranks = list(dict.fromkeys(cited_ranks))[:MAX_CITED]
        supported = False
        if ranks and not missing:
            supported = await is_supported(statement, ranks)
        irrelevant: list[str] = []
        if supported and len(ranks) > 1:
            for rank in ranks:
                other_ranks = [other for other in ranks if other != rank]
                supports_alone = await is_supported(statement, [rank])
                if not supports_alone and await is_supported(statement, other_ranks):
                    irrelevant.append(context_id(rank))
        cited_statements.append(
            CitedStatement(
                statement,
                cited=tuple(map(context_id, ranks)),
                missing=tuple(missing),
                supported=supported,
                irrelevant=tuple(irrelevant),
            )
        )
    return CitationTable(tuple(cited_statements))
