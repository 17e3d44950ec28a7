"""Citations in an answer: what it cites, what each of its statements cites, and whether
that supports the statement."""

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

_BRACKETED = re.compile(r"[\[【]([^\[\]【】\n]{1,80})[\]】](?!\()")
_RANGE = re.compile(r"(\d{1,3})\s*[-–]\s*(\d{1,3})")
_LABEL = re.compile(
    r"^(?:doc(?:ument)?|source|context|passage|ref|chunk|c)?\s*#?\s*(\d{1,3})$",
    re.IGNORECASE,
)
_MAX_IN_RANGE = 20
MAX_BRACKETS = 100
"""Of more distinct brackets in an answer, the first are looked up in the contexts."""
MAX_CITED = 10
"""Of more contexts that one statement cites, the first are judged."""
_AFTER_STOP = re.compile(r"([.!?。！？])((?:[^\S\n]*[\[【][^\[\]【】\n]{1,80}[\]】])+)")
_SUP = re.compile(r"<sup>\s*\[?(\d{1,3})\]?\s*</sup>")
_NOTE = re.compile(r"^[ \t]*\[\^?(\d{1,3})\]:?[ \t]+(\S.{0,500})", re.MULTILINE)
_BETWEEN = re.compile(r"[\s,;()<>\"'`]+|[.:](?:\s|$)")
_NUMBER = re.compile(r"\d+")
_QUESTION_MARKS = ("?", "？", "؟")


class Citation(Struct, frozen=True):
    """A citation as it is written, and the rank of the context that it names, from 0;
    None if there is none."""

    label: str
    rank: int | None


class Citable:
    """What an answer can cite: its contexts, by their ids and by positions, and those
    of earlier turns by their ids.

    Positions are from 1, or from 0 if the answer cites 0 and not the number of the
    contexts. The number of a footnote whose text names an id stands for that context.
    """

    def __init__(self, response: Response) -> None:
        earlier = () if response.so_far is None else response.so_far.contexts
        self.contexts = (*response.contexts, *earlier)
        # Superscript numbers, where they are marks of footnotes, as ``[^1]``.
        answer = _SUP.sub(r"[^\1]", response.answer)
        self.answer = FOOTNOTE.sub(_footnote, answer)
        self._count = len(response.contexts)
        self._first = 1
        self._ranks: dict[str, int] = {}
        for rank, context in enumerate(self.contexts):
            if context.id is not None:
                self._ranks.setdefault(context.id, rank)
        self._patterns = set(map(_pattern, self._ranks)) - {""}
        for note in islice(_NOTE.finditer(self.answer), MAX_BRACKETS):
            for word in (note[2].strip(), *_BETWEEN.split(note[2])):
                if word in self._ranks:
                    self._ranks.setdefault(note[1], self._ranks[word])
        labels = {citation.label for citation in self.citations(self.answer)}
        if "0" in labels and str(self._count) not in labels:
            self._first = 0

    def citations(self, text: str) -> list[Citation]:
        """What `text` cites, in order.

        Recognises ``[1]``, ``[1, 3]``, ``[2-4]``, ``[doc 2]``, ``[^1]`` and
        ``[the-context-id]``. A bracket with neither a number, nor an id of a context,
        nor an id like one of theirs with other digits, is not a citation.
        """
        citations = []
        for bracket in _BRACKETED.finditer(text):
            for part in _parts(bracket[1], self._ranks):
                if part in self._ranks:
                    citations.append(Citation(part, self._ranks[part]))
                    continue
                positions = _positions(part)
                citations += map(self._by_position, positions)
                if not positions and _pattern(part) in self._patterns:
                    citations.append(Citation(part, None))
        return citations

    def _by_position(self, position: int) -> Citation:
        rank = position - self._first
        if 0 <= rank < self._count:
            return Citation(str(position), rank)
        return Citation(str(position), None)

    def statements(self) -> list[tuple[str, list[Citation]]]:
        """The statements of the answer, one a sentence, without their citations, and
        these."""
        text = _AFTER_STOP.sub(r"\2\1", normalise(self.answer))
        statements = []
        for sentence, claimed in claimed_sentences(text, guess_language(text)):
            uncited = _BRACKETED.sub(self._without_citations, claimed)
            bare = " ".join(uncited.split())
            if bare and not bare.endswith(_QUESTION_MARKS):
                statements.append((bare, self.citations(sentence)))
        return statements

    def _without_citations(self, bracket: re.Match[str]) -> str:
        if self.citations(bracket[0]):
            return ""
        return bracket[0]


def _footnote(mark: re.Match[str]) -> str:
    number = unicodedata.normalize("NFKC", mark[0])
    return f"[^{number}]"


def _pattern(name: str) -> str:
    """`name` with 0 for each of its numbers; not a pattern (empty) without one, and if
    it is nothing but a number."""
    pattern, numbers = _NUMBER.subn("0", name)
    if numbers and pattern != "0":
        return pattern
    return ""


def cites_what_is_there(response: Response) -> bool | None:
    """Whether each citation in an answer is one of its contexts; None if it cites
    nothing.

    A bracket that a context has too is no citation.
    """
    citable = Citable(response)
    matches = _BRACKETED.finditer(citable.answer)
    brackets = dict.fromkeys(match.group() for match in matches)
    citations: list[Citation] = []
    for bracket in islice(brackets, MAX_BRACKETS):
        if not any(bracket in context.text for context in response.contexts):
            citations += citable.citations(bracket)
    if not citations:
        return None
    return all(citation.rank is not None for citation in citations)


def _parts(body: str, ids: Container[str]) -> list[str]:
    """What stands between the commas in a bracket; all of it, if that is an id."""
    whole = body.strip()
    if whole in ids:
        return [whole]
    return [part.strip().lstrip("^") for part in re.split(r"[,;]", whole)]


def _positions(part: str) -> list[int]:
    """The positions that a part of a bracket cites, such as ``2-4`` or ``doc 2``."""
    span = _RANGE.fullmatch(part)
    if span:
        first = int(span[1])
        last = int(span[2])
        if last > first + _MAX_IN_RANGE:
            return []
        return list(range(first, last + 1))
    label = _LABEL.match(part)
    if label:
        return [int(label[1])]
    return []


async def judge_citations(
    judge: Judge, response: Response, call: Call
) -> CitationTable:
    """What each statement of an answer cites, whether that supports it, and what of it
    is irrelevant.

    As ALCE defines it (Gao et al. 2023, section 3.3), with the judge's verdicts of
    support: all cited contexts together must support the statement, and one of several
    is irrelevant if it doesn't alone and the others do without it. A statement that
    cites what is not there is not supported, and not judged. A judge with a method
    `citations` says so itself. Raises JudgementFailed.
    """
    own: Callable[..., Awaitable[CitationTable]] | None = getattr(
        judge, "citations", None
    )
    if own is not None:
        return await own(response, call=call)
    if answer_abstains(response.answer):
        return CitationTable(())
    citable = Citable(response)
    statements = citable.statements()
    if len(statements) > MAX_STATEMENTS:
        raise JudgementFailed(
            f"the answer has {len(statements)} statements, more than {MAX_STATEMENTS}"
        )

    async def supports(statement: Statement, ranks: Sequence[int]) -> bool:
        """Whether the contexts of these ranks support a statement together."""
        cited = [citable.contexts[rank] for rank in ranks]
        table = await judge.support(cited, [statement], call=call)
        return [support.verdict for support in table.supports] == [Verdict.SUPPORTED]

    judged = []
    for number, (text, citations) in enumerate(statements, start=1):
        statement = Statement(f"s{number}", text)
        missing = [citation.label for citation in citations if citation.rank is None]
        cited_ranks = [
            citation.rank for citation in citations if citation.rank is not None
        ]
        ranks = list(dict.fromkeys(cited_ranks))[:MAX_CITED]
        supported = False
        if ranks and not missing:
            supported = await supports(statement, ranks)
        irrelevant: list[str] = []
        if supported and len(ranks) > 1:
            for rank in ranks:
                without_it = [cited for cited in ranks if cited != rank]
                supports_alone = await supports(statement, [rank])
                if not supports_alone and await supports(statement, without_it):
                    irrelevant.append(context_id(rank))
        judged.append(
            CitedStatement(
                statement,
                cited=tuple(map(context_id, ranks)),
                missing=tuple(missing),
                supported=supported,
                irrelevant=tuple(irrelevant),
            )
        )
    return CitationTable(tuple(judged))
