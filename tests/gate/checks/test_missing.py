"""Missing scores: a few cost nothing, more of them count as the worst ones, and none hides a bad answer."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from ragstone.evaluation.manifest import Manifest
from ragstone.evaluation.scores import RunScores
from ragstone.gate.decide import decide_gate
from ragstone.gate.policy import policy_from_mapping
from ragstone.gate.verdict import Check, CheckKind, GateVerdict, Status
from ragstone.metrics.score import Failed, FailedBy
from ragstone.system.response import NO_CONTEXTS, NO_TEXTS

MakeRun = Callable[..., RunScores]
MakeManifest = Callable[..., Manifest]
N = 200
SCORES = [0.8 + 0.2 * float(x) for x in np.random.default_rng(1).random(N)]
RULE = {"faithfulness": {"min": 0.8, "max_drop": 0.02}}


@pytest.fixture
def scored(run: MakeRun) -> Callable[..., RunScores]:
    """A run of N samples with an answer each; `missing` have no score, and `changed` another answer."""

    def build(
        missing: Iterable[int] = (), *, by: FailedBy = "judge", changed: Iterable[int] = (), **also: Any
    ) -> RunScores:
        failed = {"faithfulness": {f"s{i}": Failed(by, "no reply") for i in missing}}
        one = run({"faithfulness": SCORES}, failed=failed, **also)
        new = set(changed)
        answers = {f"s{i}": (f"answer {i in new}",) for i in range(N)}
        return replace(one, system=replace(one.system, answers=answers))

    return build


def decided(current: RunScores, baseline: RunScores | None = None, **gate: Any) -> GateVerdict:
    return decide_gate(current, baseline, policy_from_mapping({"gate": gate, "metrics": RULE}))


def coverage(verdict: GateVerdict) -> Check:
    return next(check for check in verdict.checks if check.kind is CheckKind.COVERAGE)


def test_one_failed_judgement_costs_nothing_however_small_the_golden_set(run: MakeRun) -> None:
    failed = {"faithfulness": {"s3": Failed("judge", "no reply")}}
    for n in (10, 20, 49):
        now = run({"faithfulness": SCORES[:n]}, failed=failed)
        verdict = decided(now, run({"faithfulness": SCORES[:n]}))
        assert verdict.status is Status.PASS
        assert coverage(verdict).reason.startswith(f"faithfulness: 1 of {n} samples have no score (the judge failed")


def test_more_than_fail_by_chance_are_too_many_to_decide_on(scored: Callable[..., RunScores]) -> None:
    verdict = decided(scored(range(19)), scored())
    assert (verdict.status, verdict.exit_code) == (Status.ERROR, 5)
    assert coverage(verdict).reason == (
        "faithfulness: 19 of 200 samples have no score (the judge failed on 19: no reply): too many to decide on, "
        "because it would fail if these had the worst score."
    )
    assert decided(scored(range(19)), scored(), max_failed_judgements=0.1).status is Status.PASS


def test_a_metric_that_has_all_its_scores_is_covered(run: MakeRun) -> None:
    failed = {"faithfulness": {f"s{i}": Failed("judge", "no reply") for i in range(19)}}
    then = run({"faithfulness": SCORES, "context_recall": SCORES})
    slightly = [max(0.0, score - 0.035 * (index % 3)) for index, score in enumerate(SCORES)]
    now = run({"faithfulness": SCORES, "context_recall": slightly}, failed=failed)
    rules = policy_from_mapping({"metrics": dict.fromkeys(("faithfulness", "context_recall"), RULE["faithfulness"])})
    covered = {
        check.metric: check.status for check in decide_gate(now, then, rules).checks if check.kind is CheckKind.COVERAGE
    }
    assert covered == {"faithfulness": Status.ERROR, "context_recall": Status.PASS}


def test_however_many_are_missing_it_passes_if_the_worst_scores_would(scored: Callable[..., RunScores]) -> None:
    policy = policy_from_mapping({"metrics": {"faithfulness": {"min": 0.5, "max_drop": 0.5}}})
    assert decide_gate(scored(range(19)), scored(), policy).status is Status.PASS


def test_a_policy_sets_the_line_below_which_it_is_an_error(scored: Callable[..., RunScores]) -> None:
    assert decided(scored(range(5)), scored()).status is Status.PASS
    verdict = decided(scored(range(5)), scored(), min_coverage=0.98)
    assert verdict.exit_code == 5
    assert "coverage 97.5 %, required 98 %" in verdict.reason


def test_judgements_that_fail_on_the_answers_that_changed_hide_nothing(scored: Callable[..., RunScores]) -> None:
    # The same number is left out where it is spread over answers that changed and answers that did not.
    bad = range(12)
    assert decided(scored(bad, changed=range(0, N, 2)), scored()).status is Status.PASS
    verdict = decided(scored(bad, changed=range(15)), scored())
    assert verdict.status in (Status.ERROR, Status.INCONCLUSIVE)
    assert "if these had the worst score" in verdict.reason


def test_nor_do_those_of_a_slice(run: MakeRun) -> None:
    tags = {f"s{i}": ("billing",) for i in range(12)}
    failed = {"faithfulness": {f"s{i}": Failed("judge", "no reply") for i in range(6)}}
    rules = {"metrics": RULE, "slices": {"billing": {"metrics": {"faithfulness": {"max_drop": 0.05}}}}}
    then = run({"faithfulness": SCORES}, tags=tags)
    verdict = decide_gate(run({"faithfulness": SCORES}, tags=tags, failed=failed), then, policy_from_mapping(rules))
    (check,) = (one for one in verdict.checks if one.kind is CheckKind.COVERAGE and one.slice == "billing")
    assert check.status is not Status.PASS
    assert check.reason.startswith("faithfulness on 'billing': 6 of 12 samples have no score")
    elsewhere = {"faithfulness": {f"s{i}": Failed("judge", "no reply") for i in range(20, 26)}}
    other = decide_gate(run({"faithfulness": SCORES}, tags=tags, failed=elsewhere), then, policy_from_mapping(rules))
    assert other.status is Status.PASS


def test_what_the_system_gave_no_answer_to_counts_from_the_first(scored: Callable[..., RunScores]) -> None:
    verdict = decided(scored(range(10), by="system"), scored())
    assert (verdict.status, verdict.exit_code) == (Status.FAIL, 1), "and no failure of the judge"
    assert "(the system under test failed on 10: no reply): too many to decide on" in verdict.reason
    assert decided(scored(range(10)), scored()).status is Status.PASS


def test_but_not_what_the_system_of_the_baseline_gave_no_answer_to_either(scored: Callable[..., RunScores]) -> None:
    then = scored(range(10), by="system")
    assert decided(scored(range(10), by="system"), then).status is Status.PASS
    assert decided(scored(range(5, 15), by="system"), then).status is Status.PASS
    assert decided(scored(range(10, 20), by="system"), scored()).status is not Status.PASS


def test_the_offline_judge_never_fails_by_chance(scored: Callable[..., RunScores], manifest: MakeManifest) -> None:
    offline, model = (manifest(provider=name) for name in ("offline", "openai"))
    assert decided(scored(range(10), manifest=model), scored(manifest=model)).status is Status.PASS
    assert decided(scored(range(10), manifest=offline), scored(manifest=offline)).status is Status.ERROR


def test_a_run_that_fails_on_the_scores_it_has_fails(run: MakeRun) -> None:
    failed = {"faithfulness": {f"s{i}": Failed("judge", "no reply") for i in range(19)}}
    verdict = decided(run({"faithfulness": [0.3] * N}, failed=failed), run({"faithfulness": SCORES}))
    assert (verdict.status, verdict.exit_code) == (Status.FAIL, 1)


def test_where_less_is_better_the_worst_score_is_1(run: MakeRun) -> None:
    rules = policy_from_mapping({"metrics": {"noise_sensitivity": {"max_rise": 0.02}}})
    low = [1.0 - score for score in SCORES]
    failed = {"noise_sensitivity": {f"s{i}": Failed("judge", "no reply") for i in range(19)}}
    verdict = decide_gate(run({"noise_sensitivity": low}, failed=failed), run({"noise_sensitivity": low}), rules)
    assert verdict.status is Status.ERROR


def test_a_metric_that_only_the_baseline_has_is_no_pass(run: MakeRun) -> None:
    then = run({"faithfulness": SCORES, "context_recall": SCORES, "politeness": SCORES})
    excused = {f"s{i}": "the sample has no reference" for i in range(N)}
    now = run({"faithfulness": SCORES, "context_recall": []}, not_applicable={"context_recall": excused})
    verdict = decide_gate(now, then, policy_from_mapping({}))
    assert verdict.status is Status.INCONCLUSIVE
    lost = [check for check in verdict.checks if check.kind is CheckKind.COVERAGE and check.status is not Status.PASS]
    assert [check.metric for check in lost] == ["context_recall", "politeness"]
    assert lost[0].reason == "context_recall: the baseline has 200 scores, this run none: its drop was not checked."
    assert lost[0].reason in verdict.reason
    assert decide_gate(then, now, policy_from_mapping({})).status is Status.PASS


@pytest.mark.parametrize("reason", [NO_TEXTS, NO_CONTEXTS])
def test_a_system_that_no_longer_returns_the_contexts_it_is_judged_by_is_blocked(run: MakeRun, reason: str) -> None:
    """Else whoever returns no contexts, or their names alone, would not be measured, and pass."""
    scores = {"faithfulness": SCORES, "answer_relevancy": SCORES}
    now = run(
        {"faithfulness": [], "answer_relevancy": SCORES},
        not_applicable={"faithfulness": {f"s{i}": reason for i in range(N)}},
    )
    verdict = decide_gate(now, run(scores), policy_from_mapping({}))
    assert (verdict.status, verdict.exit_code) == (Status.FAIL, 1)
    assert f"the system under test failed on {N}: {reason}" in verdict.reason
    other, warn = {"answer_relevancy": {"max_drop": 0.05}}, {"faithfulness": {"action": "warn"}}
    for gate, metrics in (({"only_named": True}, other), ({}, warn)):
        moved = policy_from_mapping({"gate": gate, "metrics": metrics})
        assert decide_gate(now, run(scores), moved).exit_code == 0
    assert decide_gate(now, now, policy_from_mapping({})).exit_code == 0


def test_bad_answers_are_not_taken_out_of_a_mean_by_returning_them_without_texts(run: MakeRun) -> None:
    bad = {f"s{i}": NO_TEXTS for i in range(19)}
    now = run({"faithfulness": [0.0] * 19 + SCORES[19:]}, not_applicable={"faithfulness": bad})
    kept = replace(now.metrics["faithfulness"], values={f"s{i}": SCORES[i] for i in range(19, N)})
    verdict = decided(replace(now, metrics={"faithfulness": kept}), run({"faithfulness": SCORES}))
    assert (verdict.status, verdict.exit_code) == (Status.FAIL, 1)


def test_another_reason_for_no_score_is_no_failure_of_the_system(run: MakeRun) -> None:
    excused = dict.fromkeys((f"s{i}" for i in range(19)), "the answer abstains")
    now = run({"faithfulness": SCORES}, not_applicable={"faithfulness": excused})
    kept = replace(now.metrics["faithfulness"], values={f"s{i}": SCORES[i] for i in range(19, N)})
    now = replace(now, metrics={"faithfulness": kept})
    assert decided(now, run({"faithfulness": SCORES})).status is Status.PASS


def test_a_metric_that_the_policy_does_not_name_may_go(run: MakeRun) -> None:
    then = run({"faithfulness": SCORES, "politeness": SCORES})
    now = run({"faithfulness": SCORES})
    assert decided(now, then, only_named=True).status is Status.PASS
    assert decided(now, then).status is Status.INCONCLUSIVE, "politeness has its default rule"
