"""Does an edit of the golden set take too many questions out of the comparison, or hide that they got worse?"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from ragstone.evaluation.scores import RunScores
from ragstone.gate.accepted import AcceptedEntry, InForce, Offer, offers
from ragstone.gate.checks.registry import key_of_check
from ragstone.gate.comparability import with_ids_of
from ragstone.gate.decide import decide_gate
from ragstone.gate.eligibility import eligibility
from ragstone.gate.policy import Policy, policy_from_mapping
from ragstone.gate.verdict import Check, CheckKind, GateVerdict, Status
from tests.gate.conftest import build_run, make_manifest

N = 100


def run(scores: Sequence[float], *, reworded: int = 0, offset: int = 0, metric: str = "faithfulness") -> RunScores:
    """A run whose first `reworded` questions are not those that the others of these tests ask."""
    ids = range(offset, offset + len(scores))
    hashes = {f"s{number}": f"{'another' if number < offset + reworded else 'question'} {number}" for number in ids}
    return build_run({metric: scores}, manifest=make_manifest(), hashes=hashes, offset=offset)


def policy_of(*, accepted: Offer | None = None, max_drop: float = 0.05, **gate: object) -> Policy:
    policy = policy_from_mapping({"gate": gate, "metrics": {"faithfulness": {"max_drop": max_drop}}})
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
    return policy.with_accepted(InForce((entry,)))


def decided(now: RunScores, then: RunScores, **policy: Any) -> tuple[GateVerdict, dict[str, Check]]:
    verdict = decide_gate(now, then, policy_of(**policy))
    return verdict, {check.name: check for check in verdict.checks if check.kind is CheckKind.GOLDEN_SET}


def test_questions_that_broke_can_not_be_removed_in_the_same_change() -> None:
    then = run([1.0] * N)
    verdict, checks = decided(run([1.0] * 82, offset=18), then)
    assert (verdict.status, verdict.exit_code) == (Status.ERROR, 6)
    check = checks["golden_set.edited"]
    assert verdict.reason == check.reason
    assert check.reason.startswith("18 of 100 questions of the baseline can't be compared")
    assert "18 removed or turned into drafts (18 %, at most 5 % may)" in check.reason
    assert key_of_check(check) == ("gate", "max_edited")
    assert not eligibility(verdict)[0], "or what was removed would never be compared again"


@pytest.mark.parametrize(
    ("n", "edited", "code"),
    [(100, 5, 0), (100, 6, 6), (39, 1, 0), (39, 2, 6), (40, 2, 0), (15, 1, 0), (15, 2, 6), (2, 1, 0)],
)
@pytest.mark.parametrize("how", ["removed", "reworded"])
def test_a_twentieth_may_be_edited_and_one_question_always(n: int, edited: int, code: int, how: str) -> None:
    then = run([0.9] * n)
    now = run([0.9] * (n - edited), offset=edited) if how == "removed" else run([0.9] * n, reworded=edited)
    verdict, checks = decided(now, then)
    assert verdict.exit_code == code
    assert ("golden_set.edited" in checks) is (code == 6)


def test_a_golden_set_of_another_question_is_not_compared_with_anything() -> None:
    verdict, _ = decided(run([0.9], reworded=1), run([0.9]))
    assert verdict.exit_code == 6
    [offer] = offers(verdict.checks, policy_of().gate)
    assert decided(run([0.9], reworded=1), run([0.9]), accepted=offer)[0].exit_code == 0


@pytest.mark.parametrize(("max_edited", "code"), [(0.0, 0), (0.1, 0), (0.09, 6)])
def test_the_policy_sets_the_share(max_edited: float, code: int) -> None:
    edited = 1 if max_edited == 0.0 else 10
    assert decided(run([0.9] * N, reworded=edited), run([0.9] * N), max_edited=max_edited)[0].exit_code == code


def test_new_questions_are_no_edit() -> None:
    verdict, checks = decided(run([0.9] * 150), run([0.9] * N))
    assert (verdict.exit_code, checks) == (0, {})


def test_an_edit_counts_as_much_under_a_policy_that_refuses_any_difference() -> None:
    _, checks = decided(run([0.9] * 80, offset=20), run([0.9] * N), unmatched="refuse")
    assert "golden_set.edited" in checks
    assert not decided(run([0.9] * 97, offset=3), run([0.9] * N), unmatched="refuse")[1]


def test_what_to_accept_is_offered_and_does() -> None:
    now, then = run([0.9] * 68, offset=32), run([0.9] * N)
    verdict, checks = decided(now, then)
    assert "ragstone accept --metric 'golden set'" in checks["golden_set.edited"].reason
    [offer] = offers(verdict.checks, policy_of().gate)
    assert (offer.metric, offer.slice, offer.drop) == ("golden set", None, 0.32)
    assert decided(now, then, accepted=offer)[0].status is Status.PASS


@pytest.mark.attack(
    by="pull request",
    tries="spend an accepted edit of the golden set on other questions or words",
    stopped_by="the entry allows that edit alone",
)
@pytest.mark.parametrize(
    "now",
    [
        run([0.9] * 60, offset=40),
        run([0.9] * 67 + [0.1], offset=31),
        build_run(
            {"faithfulness": [0.9] * N},
            manifest=make_manifest(),
            hashes={f"s{number}": f"{'third' if number < 32 else 'question'} {number}" for number in range(N)},
        ),
        run([0.9] * (N - 32)),
    ],
    ids=["more are removed", "one comes back broken", "the same are worded in a third way", "others are removed"],
)
def test_an_accepted_edit_is_of_those_questions_and_words(now: RunScores) -> None:
    then = run([0.9] * N)
    verdict, _ = decided(run([0.9] * N, reworded=32), then)
    [offer] = offers(verdict.checks, policy_of().gate)
    assert decided(run([0.9] * N, reworded=32), then, accepted=offer)[0].exit_code == 0
    other, checks = decided(now, then, accepted=offer)
    assert other.exit_code == 6
    assert "aaaaaaaa accepts another edit." in checks["golden_set.edited"].reason


def test_questions_that_were_reworded_as_they_broke_are_compared_as_a_group() -> None:
    then = run([1.0] * 400)
    verdict, checks = decided(run([0.0] * 18 + [1.0] * 382, reworded=18), then)
    check = checks["golden_set.fell"]
    assert (verdict.status, check.status) == (Status.INCONCLUSIVE, Status.INCONCLUSIVE)
    assert check.reason.startswith("18 edited questions scored better before the edit: faithfulness 1.00 → 0.00.")
    assert (check.baseline, check.current, check.n) == (1.0, 0.0, 18)


@pytest.mark.parametrize(
    ("scores", "n"),
    [([1.0] * 18, 18), ([0.98] * 18, 18), ([0.9, *[1.0] * 17], 18), ([0.0], 1)],
    ids=["as before", "within the drop that is allowed", "one a little", "a single one"],
)
def test_edited_questions_that_did_not_fall_as_a_drop_would_be_seen_pass(scores: list[float], n: int) -> None:
    verdict, checks = decided(run([*scores, *[1.0] * (400 - n)], reworded=n), run([1.0] * 400))
    assert (verdict.status, checks) == (Status.PASS, {})


def test_two_questions_that_fell_to_nothing_are_enough() -> None:
    _, checks = decided(run([0.0] * 2 + [1.0] * 98, reworded=2), run([1.0] * N))
    assert checks["golden_set.fell"].status is Status.INCONCLUSIVE


def test_where_less_is_better_a_rise_counts_and_is_shown_as_it_is() -> None:
    then = run([0.0] * N, metric="hallucination")
    now = run([0.9] * 5 + [0.0] * 95, reworded=5, metric="hallucination")
    policy = policy_from_mapping({"metrics": {"hallucination": {"max_rise": 0.05}}})
    [check] = [check for check in decide_gate(now, then, policy).checks if check.kind is CheckKind.GOLDEN_SET]
    assert "hallucination 0.00 → 0.90" in check.reason


def test_a_metric_that_only_warns_raises_no_doubt() -> None:
    policy = policy_from_mapping({"metrics": {"faithfulness": {"max_drop": 0.05, "action": "warn"}}})
    now, then = run([0.0] * 5 + [1.0] * 95, reworded=5), run([1.0] * N)
    assert not [check for check in decide_gate(now, then, policy).checks if check.kind is CheckKind.GOLDEN_SET]


def test_a_doubt_that_blocks_can_be_accepted() -> None:
    now, then = run([0.0] * 5 + [1.0] * 95, reworded=5), run([1.0] * N)
    verdict, _ = decided(now, then, inconclusive="fail")
    assert verdict.exit_code == 8
    [offer] = offers(verdict.checks, policy_of(inconclusive="fail").gate)
    assert (offer.metric, offer.drop) == ("golden set", 0.05)
    assert decided(now, then, inconclusive="fail", accepted=offer)[0].exit_code == 0


def test_ids_that_were_swapped_hide_nothing() -> None:
    """A question that broke takes the id of a healthy one, which takes the id that must pass."""
    then = run([1.0] * N)
    swapped = run([1.0] + [0.0] * 9 + [1.0] * 90)
    facts = dict(swapped.samples)
    for number in range(1, 10):  # what is asked under these ids was asked under others, and reversed
        other = f"s{N - number}"
        mine = facts[f"s{number}"]
        facts[f"s{number}"], facts[other] = facts[other], mine
    now = replace(swapped, samples=facts)
    named, ids = with_ids_of(now, then)
    assert ids == {**{f"s{n}": f"s{N - n}" for n in range(1, 10)}, **{f"s{N - n}": f"s{n}" for n in range(1, 10)}}
    verdict, checks = decided(now, named)
    assert not checks, "each question is compared with itself"
    assert verdict.status is Status.FAIL
