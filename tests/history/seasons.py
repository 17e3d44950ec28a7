"""Histories made of numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta

from ragstone.evaluation.scores import MetricScores, RunScores, SampleFacts
from ragstone.history.codes import CompactScores, compact_scores
from ragstone.history.lines import MeanPart, RunLine

START = datetime(2026, 1, 5, 9, tzinfo=UTC)
HEADLINE = ("faithfulness", "answer_relevancy", "context_recall", "context_precision")


def scores(metrics: Mapping[str, Sequence[float | None]], *, ids: Sequence[str] = (), groups: int = 0) -> RunScores:
    """A run of the samples `ids` (else s0, s1 …), `groups` of which belong together where it is not 0."""
    count = max(map(len, metrics.values()))
    names = tuple(ids) or tuple(f"s{index}" for index in range(count))
    return RunScores(
        label="run",
        metrics={
            metric: MetricScores(
                {name: value for name, value in zip(names, values, strict=True) if value is not None}, version="1"
            )
            for metric, values in metrics.items()
        },
        samples={
            name: SampleFacts(content_hash=f"hash of {name}", group=f"g{index // groups}" if groups else None)
            for index, name in enumerate(names)
        },
    )


def commit(number: int) -> str:
    return f"{number:07x}".ljust(40, "0")


def line(number: int, *, time: datetime | None = None, metrics: Sequence[str] = HEADLINE, **fields: object) -> RunLine:
    """The line of run `number`, 20 of which are made a week."""
    return RunLine.model_validate(
        {
            "run": f"{number:016x}",
            "time": time or START + timedelta(days=7 / 20 * number),
            "commit": commit(number),
            "verdict": "pass",
            "eligible": True,
            "judge": "openai judge-1",
            "judge_key": "0" * 16,
            "golden": "f" * 64,
            "metrics": {name: MeanPart(mean=0.87654, low=0.84321, high=0.91234, n=200) for name in metrics},
            "versions": dict.fromkeys(metrics, "1"),
            "coverage": 1.0,
            "latency_p50_s": 1.2345,
            "cost_usd": 0.123456,
            **fields,
        }
    )


def compacted(run: RunScores) -> CompactScores:
    return compact_scores(run, tuple(run.metrics))
