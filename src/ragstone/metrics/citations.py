"""Citation checks: do the cited ids exist, and do the cited contexts support what cites
them?"""

from __future__ import annotations

from ragstone.formatting import clipped, counted, some
from ragstone.golden.sample import Sample
from ragstone.judge.citations import Citable
from ragstone.judge.judgements import CitedStatement, JudgementKind, Judgements
from ragstone.metrics.metric import BaseMetric, MetricInfo, require
from ragstone.metrics.score import NotApplicable, Score, Scored
from ragstone.system.response import Response

_ALCE = "Gao et al. 2023, ALCE, section 3.3 (citation {}), by the judge's verdicts of support"
_SHOWN = 60
_CITES_NOTHING = NotApplicable("the answer cites nothing")


class CitationValidity(BaseMetric):
    """Citations of existing contexts ÷ all citations in the answer. Not applicable
    without citations."""

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
        note = _cites_missing(missing, response)
        return Scored(1.0 - len(missing) / len(citations), note=note)


def _cites_missing(labels: list[str], response: Response) -> str | None:
    """``cites [4], of 3 contexts``: what is cited and was never retrieved."""
    if not labels:
        return None
    names = [f"[{label}]" for label in dict.fromkeys(labels)]
    contexts = counted(len(response.contexts), "context")
    return f"cites {some(names)}, of {contexts}"


class _CitationQuality(BaseMetric):
    reads = frozenset({JudgementKind.CITATIONS})

    def rate(self, sample: Sample, response: Response, judgements: Judgements) -> Score:
        statements = require(judgements.citations, "verdicts on citations").statements
        if not statements:
            return NotApplicable("the answer claims nothing")
        right, total = self._counts(statements)
        if not total:
            return _CITES_NOTHING
        missing: list[str] = []
        for statement in statements:
            missing += statement.missing
        note = _cites_missing(missing, response) or _first_mistake(statements)
        return Scored(right / total, note=note)

    def _counts(self, statements: tuple[CitedStatement, ...]) -> tuple[int, int]:
        """How many are right, and of how many."""
        raise NotImplementedError


def _first_mistake(statements: tuple[CitedStatement, ...]) -> str | None:
    """The first statement that is not supported or has an irrelevant citation."""
    for item in statements:
        text = clipped(item.statement.text, _SHOWN)
        if not item.supported:
            return f"'{text}' is not supported by {', '.join(item.cited) or 'any citation'}"
        if item.irrelevant:
            return f"{item.irrelevant[0]} is irrelevant to '{text}'"
    return None


class CitationRecall(_CitationQuality):
    """Statements that the contexts they cite support together ÷ all statements: one
    that cites nothing is not."""

    info = MetricInfo(
        name="citation_recall",
        version="1",
        blames="generation",
        source=_ALCE.format("recall"),
    )

    def _counts(self, statements: tuple[CitedStatement, ...]) -> tuple[int, int]:
        return sum(statement.supported for statement in statements), len(statements)


class CitationPrecision(_CitationQuality):
    """Citations of a supported statement that are not irrelevant ÷ all citations. Not
    applicable without citations."""

    info = MetricInfo(
        name="citation_precision",
        version="1",
        blames="generation",
        source=_ALCE.format("precision"),
    )

    def _counts(self, statements: tuple[CitedStatement, ...]) -> tuple[int, int]:
        right = total = 0
        for item in statements:
            total += len(item.cited) + len(item.missing)
            if item.supported:
                right += len(item.cited) - len(item.irrelevant)
        return right, total
