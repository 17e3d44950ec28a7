"""The judge chooses between new answers and the baseline's: a real gate, the real SDK, a loopback server."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from ragstone.errors import EXIT_PASS
from ragstone.evaluation.replay import confirm
from ragstone.gate.verdict import CheckKind
from ragstone.metrics.score import NotApplicable, Scored
from ragstone.pipeline.gate import GatedRun
from tests.judge.conftest import fill_in
from tests.pipeline.project import Project

N = 16
NAME = "pairwise_preference"


def choose(schema: Any, prompt: str) -> Any:
    """The better answer, the first of two odd ones, and neither of two others."""
    filled = fill_in(schema, prompt)
    if "better" in filled:
        first, second = (prompt.split(f"<<<{name} answer")[1].split("<<<")[0] for name in ("first", "second"))
        ranks = [("worse" not in text) + ("best" in text) for text in (first, second)]
        odd = "odd" in first or "odd" in second
        which = "neither" if ranks[0] == ranks[1] else "first" if ranks[0] > ranks[1] else "second"
        filled["better"] = {"which": "first" if odd else which}
    return filled


def answer(project: Project, words: Sequence[str]) -> None:
    rows = [
        {"id": f"q{n}", "answer": f"A {word} answer to {n}.", "contexts": [f"{n} is so."]}
        for n, word in enumerate(words)
    ]
    project.write("outputs.jsonl", rows)


@pytest.fixture
def project(project: Project) -> Project:
    """A project without references, with a baseline in `main`."""
    project.fake.fill = choose
    project.write_golden(N, references=False)
    project.policy(f"[metrics.{NAME}]\nmin = 0.45\n")
    project.defaults = {"run__metrics": (NAME, "faithfulness")}
    answer(project, ["plain"] * N)
    first = project.gate("main")
    assert choices(project) == 0
    assert first.exit_code == EXIT_PASS
    (warning,) = [text for text in first.verdict.warnings if NAME in text]
    assert "no answer of a baseline" in warning
    return project


def choices(project: Project) -> int:
    return sum(kind == "better" for kind in project.fake.kinds())


def floors(found: GatedRun) -> list[Any]:
    return [check for check in found.verdict.checks if check.metric == NAME and check.kind is CheckKind.FLOOR]


def test_only_answers_that_changed_are_judged_in_both_orders_and_once(project: Project) -> None:
    answer(project, ["best", "worse", "other", "odd"] + ["plain"] * (N - 4))
    found = project.gate("new", "main", reported_again=True)
    assert choices(project) == 2 * 4
    scores = {record.sample.id: record.scores[NAME] for record in found.run.records()}
    assert (scores["q0"], scores["q1"]) == (
        Scored(1.0, note="better than the baseline's answer"),
        Scored(0.0, note="worse than the baseline's answer"),
    )
    assert scores["q2"] == NotApplicable("neither answer is better than the other")
    assert scores["q3"] == NotApplicable("which answer is better depends on their order")
    assert scores["q4"] == NotApplicable("the answer is that of the baseline")
    project.gate("again", "main")  # its judgements are not in the cache of the baseline, but in its own
    assert choices(project) == 4 * 4
    project.gate("again", "main")
    assert choices(project) == 4 * 4


def test_a_run_with_preferences_can_be_replayed_and_is_no_baseline_for_them(project: Project) -> None:
    answer(project, ["best", "worse"] * (N // 2))
    project.gate("new", "main")
    confirm(project.opened("new"))
    later = project.gate("later", "new")
    assert later.verdict.comparability is not None
    assert NAME not in later.verdict.comparability.metrics
    assert NAME not in later.verdict.comparability.skipped
