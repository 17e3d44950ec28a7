"""Is a run compared on enough of its baseline, or does an edit of the golden set, or a starved base, hide a loss?"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from ragstone.evaluation.scores import RunScores, SystemFacts, fingerprint
from ragstone.gate.accepted import AcceptedEntry, EntriesInForce, Offer, offers
from ragstone.gate.checks.registry import key_of_check
from ragstone.gate.decide import decide_gate
from ragstone.gate.eligibility import eligibility
from ragstone.gate.policy import Policy, policy_from_mapping
from ragstone.gate.verdict import Check, CheckKind, GateVerdict, Status
from tests.gate.conftest import build_run, check_of, checks_of, decide, failed, make_manifest, named

N = 100


def run(scores: Sequence[float], *, reworded: int = 0, offset: int = 0, metric: str = "faithfulness") -> RunScores:
    """A run whose first `reworded` questions are not those that the others of these tests ask."""
    ids = range(offset, offset + len(scores))
    hashes = {f"s{number}": f"{'another' if number < offset + reworded else 'question'} {number}" for number in ids}
    return build_run({metric: scores}, manifest=make_manifest(), hashes=hashes, offset=offset)


def policy_of(*, accepted: Offer | None = None, **gate: object) -> Policy:
    policy = policy_from_mapping({"gate": gate, "metrics": {"faithfulness": {"max_drop": 0.05}}})
    if accepted is None:
        return policy
    entry = AcceptedEntry(
        id="a" * 8,
        metric="golden set",
        drop=accepted.drop,
        edit=accepted.edit,
        reason="meant",
        run="a" * 16,
        baseline="b" * 16,
        date=datetime.date(2026, 11, 21),
    )
    return policy.with_accepted(EntriesInForce((entry,)))


def edits(now: RunScores, then: RunScores, **policy: Any) -> tuple[GateVerdict, dict[str, Check]]:
    verdict = decide_gate(now, then, policy_of(**policy))
    return verdict, {check.name: check for check in checks_of(verdict, CheckKind.GOLDEN_SET)}


def test_questions_that_broke_can_not_be_removed_in_the_same_change() -> None:
    verdict, checks = edits(run([1.0] * 82, offset=18), run([1.0] * N))
    assert (verdict.status, verdict.exit_code) == (Status.ERROR, 6)
    check = checks["golden_set.edited"]
    assert verdict.reason == check.reason
    assert check.reason.startswith("18 of 100 questions of the baseline can't be compared")
    assert "18 of 100 questions of the baseline can't be compared" in check.reason
    assert "(18 %, at most 5 % may)" in check.reason
    assert "ragstone accept --metric 'golden set'" in check.reason
    assert key_of_check(check) == ("gate", "max_edited")
    assert not eligibility(verdict)[0], "or what was removed would never be compared again"


@pytest.mark.parametrize(
    ("n", "edited", "gate", "code"),
    [
        (100, 5, {}, 0),
        (100, 6, {}, 6),
        (39, 2, {}, 6),
        (40, 2, {}, 0),
        (2, 1, {}, 0),
        (1, 1, {}, 6),
        (100, 1, {"max_edited": 0.0}, 0),
        (100, 10, {"max_edited": 0.1}, 0),
        (100, 10, {"max_edited": 0.09}, 6),
    ],
)
@pytest.mark.parametrize("how", ["removed", "reworded"])
def test_a_twentieth_may_be_edited_and_one_question_always(n: int, edited: int, gate: Any, code: int, how: str) -> None:
    now = run([0.9] * (n - edited), offset=edited) if how == "removed" else run([0.9] * n, reworded=edited)
    if n == edited and how == "removed":
        now = run([0.9], offset=n)
    verdict, checks = edits(now, run([0.9] * n), **gate)
    assert verdict.exit_code == code
    assert ("golden_set.edited" in checks) is (code == 6)
    if code:
        [offer] = offers(verdict.checks, policy_of().gate)
        assert (offer.metric, offer.slice) == ("golden set", None)
        assert offer.drop == pytest.approx(edited / n, abs=1e-4)
        assert not edits(now, run([0.9] * n), accepted=offer, **gate)[1]


def test_new_questions_are_no_edit() -> None:
    verdict, checks = edits(run([0.9] * 150), run([0.9] * N))
    assert (verdict.exit_code, checks) == (0, {})


@pytest.mark.parametrize(("limit", "removed", "edited"), [(20, 80, 0), (20, 82, 2), (100, 80, 80)])
def test_what_a_limit_left_out_is_no_edit(limit: int, removed: int, edited: int) -> None:
    golden = make_manifest().golden.model_copy(update={"samples": limit, "limited": True})
    now = run([0.9] * (N - removed), offset=removed)
    now = replace(now, manifest=make_manifest().model_copy(update={"golden": golden}))
    _, checks = edits(now, run([0.9] * N))
    total = 20 if limit == 20 else N
    assert [check.reason.partition(" of the")[0] for check in checks.values()] == (
        [f"{edited} of {total} questions"] if edited else []
    )


THIRD = {f"s{number}": f"{'third' if number < 32 else 'question'} {number}" for number in range(N)}


@pytest.mark.attack(
    by="pull request", tries="reuse an accepted edit of the golden set", stopped_by="accepts that edit alone"
)
@pytest.mark.parametrize(
    "now",
    [
        run([0.9] * 60, offset=40),
        run([0.9] * 67 + [0.1], offset=31),
        build_run({"faithfulness": [0.9] * N}, manifest=make_manifest(), hashes=THIRD),
        run([0.9] * (N - 32)),
    ],
    ids=["more are removed", "one comes back broken", "the same are worded in a third way", "others are removed"],
)
def test_an_accepted_edit_is_of_those_questions_and_words(now: RunScores) -> None:
    then = run([0.9] * N)
    verdict, _ = edits(run([0.9] * N, reworded=32), then)
    [offer] = offers(verdict.checks, policy_of().gate)
    assert edits(run([0.9] * N, reworded=32), then, accepted=offer)[0].exit_code == 0
    assert edits(now, then, accepted=offer)[0].exit_code == 6


@pytest.mark.parametrize(
    ("scores", "n", "metric", "rule", "moved"),
    [
        ([0.0] * 2, 2, "faithfulness", {"max_drop": 0.05}, "faithfulness 1.00 → 0.00"),
        ([0.1] * 5, 5, "hallucination", {"max_rise": 0.05}, "hallucination 0.00 → 0.90"),
        ([0.0], 1, "faithfulness", {"max_drop": 0.05}, None),  # it may have become a harder one
        ([0.6] * 2, 2, "faithfulness", {"max_drop": 0.05}, None),
        ([0.9, *[1.0] * 17], 18, "faithfulness", {"max_drop": 0.05}, None),
        ([0.0] * 5, 5, "faithfulness", {"max_drop": 0.05, "action": "warn"}, None),
    ],
)
def test_reworded_questions_that_fell(scores: list[float], n: int, metric: str, rule: Any, moved: str | None) -> None:
    def shown(values: list[float]) -> list[float]:
        return [round(1.0 - value, 6) for value in values] if metric == "hallucination" else values

    now = run(shown([*scores, *[1.0] * (400 - n)]), reworded=n, metric=metric)
    verdict = decide(now, run(shown([1.0] * 400), metric=metric), metrics={metric: rule})
    checks = checks_of(verdict, CheckKind.GOLDEN_SET)
    assert [check.status for check in checks] == [Status.INCONCLUSIVE] * (moved is not None)
    if moved is not None:
        assert checks[0].name == "golden_set.fell"
        assert checks[0].reason.startswith(f"{n} edited questions scored better before the edit: {moved}.")
        assert checks[0].n == n


def test_a_doubt_that_blocks_can_be_accepted() -> None:
    now, then = run([0.0] * 5 + [1.0] * 95, reworded=5), run([1.0] * N)
    verdict, _ = edits(now, then, inconclusive="fail")
    assert verdict.exit_code == 8
    [offer] = offers(verdict.checks, policy_of(inconclusive="fail").gate)
    assert (offer.metric, offer.drop) == ("golden set", 0.05)
    assert edits(now, then, inconclusive="fail", accepted=offer)[0].exit_code == 0


# -- a base that failed ------------------------------------------------------------------------------------------------

GOOD = run([0.9] * 40)


def starved(lost: int) -> RunScores:
    """A baseline whose system failed on the first samples."""
    why = "timeout: no connection"
    found = build_run(
        {"faithfulness": [0.9] * 40},
        failed={"faithfulness": failed(named(lost), "system", why)},
        system_failures=dict.fromkeys(named(lost), why),
        manifest=make_manifest(),
    )
    return replace(found, samples=GOOD.samples)


UNSCORED = replace(
    build_run(
        {"faithfulness": [0.9] * 40, "mrr": [0.9] * 10},
        failed={"faithfulness": failed(named(20), why="down")},
        manifest=make_manifest(),
    ),
    samples=GOOD.samples,
)


@pytest.mark.attack(
    by="pull request", tries="remove or change failing samples", stopped_by="exit code 6, unless accepted"
)
@pytest.mark.parametrize(
    ("now", "then", "gate", "says"),
    [
        pytest.param(GOOD, starved(8), {}, "", id="just enough"),
        pytest.param(GOOD, starved(9), {}, "failed on 9", id="one too few"),
        pytest.param(GOOD, starved(40), {}, "failed on 40", id="none"),
        pytest.param(GOOD, starved(36), {"min_paired": 0.0}, "", id="any will do"),
        pytest.param(GOOD, starved(36), {"min_paired": 0.1}, "", id="a tenth"),
        pytest.param(GOOD, starved(36), {"min_paired": 0.11}, "required 11 %", id="more than a tenth"),
        pytest.param(GOOD, starved(1), {"min_paired": 1.0}, "required 100 %", id="each"),
        pytest.param(GOOD, UNSCORED, {}, "10 have no score there", id="not scored by any metric"),
        pytest.param(run([0.9] * 400), GOOD, {}, "", id="new samples"),
    ],
)
def test_a_comparison_on_too_few_samples(now: RunScores, then: RunScores, gate: dict[str, Any], says: str) -> None:
    verdict = decide_gate(now, then, policy_of(**gate))
    assert verdict.exit_code == (6 if says else 0)
    assert [says in check.reason for check in checks_of(verdict, CheckKind.PAIRED)] == [True] * bool(says)


@pytest.mark.parametrize("inconclusive", ["pass", "fail"])
def test_whose_system_failed_is_said(inconclusive: str) -> None:
    verdict = decide_gate(GOOD, starved(36), policy_of(inconclusive=inconclusive))
    reason = check_of(verdict, CheckKind.PAIRED).reason
    assert (verdict.status, verdict.exit_code) == (Status.ERROR, 6)
    assert "only 4 of 40 samples" in reason
    assert "(10 %, required 80 %)" in reason
    assert "the baseline's system failed on 36 (most often: timeout: no connection)" in reason
    assert not eligibility(verdict)[0], "or a starved comparison would be the next baseline"


def test_it_ends_with_6_also_when_the_answers_fail_any_policy() -> None:
    """Otherwise `fail_on = "never"` would let pass what a starved base hides."""
    answers = SystemFacts(answers={name: (fingerprint(f"answer {name}"),) for name in named(40)})
    verdict = decide_gate(replace(run([0.1] * 40), system=answers), starved(36), policy_of())
    assert any(check.failed for check in checks_of(verdict, CheckKind.ANSWERS)), "or nothing could hide the other"
    assert (verdict.status, verdict.exit_code) == (Status.ERROR, 6)
    assert verdict.reason.startswith(check_of(verdict, CheckKind.PAIRED).reason)


def test_an_accepted_edit_does_not_cover_a_base_that_failed() -> None:
    few = run([0.9] * 20)  # 20 are gone, and of the others the baseline's system failed on 10
    verdict = decide_gate(few, starved(10), policy_of())
    assert not list(offers(verdict.checks, policy_of().gate)), "to accept the edit would not be enough"
    edit = check_of(verdict, CheckKind.GOLDEN_SET).edit
    accepted = decide_gate(few, starved(10), policy_of(accepted=Offer("golden set", None, 0.5, edit)))
    assert accepted.exit_code == 6
    reason = check_of(accepted, CheckKind.PAIRED).reason
    assert "only 10 of 20 samples" in reason
    assert "ragstone accept" not in reason
