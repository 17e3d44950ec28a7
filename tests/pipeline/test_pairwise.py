"""The judge chooses between new answers and the baseline's: a real gate, the real SDK, a loopback server."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from ragstone.errors import EXIT_GATE_FAILED, EXIT_PASS, ConfigError
from ragstone.evaluation.directory import RunDirectory
from ragstone.evaluation.replay import confirm
from ragstone.evaluation.rounds.context import RunContext
from ragstone.gate.policy import policy_from_mapping
from ragstone.gate.verdict import CheckKind
from ragstone.metrics.score import NotApplicable, Scored
from ragstone.pipeline.gate import GateOutcome
from ragstone.settings.load import load_settings
from ragstone.stats.bounded_mean import blocks_of, p_mean_at_least
from tests.judge.conftest import FakeLlm, Loop, fill_in
from tests.pipeline.reported import gated

N = 16
NAME = "pairwise_preference"
POLICY = f"[metrics.{NAME}]\nmin = 0.45\n"


@pytest.fixture
def fake() -> Iterator[FakeLlm]:
    loop = Loop()
    yield loop.serve(FakeLlm(fill=choose))
    loop.close()


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


class Project:
    """A project without references, with a baseline in `main`."""

    def __init__(self, root: Path, fake: FakeLlm) -> None:
        self.root = root
        self.fake = fake
        self.write("golden.jsonl", [{"id": f"q{n}", "question": f"What is {n}?"} for n in range(N)])
        (root / "thresholds.toml").write_text(POLICY, encoding="utf-8")
        self.answer(["plain"] * N)
        self.first = self.gate("main")

    def write(self, name: str, rows: list[dict[str, Any]]) -> None:
        (self.root / name).write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")

    def answer(self, words: Sequence[str]) -> None:
        rows = [
            {"id": f"q{n}", "answer": f"A {word} answer to {n}.", "contexts": [f"{n} is so."]}
            for n, word in enumerate(words)
        ]
        self.write("outputs.jsonl", rows)

    def gate(self, out: str, baseline: str | None = None, judge: str = "openai:gpt-5.4-mini") -> GateOutcome:
        key = {"OPENAI_API_KEY": "sk-0123456789"}
        settings = load_settings(
            directory=self.root,
            environ=key,
            overrides={
                "golden.paths": ("golden.jsonl",),
                "system.entrypoint": "file:outputs.jsonl",
                "judge.name": judge,
                "judge.base_url": None if judge == "offline" else f"{self.fake.url}/v1",
                "run.metrics": (NAME, "faithfulness"),
                "run.out": out,
                "gate.baseline": baseline,
            },
        )
        return gated(settings, RunContext(environ=key), formats=("md", "json"))

    @property
    def choices(self) -> int:
        return sum(kind == "better" for kind in self.fake.kinds())


@pytest.fixture
def project(tmp_path: Path, fake: FakeLlm) -> Project:
    return Project(tmp_path, fake)


def scores(found: GateOutcome) -> dict[str, Any]:
    assert found.run is not None
    return {record.sample.id: record.scores[NAME] for record in found.run.records()}


def floors(found: GateOutcome) -> list[Any]:
    return [check for check in found.verdict.checks if check.metric == NAME and check.kind is CheckKind.FLOOR]


def test_the_first_run_has_nothing_to_compare_with_and_says_so(project: Project) -> None:
    assert project.choices == 0
    assert project.first.exit_code == EXIT_PASS
    assert any(
        warning == f"{NAME} was not checked: there is no baseline whose answers it could be compared with."
        for warning in project.first.verdict.warnings
    )


def test_only_answers_that_changed_are_judged_in_both_orders_and_once(project: Project) -> None:
    project.answer(["best", "worse", "other", "odd"] + ["plain"] * (N - 4))
    found = project.gate("new", "main")
    assert project.choices == 2 * 4
    values = scores(found)
    assert (values["q0"], values["q1"]) == (
        Scored(1.0, note="better than the baseline's answer"),
        Scored(0.0, note="worse than the baseline's answer"),
    )
    assert values["q2"] == NotApplicable("neither answer is better than the other")
    assert values["q3"] == NotApplicable("which answer is better depends on their order")
    assert values["q4"] == NotApplicable("the answer is that of the baseline")
    assert (
        "Of 4 changed answers, 1 are better than the baseline's, 1 worse, 2 tied (exact sign test: p = 1). The judge's "
        "choice depended on the order of the two in 1."
    ) in found.verdict.notes
    project.gate("again", "main")  # its judgements are not in the cache of the baseline, but in its own
    assert project.choices == 4 * 4
    project.gate("again", "main")
    assert project.choices == 4 * 4


def test_worse_answers_fail_the_gate_and_better_ones_pass(project: Project) -> None:
    project.answer(["worse"] * N)
    bad = project.gate("bad", "main")
    assert bad.exit_code == EXIT_GATE_FAILED
    assert (floors(bad)[0].estimate, floors(bad)[0].n) == (0.0, N)
    project.answer(["best"] * N)
    assert project.gate("good", "main").exit_code == EXIT_PASS


def test_an_unchanged_system_passes_without_a_call(project: Project) -> None:
    found = project.gate("same", "main")
    assert project.choices == 0
    assert found.exit_code == EXIT_PASS
    assert floors(found) == []
    assert not any(NAME in warning for warning in found.verdict.warnings)


def test_a_run_with_preferences_can_be_replayed_and_is_no_baseline_for_them(project: Project) -> None:
    project.answer(["best", "worse"] * (N // 2))
    found = project.gate("new", "main")
    assert found.run is not None
    confirm(RunDirectory.open(found.run.path))
    later = project.gate("later", "new")
    assert later.verdict.comparability is not None
    assert NAME not in later.verdict.comparability.metrics
    assert NAME not in later.verdict.comparability.skipped


def test_a_judge_that_gives_no_preferences_leaves_the_floor_unchecked_and_says_so(project: Project) -> None:
    project.answer(["best"] * N)
    found = project.gate("new", "main", judge="offline")
    assert floors(found) == []
    assert any(warning.startswith(f"{NAME} was not checked: offline judge") for warning in found.verdict.warnings), (
        found.verdict.warnings
    )


@pytest.mark.parametrize("key", ["max_drop", "max_drift"])
def test_a_comparison_with_the_baseline_has_no_drop(key: str) -> None:
    with pytest.raises(ConfigError, match="so it has no drop"):
        policy_from_mapping({"metrics": {NAME: {key: 0.05}}})


@pytest.mark.parametrize(("wins", "losses"), [(0, 5), (2, 10), (7, 9), (12, 3)])
def test_the_test_of_the_floor_is_an_exact_binomial_test(wins: int, losses: int) -> None:
    values = np.array([1.0] * wins + [0.0] * losses)
    found = p_mean_at_least(blocks_of(values, None), 0.45, (0.0, 1.0))
    assert found == pytest.approx(binom.cdf(wins, wins + losses, 0.45), abs=1e-6)
