"""Questions that broke: facts of a system that says the same, evidence of another."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from ragstone.evaluation.round_facts import ConfirmFacts, RoundFacts
from ragstone.evaluation.scores import RunScores, SystemFacts
from ragstone.gate.accepted import AcceptedEntry
from ragstone.gate.checks.registry import key_of_check
from ragstone.gate.confirm import doubtful_checks, is_settled
from ragstone.gate.evidence import Evidence
from ragstone.gate.policy import policy_from_mapping
from ragstone.gate.question_changes import (
    MAX_P_ASKED,
    MAX_P_SHOWN,
    MAX_P_STILL_SUSPECTED,
    MAX_P_SUSPECTED,
    MAX_P_SUSPECTED_NONE_MENDED,
    RECORDED_PREFIX,
    QuestionChanges,
    chance_of_one,
    question_changes,
    remark_on_few_questions,
)
from ragstone.gate.verdict import Check, CheckKind, GateVerdict
from tests.gate.conftest import ONLY_NAMED, build_run, check_of, decide, make_manifest, named

METRICS = {"context_recall": {"max_drop": 0.02}}


def run(
    scores: list[Any], *, steady: bool = False, answers: list[str] | None = None, times: int = 1, **more: Any
) -> RunScores:
    """A run with these scores; with `answers`, those were recorded (or given, if `times` more), from equal contexts."""
    manifest = make_manifest(answers=times)
    if answers is not None and times == 1:
        system = manifest.system.model_copy(update={"entrypoint": f"{RECORDED_PREFIX}answers.jsonl"})
        manifest = manifest.model_copy(update={"system": system})
    built = build_run({"context_recall": scores}, manifest=manifest, **more)
    built = replace(built, rounds=RoundFacts(confirm=ConfirmFacts(steady=steady)))
    if answers is None:
        return built
    given = {name: (answer,) * times for name, answer in zip(named(len(answers)), answers, strict=True)}
    return replace(built, system=replace(built.system, answers=given, contexts=dict.fromkeys(given, 1)))


def decided(now: RunScores, then: RunScores, metrics: Any = None, **gate: Any) -> tuple[GateVerdict, Check]:
    verdict = decide(now, then, metrics=metrics or METRICS, gate=ONLY_NAMED | gate)
    return verdict, check_of(verdict, CheckKind.QUESTIONS)


def flipped(broken: int, mended: int, n: int) -> tuple[list[float], list[float]]:
    """Scores before and now of `n` questions: `broken` are lost, `mended` won, the others right both times."""
    rest = [1.0] * (n - broken - mended)
    return [1.0] * broken + [0.0] * mended + rest, [0.0] * broken + [1.0] * mended + rest


WIDE = {"context_recall": {"max_drop": 0.2}}


@pytest.mark.parametrize(
    ("broken", "mended", "n", "gate", "metrics", "status"),
    [
        pytest.param(3, 0, 15, {}, METRICS, "fail", id="three of fifteen"),
        pytest.param(2, 0, 15, {}, METRICS, "inconclusive", id="two of fifteen are no pass"),
        pytest.param(1, 0, 15, {}, METRICS, "pass", id="one may be"),
        pytest.param(5, 0, 100, {}, METRICS, "pass", id="not more than the policy allows"),
        pytest.param(6, 0, 100, {}, METRICS, "fail", id="more than the policy allows"),
        pytest.param(6, 3, 100, {}, METRICS, "fail", id="three more than were mended"),
        pytest.param(6, 4, 100, {}, METRICS, "inconclusive", id="hardly more than were mended"),
        pytest.param(3, 0, 15, {"max_broken_questions": 0.2}, METRICS, "pass", id="as many as the policy says"),
        pytest.param(4, 0, 15, {"max_broken_questions": 0.2}, METRICS, "fail", id="more than the policy says"),
        pytest.param(3, 0, 15, {}, WIDE, "pass", id="as many as an allowed drop"),
        pytest.param(3, 0, 15, {"max_broken_questions": 0.0}, WIDE, "fail", id="the policy's number goes first"),
    ],
)
def test_what_a_steady_system_breaks(broken: int, mended: int, n: int, gate: Any, metrics: Any, status: str) -> None:
    before, after = flipped(broken, mended, n)
    verdict, check = decided(run(after, steady=True), run(before), metrics, **gate)
    assert check.status == status
    assert status == "pass" or verdict.status == status
    better = f"{mended} better" if mended else "none better"
    assert f"{broken} of {n} questions got worse, {better}" in check.reason
    assert not check.unsettled
    assert key_of_check(check) == ("gate", "max_broken_questions")


BEFORE, AFTER = flipped(3, 0, 15)
SAME = [f"answer {index}" for index in range(15)]
NOW = run(AFTER, answers=["another"] * 3 + SAME[3:])
TWICE_SAME = run(AFTER, answers=SAME, times=2)


def without(run: RunScores, **facts: Any) -> RunScores:
    return replace(run, system=replace(run.system, **facts))


@pytest.mark.parametrize(
    ("now", "then", "steady"),
    [
        pytest.param(NOW, run(BEFORE, answers=SAME), True, id="all others are the same"),
        pytest.param(NOW, run(BEFORE, answers=[*SAME[:13], "so", "so"]), False, id="two of twelve others are not"),
        pytest.param(NOW, run(BEFORE, answers=[*SAME[:14], "so"]), True, id="one of twelve is not"),
        pytest.param(without(NOW, contexts={}), run(BEFORE, answers=SAME), False, id="unknown contexts"),
        pytest.param(without(NOW, contexts=dict.fromkeys(named(15), 2)), run(BEFORE, answers=SAME), False, id="others"),
        pytest.param(without(NOW, answers={}), run(BEFORE, answers=SAME), False, id="unknown answers"),
        pytest.param(replace(NOW, manifest=None), run(BEFORE, answers=SAME), True, id="a score file"),
        pytest.param(replace(NOW, manifest=make_manifest()), run(BEFORE, answers=SAME), False, id="it can be asked"),
        pytest.param(TWICE_SAME, run(BEFORE), True, id="each twice with the same answer"),
        pytest.param(without(TWICE_SAME, answers={"s0": ("a", "b")}), run(BEFORE), False, id="one differs"),
        pytest.param(without(TWICE_SAME, failed_answers={"s9": 1}), run(BEFORE), False, id="one failed"),
        pytest.param(run(AFTER, steady=True), run([[1.0, 1.0]] * 15), True, id="asked again"),
        pytest.param(run(AFTER, steady=True), run([[1.0, 0.9]] * 2 + [[1.0, 1.0]] * 13), False, id="two varied before"),
    ],
)
def test_when_a_system_is_known_to_say_the_same(now: RunScores, then: RunScores, steady: bool) -> None:
    policy = policy_from_mapping({"metrics": METRICS, "gate": ONLY_NAMED})
    changes = question_changes(Evidence.of(now, then, policy))
    assert changes is not None
    assert changes.is_steady is steady


def test_answers_that_seem_the_same_are_asked_for_again() -> None:
    asked = replace(NOW, manifest=make_manifest())
    assert decided(asked, run(BEFORE, answers=SAME))[1].unsettled
    few, _ = flipped(3, 0, 7)
    seven = run([0.0] * 3 + [1.0] * 4, answers=["another"] * 3 + SAME[3:7])
    assert decided(seven, run(few, answers=SAME[:7]))[1].status == "inconclusive", "four of the same show nothing"


def test_a_system_that_varies_is_suspected_and_asked_again() -> None:
    first, check = decided(run(AFTER), run(BEFORE))
    assert check.status == "inconclusive"
    assert check in doubtful_checks(first, 0.05)
    assert not is_settled(first, 0.05)
    again = [[0.0] * 6] * 3 + [[1.0] * 6] * 12
    assert decided(run(again), run(BEFORE))[0].status == "fail"
    by_chance = [[0.0, 1.0, 0.0, 1.0, 1.0, 0.0]] * 3 + [[1.0] * 6] * 12
    assert decided(run(by_chance), run(BEFORE))[0].status == "pass"
    before, after = flipped(5, 5, 80)
    assert "which chance explains" in decided(run(after), run(before))[1].reason


@pytest.mark.parametrize(
    ("fields", "shown", "suspected", "unsettled"),
    [
        ({"p_value": MAX_P_SHOWN}, True, True, True),
        ({"p_value": MAX_P_SHOWN * 1.01}, False, True, True),
        ({"p_value": MAX_P_SUSPECTED_NONE_MENDED}, False, True, True),
        ({"p_value": MAX_P_SUSPECTED_NONE_MENDED * 1.01}, False, False, True),
        ({"p_value": MAX_P_SUSPECTED, "mended": ("s9",)}, False, True, True),
        ({"p_value": MAX_P_SUSPECTED * 1.01, "mended": ("s9",)}, False, False, True),
        ({"p_value": MAX_P_ASKED}, False, False, True),
        ({"p_value": MAX_P_ASKED * 1.01}, False, False, False),
        ({"p_value": 1.0, "is_likely_steady": True}, False, False, True),
        ({"p_value": MAX_P_STILL_SUSPECTED, "was_asked_again": True}, False, True, True),
        ({"p_value": MAX_P_STILL_SUSPECTED * 1.01, "was_asked_again": True}, False, False, False),
        ({"p_value": 1.0, "was_asked_again": True, "is_steady": True}, True, True, False),
    ],
)
def test_what_chance_explains(fields: Any, shown: bool, suspected: bool, unsettled: bool) -> None:
    given = {"mended": (), "is_steady": False, "is_likely_steady": False, **fields}
    changes = QuestionChanges(15, ("s0", "s1", "s2"), **given)
    assert (changes.is_shown, changes.is_suspected, changes.is_unsettled) == (shown, suspected, unsettled)


def changes(now: RunScores, then: RunScores, policy: Any = None, **tables: Any) -> tuple[tuple[str, ...], float]:
    rules = policy or policy_from_mapping({"metrics": METRICS, "gate": ONLY_NAMED, **tables})
    found = question_changes(Evidence.of(now, then, rules))
    assert found is not None
    return found.broken, found.p_value


def test_which_questions_break() -> None:
    then = run([1.0] * 19)
    crashed = run([1.0] * 15, system_failures={f"s{index}": "time-out" for index in range(15, 19)})
    assert changes(crashed, then) == (("s15", "s16", "s17", "s18"), 1 / 16)
    assert changes(crashed, without(then, failures=crashed.system.failures)) == ((), 1.0)
    once = run([1.0] * 19, times=2, system_failures={"s1": "x", "s2": "x"}, failed_answers={"s1": 1, "s2": 2})
    assert changes(once, then)[0] == ("s2",)
    five = {f"s{index}": "time-out" for index in range(10, 15)}
    failed = tuple(sorted(five))
    assert changes(run([1.0] * 10, system_failures=five), run([1.0] * 15)) == (failed, 1 / 32)
    one_lost_too = run([0.0] + [1.0] * 9, system_failures=five)
    broken, p_value = changes(one_lost_too, run([1.0] * 15))
    assert broken == ("s0", *failed)
    assert p_value == pytest.approx(1 / 64)
    two_mended_too = changes(run([1.0] * 10, system_failures=five), run([0.0] * 2 + [1.0] * 13))
    assert two_mended_too[1] == pytest.approx(1 / 32), "mended questions excuse no failure of the system"
    lost = run(AFTER)
    assert changes(lost, run(BEFORE))[1] == pytest.approx(1 / 8)
    in_groups = dict.fromkeys(named(3), "one")
    assert changes(run(AFTER, groups=in_groups), run(BEFORE, groups=in_groups))[1] == pytest.approx(1 / 2)
    warns = {"context_recall": {"max_drop": 0.02, "action": "warn"}}
    assert changes(lost, run(BEFORE), metrics=warns)[0] == ()
    entry = AcceptedEntry.model_construct(id="abcdefgh", metric="context_recall", slice=None, drop=0.5)
    accepted = policy_from_mapping({"metrics": METRICS}).model_copy(update={"accepted_in_force": {entry.target: entry}})
    assert changes(lost, run(BEFORE), accepted)[0] == ()


def test_a_drop_that_comes_from_broken_questions_does_not_pass_beside_them() -> None:
    before, after = flipped(3, 0, 50)
    verdict, _ = decided(run(after, steady=True), run(before))
    drop = check_of(verdict, CheckKind.DROP)
    assert drop.status == "inconclusive"
    assert "too few questions to tell it from chance" in drop.reason


@pytest.mark.parametrize(
    ("gate", "entrypoint", "chance"),
    [
        ({}, "app:answer", 0.25),
        ({}, f"{RECORDED_PREFIX}answers.jsonl", 0.5),
        ({"confirm": False}, "app:answer", 0.5),
        ({}, None, 0.5),
    ],
)
def test_asking_again_leaves_less_to_chance(gate: Any, entrypoint: str | None, chance: float) -> None:
    now = build_run({"faithfulness": [1.0] * 4}, manifest=None if entrypoint is None else make_manifest())
    if now.manifest is not None:
        system = now.manifest.system.model_copy(update={"entrypoint": entrypoint})
        now = replace(now, manifest=now.manifest.model_copy(update={"system": system}), system=SystemFacts())
    policy = policy_from_mapping({"gate": {"confirm_repeats": 2, **gate}})
    assert chance_of_one(Evidence.of(now, None, policy)) == chance


@pytest.mark.parametrize(("samples", "says"), [(10, ""), (9, "fewer than 3"), (3, "fewer than 3"), (2, "any loss")])
def test_what_few_questions_can_not_show(samples: int, says: str) -> None:
    assert says in remark_on_few_questions(samples)
    assert bool(remark_on_few_questions(samples)) is bool(says)
