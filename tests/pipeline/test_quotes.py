"""A judge that misquotes loses no score, and one that sees contexts contradict each other says so: whole runs."""

from __future__ import annotations

import zlib
from typing import Any

import pytest

from ragstone.gate.verdict import CheckKind, Status
from tests.judge.conftest import PLANTED, fill_in
from tests.pipeline.project import Project, run_of

SAMPLES = 40


@pytest.fixture
def project(project: Project) -> Project:
    project.write_golden(SAMPLES, references=False)
    rows = [
        {"id": f"q{n}", "answer": f"It is {n}.", "contexts": [f"{n} is a number.", f"{n} is no number."]}
        for n in range(SAMPLES)
    ]
    project.write("outputs.jsonl", rows)
    project.policy("[metrics.faithfulness]\nmin = 0.5\n")
    project.defaults = {"run__metrics": ("faithfulness",)}
    return project


def misquoting(schema: Any, prompt: str) -> Any:
    """Every tenth sample is misquoted, also when asked again; every fifth has a context that says the opposite."""
    filled = fill_in(schema, prompt)
    if PLANTED.search(prompt):
        return filled
    chance = zlib.crc32(prompt.rpartition("<<<context c1 ")[2][13:20].encode()) % 20
    for verdict in filled.get("verdicts", ()):
        verdict["against"] = ["c2"] if chance % 5 == 0 else []
        verdict["quote"] = "words of its own" if chance < 2 else verdict["quote"]
    for quote in filled.get("quotes", ()):
        quote["quote"] = "words of its own"
    return filled


def test_misquotes_are_counted_and_cost_no_sample(project: Project) -> None:
    project.fake.fill = misquoting
    outcome = project.gate("one")
    scores = run_of(outcome).scores().metrics["faithfulness"]
    assert len(scores.values) == SAMPLES
    assert set(scores.values.values()) == {1.0}
    notes = "\n".join(outcome.verdict.notes)
    assert "the judge quoted words that are not in the contexts, also when asked again" in notes
    assert "rest on contexts that other contexts contradict" in notes
    assert "are not in the contexts, also when asked again" in project.report("one")


def test_a_policy_that_demands_quotes_ends_the_job(project: Project) -> None:
    project.fake.fill = misquoting
    project.policy("[gate]\nmax_unquoted = 0.0\n[metrics.faithfulness]\nmin = 0.5\n")
    verdict = project.gate("one").verdict
    (check,) = (check for check in verdict.checks if check.kind is CheckKind.QUOTES)
    assert check.status is Status.ERROR
    assert verdict.exit_code == 5
