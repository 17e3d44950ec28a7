"""Citation checks: do the cited ids exist, and do the cited contexts support what cites
them?"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from ragstone.formatting import clipped, counted, join_first
from ragstone.golden.sample import Sample
from ragstone.judge.citations import Citable
from ragstone.judge.judgements import CitedStatement, JudgementKind, Judgements
from ragstone.metrics.metric import BaseMetric, MetricInfo, require
from ragstone.metrics.score import NotApplicable, Score, Scored
from ragstone.system.response import Response

_ALCE = "Gao et al. 2023, ALCE, section 3.3 (citation {}), by the judge's verdicts of support"
_MAX_SHOWN_CHARACTERS = 60
"""A longer statement is cut in the note."""

_CITES_NOTHING = NotApplicable("the answer cites nothing")


class CitationValidity(BaseMetric):
    """Citations of existing contexts ÷ all citations in the answer. Not applicable to
    an answer without citations."""

    info = MetricInfo(
        name="citation_validity",
        version="2",
        blames="generation",
        source="Ragstone: cited ids that are among the contexts",
    )

    def rate(self, sample: Sample, response: Response, judgements: Judgements) -> Score:
        citable = Citable(response)
        citations = citable.citations(citable.answer)
        if not citations:
            return _CITES_NOTHING
        missing = [citation.label for citation in citations if citation.rank is None]
        note = _missing_note(missing, response)
        return Scored(1.0 - len(missing) / len(citations), note=note)


def _missing_note(labels: list[str], response: Response) -> str | None:
    """``cites [4], of 3 contexts``, by the `labels` of citations of missing contexts;
    None without any."""
    if not labels:
        return None
    citations = [f"[{label}]" for label in dict.fromkeys(labels)]
    contexts = counted(len(response.contexts), "context")
    return f"cites {join_first(citations)}, of {contexts}"


class _Count(Struct, frozen=True):
    """How many statements or citations are right, and how many there are."""

    right: int
    total: int


class _CitationQuality(BaseMetric):
    reads = frozenset({JudgementKind.CITATIONS})

    def rate(self, sample: Sample, response: Response, judgements: Judgements) -> Score:
        statements = require(judgements.citations, "verdicts on citations").statements
        if not statements:
            return NotApplicable("the answer claims nothing")
        count = self._count(statements)
        if not count.total:
            return _CITES_NOTHING
        missing: list[str] = []
        for statement in statements:
            missing += statement.missing
        note = _missing_note(missing, response) or _first_mistake(statements)
        return Scored(count.right / count.total, note=note)

    def _count(self, statements: Sequence[CitedStatement]) -> _Count:
        """Count what the metric is a share of."""
        raise NotImplementedError


def _first_mistake(statements: Sequence[CitedStatement]) -> str | None:
    """The first statement that its citations don't support or that has an irrelevant
    citation, as a note; None if there is none."""
    for cited in statements:
        text = clipped(cited.statement.text, _MAX_SHOWN_CHARACTERS)
        if not cited.supported:
            return f"'{text}' is not supported by {', '.join(cited.cited) or 'any citation'}"
        if cited.irrelevant:
            return f"{cited.irrelevant[0]} is irrelevant to '{text}'"
    return None


class CitationRecall(_CitationQuality):
    """Statements that are supported by all contexts they cite together ÷ all
    statements. A statement that cites nothing is not supported."""

    info = MetricInfo(
        name="citation_recall",
        version="1",
        blames="generation",
        source=_ALCE.format("recall"),
    )

    def _count(self, statements: Sequence[CitedStatement]) -> _Count:
        right = sum(cited.supported for cited in statements)
        return _Count(right, total=len(statements))


class CitationPrecision(_CitationQuality):
    """Citations of supported statements that are not irrelevant ÷ all citations. Not
    applicable to an answer without citations."""

    info = MetricInfo(
        name="citation_precision",
        version="1",
        blames="generation",
        source=_ALCE.format("precision"),
    )

    def _count(self, statements: Sequence[CitedStatement]) -> _Count:
        right = 0
        total = 0
        for cited in statements:
            total += len(cited.cited) + len(cited.missing)
            if cited.supported:
                right += len(cited.cited) - len(cited.irrelevant)
        return _Count(right, total)
