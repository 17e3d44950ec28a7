"""Missing scores: a few cost nothing, more of them count as the worst ones, and none hides a bad answer."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from ragstone.evaluation.scores import RunScores
from ragstone.gate.verdict import CheckKind, GateVerdict, Status
from ragstone.metrics.score import FailedBy
from ragstone.system.response import NO_CONTEXTS, NO_TEXTS
from tests.gate.conftest import build_run, checks_of, decide, failed, make_manifest, named

N = 200
SCORES = [0.8 + 0.2 * float(x) for x in np.random.default_rng(1).random(N)]
OFFLINE = make_manifest(provider="offline")
RULE = {"min": 0.8, "max_drop": 0.02}
NOISE = "noise_sensitivity"


def scored(
    missing: Iterable[int] = (), *, by: FailedBy = "judge", changed: Iterable[int] = (), **also: Any
) -> RunScores:
    """A run of N samples with an answer each; `missing` have no score, and `changed` another answer."""
    lost = {"faithfulness": failed((f"s{i}" for i in missing), by)}
    new = set(changed)
    one = build_run({"faithfulness": SCORES}, failed=lost, **also)
    answers: dict[str, tuple[str, ...]] = {name: (f"answer {i in new}",) for i, name in enumerate(named(N))}
    return replace(one, system=replace(one.system, answers=answers))


def decided(now: RunScores, then: RunScores | None = None, metrics: Any = None, **gate: Any) -> GateVerdict:
    return decide(now, then, gate=gate, metrics=metrics or {"faithfulness": RULE})


@pytest.mark.parametrize("n", [10, 49])
def test_one_failed_judgement_costs_nothing_however_small_the_golden_set(n: int) -> None:
    now = build_run({"faithfulness": SCORES[:n]}, failed={"faithfulness": failed(["s3"])})
    verdict = decided(now, build_run({"faithfulness": SCORES[:n]}))
    assert verdict.status is Status.PASS
    (coverage,) = checks_of(verdict, CheckKind.COVERAGE)
    assert f"1 of {n} samples have no score (most often: the judge failed" in coverage.reason


BY_SYSTEM = scored(range(10), by="system")
MODEL = make_manifest()


@pytest.mark.attack(
    by="pull request",
    tries="bad answers that can't be judged",
    stopped_by="count as the worst score. **Not prevented**: `max_failed_judgements` leaves some out",
)
@pytest.mark.parametrize(
    ("now", "then", "gate", "codes", "says"),
    [
        pytest.param(scored(range(19)), scored(), {}, {5}, "the judge failed: no reply", id="more than chance"),
        pytest.param(scored(range(19)), scored(), {"max_failed_judgements": 0.1}, {0}, "", id="the policy allows more"),
        pytest.param(scored(range(5)), scored(), {"min_coverage": 0.98}, {5}, "97.5 %, required 98 %", id="a line"),
        pytest.param(scored(range(4)), scored(), {"min_coverage": 0.98}, {0}, "", id="just enough"),
        # The same number is left out where it is spread over answers that changed and answers that did not.
        pytest.param(scored(range(12), changed=range(0, N, 2)), scored(), {}, {0}, "", id="of any answers"),
        pytest.param(scored(range(12), changed=range(15)), scored(), {}, {0, 5}, "worst score", id="of changed ones"),
        pytest.param(scored(range(10)), scored(), {}, {0}, "", id="the judge's own"),
        pytest.param(BY_SYSTEM, scored(), {}, {1}, "the system under test failed: no reply", id="the system's"),
        pytest.param(BY_SYSTEM, BY_SYSTEM, {}, {0}, "", id="the system's as before"),
        pytest.param(scored(range(10), manifest=MODEL), scored(manifest=MODEL), {}, {0}, "", id="a language model's"),
        pytest.param(scored(range(10), manifest=OFFLINE), scored(manifest=OFFLINE), {}, {5}, "", id="never offline"),
    ],
)
def test_missing_scores(now: RunScores, then: RunScores, gate: dict[str, Any], codes: set[int], says: str) -> None:
    verdict = decided(now, then, **gate)
    assert verdict.exit_code in codes
    assert says in verdict.reason
    assert (verdict.status is Status.PASS) is (not says and codes == {0})


def noisy(lost: int) -> RunScores:
    return build_run({NOISE: [0.1] * N}, failed={NOISE: failed(named(lost))})


@pytest.mark.parametrize(
    ("now", "then", "metrics", "status", "code"),
    [
        pytest.param(scored(range(200)), scored(), {"faithfulness": {"min": 0.1}}, "error", 5, id="no score at all"),
        pytest.param(noisy(19), noisy(0), {NOISE: {"max_rise": 0.02}}, "error", 5, id="1 is worst if less is better"),
    ],
)
def test_what_the_worst_scores_decide(now: RunScores, then: RunScores, metrics: Any, status: str, code: int) -> None:
    verdict = decided(now, then, metrics)
    assert (verdict.status, verdict.exit_code) == (status, code)


def test_nor_do_missing_scores_of_a_slice_hide_a_loss() -> None:
    tags = dict.fromkeys(named(12), ("billing",))
    part = {"billing": {"metrics": {"faithfulness": {"max_drop": 0.05}}}}

    def verdict(lost: list[str]) -> GateVerdict:
        now = build_run({"faithfulness": SCORES}, tags=tags, failed={"faithfulness": failed(lost)})
        then = build_run({"faithfulness": SCORES}, tags=tags)
        return decide(now, then, metrics={"faithfulness": RULE}, slices=part)

    (check,) = (one for one in checks_of(verdict(named(6)), CheckKind.COVERAGE) if one.slice == "billing")
    assert check.status is not Status.PASS
    assert check.reason.startswith("faithfulness on 'billing': 6 of 12 samples have no score")
    assert verdict(named(6, 20)).status is Status.PASS


EXCUSED = build_run(
    {"faithfulness": SCORES, "context_recall": []},
    not_applicable={"context_recall": dict.fromkeys(named(N), "the sample has no reference")},
)


def test_a_metric_that_only_the_baseline_has_is_no_pass() -> None:
    then = build_run({"faithfulness": SCORES, "context_recall": SCORES, "politeness": SCORES})
    verdict = decide(EXCUSED, then)
    assert verdict.status is Status.INCONCLUSIVE
    lost = [check for check in checks_of(verdict, CheckKind.COVERAGE) if check.status is not Status.PASS]
    assert [check.metric for check in lost] == ["context_recall", "politeness"]
    assert lost[0].reason == "context_recall: the baseline has 200 scores, this run none: its drop was not checked."
    assert lost[0].reason in verdict.reason
    assert decide(then, EXCUSED).status is Status.PASS
    few = build_run({"faithfulness": SCORES, "politeness": SCORES[:4]})
    assert decide(build_run({"faithfulness": SCORES}), few).status is Status.PASS, "four are no argument"
    five = build_run({"faithfulness": SCORES, "politeness": SCORES[:5]})
    assert decide(build_run({"faithfulness": SCORES}), five).status is Status.INCONCLUSIVE
    assert decided(build_run({"faithfulness": SCORES}), five, only_named=True).status is Status.PASS


@pytest.mark.parametrize("reason", [NO_TEXTS, NO_CONTEXTS])
def test_a_system_that_no_longer_returns_the_contexts_it_is_judged_by_is_blocked(reason: str) -> None:
    """Else whoever returns no contexts, or their names alone, would not be measured, and pass."""
    then = build_run({"faithfulness": SCORES, "answer_relevancy": SCORES})
    now = build_run(
        {"faithfulness": [], "answer_relevancy": SCORES},
        not_applicable={"faithfulness": dict.fromkeys(named(N), reason)},
    )
    verdict = decide(now, then)
    assert (verdict.status, verdict.exit_code) == (Status.FAIL, 1)
    assert f"the system under test failed: {reason}" in verdict.reason
    other, warn = {"answer_relevancy": {"max_drop": 0.05}}, {"faithfulness": {"action": "warn"}}
    for gate, metrics in (({"only_named": True}, other), ({}, warn)):
        assert decided(now, then, metrics, **gate).exit_code == 0
    assert decide(now, now).exit_code == 0


@pytest.mark.parametrize(("reason", "status"), [(NO_TEXTS, Status.FAIL), ("the answer abstains", Status.PASS)])
def test_bad_answers_are_not_taken_out_of_a_mean_by_returning_them_without_texts(reason: str, status: Status) -> None:
    now = build_run({"faithfulness": SCORES}, not_applicable={"faithfulness": dict.fromkeys(named(19), reason)})
    values = {name: SCORES[i] for i, name in enumerate(named(N)) if i >= 19}
    now = replace(now, metrics={"faithfulness": replace(now.metrics["faithfulness"], values=values)})
    assert decided(now, build_run({"faithfulness": SCORES})).status is status


@pytest.mark.parametrize("is_selection", [True, False])
def test_a_metric_that_applies_to_no_sample_is_an_error_unless_samples_were_chosen(is_selection: bool) -> None:
    manifest = make_manifest()
    golden = manifest.golden.model_copy(update={"selected": is_selection})
    nothing = {"mrr": dict.fromkeys(named(N), "the sample names no relevant ids")}
    run = build_run(
        {"faithfulness": SCORES, "mrr": []},
        not_applicable=nothing,
        manifest=manifest.model_copy(update={"golden": golden}),
    )
    verdict = decided(run, metrics={"faithfulness": RULE, "mrr": {"min": 0.5}})
    errors = [check for check in checks_of(verdict, CheckKind.COVERAGE) if check.status is Status.ERROR]
    assert [check.metric for check in errors] == ([] if is_selection else ["mrr"])
