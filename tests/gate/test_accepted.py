"""Accepted drops: the file, which entries are in force, and what they do to a verdict."""

from __future__ import annotations

import datetime
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ragstone.errors import ConfigError
from ragstone.evaluation.score_files import scores_from_mapping
from ragstone.evaluation.scores import RunScores
from ragstone.gate.accepted import (
    AcceptedEntry,
    InForce,
    entries_in_force,
    entry_id,
    entry_text,
    floor_notes,
    in_force_note,
    offers,
    parse_accepted,
    read_accepted,
)
from ragstone.gate.decide import decide_gate
from ragstone.gate.policy import Policy, load_policy, policy_from_mapping
from ragstone.gate.verdict import Action, Check, CheckKind, Status

TODAY = datetime.date(2026, 11, 21)
RUN, BASE, OTHER = "a" * 16, "b" * 16, "c" * 16


def entry(**changed: Any) -> AcceptedEntry:
    fields: dict[str, Any] = {
        "id": entry_id("faithfulness", None, RUN, BASE),
        "metric": "faithfulness",
        "drop": 0.06,
        "reason": "half the latency",
        "run": RUN,
        "baseline": BASE,
        "date": TODAY,
    }
    return AcceptedEntry(**{**fields, **changed})


# -- the file ----------------------------------------------------------------------------------------------------------

GOOD = entry_text(entry())


def test_an_entry_of_a_slice_has_an_id_of_its_own() -> None:
    ids = {entry_id("faithfulness", slice_, RUN, BASE) for slice_ in (None, "hard", "easy")}
    assert len(ids) == 3
    assert entry_id("faithfulness", None, RUN, BASE) == entry_id("faithfulness", None, RUN, BASE)


@pytest.mark.parametrize(
    "reason", ['a "quoted" one', "line\nbreak", "tab\tand \\ backslash", "ünïcode 🎉", "del \x7f and \x01", "# [[x]]"]
)
def test_an_entry_is_read_as_it_was_written(reason: str) -> None:
    written = entry(reason=reason, slice="de", commit="d" * 40, expires=TODAY, drop=0.0512)
    assert parse_accepted(f"# ours\n\n{entry_text(written)}\n{entry_text(entry(id='2' * 8))}", "f") == (
        written,
        entry(id="2" * 8),
    )


@pytest.mark.parametrize(
    ("text", "says", "line"),
    [
        (GOOD.replace("metric =", "metrik ="), "unknown key 'accepted.0.metrik'", 3),
        (GOOD.replace('metric = "faithfulness"\n', ""), "'accepted.0.metric' is missing", 1),
        (GOOD.replace("drop = 0.06", "drop = 6"), "drop' must be at most 1", 4),
        (GOOD.replace("drop = 0.06", "drop = 0.0"), "drop' must be greater than 0", 4),
        (GOOD.replace("drop = 0.06", 'drop = "much"'), "drop' must be", 4),
        (GOOD.replace("drop = 0.06", "drop = nan"), "drop' must be", 4),
        (GOOD.replace(RUN, "xyz"), "run' must match", 6),
        (GOOD.replace("date = 2026-11-21", 'date = "2026-11-21"'), "must be a date such as", 8),
        (GOOD.replace('"half the latency"', '"  "'), "reason' must not be empty", 5),
        (GOOD + "expires = 2026-13-01\n", "not valid TOML", None),
        (f"{GOOD}\n{GOOD}", "is duplicated", 11),
        (GOOD.replace('"faithfulness"', '"golden set"'), "needs `edit`, as `ragstone accept` writes it", 1),
        (GOOD + f'edit = "{OTHER}"\n', "`edit` is for the metric 'golden set' alone", 1),
        ("[accepted]\nmetric = 'x'\n", "must be a list", None),
        ("[[accept]]\nmetric = 'x'\n", "unknown key 'accept'", None),
        ("[[accepted]\n", "not valid TOML", None),
    ],
)
def test_what_is_wrong_is_named_with_its_line(tmp_path: Path, text: str, says: str, line: int | None) -> None:
    file = tmp_path / "accepted.toml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        read_accepted(file)
    assert says in caught.value.message
    assert caught.value.where == (str(file) if line is None else f"{file}:{line}")


def test_a_place_that_is_no_file_is_an_error_and_none_at_all_is_none(tmp_path: Path) -> None:
    assert read_accepted(tmp_path / "accepted.toml") == ()
    (tmp_path / "accepted.toml").symlink_to(tmp_path / "gone")
    with pytest.raises(ConfigError, match="can't be read"):
        read_accepted(tmp_path / "accepted.toml")


def test_the_policy_brings_the_file_beside_it(tmp_path: Path) -> None:
    (tmp_path / "thresholds.toml").write_text("[metrics.faithfulness]\nmax_drop = 0.02\n", encoding="utf-8")
    (tmp_path / "accepted.toml").write_text(GOOD, encoding="utf-8")
    policy = load_policy(tmp_path / "thresholds.toml")
    assert policy.accepted == (entry(),)
    assert policy.widened == {}


# -- in force ----------------------------------------------------------------------------------------------------------


def held(*entries: AcceptedEntry, lineage: tuple[str, ...] = (BASE,), spent: tuple[str, ...] = ()) -> InForce:
    return entries_in_force(entries, lineage=lineage, spent=spent, today=TODAY)


def test_an_entry_holds_against_its_own_baseline_and_those_that_descend_from_it_until_its_last_day() -> None:
    assert held(entry()).entries == (entry(),)
    assert held(entry(), lineage=(OTHER, BASE)).entries == (entry(),)
    assert held(entry(expires=TODAY)).entries
    assert held(entry(), lineage=()) == InForce()


@pytest.mark.parametrize(
    ("changed", "more", "says"),
    [
        ({}, {"lineage": (OTHER,)}, "does not descend from"),
        ({}, {"spent": (entry().id,)}, "is spent, because the baseline includes the change"),
        ({"expires": datetime.date(2026, 11, 20)}, {}, "expired on 2026-11-20"),
    ],
)
def test_an_entry_that_no_longer_holds_is_called_removable(changed: Any, more: Any, says: str) -> None:
    found = held(entry(**changed), **more)
    assert found.entries == ()
    assert [says in line and "remove it" in line for line in found.removable] == [True]


def test_of_several_entries_the_largest_counts_and_never_their_sum() -> None:
    found = held(entry(drop=0.03, id="2" * 8), entry(drop=0.05, id="3" * 8), entry(drop=0.04, id="4" * 8))
    assert [one.drop for one in found.widest.values()] == [0.05]
    assert len(found.in_force_notes) == 1


# -- verdicts ----------------------------------------------------------------------------------------------------------


def policy(decision: str = "evidence", **gate: Any) -> Policy:
    rules = {"faithfulness": {"max_drop": 0.02}, "context_recall": {"max_drop": 0.02}}
    return policy_from_mapping({"gate": {"decision": decision, **gate}, "metrics": rules})


def runs(fall: float, recall: float = 0.0) -> tuple[RunScores, RunScores]:
    """A baseline and a run on 200 samples, fallen by so much on average."""
    random = np.random.default_rng(3)
    before = random.uniform(0.5, 0.9, 200)
    noise = random.normal(0.0, 0.03, 200)
    noise -= noise.mean()

    def scores(faithful: Any, recalled: Any) -> RunScores:
        return scores_from_mapping(
            {
                "faithfulness": {f"q{i}": float(value) for i, value in enumerate(faithful)},
                "context_recall": {f"q{i}": float(value) for i, value in enumerate(recalled)},
            }
        )

    return scores(before, before), scores(before - fall + noise, before - recall + noise)


def status(fall: float, entries: tuple[AcceptedEntry, ...], decision: str = "evidence", recall: float = 0.0) -> Status:
    before, now = runs(fall, recall)
    rules = policy(decision)
    return decide_gate(now, before, rules.with_accepted(InForce(entries))).status


@pytest.mark.parametrize("decision", ["evidence", "assured", "point"])
def test_what_was_accepted_passes_and_two_points_more_fail(decision: str) -> None:
    before, now = runs(0.06)
    verdict = decide_gate(now, before, policy(decision))
    assert verdict.status is Status.FAIL
    [offer] = offers(verdict.checks, policy(decision).gate)
    accepted = (entry(drop=offer.drop),)
    assert offer.drop == pytest.approx(0.06, abs=0.012 if decision == "assured" else 1e-4)
    assert status(0.06, accepted, decision) is Status.PASS
    assert status(0.08, accepted, decision) is Status.FAIL


def test_nothing_is_offered_where_accepting_does_not_help() -> None:
    """Below its floor a metric fails whatever drop is accepted, and so does a run with too many broken answers."""
    before, now = runs(0.06)
    rules = policy_from_mapping({"metrics": {"faithfulness": {"min": 0.66, "max_drop": 0.02}}})
    checks = decide_gate(now, before, rules).checks
    assert {check.kind for check in checks if check.status is Status.FAIL} == {"floor", "drop"}
    assert offers(checks, rules.gate) == ()
    (note,) = floor_notes(checks)
    assert "drop of faithfulness" in note
    (dropped,) = (check for check in checks if check.kind is CheckKind.DROP and check.status is Status.FAIL)
    assert len(offers((dropped,), rules.gate)) == 1
    assert tuple(floor_notes((dropped,))) == ()
    useless: list[dict[str, Any]] = [
        {"action": Action.WARN},
        {"status": Status.PASS},
        {"estimate": None},
        {"metric": None},
    ]
    floor = replace(dropped, kind=CheckKind.FLOOR)
    assert len(tuple(floor_notes((floor, dropped)))) == 1
    for changed in useless[:2]:
        assert tuple(floor_notes((floor, replace(dropped, **changed)))) == ()
    for changed in useless:
        assert offers((replace(dropped, **changed),), rules.gate) == ()
    broken = Check("system.broken", CheckKind.SHARE, Status.FAIL, Action.BLOCK, "", estimate=0.4, threshold=0.3)
    assert offers((dropped, broken), rules.gate) == ()
    for estimate in (0.2, 0.3):  # an accepted drop allows this rise
        assert len(offers((dropped, replace(broken, estimate=estimate)), rules.gate)) == 1
    assert offers((dropped, replace(broken, kind=CheckKind.ANSWERS)), rules.gate) == ()


def test_of_a_loss_beyond_the_accepted_one_only_what_is_beyond_must_be_shown() -> None:
    def wrong(count: int) -> RunScores:
        values = {f"q{i}": float(i >= count) for i in range(40)}
        return scores_from_mapping({"faithfulness": values, "context_recall": dict.fromkeys(values, 1.0)})

    accepted = policy().with_accepted(InForce((entry(drop=0.25),)))
    assert decide_gate(wrong(12), wrong(0), policy()).status is Status.FAIL
    assert decide_gate(wrong(12), wrong(0), accepted).status is not Status.FAIL
    assert decide_gate(wrong(24), wrong(0), accepted).status is Status.FAIL


def test_an_entry_covers_no_other_metric_and_no_other_slice() -> None:
    assert status(0.0, (entry(),), recall=0.06) is Status.FAIL
    assert status(0.06, (entry(metric="context_recall"),)) is Status.FAIL
    assert status(0.06, (entry(slice="de"),)) is Status.FAIL


def test_the_reason_names_an_entry_that_is_wider_than_what_is_allowed() -> None:
    before, now = runs(0.06)
    narrow = decide_gate(now, before, policy().with_accepted(InForce((entry(drop=0.01),))))
    assert narrow == decide_gate(now, before, policy())
    verdict = decide_gate(now, before, policy().with_accepted(InForce((entry(drop=0.0601),))))
    [check] = [check for check in verdict.checks if check.name == "faithfulness.drop"]
    assert f"0.0601 is accepted ({entry().id})" in check.reason
    assert check.threshold == -0.0601
    assert "faithfulness of up to 0.06 is accepted" in in_force_note(entry())
