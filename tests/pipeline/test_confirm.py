"""Confirm before red: the system is asked again where the first answers raise a suspicion."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ragstone.errors import ConfigError, RunDirectoryError, SystemUnderTestError
from ragstone.evaluation.directory import RunDirectory
from ragstone.evaluation.replay import confirm as replayed
from ragstone.evaluation.rounds.context import RunContext
from ragstone.gate.policy import load_policy
from ragstone.gate.verdict import CheckKind, Status
from ragstone.golden.sample import Sample
from ragstone.pipeline.decide import ComparedRun, Terms, decide
from ragstone.pipeline.gate import GateOutcome
from ragstone.settings.load import load_settings
from ragstone.settings.settings import Settings
from ragstone.system.response import Response, SystemFailure, SystemFailureKind
from tests.judge.conftest import FakeLlm, Loop
from tests.pipeline.asked import evaluate_run
from tests.pipeline.reported import gated

N = 20
POLICY = """
[gate]
confirm = true

[metrics.token_f1]
max_drop = 0.0
"""

Behave = Callable[[int, int], str | None]
"""The answer to a question the first time it is asked, the second time …; None: the system fails."""


class System:
    """Each sample is asked several times; `behave` says what it answers each time."""

    entrypoint = "python:app:answer"
    concurrency = 2
    can_be_asked_again = True

    def __init__(self, behave: Behave, *, ends: int = 99) -> None:
        self.behave = behave
        self.asked: dict[str, int] = {}
        self.ends = ends
        self.starts = 0

    async def start(self) -> None:
        self.starts += 1

    async def ask(self, sample: Sample) -> Response:
        number = self.asked.get(sample.id, 0)
        if number >= self.ends:
            raise SystemUnderTestError("the service has ended.")
        self.asked[sample.id] = number + 1
        answer = self.behave(int(sample.id[1:]), number)
        if answer == "slow":
            await asyncio.sleep(3600)
        if answer is None:
            return Response(sample.id, failure=SystemFailure(SystemFailureKind.CRASHED, "it crashed"))
        return Response(sample.id, answer)

    async def close(self) -> None: ...


def good(question: int, _number: int) -> str:
    return f"It is {question}."


def always_bad(*questions: int) -> Behave:
    """Answers that differ from time to time, but are always bad."""
    return lambda question, number: f"N{'o' * number}" if question in questions else good(question, number)


def bad_at_first(*questions: int) -> Behave:
    return lambda question, number: "No." if question in questions and number == 0 else good(question, number)


class Project:
    def __init__(self, root: Path) -> None:
        self.root = root
        rows = [{"id": f"q{n}", "question": f"What is {n}?", "reference": f"It is {n}."} for n in range(N)]
        (root / "golden.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        self.policy(POLICY)
        self.said: list[str] = []
        asyncio.run(evaluate_run(self.settings("baseline", baseline=None), self.context(System(good))))

    def policy(self, text: str) -> None:
        (self.root / "thresholds.toml").write_text(text)

    def settings(self, out: str = "run", *, baseline: str | None = "baseline", **more: Any) -> Settings:
        overrides = {
            "golden.paths": ("golden.jsonl",),
            "system.entrypoint": "python:app:answer",
            "run.out": out,
            "run.metrics": ("token_f1",),
            "gate.baseline": baseline,
            **more,
        }
        given = {key: value for key, value in overrides.items() if value is not None}
        return load_settings(directory=self.root, environ={}, overrides=given)

    def context(self, system: System) -> RunContext:
        return RunContext(environ={}, system_factory=lambda *_: system, say=lambda line: self.said.append(line))

    def gate(self, system: System, **more: Any) -> GateOutcome:
        return gated(self.settings(**more), self.context(system))


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


def times_asked(system: System) -> set[int]:
    return set(system.asked.values())


def test_a_fall_that_more_answers_bear_out_is_confirmed(project: Project) -> None:
    system = System(always_bad(1, 2, 3, 4, 5, 6))
    found = project.gate(system)
    assert found.exit_code == 1
    assert found.verdict.reason.endswith("Confirmed with 5 more answers to each of 20 samples.")
    assert times_asked(system) == {6}
    assert found.run is not None
    assert found.run.manifest.answers == 6
    assert "asking each question again to confirm the verdict (1 of at most 5)" in project.said
    report = (project.root / "run" / "report.md").read_text()
    assert "Confirmed with 5 more answers to each of 20 samples." in report
    assert json.loads((project.root / "run" / "report.json").read_text())["run"]["answers"] == 6


def test_a_fall_by_chance_is_not_confirmed_and_the_run_passes(project: Project) -> None:
    system = System(bad_at_first(1, 2, 3, 4, 5, 6))
    found = project.gate(system)
    assert found.verdict.status is Status.PASS
    assert found.verdict.notes[0] == (
        "The first answers failed token_f1.drop; with 2 more answers to each of 20 samples, no failure is confirmed."
    )
    assert found.run is not None
    assert found.run.manifest.standing.eligible


def test_all_answers_are_stored_and_can_be_replayed(project: Project) -> None:
    project.gate(System(always_bad(1, 2, 3, 4, 5, 6)))
    run = RunDirectory.open(project.root / "run")
    answers = [[one.answer for one in record.responses] for record in run.records()]
    assert answers[0] == ["It is 0."] * 6
    assert answers[1] == ["N", "No", "Noo", "Nooo", "Noooo", "Nooooo"]
    assert replayed(run).scores() == run.scores()
    assert run.manifest.verdict == "fail"
    assert sorted(path.name for path in (project.root / "run").iterdir() if path.name.startswith(".")) == []


def test_nothing_is_asked_again_where_nothing_fell(project: Project) -> None:
    system = System(good)
    assert project.gate(system).verdict.status is Status.PASS
    assert times_asked(system) == {1}


def test_a_clear_fall_fails_at_once(project: Project) -> None:
    system = System(always_bad(*range(15)))
    found = project.gate(system)
    assert found.exit_code == 1
    assert "Confirmed" not in found.verdict.reason
    assert times_asked(system) == {1}


def test_a_suspicion_that_would_not_fail_is_looked_into_and_may_fail(project: Project) -> None:
    def worse_than_it_looks(question: int, number: int) -> str | None:
        return always_bad(1, 2, 3, 4, 5, *([6] if number else []))(question, number)

    project.policy(POLICY.replace("confirm = true", "confirm = false"))
    assert project.gate(System(worse_than_it_looks), out="first").verdict.status is Status.INCONCLUSIVE
    project.policy(POLICY)
    system = System(worse_than_it_looks)
    assert project.gate(system).verdict.status is Status.FAIL
    assert times_asked(system) == {6}


def test_confirming_needs_no_word_from_the_user(project: Project) -> None:
    project.policy(POLICY.replace("confirm = true", ""))
    system = System(always_bad(1, 2, 3, 4, 5, 6))
    assert project.gate(system).verdict.status is Status.FAIL
    assert times_asked(system) == {6}


def test_asking_stops_when_the_suspicion_is_gone(project: Project) -> None:
    system = System(bad_at_first(1, 2, 3, 4, 5, 6))
    assert project.gate(system).verdict.status is Status.PASS
    assert times_asked(system) == {3}


def test_a_second_run_is_compared_with_the_confirmed_one(project: Project) -> None:
    project.gate(System(bad_at_first(1, 2, 3, 4, 5)))
    found = project.gate(System(good), out="second", baseline="run")
    assert found.verdict.status is Status.PASS
    assert found.verdict.comparability is not None
    assert "each question was asked 2 times for the baseline and once now." in found.verdict.comparability.notes


def test_a_confirmed_run_has_nothing_to_resume(project: Project) -> None:
    project.gate(System(bad_at_first(1, 2, 3, 4, 5)))
    with pytest.raises(RunDirectoryError, match="nothing to resume: this run is finished"):
        project.gate(System(good), **{"run.resume": True})
    assert RunDirectory.open(project.root / "run").manifest.confirmed


@pytest.mark.parametrize(
    ("system", "more", "why"),
    [
        (lambda: System(always_bad(1, 2, 3, 4, 5, 6), ends=1), {}, "asking again failed: the service has ended"),
        (
            lambda: System(lambda q, n: "slow" if n else always_bad(1, 2, 3, 4, 5, 6)(q, n)),
            {"run.time_limit_s": 5.0},
            "because the time limit is reached",
        ),
        (
            lambda: System(lambda q, n: None if n and q < 5 else always_bad(1, 2, 3, 4, 5, 6)(q, n)),
            {},
            "some of the new answers failed",
        ),
    ],
)
def test_the_first_verdict_stands_and_says_so_if_more_answers_can_not_be_had(
    project: Project, system: Callable[[], System], more: dict[str, Any], why: str
) -> None:
    found = project.gate(system(), **more)
    assert found.exit_code == 1
    assert any(why in warning and "it rests on the first answers" in warning for warning in found.verdict.warnings)
    run = RunDirectory.open(project.root / "run")
    assert run.manifest.answers == 1
    assert run.manifest.verdict == "fail"
    assert [len(record.answers) for record in run.records()] == [1] * N


def test_a_system_without_noise_is_judged_by_its_first_answers(project: Project) -> None:
    found = project.gate(System(lambda q, _: always_bad(1, 2, 3, 4, 5, 6)(q, 0)))
    assert found.exit_code == 1
    assert found.verdict.notes[0] == "Asked again, the system gave the same answers: the verdict needs no more."
    assert RunDirectory.open(project.root / "run").manifest.answers == 1


def test_recorded_answers_stand(project: Project) -> None:
    rows = ({"id": f"q{n}", "answer": always_bad(1, 2, 3, 4, 5, 6)(n, 0)} for n in range(N))
    (project.root / "out.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    settings = project.settings(**{"system.entrypoint": "file:out.jsonl"})
    found = gated(settings, RunContext(environ={}))
    assert found.exit_code == 1
    assert "recorded answers can't be asked for again" in found.verdict.notes[0]


def test_nothing_is_asked_again_if_the_run_fails_for_another_reason(project: Project) -> None:
    project.policy(POLICY + '[must_pass]\nsamples = ["q1"]\nmetrics = ["token_f1"]\nmin = 0.5\n')
    system = System(always_bad(1, 2, 3, 4, 5, 6))
    found = project.gate(system)
    assert found.exit_code == 1
    assert times_asked(system) == {1}
    assert any(check.kind is CheckKind.MUST_PASS and check.status is Status.FAIL for check in found.verdict.checks)


JUDGED: dict[str, Any] = {"run.metrics": ("token_f1", "faithfulness"), "judge.name": "openai:gpt-4o-mini"}


@pytest.fixture
def judged(project: Project) -> Iterator[Callable[..., GateOutcome]]:
    """A gate with a judge that costs money, on a loopback server; `.fake` has seen its calls."""
    loop = Loop()
    fake = loop.serve(FakeLlm())

    # Its judge supports nothing, which is no collapse here.
    project.policy(POLICY + "[metrics.faithfulness]\nmin = 0.0\n")

    def run(system: System, **more: Any) -> GateOutcome:
        settings = project.settings(**JUDGED, **{"judge.base_url": f"{fake.url}/v1", **more})
        context = replace(project.context(system), environ={"OPENAI_API_KEY": "sk-0123456789"})
        return gated(settings, context)

    run.fake = fake  # type: ignore[attr-defined]
    yield run
    loop.close()


def test_only_new_answers_are_judged_again_and_all_of_the_cost_is_told(judged: Any) -> None:
    found = judged(System(always_bad(1, 2, 3, 4, 5, 6)))
    assert found.run.manifest.answers == 6
    assert judged.fake.kinds().count("answer") == N + 6 * 5
    assert found.run.manifest.cost.calls == len(judged.fake.chats)
    assert found.run.manifest.observed is not None


def test_what_is_left_of_the_budget_is_what_confirming_may_cost(judged: Any) -> None:
    alone = judged(System(good), out="alone").run.manifest.cost.usd
    judged.fake.seen.clear()
    found = judged(System(always_bad(1, 2, 3, 4, 5, 6)), **{"judge.max_cost_usd": alone * 1.3})
    assert found.exit_code == 1
    assert found.verdict.warnings[0] == (
        "The verdict was not confirmed with more answers, because the judge's budget is used up; it rests on the first "
        "answers."
    )
    assert found.run.manifest.answers == 1
    # Those of the round that came to nothing, too.
    assert found.run.manifest.cost.calls == len(judged.fake.chats) > N


def test_a_confirmed_run_is_decided_again_as_it_was(project: Project) -> None:
    found = project.gate(System(always_bad(1, 2, 3, 4, 5, 6)))
    run = RunDirectory.open(project.root / "run")
    assert run.manifest.confirmed
    policy = load_policy(project.root / "thresholds.toml")
    terms = Terms.of(policy, ComparedRun.of(RunDirectory.open(project.root / "baseline")), run.manifest.day)
    again = decide(ComparedRun.of(run), terms)
    assert [check.status for check in again.checks] == [check.status for check in found.verdict.checks]
    assert [check.interval for check in again.checks] == [check.interval for check in found.verdict.checks]


def test_what_can_not_be_confirmed_is_refused(project: Project) -> None:
    project.policy(POLICY.replace("confirm = true", 'confirm = true\ndecision = "point"'))
    with pytest.raises(ConfigError, match="needs decision"):
        project.gate(System(good))


def test_confirming_may_be_limited_to_fewer_answers(project: Project) -> None:
    project.policy(POLICY.replace("confirm = true", "confirm = true\nconfirm_repeats = 1"))
    system = System(always_bad(1, 2, 3, 4, 5, 6))
    found = project.gate(system)
    assert times_asked(system) == {2}
    assert found.verdict.reason.endswith("Confirmed with 1 more answer to each of 20 samples.")
