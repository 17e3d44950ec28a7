"""Accepted drops: the file, which entries are in force, and what they do to a verdict."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from ragstone.errors import ConfigError
from ragstone.evaluation.scores import RunScores
from ragstone.gate.accepted import (
    AcceptedEntry,
    EntriesInForce,
    Offer,
    accepted_for_run,
    entry_id,
    find_entries_in_force,
    offers,
    parse_accepted,
    read_accepted,
)
from ragstone.gate.decide import decide_gate
from ragstone.gate.policy import Policy, load_policy, policy_from_mapping
from ragstone.gate.policy_table import GateRules
from ragstone.gate.verdict import Action, Check, CheckKind, Interval, Status
from ragstone.pipeline.accept import entry_text
from tests.gate.conftest import build_run

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


@pytest.mark.parametrize("reason", ['a "quoted" one', "line\nbreak", "ünïcode 🎉", "del \x7f and \x01"])
def test_an_entry_is_read_as_it_was_written(reason: str) -> None:
    written = entry(reason=reason, slice="de", expires=TODAY, drop=0.0512)
    other = entry(id="2" * 8)
    assert parse_accepted(f"# ours\n\n{entry_text(written)}\n{entry_text(other)}", "f") == (written, other)


@pytest.mark.parametrize(
    ("text", "says", "line"),
    [
        (GOOD.replace("metric =", "metrik ="), "unknown key 'accepted.0.metrik'", 3),
        (GOOD.replace('metric = "faithfulness"\n', ""), "'accepted.0.metric' is missing", 1),
        (GOOD.replace("drop = 0.06", "drop = 6"), "drop' must be at most 1", 4),
        (GOOD.replace(RUN, "xyz"), "run' must match", 6),
        (GOOD.replace("date = 2026-11-21", 'date = "2026-11-21"'), "must be a date such as", 8),
        (GOOD.replace('"half the latency"', '"  "'), "reason' must not be empty", 5),
        (f"{GOOD}\n{GOOD}", "is duplicated", 11),
        (GOOD.replace('"faithfulness"', '"golden set"'), "`edit` is needed for the metric 'golden set'", 1),
        (GOOD + f'edit = "{OTHER}"\n', "and allowed for no other", 1),
        ("[accepted]\nmetric = 'x'\n", "must be a list", 1),
        ("[[accept]]\nmetric = 'x'\n", "unknown key 'accept'", 1),
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


def test_the_policy_brings_the_file_beside_it_if_it_is_one(tmp_path: Path) -> None:
    file = tmp_path / "accepted.toml"
    assert read_accepted(file) == ()
    (tmp_path / "thresholds.toml").write_text("[metrics.faithfulness]\nmax_drop = 0.02\n", encoding="utf-8")
    file.write_text(GOOD, encoding="utf-8")
    policy = load_policy(tmp_path / "thresholds.toml")
    assert (policy.accepted, policy.accepted_in_force) == ((entry(),), {})
    file.unlink()
    file.symlink_to(tmp_path / "gone")
    with pytest.raises(ConfigError, match="can't be read"):
        read_accepted(file)


# -- in force ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changed", "lineage", "spent", "says"),
    [
        ({}, (BASE,), (), None),
        ({}, (OTHER, BASE), (), None),  # a baseline that descends from its own
        ({"expires": TODAY}, (BASE,), (), None),
        ({}, (), (), ""),
        ({}, (OTHER,), (), "does not descend from"),
        ({}, (BASE,), (entry().id,), "is spent, because the baseline includes the change"),
        ({"expires": datetime.date(2026, 11, 20)}, (BASE,), (), "expired on 2026-11-20"),
    ],
)
def test_an_entry_holds_until_it_is_spent_or_expires(changed: Any, lineage: Any, spent: Any, says: str | None) -> None:
    found = find_entries_in_force([entry(**changed)], lineage=lineage, spent=spent, today=TODAY)
    assert found.entries == ((entry(**changed),) if says is None else ())
    assert [says in line and "remove it" in line for line in found.removal_notes if says] == [True] * bool(says)
    assert len(found.removal_notes) == bool(says)
    assert accepted_for_run([entry(**changed)], None, TODAY).entries == ()


def test_of_several_entries_the_largest_counts_and_never_their_sum() -> None:
    several = [entry(drop=drop, id=name * 8) for name, drop in (("2", 0.03), ("3", 0.05), ("4", 0.04))]
    found = find_entries_in_force(several, lineage=(BASE,), spent=(), today=TODAY)
    assert [one.drop for one in found.largest.values()] == [0.05]
    [note] = found.in_force_notes
    assert note.startswith("accepted.toml accepts a drop of faithfulness of up to 0.05 (33333333): ")


# -- verdicts ----------------------------------------------------------------------------------------------------------


def policy(*entries: AcceptedEntry, decision: str = "evidence") -> Policy:
    rules = {"faithfulness": {"max_drop": 0.02}, "context_recall": {"max_drop": 0.02}}
    found = policy_from_mapping({"gate": {"decision": decision}, "metrics": rules})
    return found.with_accepted(EntriesInForce(entries))


def runs(fall: float, recall: float = 0.0) -> tuple[RunScores, RunScores]:
    """A run on 200 samples, fallen by so much on average, and its baseline."""
    random = np.random.default_rng(3)
    before = random.uniform(0.5, 0.9, 200)
    noise = random.normal(0.0, 0.03, 200)
    noise -= noise.mean()
    names = ("faithfulness", "context_recall")
    now = {name: (before - lost + noise).tolist() for name, lost in zip(names, (fall, recall), strict=True)}
    return build_run(now), build_run(dict.fromkeys(names, before.tolist()))


def status(fall: float, *entries: AcceptedEntry, recall: float = 0.0) -> Status:
    return decide_gate(*runs(fall, recall), policy(*entries)).status


@pytest.mark.parametrize("decision", ["evidence", "assured"])
def test_what_was_accepted_passes_and_two_points_more_fail(decision: str) -> None:
    verdict = decide_gate(*runs(0.06), policy(decision=decision))
    assert verdict.status is Status.FAIL
    [offer] = offers(verdict.checks, policy(decision=decision).gate)
    assert offer.drop == pytest.approx(0.06, abs=0.012 if decision == "assured" else 1e-4)
    accepted = policy(entry(drop=offer.drop), decision=decision)
    assert [decide_gate(*runs(fall), accepted).status for fall in (0.06, 0.08)] == [Status.PASS, Status.FAIL]


def test_an_entry_covers_no_other_metric_and_no_other_slice() -> None:
    assert status(0.0, entry(), recall=0.06) is Status.FAIL
    assert status(0.06, entry(metric="context_recall")) is Status.FAIL
    assert status(0.06, entry(slice="de")) is Status.FAIL


def test_of_a_loss_beyond_the_accepted_one_only_what_is_beyond_must_be_shown() -> None:
    def wrong(count: int) -> RunScores:
        return build_run({"faithfulness": [0.0] * count + [1.0] * (40 - count), "context_recall": [1.0] * 40})

    accepted = policy(entry(drop=0.25))
    assert decide_gate(wrong(12), wrong(0), policy()).status is Status.FAIL
    assert decide_gate(wrong(12), wrong(0), accepted).status is not Status.FAIL
    assert decide_gate(wrong(24), wrong(0), accepted).status is Status.FAIL


@pytest.mark.parametrize(("entries", "slices"), [((), {None, "x"}), ((entry(drop=0.03),), {None})])
def test_where_a_drop_is_accepted_its_tags_are_not_looked_at(entries: Any, slices: set[str | None]) -> None:
    tags = {f"s{i}": ("x",) for i in range(12)}
    now = build_run({"faithfulness": [0.5] * 12 + [1.0] * 388}, tags=tags)
    verdict = decide_gate(now, build_run({"faithfulness": [1.0] * 400}, tags=tags), policy(*entries))
    assert {check.slice for check in verdict.checks if check.kind is CheckKind.DROP} == slices


def test_the_reason_names_an_entry_that_is_wider_than_what_is_allowed() -> None:
    for drop in (0.01, 0.02):
        assert decide_gate(*runs(0.06), policy(entry(drop=drop))) == decide_gate(*runs(0.06), policy())
    verdict = decide_gate(*runs(0.06), policy(entry(drop=0.0601)))
    [check] = [check for check in verdict.checks if check.name == "faithfulness.drop"]
    assert f"0.0601 is accepted ({entry().id})" in check.reason
    assert check.threshold == -0.0601
    rules = {"metrics": {"faithfulness": {"min": 0.1}}, "gate": {"only_named": True}}
    floor = policy_from_mapping(rules).with_accepted(EntriesInForce((entry(),)))
    assert decide_gate(*runs(0.0), floor).status is Status.PASS, "there is no drop to widen"


# -- what is offered ---------------------------------------------------------------------------------------------------


def made(kind: CheckKind, status: Status = Status.FAIL, **fields: Any) -> Check:
    return Check("name", kind, status, **{"action": Action.BLOCK, "reason": "", **fields})


SPAN = Interval(-0.09, 0.12, 0.95, "t")
DROP = made(CheckKind.DROP, metric="mrr", estimate=-0.05)
RISE = made(CheckKind.RISE, metric="wer", estimate=0.05)
DRIFT = made(CheckKind.DRIFT, metric="mrr", estimate=-0.05)
DOUBT = replace(DROP, status=Status.INCONCLUSIVE)
MEAN = replace(DROP, metric=None)
QUESTIONS = made(CheckKind.QUESTIONS)
SHARE = made(CheckKind.SHARE, estimate=0.3, threshold=0.3, current=0.3, baseline=0.1)
BROKEN = replace(SHARE, estimate=0.31)
MISRANKED = replace(SHARE, name="system.misranked", threshold=0.02)
EDIT = made(CheckKind.GOLDEN_SET, Status.ERROR, estimate=0.2, edit=OTHER)
STARVED = made(CheckKind.PAIRED, Status.ERROR)


@pytest.mark.parametrize(
    ("checks", "gate", "expected"),
    [
        pytest.param([DROP], {}, [("mrr", 0.05)], id="a drop"),
        pytest.param([RISE], {}, [("wer", 0.05)], id="a rise"),
        pytest.param([replace(DROP, interval=SPAN)], {}, [("mrr", 0.09)], id="a drop, assured"),
        pytest.param([replace(RISE, interval=SPAN)], {}, [("wer", 0.12)], id="a rise, assured"),
        pytest.param([DRIFT], {}, [("mrr", 0.05)], id="a drift"),
        pytest.param([replace(DROP, estimate=-0.050001)], {}, [("mrr", 0.0501)], id="rounded up"),
        pytest.param([replace(DROP, action=Action.WARN)], {}, [], id="a drop that warns"),
        pytest.param([replace(DROP, estimate=None)], {}, [], id="a drop without an estimate"),
        pytest.param([replace(DROP, estimate=0.1)], {}, [], id="no loss"),
        pytest.param([MEAN], {}, [], id="no metric"),
        pytest.param([made(CheckKind.COVERAGE, metric="mrr", estimate=0.3)], {}, [], id="no loss at all"),
        pytest.param([DOUBT], {}, [], id="a doubt"),
        pytest.param([DOUBT], {"inconclusive": "fail"}, [("mrr", 0.05)], id="a doubt that ends the run"),
        pytest.param([DOUBT, QUESTIONS], {}, [("mrr", 0.05)], id="what broken questions are made of"),
        pytest.param([DOUBT, replace(QUESTIONS, status=Status.PASS)], {}, [], id="no question broke"),
        pytest.param([DOUBT, MEAN], {}, [("mrr", 0.05)], id="what a mean is made of"),
        pytest.param([DROP, made(CheckKind.FLOOR, metric="mrr")], {}, [], id="below its floor too"),
        pytest.param([DROP, made(CheckKind.FLOOR, metric="wer")], {}, [("mrr", 0.05)], id="another floor"),
        pytest.param([DROP, STARVED], {}, [], id="a base that failed"),
        pytest.param([DROP, replace(STARVED, status=Status.PASS)], {}, [("mrr", 0.05)], id="a base that did not"),
        pytest.param([DROP, made(CheckKind.ANSWERS)], {}, [], id="no answers"),
        pytest.param([DROP, BROKEN], {}, [], id="too many broken answers"),
        pytest.param([DROP, SHARE], {}, [("mrr", 0.05), ("name", 0.2)], id="a share that only rose"),
        pytest.param([MISRANKED], {}, [("system.misranked", 0.2)], id="a worse order"),
        pytest.param([replace(SHARE, baseline=None)], {}, [], id="a share without a baseline"),
        pytest.param([EDIT], {}, [("golden set", 0.2)], id="an edit"),
        pytest.param([replace(EDIT, status=Status.INCONCLUSIVE)], {}, [], id="a doubt about an edit"),
        pytest.param([EDIT, STARVED], {}, [], id="an edit and a base that failed"),
    ],
)
def test_what_would_help_is_offered(checks: list[Check], gate: Any, expected: list[tuple[str, float]]) -> None:
    assert [(offer.metric, offer.drop) for offer in offers(checks, GateRules(**gate))] == expected


def test_the_command_that_accepts() -> None:
    words = Offer("mrr", "a b", 0.05, OTHER).command(run=RUN, baseline=BASE, folder="my app", thresholds="t.toml")
    assert words.startswith("cd 'my app' && ragstone accept --metric mrr --slice 'a b' --of 0.05:")
    assert f":{BASE}:{OTHER} --thresholds t.toml --reason " in words
    plain = Offer("mrr", None, 0.05).command(run=RUN, baseline=BASE, folder=".", thresholds="thresholds.toml")
    assert plain.startswith(f"ragstone accept --metric mrr --of 0.05:{RUN}:{BASE} --reason ")
