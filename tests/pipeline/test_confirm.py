"""Confirm before red: the system is asked again where the first answers raise a suspicion."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from ragstone.errors import RunDirectoryError, SystemUnderTestError
from ragstone.evaluation.replay import confirm as replayed
from ragstone.gate.policy import load_policy
from ragstone.gate.verdict import Status
from ragstone.golden.sample import Sample
from ragstone.pipeline.decide import ComparedRun, Terms, decide
from ragstone.system.response import Response, SystemFailure, SystemFailureKind
from tests.cli.project import read_json
from tests.pipeline.project import MODEL, Project

N = 20
POLICY = "[gate]\nconfirm = true\n[metrics.token_f1]\nmax_drop = 0.0\n"
WORSE = (1, 2, 3, 4, 5, 6)
"""Questions: enough of them for a suspicion, too few for a verdict by their first answers."""
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

    async def start(self) -> None: ...

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


def same_bad(question: int, _number: int) -> str | None:
    return always_bad(*WORSE)(question, 0)


@pytest.fixture
def project(project: Project) -> Project:
    """A project whose system is `System`, with a baseline of good answers in `main`."""
    project.judge = "offline"
    project.defaults = {"system__entrypoint": "python:app:answer", "run__metrics": ("token_f1",)}
    project.write_golden(N)
    project.policy(POLICY)
    project.run("main", system=System(good))
    return project


def times_asked(system: System) -> int:
    """How often the system was asked each question, which must be the same for all."""
    (times,) = set(system.asked.values())
    return times


def test_a_fall_that_more_answers_bear_out_is_confirmed_stored_and_decided_again_as_it_was(project: Project) -> None:
    system = System(always_bad(*WORSE))
    found = project.gate("run", "main", system=system, reported_again=True)
    assert found.exit_code == 1
    asked = times_asked(system)
    assert 3 <= asked <= 6, "until it is clear"
    assert f"Confirmed with {asked - 1} more answers to each of 20 samples" in found.verdict.reason
    assert f"Confirmed with {asked - 1} more answers to each of 20 samples" in project.report("run")
    assert any("(1 of at most 5)" in line for line in project.said)
    assert read_json(project.root / "run" / "report.json")["run"]["answers"] == asked
    run = project.opened("run")
    assert (run.manifest.answers, run.manifest.verdict, run.scores().confirmed) == (asked, "fail", True)
    answers = [[one.answer for one in record.responses] for record in run.records()]
    assert answers[:2] == [["It is 0."] * asked, ["N", "No", "Noo", "Nooo", "Noooo", "Nooooo"][:asked]]
    assert replayed(run).scores() == run.scores()
    assert [path.name for path in run.path.iterdir() if path.name.startswith(".")] == []
    policy = load_policy(project.root / "thresholds.toml")
    terms = Terms(policy, ComparedRun.of(project.opened("main")), run.manifest.day)
    again = decide(ComparedRun.of(run), terms)
    assert [(check.status, check.interval) for check in again.checks] == [
        (check.status, check.interval) for check in found.verdict.checks
    ]


@pytest.mark.heavy
def test_a_fall_by_chance_is_not_confirmed_and_the_run_passes(project: Project) -> None:
    system = System(bad_at_first(*WORSE))
    found = project.gate("run", "main", system=system)
    assert found.verdict.status is Status.PASS
    assert "questions.broken, token_f1.drop" in found.verdict.notes[0]
    assert f"{times_asked(system) - 1} more answers to each of 20 samples" in found.verdict.notes[0]
    assert found.run.manifest.standing.eligible
    with pytest.raises(RunDirectoryError, match="nothing to resume"):
        project.gate("run", "main", system=System(good), run__resume=True)
    assert project.gate("second", "run", system=System(good)).verdict.status is Status.PASS


@pytest.mark.parametrize(
    ("behave", "policy", "status", "asked"),
    [
        (good, POLICY, Status.PASS, 1),
        (always_bad(*range(15)), POLICY, Status.FAIL, 1),
        (always_bad(*WORSE), POLICY.replace("true", "false"), Status.FAIL, 1),
        (always_bad(*WORSE), POLICY.replace("true", "true\nconfirm_repeats = 1"), Status.FAIL, 2),
        (bad_at_first(1), f'{POLICY}min = 0.0\n[must_pass]\nsamples = ["q1"]\nmin = 0.5\n', Status.PASS, 2),
    ],
    ids=["nothing fell", "a clear fall", "switched off", "once", "a sample that must pass, by chance"],
)
def test_it_is_asked_again_where_that_can_change_something_and_as_often_as_the_policy_says(
    project: Project, behave: Behave, policy: str, status: Status, asked: int
) -> None:
    project.policy(policy)
    system = System(behave)
    assert project.gate("run", "main", system=system).verdict.status is status
    assert times_asked(system) == asked


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
    found = project.gate("run", "main", system=System(same_bad))
    assert found.exit_code == 1
    assert "gave the same answers" in found.verdict.notes[0]
    assert found.run.manifest.answers == 1


def test_recorded_answers_stand(project: Project) -> None:
    project.write("out.jsonl", ({"id": f"q{n}", "answer": same_bad(n, 0)} for n in range(N)))
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
    run = judged.gate("run", "main", system=System(always_bad(*WORSE))).run
    assert run.manifest.answers > 2
    assert judged.fake.kinds().count("answer") == N + 6 * (run.manifest.answers - 1)
    assert run.manifest.cost.calls == len(judged.fake.chats)
    assert run.rounds.judge.observed is not None


@pytest.mark.heavy
def test_what_is_left_of_the_budget_is_what_confirming_may_cost(judged: Project) -> None:
    alone = judged.gate("alone", "main", system=System(good)).run.manifest.cost.usd
    assert alone is not None
    judged.fake.seen.clear()
    found = judged.gate("run", "main", system=System(always_bad(*WORSE)), judge__max_cost_usd=alone * 1.3)
    assert found.exit_code == 1
    assert "is used up" in found.verdict.warnings[0]
    assert found.run.manifest.answers == 1
    assert found.run.manifest.cost.calls == len(judged.fake.chats) > N, "with the round that came to nothing"
