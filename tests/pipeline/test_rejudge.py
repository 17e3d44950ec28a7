"""A gate whose judge changed: the baseline's stored answers are judged again, by the real SDK, on a loopback server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ragstone.errors import EXIT_GATE_FAILED, EXIT_PASS, BaselineError
from ragstone.evaluation.directory import RunDirectory
from ragstone.evaluation.rounds.context import RunContext
from ragstone.evaluation.writer import write_manifest
from ragstone.gate.verdict import CheckKind, Status
from ragstone.pipeline.gate import GateOutcome
from ragstone.settings.load import load_settings
from tests.judge.conftest import FakeLlm, Loop, fill_in
from tests.pipeline.reported import gated

N = 12
OLD, NEW = "openai:gpt-4o-mini", "openai:gpt-5.4-mini"
POLICY = """
[gate]
on_judge_change = "{action}"
decision = "point"
[metrics.faithfulness]
min = 0.2
max_drop = 0.05
"""


@pytest.fixture
def fake() -> Iterator[FakeLlm]:
    loop = Loop()
    yield loop.serve(FakeLlm())
    loop.close()


class Project:
    """A project with a baseline in `main`, judged by the old judge."""

    def __init__(self, root: Path, fake: FakeLlm) -> None:
        self.root = root
        self.fake = fake
        self.said: list[str] = []
        golden = [{"id": f"q{n}", "question": f"What is {n}?", "reference": f"It is {n}."} for n in range(N)]
        self.write("golden.jsonl", golden)
        self.answer()
        self.policy()
        self.gate("main", judge=OLD)

    def write(self, name: str, rows: list[dict[str, Any]]) -> None:
        (self.root / name).write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")

    def answer(self, wrong: int = 0) -> None:
        """Answer all questions, the first few of them wrongly."""
        words = ["wrong" if n < wrong else "right" for n in range(N)]
        rows = [{"id": f"q{n}", "answer": f"{n}, {words[n]}.", "contexts": [f"{n}: {words[n]}."]} for n in range(N)]
        self.write("outputs.jsonl", rows)

    def policy(self, action: str = "rejudge") -> None:
        (self.root / "thresholds.toml").write_text(POLICY.format(action=action), encoding="utf-8")

    def gate(
        self,
        out: str,
        baseline: str | None = None,
        *,
        judge: str = NEW,
        metrics: tuple[str, ...] = ("faithfulness",),
        budget_usd: float | None = None,
    ) -> GateOutcome:
        key = {"OPENAI_API_KEY": "sk-0123456789"}
        settings = load_settings(
            directory=self.root,
            environ=key,
            overrides={
                "golden.paths": ("golden.jsonl",),
                "system.entrypoint": "file:outputs.jsonl",
                "judge.name": judge,
                "judge.base_url": None if judge == "offline" else f"{self.fake.url}/v1",
                "judge.planted": 0,  # calls are counted
                "run.metrics": metrics,
                "run.out": out,
                "gate.baseline": baseline,
                "judge.max_cost_usd": budget_usd,
            },
        )
        context = RunContext(environ=key, say=self.said.append)
        return gated(settings, context, formats=("md", "json"))

    def baseline(self) -> RunDirectory:
        return RunDirectory.open(self.root / "main")

    @property
    def calls(self) -> int:
        return len(self.fake.seen)

    def finding_wrong(self, *also: str) -> None:
        """From now on the judge finds no support in contexts that end with ``wrong``, or one of `also`."""

        def fill(schema: Any, prompt: str) -> Any:
            filled = fill_in(schema, prompt)
            if "verdicts" in filled and any(f"{text}." in prompt for text in ("wrong", *also)):
                for verdict in filled["verdicts"]:
                    verdict |= {"verdict": "unsupported", "evidence": []}
            return filled

        self.fake.fill = fill


@pytest.fixture
def project(tmp_path: Path, fake: FakeLlm) -> Project:
    return Project(tmp_path, fake)


def drop(found: GateOutcome) -> Any:
    return next(check for check in found.verdict.checks if check.kind is CheckKind.DROP)


def test_a_pull_request_that_changes_the_judge_and_loses_quality_fails(project: Project) -> None:
    project.finding_wrong()
    project.answer(wrong=4)
    found = project.gate("new", "main")
    assert found.exit_code == EXIT_GATE_FAILED
    assert (drop(found).status, drop(found).n) == (Status.FAIL, N)
    assert drop(found).estimate == pytest.approx(-4 / N)
    top = found.verdict.warnings[0]
    assert top.startswith("The judge changed from openai gpt-4o-mini to openai gpt-5.4-mini: ")
    assert "the baseline's answers were judged again by openai gpt-5.4-mini (8 calls, under $0.01)" in top
    assert not any("not compared" in warning for warning in found.view.warnings)
    assert "the baseline's answers were judged again by" in (project.root / "new" / "report.md").read_text("utf-8")


def test_a_stricter_judge_fails_no_unchanged_system_and_is_compared_with_the_old_one(project: Project) -> None:
    project.finding_wrong("\n0: right", "\n1: right", "\n2: right")
    found = project.gate("new", "main")
    assert found.exit_code == EXIT_PASS
    assert drop(found).estimate == 0.0
    (note,) = [note for note in found.verdict.notes if note.startswith("faithfulness on 12 answers")]
    assert "0.75 now and 1.00 before (difference −0.25, 95 % interval −0." in note
    assert "Krippendorff's alpha" in note


def test_the_baseline_stays_the_one_that_it_was(project: Project) -> None:
    before = project.baseline()
    records = (before.path / "samples.jsonl").read_bytes()
    found = project.gate("new", "main")
    assert found.run is not None
    fact = found.run.manifest.baseline
    assert fact is not None
    assert fact.used is not None
    assert fact.used.fingerprint == before.fingerprint
    assert fact.lineage == (before.fingerprint,)
    assert project.baseline().manifest == before.manifest
    assert (before.path / "samples.jsonl").read_bytes() == records
    # The next run is compared with this one: there is nothing to judge again.
    calls = project.calls
    project.gate("next", "new")
    assert project.calls == calls


def test_what_it_costs_is_in_the_cost_of_the_run(project: Project) -> None:
    project.answer(wrong=N)  # no answer in common
    calls = project.calls
    found = project.gate("new", "main")
    assert found.run is not None
    assert found.run.manifest.cost.calls == project.calls - calls == 4 * N
    assert RunDirectory.open(found.run.path).manifest.cost == found.run.manifest.cost


def test_only_judgements_that_are_missing_are_asked_for(project: Project) -> None:
    calls = project.calls
    project.gate("new", "main")  # all answers are those of the baseline
    assert project.calls == calls + 2 * N


def test_new_prompts_are_a_new_judge(project: Project) -> None:
    baseline = project.baseline()
    judge = replace(baseline.manifest.judge, version="0" * 64)
    write_manifest(baseline.path, baseline.manifest.model_copy(update={"judge": judge}))
    found = project.gate("new", "main", judge=OLD)
    assert found.verdict.warnings[0].startswith("The prompts of the judge changed (000000000000 to ")
    assert drop(found).n == N


def test_a_new_version_of_a_metric_reuses_the_judgements(project: Project) -> None:
    baseline = project.baseline()
    metrics = {"faithfulness": "0"}
    write_manifest(baseline.path, baseline.manifest.model_copy(update={"metrics": metrics}))
    calls = project.calls
    found = project.gate("new", "main", judge=OLD)
    assert project.calls == calls
    assert found.verdict.warnings[0].startswith("Faithfulness was version 0 in the baseline and is ")
    assert drop(found).n == N


def test_a_metric_that_the_baseline_lacks_is_scored_on_its_answers(project: Project) -> None:
    text = (project.root / "thresholds.toml").read_text(encoding="utf-8")
    (project.root / "thresholds.toml").write_text(text + "[metrics.token_f1]\nmax_drop = 0.05\n", encoding="utf-8")
    calls = project.calls
    found = project.gate("new", "main", judge=OLD, metrics=("faithfulness", "token_f1"))
    assert project.calls == calls
    checked = {check.metric for check in found.verdict.checks if check.kind is CheckKind.DROP}
    assert checked == {"faithfulness", "token_f1"}


def test_the_offline_judge_guards_a_run_without_a_key(project: Project) -> None:
    calls = project.calls
    found = project.gate("new", "main", judge="offline")
    assert project.calls == calls
    assert drop(found).n == N
    assert "judged again by offline judge" in found.verdict.warnings[0]


def test_a_budget_that_does_not_suffice_leaves_the_drops_unguarded_and_says_what_it_takes(project: Project) -> None:
    project.fake.usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    project.answer(wrong=N)
    calls = project.calls
    found = project.gate("new", "main", budget_usd=0.0095)
    assert found.run is not None
    assert found.run.manifest.counts.scored == N
    assert project.calls - calls == 2 * N  # the run itself, and nothing for the baseline
    top = found.verdict.warnings[0]
    assert top.startswith("Unguarded: the drops of faithfulness. The judge changed from ")
    assert "under $0.01 of the budget is left; raise judge.max_cost_usd to $0.01" in top
    assert "To judge 12 answers takes at most 24 judge calls, about $0.01." in top
    assert not [check for check in found.verdict.checks if check.kind is CheckKind.DROP]


def test_a_budget_that_is_used_up_half_way_costs_the_run_nothing(project: Project) -> None:
    project.answer(wrong=N)
    calls = project.calls
    found = project.gate("new", "main", budget_usd=0.035)
    assert found.run is not None
    assert found.run.manifest.state == "finished"
    assert found.run.manifest.counts.scored == N
    assert 2 * N < project.calls - calls < 4 * N
    top = found.verdict.warnings[0]
    assert top.startswith("Unguarded: the drops of faithfulness. ")
    assert "the budget of $0.04 is used up" in top
    assert [check.kind for check in found.verdict.checks if check.metric].count(CheckKind.DROP) == 0


def test_skip_is_what_it_was(project: Project) -> None:
    project.policy("skip")
    calls = project.calls
    found = project.gate("new", "main")
    assert project.calls == calls + 2 * N
    assert any("metrics that use the judge are not compared." in warning for warning in found.verdict.warnings)


def test_fail_ends_the_job(project: Project) -> None:
    project.policy("fail")
    found = project.gate("new", "main")
    assert found.exit_code == BaselineError.exit_code
    assert "on_judge_change" in found.verdict.reason


def test_nothing_is_judged_again_for_a_baseline_by_the_same_judge(project: Project) -> None:
    calls = project.calls
    found = project.gate("new", "main", judge=OLD)
    assert project.calls == calls
    assert not any("judged again" in warning for warning in found.verdict.warnings)
