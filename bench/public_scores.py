"""Scores as users get them: cases in, the values that the gate decides on out, through `ragstone.evaluate`."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from labelled_sets import Case

import ragstone
from ragstone.golden.sample import GoldenSet, Sample

Scores = Mapping[str, Mapping[str, float]]


def public_scores(cases: Mapping[str, Case], metrics: Sequence[str]) -> Scores:
    """For each of `metrics`, the scores by case id, without cases that have none."""
    samples = tuple(
        Sample(name, case.question or "What is known?", reference=case.reference) for name, case in cases.items()
    )
    with tempfile.TemporaryDirectory() as folder:
        recorded = Path(folder) / "answers.jsonl"
        with recorded.open("w", encoding="utf-8") as lines:
            for name, case in cases.items():
                lines.write(json.dumps({"id": name, "answer": case.answer, "contexts": case.contexts}) + "\n")
        run = ragstone.evaluate(GoldenSet(samples), f"file:{recorded}", metrics=metrics, out=Path(folder) / "run")
        return {name: dict(scores.values) for name, scores in run.scores.metrics.items()}
