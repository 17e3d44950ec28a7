"""Shares of questions that are not answered, answered though they can't be, or answered with something broken."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest

from ragstone.evaluation.answer_kinds import AnswerKind
from ragstone.evaluation.manifest import Manifest
from ragstone.evaluation.scores import MetricScores, RunScores, SystemFacts, fingerprint
from ragstone.gate.accepted import AcceptedEntry
from ragstone.gate.checks.registry import checker_of, key_of_check
from ragstone.gate.decide import decide_gate
from ragstone.gate.policy import Policy, default_policy, policy_from_mapping
from ragstone.gate.verdict import CheckKind, GateVerdict, Status

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
        "40 of 60 answerable questions are answered with something broken, more than the 25 % allowed: 20 the same as "
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


def scored(run: RunScores, metric: str, values: list[float]) -> RunScores:
    """`run` with the scores of one more metric, for its first samples."""
    given = MetricScores({f"s{i}": value for i, value in enumerate(values)})
    return replace(run, metrics={**run.metrics, metric: given})


def judged_by(provider: str, run: RunScores) -> RunScores:
    assert run.manifest is not None
    judge = replace(run.manifest.judge, provider=provider)
    return replace(run, manifest=run.manifest.model_copy(update={"judge": judge}))


@pytest.mark.parametrize("kind", [AnswerKind.DISORDERED, AnswerKind.CUT, AnswerKind.FOREIGN])
def test_answers_that_are_broken_in_their_form_are_counted(answering: Answering, kind: AnswerKind) -> None:
    assert shares(decide_gate(answering(kind, 30), None, default_policy()))["system.broken"][0] is Status.FAIL


def test_an_answer_of_which_half_is_unsupported_is_broken(answering: Answering) -> None:
    one = judged_by("openai", scored(answering(), "faithfulness", [0.5] * 30 + [1.0] * 30))
    assert shares(decide_gate(one, None, default_policy()))["system.broken"][0] is Status.FAIL


@pytest.mark.parametrize(("metric", "value"), [("answer_relevancy", 0.3), ("faithfulness", 0.6)])
@pytest.mark.parametrize(("provider", "status"), [("offline", Status.FAIL), ("openai", Status.PASS)])
def test_the_offline_judges_scores_are_probabilities(
    answering: Answering, metric: str, value: float, provider: str, status: Status
) -> None:
    one = judged_by(provider, scored(answering(), metric, [value] * 30 + [1.0] * 30))
    assert shares(decide_gate(one, None, default_policy()))["system.broken"][0] is status


def test_finding_no_relevant_document_is_fruitless(answering: Answering) -> None:
    one = scored(answering(), "mrr", [0.0] * 30 + [1.0] * 30)
    assert shares(decide_gate(one, None, default_policy()))["system.fruitless"] == (
        Status.FAIL,
        "30 of 60 answerable questions are given contexts that hardly help, more than the 25 % allowed: 30 without a "
        "relevant document.",
    )


@pytest.mark.parametrize("metric", ["mrr", "context_precision"])
@pytest.mark.parametrize(
    ("worse", "better", "status"), [(5, 0, None), (6, 0, Status.INCONCLUSIVE), (11, 0, Status.FAIL), (11, 9, None)]
)
def test_contexts_in_a_worse_order_than_before_are_counted(
    answering: Answering, metric: str, worse: int, better: int, status: Status | None
) -> None:
    then = scored(answering(), metric, [0.8] * 60)
    now = scored(answering(), metric, [0.6] * worse + [1.0] * better + [0.75] * (60 - worse - better))
    found = shares(decide_gate(now, then, default_policy())).get("system.misranked")
    assert (found and found[0]) is status
    assert "system.misranked" not in shares(decide_gate(now, None, default_policy()))
    if status is Status.FAIL:
        assert found is not None
        assert found[1] == (
            "11 of 60 answerable questions are given contexts in a worse order (0 in a better one), more than chance "
            "explains."
        )
        (check,) = (one for one in decide_gate(now, then, default_policy()).checks if one.name == "system.misranked")
        assert checker_of(check).title(check) == "Ranking"
        assert checker_of(check).wanted(check) == "no more than before"
        assert key_of_check(check) == ("system",)


def test_the_order_by_a_judge_that_makes_mistakes_is_left_to_the_mean(answering: Answering) -> None:
    then, now = (judged_by("openai", scored(answering(), "context_precision", [value] * 60)) for value in (0.8, 0.6))
    assert "system.misranked" not in shares(decide_gate(now, then, default_policy()))


def test_one_answer_is_compared_with_one_of_the_runs_that_are_the_level(
    answering: Answering, run: MakeRun, manifest: Callable[..., Manifest]
) -> None:
    """A mean of six runs is seldom as low as one of them, so that healthy answers would seem new."""
    now = answering(low=9)
    six = [[0.95] * 5 + [0.05 if 20 <= index < 29 else 0.95] for index in range(60)]
    level = run({"faithfulness": six, "context_recall": [0.9] * 60}, manifest=manifest(provider="offline"))
    then = replace(answering(), metrics=level.metrics)
    status, reason = shares(decide_gate(now, then, default_policy()))["system.broken"]
    assert status is Status.PASS
    assert reason.startswith("9 of 60 answerable questions are answered with something broken (9 before)")
