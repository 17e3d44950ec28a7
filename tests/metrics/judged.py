"""Judgements made of truth values and ranks, and scores by a metric's name, for the tests of metrics."""

from __future__ import annotations

from collections.abc import Sequence

from ragstone.golden.sample import Sample
from ragstone.judge.judgements import Judgements, ReferenceMatch, Statement, StatementList, Support, Verdict
from ragstone.metrics.registry import find_metric
from ragstone.metrics.score import Score, Scored
from ragstone.system.response import Response


def statements(prefix: str, count: int) -> tuple[Statement, ...]:
    """`count` statements, named from 1: s1, s2 …"""
    return tuple(Statement(f"{prefix}{number}", "a claim") for number in range(1, count + 1))


def supports(prefix: str, is_supported: Sequence[bool]) -> tuple[Support, ...]:
    """One verdict per truth value: whether the statement is supported."""
    verdicts = (Verdict.SUPPORTED if supported else Verdict.UNSUPPORTED for supported in is_supported)
    return tuple(Support(f"{prefix}{number}", verdict) for number, verdict in enumerate(verdicts, start=1))


def table(prefix: str, supported_by: Sequence[Sequence[int]]) -> tuple[Support, ...]:
    """One verdict per list: the contexts (from 1) that support the statement, none if it is empty."""
    return tuple(
        Support(
            f"{prefix}{number}",
            Verdict.SUPPORTED if contexts else Verdict.UNSUPPORTED,
            tuple(f"c{context}" for context in contexts),
        )
        for number, contexts in enumerate(supported_by, start=1)
    )


def matched(answer: Sequence[bool], reference: Sequence[bool]) -> Judgements:
    """Which statements of the answer the reference backs, and which of the reference's the answer gives."""
    match = ReferenceMatch(statements("r", len(reference)), supports("s", answer), supports("r", reference))
    return Judgements(StatementList(statements("s", len(answer)), abstains=False), reference_match=match)


def score(name: str, sample: Sample, response: Response, judgements: Judgements | None = None) -> Score:
    metric = find_metric(name)
    assert metric is not None
    return metric.score(sample, response, judgements or Judgements())


def outcome(found: Score) -> float | type[Score]:
    """The value of a score; its type if it has no value."""
    return found.value if isinstance(found, Scored) else type(found)
