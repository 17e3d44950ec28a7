"""Shares of questions that are not answered, answered though they can't be, or answered with something broken."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest

from ragstone.gate.accepted import AcceptedEntry
from ragstone.gate.decide import decide_gate
from ragstone.gate.policy import Policy, default_policy, policy_from_mapping
from ragstone.gate.verdict import CheckKind, GateVerdict, Status
from ragstone.run.answer_kinds import AnswerKind
from ragstone.run.manifest import Manifest
from ragstone.run.scores import RunScores, SystemFacts, fingerprint

MakeRun = Callable[..., RunScores]
ABSTAINS, COPIES = AnswerKind.ABSTAINS, AnswerKind.COPIES


@pytest.fixture
def answering(run: MakeRun, manifest: Callable[..., Manifest]) -> Callable[..., RunScores]:
    """A run of 60 samples of which the first have answers of a kind; `unanswerable` are among the last."""

    def make(
        kind: AnswerKind = ABSTAINS,
        times: int = 0,
        *,
        n: int = 60,
        unanswerable: int = 0,
        low: int = 0,
        **groups: object,
    ) -> RunScores:
        scores = {"faithfulness": [0.05] * low + [0.95] * (n - low), "context_recall": [0.9] * n}
        found = run(scores, manifest=manifest(provider="offline"), **groups)
        facts = {
            f"s{i}": replace(
                found.samples[f"s{i}"], question=f"q{i}", reference=f"r{i}", answerable=i < n - unanswerable
            )
            for i in range(n)
        }
        given = SystemFacts(
            answers={f"s{i}": (fingerprint(f"answer {i}"),) for i in range(n)},
            kinds={f"s{i}": (kind,) for i in range(times)},
        )
        return replace(found, samples=facts, system=given)

    return make


Answering = Callable[..., RunScores]


def shares(verdict: GateVerdict) -> Mapping[str, tuple[Status, str]]:
    return {check.name: (check.status, check.reason) for check in verdict.checks if check.kind is CheckKind.SHARE}


def test_more_unanswered_questions_than_are_allowed_fail_a_first_run(answering: Answering) -> None:
    found = shares(decide_gate(answering(times=30), None, default_policy()))
    assert found["system.unanswered"] == (
        Status.FAIL,
        "30 of 60 answerable questions are not answered, more than the 30 % allowed: 30 abstaining.",
    )


@pytest.mark.parametrize("times", [0, 18, 22])
def test_a_share_must_be_shown_to_be_larger(answering: Answering, times: int) -> None:
    verdict = decide_gate(answering(times=times), None, default_policy())
    assert {status for status, _ in shares(verdict).values()} == {Status.PASS}


@pytest.mark.parametrize(
    ("times", "status"), [(5, Status.PASS), (6, Status.INCONCLUSIVE), (10, Status.INCONCLUSIVE), (11, Status.FAIL)]
)
def test_newly_unanswered_questions_are_compared_by_an_exact_sign_test(
    answering: Answering, times: int, status: Status
) -> None:
    found = shares(decide_gate(answering(times=times), answering(), default_policy()))
    assert found["system.unanswered"][0] is status
    assert f"{times} of 60 answerable questions are not answered (0 before)" in found["system.unanswered"][1]


def test_as_many_as_before_pass_though_they_are_other_questions(answering: Answering) -> None:
    now, then = answering(times=12), answering()
    other = {f"s{i}": (ABSTAINS,) for i in range(12, 24)}
    before = replace(then, system=replace(then.system, kinds=other))
    assert shares(decide_gate(now, before, default_policy()))["system.unanswered"][0] is Status.PASS


def test_questions_of_one_group_are_one_vote(answering: Answering) -> None:
    groups = {f"s{i}": "one" for i in range(12)}
    found = shares(decide_gate(answering(times=12, groups=groups), answering(groups=groups), default_policy()))
    assert found["system.unanswered"][0] is Status.PASS


def test_what_the_baseline_has_too_is_inconclusive(answering: Answering) -> None:
    found = shares(decide_gate(answering(times=30), answering(times=30), default_policy()))
    assert found["system.unanswered"][0] is Status.INCONCLUSIVE


def test_the_policy_may_allow_more(answering: Answering) -> None:
    rules = policy_from_mapping({"system": {"max_unanswered": 0.6}})
    assert shares(decide_gate(answering(times=30), None, rules))["system.unanswered"][0] is Status.PASS


def test_answering_what_can_not_be_answered_is_a_check_of_its_own(answering: Answering) -> None:
    guessing = answering(unanswerable=20)
    rightly = replace(guessing, system=replace(guessing.system, kinds={f"s{i}": (ABSTAINS,) for i in range(40, 60)}))
    assert shares(decide_gate(rightly, None, default_policy()))["system.guessed"][0] is Status.PASS
    assert shares(decide_gate(guessing, rightly, default_policy()))["system.guessed"] == (
        Status.FAIL,
        "20 of 20 unanswerable questions are answered (0 before), more than the 40 % allowed.",
    )


def test_copied_answers_the_same_answers_and_false_ones_are_broken(answering: Answering) -> None:
    one = answering(COPIES, 10, low=20)
    same = {f"s{i}": (fingerprint("See our web site."),) for i in range(20, 40)}
    found = replace(one, system=replace(one.system, answers={**one.system.answers, **same}))
    assert shares(decide_gate(found, None, default_policy()))["system.broken"] == (
        Status.FAIL,
        "40 of 60 answerable questions are answered with something broken, more than the 30 % allowed: 20 the same as "
        "to other questions, 10 copied from the contexts, 10 not supported by the contexts.",
    )


@pytest.mark.parametrize(
    "rules",
    [default_policy(), policy_from_mapping({"metrics": {"context_recall": {"min": 0.5}}})],
    ids=["default", "names another metric"],
)
def test_a_metric_that_the_policy_does_not_name_is_guarded(answering: Answering, rules: Policy) -> None:
    verdict = decide_gate(answering(low=55), None, rules)
    assert shares(verdict)["system.broken"][0] is Status.FAIL
    assert "faithfulness.answers" in {check.name for check in verdict.checks if check.status is Status.FAIL}


def test_a_floor_that_allows_low_means_decides_alone(answering: Answering) -> None:
    rules = policy_from_mapping({"metrics": {"faithfulness": {"min": 0.1}}})
    assert decide_gate(answering(low=40), None, rules).status is Status.PASS


def test_a_drop_that_was_accepted_allows_a_rise(answering: Answering) -> None:
    entry = AcceptedEntry.model_construct(id="abcdefgh", metric="answer_correctness", drop=0.3)
    widened = replace(default_policy(), widened={entry.target: entry})
    found = shares(decide_gate(answering(times=15), answering(), widened))
    assert found["system.unanswered"][0] is Status.PASS


def test_a_run_that_did_not_finish_has_no_shares(answering: Answering) -> None:
    one = answering(times=60)
    assert one.manifest is not None
    stopped = replace(one, manifest=one.manifest.model_copy(update={"state": "stopped"}))
    assert shares(decide_gate(stopped, None, default_policy())) == {}
