"""Confirm before red: the system is asked again where the first answers raise a suspicion."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable

import pytest

from ragstone.errors import ConfigError, RunDirectoryError, SystemUnderTestError
from ragstone.evaluation.replay import confirm as replayed
from ragstone.gate.policy import load_policy
from ragstone.gate.verdict import Status
from ragstone.golden.sample import Sample
from ragstone.pipeline.decide import ComparedRun, Terms, decide
from ragstone.system.response import Response, SystemFailure, SystemFailureKind
from tests.pipeline.project import MODEL, Project, run_of

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


@pytest.fixture
def project(project: Project) -> Project:
    """A project whose system is `System`, with a baseline of good answers in `main`."""
    project.judge = "offline"
    project.defaults = {"system__entrypoint": "python:app:answer", "run__metrics": ("token_f1",)}
    project.write_golden(N)
    project.policy(POLICY)
    project.run("main", system=System(good))
    return project


WORSE = (1, 2, 3, 4, 5, 6)
"""Questions: enough of them for a suspicion, too few for a verdict by their first answers."""


def times_asked(system: System) -> set[int]:
    return set(system.asked.values())


def test_a_fall_that_more_answers_bear_out_is_confirmed_stored_and_decided_again_as_it_was(project: Project) -> None:
    system = System(always_bad(*WORSE))
    found = project.gate("run", "main", system=system, reported_again=True)
    assert found.exit_code == 1
    (asked,) = times_asked(system)
    assert 3 <= asked <= 6, "until it is clear"
    assert f"Confirmed with {asked - 1} more answers to each of 20 samples" in found.verdict.reason
    assert f"Confirmed with {asked - 1} more answers to each of 20 samples" in project.report("run")
    assert any("(1 of at most 5)" in line for line in project.said)
    assert json.loads((project.root / "run" / "report.json").read_text())["run"]["answers"] == asked
    run = project.opened("run")
    assert (run.manifest.answers, run.manifest.verdict, run.scores().confirmed) == (asked, "fail", True)
    answers = [[one.answer for one in record.responses] for record in run.records()]
    assert answers[0] == ["It is 0."] * asked
    assert answers[1] == ["N", "No", "Noo", "Nooo", "Noooo", "Nooooo"][:asked]
    assert replayed(run).scores() == run.scores()
    assert [path.name for path in run.path.iterdir() if path.name.startswith(".")] == []
    policy = load_policy(project.root / "thresholds.toml")
    terms = Terms.of(policy, ComparedRun.of(project.opened("main")), run.manifest.day)
    again = decide(ComparedRun.of(run), terms)
    assert [(check.status, check.interval) for check in again.checks] == [
        (check.status, check.interval) for check in found.verdict.checks
    ]


@pytest.mark.heavy
def test_a_fall_by_chance_is_not_confirmed_and_the_run_passes(project: Project) -> None:
    system = System(bad_at_first(*WORSE))
    found = project.gate("run", "main", system=system)
    assert found.verdict.status is Status.PASS
    (asked,) = times_asked(system)
    assert asked > 2
    assert "failed questions.broken, token_f1.drop" in found.verdict.notes[0]
    assert f"{asked - 1} more answers to each of 20 samples" in found.verdict.notes[0]
    assert run_of(found).manifest.standing.eligible
    with pytest.raises(RunDirectoryError, match="nothing to resume"):
        project.gate("run", "main", system=System(good), run__resume=True)
    second = project.gate("second", "run", system=System(good))
    assert second.verdict.status is Status.PASS


def test_a_must_pass_sample_fails_by_the_majority_of_its_answers(project: Project) -> None:
    project.policy(POLICY + MUST_PASS)
    flaky = System(bad_at_first(1))
    assert project.gate("flaky", "main", system=flaky).verdict.status is Status.PASS
    assert times_asked(flaky) == {2}
    broken = project.gate("broken", "main", system=System(always_bad(1)))
    assert broken.exit_code == 1
    assert "must-pass sample q1: 4 of 4 answers fail" in broken.verdict.reason


MUST_PASS = '[must_pass]\nsamples = ["q1"]\nmetrics = ["token_f1"]\nmin = 0.5\n'


@pytest.mark.parametrize(
    ("behave", "policy", "status"),
    [
        (good, POLICY, Status.PASS),
        (always_bad(*range(15)), POLICY, Status.FAIL),
    ],
    ids=["nothing fell", "a clear fall"],
)
def test_nothing_is_asked_again_where_it_would_change_nothing(
    project: Project, behave: Behave, policy: str, status: Status
) -> None:
    project.policy(policy)
    system = System(behave)
    found = project.gate("run", "main", system=system)
    assert found.verdict.status is status
    assert times_asked(system) == {1}
    assert "Confirmed" not in found.verdict.reason


@pytest.mark.heavy
def test_a_suspicion_that_would_not_fail_is_looked_into_and_may_fail(project: Project) -> None:
    def worse_than_it_looks(question: int, number: int) -> str | None:
        return always_bad(1, 2, 3, *([4, 5] if number else []))(question, number)

    project.policy(POLICY.replace("confirm = true", "confirm = false"))
    first = project.gate("first", "main", system=System(worse_than_it_looks))
    assert first.verdict.status is Status.INCONCLUSIVE
    project.policy(POLICY)
    system = System(worse_than_it_looks)
    assert project.gate("run", "main", system=system).verdict.status is Status.FAIL
    assert min(times_asked(system)) > 1


@pytest.mark.parametrize(
    ("words", "most"), [("", 6), ("confirm = true\nconfirm_repeats = 1", 2)], ids=["by default", "once"]
)
def test_the_policy_says_how_often_it_is_asked_again(project: Project, words: str, most: int) -> None:
    project.policy(POLICY.replace("confirm = true", words))
    system = System(always_bad(*WORSE))
    assert project.gate("run", "main", system=system).verdict.status is Status.FAIL
    (asked,) = times_asked(system)
    assert 1 < asked <= most


def slow_later(question: int, number: int) -> str | None:
    return "slow" if number else always_bad(*WORSE)(question, number)


def failing_later(question: int, number: int) -> str | None:
    return None if number and question < 5 else always_bad(*WORSE)(question, number)


@pytest.mark.parametrize(
    ("behave", "ends", "limit_s", "why"),
    [
        (always_bad(*WORSE), 1, None, "asking again failed: the service has ended"),
        (slow_later, 99, 2.0, "the time limit is reached"),
        (failing_later, 99, None, "some of the new answers failed"),
    ],
    ids=["ended", "slow", "failing"],
)
def test_the_first_verdict_stands_and_says_so_if_more_answers_can_not_be_had(
    project: Project, behave: Behave, ends: int, limit_s: float | None, why: str
) -> None:
    found = project.gate("run", "main", system=System(behave, ends=ends), run__time_limit_s=limit_s)
    assert found.exit_code == 1
    assert any(why in warning and "it rests on the first answers" in warning for warning in found.verdict.warnings)
    run = project.opened("run")
    assert (run.manifest.answers, run.manifest.verdict) == (1, "fail")
    assert [len(record.answers) for record in run.records()] == [1] * N


def test_a_system_without_noise_is_judged_by_its_first_answers(project: Project) -> None:
    found = project.gate("run", "main", system=System(lambda question, _: always_bad(*WORSE)(question, 0)))
    assert found.exit_code == 1
    assert "gave the same answers" in found.verdict.notes[0]
    assert run_of(found).manifest.answers == 1


def test_recorded_answers_stand(project: Project) -> None:
    project.write("out.jsonl", ({"id": f"q{n}", "answer": always_bad(*WORSE)(n, 0)} for n in range(N)))
    found = project.gate("run", "main", system__entrypoint="file:out.jsonl")
    assert found.exit_code == 1
    assert found.verdict.reason.startswith("6 of 20 questions got worse, none better")


@pytest.fixture
def judged(project: Project) -> Project:
    """A judge that costs money and supports nothing, which is no collapse here."""
    project.judge = MODEL
    project.defaults["run__metrics"] = ("token_f1", "faithfulness")
    project.policy(POLICY + "[metrics.faithfulness]\nmin = 0.0\n")
    return project


def test_only_new_answers_are_judged_again_and_all_of_the_cost_is_told(judged: Project) -> None:
    run = run_of(judged.gate("run", "main", system=System(always_bad(*WORSE))))
    manifest = run.manifest
    assert manifest.answers > 2
    assert judged.fake.kinds().count("answer") == N + 6 * (manifest.answers - 1)
    assert manifest.cost.calls == len(judged.fake.chats)
    assert run.rounds.judge.observed is not None


@pytest.mark.heavy
def test_what_is_left_of_the_budget_is_what_confirming_may_cost(judged: Project) -> None:
    alone = run_of(judged.gate("alone", "main", system=System(good))).manifest.cost.usd
    assert alone is not None
    judged.fake.seen.clear()
    found = judged.gate("run", "main", system=System(always_bad(*WORSE)), judge__max_cost_usd=alone * 1.3)
    assert found.exit_code == 1
    assert "the judge's budget is used up; it rests on the first answers" in found.verdict.warnings[0]
    assert run_of(found).manifest.answers == 1
    assert run_of(found).manifest.cost.calls == len(judged.fake.chats) > N, "with the round that came to nothing"


def test_what_can_not_be_confirmed_is_refused(project: Project) -> None:
    project.policy(POLICY.replace("confirm = true", 'confirm = true\ndecision = "point"'))
    with pytest.raises(ConfigError, match="needs decision"):
        project.gate("run", "main", system=System(good))
