"""Small runs and verdicts, made by hand."""

from __future__ import annotations

from typing import Any

from ragstone.evaluation.scores import MetricScores, RunScores, SampleFacts
from ragstone.gate.verdict import Action, Check, CheckKind, Comparability, GateVerdict, Status
from ragstone.report.document import document_of
from ragstone.report.parts import Document
from tests.gate.verdicts import verdict_of


def passed(*checks: Check, **more: Any) -> GateVerdict:
    return verdict_of(Status.PASS, "", checks, **more)


def compared(*metrics: str, samples: int = 1) -> Comparability:
    return Comparability(True, paired=samples, total=samples, metrics=metrics)


def scores(values: dict[str, dict[str, float]], label: str = "run") -> RunScores:
    ids = {sample_id for found in values.values() for sample_id in found}
    return RunScores(
        label=label,
        metrics={name: MetricScores(found) for name, found in values.items()},
        samples={sample_id: SampleFacts() for sample_id in sorted(ids)},
    )


def one_check(status: Status, action: Action, *, blocks: bool = False) -> Document:
    check = Check("x", CheckKind.FLOOR, status, action, "because", metric="m", estimate=0.5, threshold=0.6)
    overall = status if action is Action.BLOCK else Status.PASS
    scores = RunScores("run", {"m": MetricScores({"a": 0.5})}, {"a": SampleFacts()})
    return document_of(verdict_of(overall, "because", [check], inconclusive_blocks=blocks), scores)
