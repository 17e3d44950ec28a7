"""`report --decide`: a stored run is decided by what the caller names; nothing that it says of itself excuses it."""

from __future__ import annotations

import contextlib
import json
import random
import shutil
from collections.abc import Callable, Iterator
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest

from ragstone.errors import BaselineError, ConfigError, GoldenSetError, JudgeError
from ragstone.evaluation.directory import MANIFEST, SAMPLES, VERDICT
from ragstone.evaluation.round_facts import CONFIRM_FACTS, JUDGE_FACTS, ORACLE_FACTS
from ragstone.gate.verdict import Status
from tests.cli.project import ragstone
from tests.pipeline.decided import (
    POLICY,
    TODAY,
    N,
    World,
    edit_manifest,
    git,
    lines_of,
    make_world,
    records_of,
    run_gate,
    set_field,
    write_lines,
)

Tampering = Callable[[Path], None]
UNFINISHED, OTHER_QUESTIONS, OTHER_COMMIT = JudgeError.exit_code, GoldenSetError.exit_code, ConfigError.exit_code


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return make_world(tmp_path_factory.mktemp("decided") / "repo")


@pytest.fixture
def rules(world: World) -> Iterator[Path]:
    """The policy file, put back afterwards; accepted.toml beside it is removed."""
    file = world.root / "thresholds.toml"
    text = file.read_text(encoding="utf-8")
    yield file
    file.write_text(text, encoding="utf-8")
    (world.root / "accepted.toml").unlink(missing_ok=True)


def test_an_honest_run_is_decided_as_the_gate_decided_it(world: World) -> None:
    good, bad = world.decide(world.good), world.decide(world.bad)
    assert (good.verdict.exit_code, bad.verdict.exit_code) == (0, 1)
    for fact in ("pass", "thresholds.toml", "12 questions", world.commit[:12]):
        assert fact in good.summary[0]
    assert [len(good.summary), len(bad.summary)] == [2, 2]
    assert "stored verdict was pass" in good.summary[1]
    assert "stored verdict was fail" in bad.summary[1]
    stored = json.loads((world.bad / "report.json").read_text(encoding="utf-8"))["checks"]
    decided = {check.name: check.status.value for check in bad.document.checks}
    assert decided == {check["name"]: check["status"] for check in stored}
    assert bad.document.run.label == str(world.bad)


def test_nothing_is_written_into_the_run(world: World) -> None:
    before = {path: path.read_bytes() for path in world.bad.iterdir() if path.is_file()}
    world.decide(world.bad)
    assert {path: path.read_bytes() for path in world.bad.iterdir() if path.is_file()} == before


# -- questions ---------------------------------------------------------------------------------------------------------


def in_sample(place: int, **changes: object) -> Tampering:
    def tamper(run: Path) -> None:
        with records_of(run) as lines:
            lines[place]["sample"] |= changes

    return tamper


def left_out(run: Path) -> None:
    write_lines(run, lines_of(run)[1:])


def doubled(run: Path) -> None:
    with records_of(run) as lines:
        lines.append(lines[3])


def put_in_the_place_of_another(run: Path) -> None:
    lines = lines_of(run)
    write_lines(run, [*lines[1:], lines[3]])


def with_ids_swapped(run: Path) -> None:
    with records_of(run) as lines:
        lines[0]["sample"]["id"], lines[2]["sample"]["id"] = lines[2]["sample"]["id"], lines[0]["sample"]["id"]


def with_questions_of_its_own(*ids: str) -> Tampering:
    def tamper(run: Path) -> None:
        with records_of(run) as lines:
            first = lines[0]
            lines += [{**first, "sample": {**first["sample"], "id": name}} for name in ids]

    return tamper


def not_asked(run: Path) -> None:
    with records_of(run) as lines:
        lines[4]["response"] = {"sample_id": "house-4", "failure": {"kind": "missing", "message": "no answer"}}


def all_but_one_drafts(run: Path) -> None:
    with records_of(run) as lines:
        for line in lines[1:]:
            line["sample"]["review"] = {"status": "draft"}


@pytest.mark.attack(
    by="stored run",
    tries="leave out, double, reword or mark questions, limit the run",
    stopped_by="each must be that of the named golden set, once, and asked",
)
@pytest.mark.parametrize(
    ("tamper", "named"),
    [
        (left_out, "'house-0' is missing"),
        (doubled, "'house-3' is doubled"),
        (put_in_the_place_of_another, "'house-3' is doubled, 'house-0' is missing"),
        (with_ids_swapped, "'house-2' has another question, reference, 'house-0' has another question, reference"),
        (with_questions_of_its_own("easy"), "'easy' is not in the golden set"),
        (not_asked, "'house-4' was not asked"),
        (all_but_one_drafts, "'house-1' has another review"),
        (in_sample(5, question="What is the colour of house number 6?"), "'house-5' has another question"),
        (in_sample(5, question="*** is the colour of house number 5?"), "'house-5' has another question"),
        (in_sample(5, reference="It is painted."), "'house-5' has another reference"),
        (in_sample(5, review={"status": "draft"}), "'house-5' has another review"),
        (in_sample(4, tags=["odd"]), "'house-4' has another tags"),
        (in_sample(4, group="together"), "'house-4' has another group"),
        (in_sample(4, answerable=False), "'house-4' has another answerable"),
        (in_sample(4, other_references=["Any colour."]), "'house-4' has another other references"),
    ],
)
def test_a_question_that_is_not_as_in_the_golden_set_is_named(world: World, tamper: Tampering, named: str) -> None:
    for original in (world.good, world.bad):
        with world.copy(original) as run:
            tamper(run)
            error = world.refusal(run)
        assert isinstance(error, GoldenSetError), error
        assert named in error.message
        assert error.exit_code == OTHER_QUESTIONS


def test_of_many_questions_the_first_are_named_and_long_ids_are_cut(world: World) -> None:
    with world.copy(world.good) as run:
        with_questions_of_its_own(*(f"{number} {'x' * 1_000}" for number in range(40)))(run)
        message = world.refusal(run).message
        assert message.count("is not in the golden set") == 20
        assert "and 20 more" in message
        assert len(message) < 4_000


def test_a_run_of_a_part_of_the_golden_set_is_refused_whatever_limit_the_config_has(world: World) -> None:
    shutil.rmtree(world.root / "limited", ignore_errors=True)
    run_gate(world.root, "limited", "--limit", "6", code=0)
    limited = world.root / "limited"
    set_field(limited, "invocation.changed", 0)
    for limit in (None, 6):
        error = world.refusal(limited, golden__limit=limit)
        assert (error.exit_code, "'house-6' is missing" in error.message) == (OTHER_QUESTIONS, True)
    shutil.rmtree(limited)


def test_another_golden_set_is_compared_as_a_whole(world: World, tmp_path: Path) -> None:
    lines = (world.root / "golden.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    (tmp_path / "more.jsonl").write_text("".join([*lines, '{"id": "new", "question": "What is new?"}\n']))
    (tmp_path / "fewer.jsonl").write_text("".join(lines[:-1]))
    more = world.refusal(world.good, golden__paths=(str(tmp_path / "more.jsonl"),))
    fewer = world.refusal(world.good, golden__paths=(str(tmp_path / "fewer.jsonl"),))
    assert "'new' is missing" in more.message
    assert f"'house-{N - 1}' is not in the golden set" in fewer.message


# -- the commit, and what kind of run it is ----------------------------------------------------------------------------


def of(path: str, value: object) -> Tampering:
    return lambda run: set_field(run, path, value)


@pytest.mark.attack(
    by="stored run",
    tries="another commit, an edited checkout, an unfinished run, the baseline",
    stopped_by="the commit must be the named one; its files are compared with GitHub's",
)
@pytest.mark.parametrize(
    ("tamper", "code", "said"),
    [
        (of("system.commit", "c" * 40), OTHER_COMMIT, "the run is of commit cccc"),
        (of("system.commit", None), OTHER_COMMIT, "does not know its commit"),
        (of("invocation.changed", 1), OTHER_COMMIT, "1 file differed from the commit"),
        (of("invocation.changed", None), OTHER_COMMIT, "not known whether files differed"),
        (of("invocation", None), OTHER_COMMIT, "not known whether files differed"),
        (of("state", "running"), UNFINISHED, "the run was running, not finished"),
        (of("state", "stopped"), UNFINISHED, "the run was stopped, not finished"),
        (of("oracle_of", "2026-11-28T00:00:00+00:00"), 2, "it is an oracle half"),
        (of("system.part", "generation"), 2, "it evaluated generation, and the config says the whole system"),
        (of("judge.provider", "scripted"), 5, "the run was judged by scripted"),
        (
            of("metrics.faithfulness", "0"),
            5,
            "faithfulness can't be computed from the stored judgements: it is version 0",
        ),
    ],
)
def test_a_run_of_something_else_is_refused(world: World, tamper: Tampering, code: int, said: str) -> None:
    with world.copy(world.good) as run:
        tamper(run)
        error = world.refusal(run)
        assert (error.exit_code, said in error.message) == (code, True), error


def test_a_dirty_checkout_and_an_earlier_commit_are_refused(world: World) -> None:
    houses = world.root / "houses.py"
    text = houses.read_text(encoding="utf-8")
    houses.write_text(f"{text}\n# edited\n", encoding="utf-8")
    try:
        run_gate(world.root, "tampered", "--baseline", "baseline", code=0)
        assert "1 file differed from the commit" in world.refusal(world.root / "tampered").message
    finally:
        houses.write_text(text, encoding="utf-8")
        shutil.rmtree(world.root / "tampered")
    assert world.exit_code(world.good, commit=git(world.root, "rev-parse", "HEAD^")) == OTHER_COMMIT


@pytest.mark.heavy
@pytest.mark.attack(
    by="stored run", tries="hide an edited file from git", stopped_by="content is compared with the index"
)
@pytest.mark.parametrize("flag", ["assume-unchanged", "skip-worktree"])
def test_an_edit_that_git_was_told_not_to_look_at_is_seen(world: World, flag: str) -> None:
    houses = world.root / "houses.py"
    text = houses.read_text(encoding="utf-8")
    git(world.root, "update-index", f"--{flag}", "houses.py")
    try:
        run_gate(world.root, "tampered", "--baseline", "baseline", code=0)
        assert world.exit_code(world.root / "tampered") == 0
        shutil.rmtree(world.root / "tampered")
        houses.write_text(f"{text}\n# edited\n", encoding="utf-8")
        assert git(world.root, "status", "--porcelain", "houses.py") == ""
        run_gate(world.root, "tampered", "--baseline", "baseline", code=0)
        assert "1 file differed from the commit" in world.refusal(world.root / "tampered").message
    finally:
        houses.write_text(text, encoding="utf-8")
        git(world.root, "update-index", f"--no-{flag}", "houses.py")
        shutil.rmtree(world.root / "tampered")


def test_what_a_sparse_checkout_leaves_out_is_no_change(world: World) -> None:
    notes = world.root / "notes.txt"
    text = notes.read_text(encoding="utf-8")
    git(world.root, "update-index", "--skip-worktree", "notes.txt")
    notes.unlink()
    try:
        run_gate(world.root, "tampered", "--baseline", "baseline", code=0)
        assert world.exit_code(world.root / "tampered") == 0
    finally:
        notes.write_text(text, encoding="utf-8")
        git(world.root, "update-index", "--no-skip-worktree", "notes.txt")
        shutil.rmtree(world.root / "tampered")


def test_the_baseline_in_place_of_the_run_is_refused(world: World) -> None:
    assert world.exit_code(world.baseline) == OTHER_COMMIT
    error = world.refusal(world.baseline, commit=git(world.root, "rev-parse", "HEAD^"))
    assert isinstance(error, BaselineError)
    assert "can't be compared with itself" in error.message


def test_an_unfinished_run_is_refused_whatever_its_manifest_counts(world: World) -> None:
    with world.copy(world.good) as run:
        write_lines(run, lines_of(run)[:5])
        set_field(run, "state", "stopped")
        assert world.exit_code(run) == UNFINISHED
        set_field(run, "state", "finished")
        assert world.exit_code(run) == OTHER_QUESTIONS


def without(metric: str) -> Tampering:
    def tamper(run: Path) -> None:
        with records_of(run) as lines:
            for line in lines:
                del line["scores"][metric]
        edit_manifest(run, lambda manifest: manifest["metrics"].pop(metric))

    return tamper


@pytest.mark.attack(
    by="stored run",
    tries="remove a metric or the baseline, claim another judge, drop or day",
    stopped_by="these are the caller's",
)
def test_a_metric_that_the_run_no_longer_has_is_missed(world: World) -> None:
    with world.copy(world.bad) as run:
        without("faithfulness")(run)
        error = world.refusal(run)
        assert isinstance(error, JudgeError)
        assert "faithfulness can't be computed" in error.message


def test_the_judge_must_be_the_one_of_the_config(world: World) -> None:
    error = world.refusal(world.good, judge__name="openai:gpt-x")
    assert (error.exit_code, "by offline judge" in error.message, "--judge" in str(error)) == (5, True, True)


# -- scores and verdict ------------------------------------------------------------------------------------------------


def raise_scores(run: Path) -> None:
    with records_of(run) as lines:
        for line in lines:
            for score in line["scores"].values():
                if score["state"] == "scored":
                    score["value"] = 1.0


@pytest.mark.attack(
    by="stored run", tries="write higher scores or a passed verdict", stopped_by="computed from the judgements"
)
def test_higher_scores_are_not_believed_and_are_named(world: World) -> None:
    with world.copy(world.bad) as run:
        raise_scores(run)
        decision = world.decide(run)
        assert decision.verdict.exit_code == 1
        assert "stored scores of 12 samples do not follow from their judgements" in decision.summary[1]
        assert "'house-0'" in decision.summary[1]


def test_a_stored_pass_is_not_believed_and_is_named(world: World) -> None:
    with world.copy(world.bad) as run:
        set_field(run, "verdict", "pass")
        body = json.loads((run / VERDICT).read_text(encoding="utf-8"))
        body["document"]["verdict"] |= {"status": "pass", "passed": True, "exit_code": 0}
        for check in body["document"]["checks"]:
            check["status"] = "pass"
        (run / VERDICT).write_text(json.dumps(body), encoding="utf-8")
        decision = world.decide(run)
        assert decision.verdict.exit_code == 1
        assert "The stored verdict was pass." in decision.summary
        assert any("faithfulness.drop was pass and is fail" in line for line in decision.summary)


@pytest.mark.parametrize("body", ["{", "{}", "[" * 10_000])
def test_a_stored_verdict_that_can_not_be_read_decides_nothing(world: World, body: str) -> None:
    with world.copy(world.bad) as run:
        (run / VERDICT).write_text(body, encoding="utf-8")
        decision = world.decide(run)
        assert decision.verdict.exit_code == 1
        assert decision.summary[1].startswith("The stored verdict can't be read")


@pytest.mark.attack(
    by="stored run",
    tries="make the command crash, or pass for want of data",
    stopped_by="bounded; what can't be established is an error",
)
def test_judgements_that_fit_no_answer_are_an_error_and_no_crash(world: World) -> None:
    with world.copy(world.good) as run:
        with records_of(run) as lines:
            for line in lines:
                line["judgements"][0]["support"]["supports"] = []
        assert world.exit_code(run) not in (0, 70)


# -- the baseline ------------------------------------------------------------------------------------------------------


def test_a_baseline_that_the_run_says_was_switched_off_is_compared_all_the_same(world: World) -> None:
    with world.copy(world.bad) as run:
        set_field(run, "baseline", None)
        (run / VERDICT).unlink()
        decision = world.decide(run)
        assert decision.verdict.exit_code == 1
        assert decision.summary[1] == "No verdict was stored with these records."


def test_drops_without_a_baseline_are_an_error(world: World) -> None:
    error = world.refusal(world.good, gate__baseline=None)
    assert isinstance(error, BaselineError)
    assert "no baseline is named" in error.message
    assert "--baseline RUN" in str(error)


@pytest.mark.parametrize(
    "policy",
    [
        "[gate]\nonly_named = true\n[metrics.faithfulness]\nmin = 0.1\n",
        POLICY.replace("[gate]", '[gate]\non_no_baseline = "pass"'),
    ],
    ids=["no drops", "none is needed"],
)
def test_line_one_says_that_no_drop_was_checked(world: World, rules: Path, policy: str) -> None:
    rules.write_text(policy, encoding="utf-8")
    decision = world.decide(world.good, gate__baseline=None)
    assert decision.verdict.exit_code == 0
    assert "no drop was checked, since no baseline is named" in decision.summary[0]


def without_its_own_baseline(run: Path) -> None:
    shutil.rmtree(run / "baseline", ignore_errors=True)


@pytest.mark.parametrize(
    ("original", "tamper"),
    [
        ("baseline", without("context_recall")),
        ("baseline", of("judge.version", "1")),
        ("bad", without_its_own_baseline),
    ],
    ids=["of other metrics", "of another judge", "that failed"],
)
def test_a_baseline_that_can_not_show_every_drop_is_an_error(world: World, original: str, tamper: Tampering) -> None:
    with world.copy(world.root / original) as baseline:
        tamper(baseline)
        assert world.exit_code(world.good, gate__baseline=str(baseline)) == BaselineError.exit_code


def test_scores_of_the_baseline_are_computed_too(world: World) -> None:
    with world.copy(world.baseline) as baseline:
        with records_of(baseline) as lines:
            for line in lines:
                line["scores"]["faithfulness"]["value"] = 0.0
        assert world.exit_code(world.bad, gate__baseline=str(baseline)) == 1


def test_a_policy_that_limits_drift_needs_the_history_beside_the_baseline(world: World, rules: Path) -> None:
    with rules.open("a", encoding="utf-8") as file:
        file.write("\n[drift]\nmax_drift = 0.03\n")
    error = world.refusal(world.good)
    assert isinstance(error, BaselineError)
    assert "history.jsonl" in error.message
    shutil.copytree(world.baseline, world.root / "tampered")
    try:
        added = ragstone(["history", "add", "tampered", "--history", "tampered/history.jsonl"], world.root)
        assert added.returncode == 0, added.stderr
        assert world.exit_code(world.good, gate__baseline=str(world.root / "tampered")) == 0
    finally:
        shutil.rmtree(world.root / "tampered")


# -- the policy --------------------------------------------------------------------------------------------------------


def test_an_undecided_run_never_passes_whatever_the_policy_or_fail_on_says(world: World, rules: Path) -> None:
    text = rules.read_text(encoding="utf-8")
    rules.write_text(
        text.replace("[gate]", '[gate]\ninconclusive = "pass"') + "[system]\nlatency_p95_s = 0.5\n", encoding="utf-8"
    )
    with world.copy(world.good) as run:
        with records_of(run) as lines:
            for place, line in enumerate(lines):
                line["response"]["latency_s"] = 1.0 if place == 0 else 0.1
        decision = world.decide(run)
    assert (decision.verdict.status, decision.verdict.exit_code) == (Status.INCONCLUSIVE, 8)
    assert world.exit_code(world.bad, gate__fail_on="never") == 1


ONE_DROP = """
[gate]
only_named = true
[system]
max_broken = 0.5
[metrics.faithfulness]
min = 0.1
max_drop = 0.05
"""


def accept(world: World, *more: str) -> None:
    done = ragstone(["accept", "bad", "--metric", "faithfulness", "--reason", "A trade-off", *more], world.root)
    assert done.returncode == 0, done.stderr


def test_an_accepted_drop_counts_where_it_lies_beside_the_named_policy(world: World, rules: Path) -> None:
    rules.write_text(ONE_DROP, encoding="utf-8")
    assert world.exit_code(world.bad) == 1
    with world.copy(world.bad) as run:
        accept(world)
        entry = (world.root / "accepted.toml").read_text(encoding="utf-8")
        (run / "accepted.toml").write_text(entry, encoding="utf-8")
        assert world.exit_code(run) == 0
        (world.root / "accepted.toml").unlink()
        claimed = {"id": "aaaaaaaa", "metric": "faithfulness", "drop": 1.0}
        edit_manifest(run, lambda manifest: manifest["baseline"].update(accepted=[claimed]))
        assert world.exit_code(run) == 1


def test_an_expired_drop_is_not_revived_by_the_time_that_a_run_claims(world: World, rules: Path) -> None:
    rules.write_text(ONE_DROP, encoding="utf-8")
    expires = date(2999, 1, 1)  # accept takes no day that is over
    accept(world, "--expires", expires.isoformat())
    assert world.exit_code(world.bad) == 0
    with world.copy(world.bad) as run:
        set_field(run, "created_at", f"{TODAY.isoformat()}T00:00:00+00:00")
        assert world.exit_code(run, today=expires + timedelta(days=10)) == 1


# -- any tampering -----------------------------------------------------------------------------------------------------
#
# What somebody tries who wants a run to pass and can change its files, but gave no other answers and judged none: those
# who can, write another run, and nothing but a signature tells it from the one that the job wrote.

Change = Callable[[Path, random.Random], None]
LIMIT = 7
"""Each tampering is one to so many changes."""


def other(value: Any, rng: random.Random) -> Any:
    """Another value, mostly of the same type."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return rng.choice([value + rng.randint(1, 9), 0, 1])
    if isinstance(value, str):
        return rng.choice([value[:-1], "pass", "finished", "offline", ""])
    return rng.choice([None, [], {}, "x", 1.0, True])


def in_manifest(run: Path, rng: random.Random) -> None:
    manifest = json.loads((run / MANIFEST).read_text(encoding="utf-8"))
    table: Any = manifest
    while True:
        key = rng.choice(list(table) if isinstance(table, dict) else range(len(table)))
        if not isinstance(table[key], dict | list) or not table[key] or rng.random() < 0.1:
            break
        table = table[key]
    table[key] = other(table[key], rng)
    (run / MANIFEST).write_text(json.dumps(manifest), encoding="utf-8")


EXCUSES: tuple[tuple[str, Any], ...] = (
    ("verdict", "pass"),
    ("baseline", None),
    ("baseline", {"eligible": True, "reason": "it passed"}),
    ("golden.limited", True),
    ("golden.samples", 3),
    ("golden.generated", N),
    ("repeats", 5),
    ("policy_hash", None),
    ("system.part", "retrieval"),
    ("system.version", "1.0"),
    ("oracle_of", None),
    ("same_job", True),
    ("earlier", [1]),
    ("created_at", "2020-01-01T00:00:00+00:00"),
    ("price", {"input": 0, "output": 0}),
)


def with_an_excuse(run: Path, rng: random.Random) -> None:
    set_field(run, *rng.choice(EXCUSES))


FACTS: tuple[tuple[str, dict[str, Any]], ...] = (
    (CONFIRM_FACTS, {"steady": False}),
    (CONFIRM_FACTS, {"steady": True}),
    (CONFIRM_FACTS, {"asked_again": True}),
    (JUDGE_FACTS, {"planted": {"asked": 3, "passed": 0}}),
    (JUDGE_FACTS, {"planted": None}),
    (JUDGE_FACTS, {"observed": {"models": ["another"]}}),
    (JUDGE_FACTS, {"canaries": {"asked": 20, "differing": 20, "supported_then": 20}}),
    (ORACLE_FACTS, {"asked": 3, "without": 0, "unanswered": 0}),
    (ORACLE_FACTS, {"asked": -1}),
)


def in_the_facts_of_rounds(run: Path, rng: random.Random) -> None:
    name, facts = rng.choice(FACTS)
    (run / name).write_text(json.dumps(facts), encoding="utf-8")


def in_the_facts_of_the_commit(run: Path, rng: random.Random) -> None:
    facts: list[tuple[str, Any]] = [
        ("system.commit", "f" * 40),
        ("system.commit", None),
        ("invocation", None),
        ("invocation.changed", rng.choice([None, 1, 12])),
        ("invocation.untracked", 3),
        ("invocation.tree", "e" * 40),
        ("invocation.from_github", True),
        ("invocation.options", {"golden.limit": "3", "gate.fail_on": "never"}),
    ]
    set_field(run, *rng.choice(facts))


def in_scores(run: Path, rng: random.Random) -> None:
    states = [{"state": "scored", "value": 1.0}, {"state": "not_applicable", "reason": "it has no reference"}]
    with records_of(run) as lines:
        for line in rng.sample(lines, rng.randint(1, len(lines))):
            for name in line["scores"]:
                line["scores"][name] = rng.choice(states)


def in_samples(run: Path, rng: random.Random) -> None:
    key = rng.choice(["id", "question", "reference", "tags", "group", "review", "answerable", "min", "provenance"])
    with records_of(run) as lines:
        sample = rng.choice(lines)["sample"]
        sample[key] = rng.choice([other(sample.get(key), rng), {"status": "draft"}, ["late"]])


def with_masked_texts(run: Path, rng: random.Random) -> None:
    """As if the texts of questions had been secrets."""
    with records_of(run) as lines:
        for line in rng.sample(lines, rng.randint(1, len(lines))):
            for key in rng.sample(["question", "reference"], rng.randint(1, 2)):
                words = line["sample"][key].split()
                words[rng.randrange(len(words))] = "***"
                line["sample"][key] = " ".join(words)


def with_drafts(run: Path, rng: random.Random) -> None:
    with records_of(run) as lines:
        for line in rng.sample(lines, rng.randint(1, len(lines))):
            line["sample"]["review"] = {"status": rng.choice(["draft", "rejected", "accepted"])}


def limited_to_the_best(run: Path, rng: random.Random) -> None:
    kept = rng.randint(1, N - 1)
    lines = lines_of(run)
    lines.sort(key=lambda line: -float(line["scores"]["faithfulness"].get("value") or 0.0))
    write_lines(run, lines[:kept])
    set_field(run, "golden.limited", True)
    set_field(run, "golden.samples", rng.choice([kept, N]))


def in_the_order_and_number(run: Path, rng: random.Random) -> None:
    with records_of(run) as lines:
        for _ in range(rng.randint(1, 4)):
            place = rng.randrange(len(lines))
            if rng.random() < 0.5 and len(lines) > 1:
                del lines[place]
            else:
                lines.insert(rng.randrange(len(lines)), lines[place])


def with_failures(run: Path, rng: random.Random) -> None:
    """As if the system had not been asked, or the judge had failed, where the scores are low."""
    with records_of(run) as lines:
        for line in rng.sample(lines, rng.randint(2, len(lines))):
            if rng.random() < 0.5:
                failure = {"kind": "missing", "message": "no answer"}
                line["response"] = {"sample_id": line["sample"]["id"], "failure": failure}
            else:
                line["judgements"] = []


def with_a_passing_report(run: Path, rng: random.Random) -> None:
    path = run / rng.choice([VERDICT, "report.json"])
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace('"fail"', '"pass"').replace('"exit_code":1', '"exit_code":0'), encoding="utf-8")


def in_a_bit(run: Path, rng: random.Random) -> None:
    file = run / rng.choice([SAMPLES, MANIFEST, VERDICT])
    body = bytearray(file.read_bytes())
    body[rng.randrange(len(body))] ^= 1 << rng.randrange(8)
    file.write_bytes(body)


def of_another_run(run: Path, rng: random.Random) -> None:
    """The manifest or the verdict of the baseline, or of the run of this commit that passes, in place of its own."""
    source = run.parent / rng.choice(["baseline", "good"])
    for name in rng.sample([MANIFEST, VERDICT], rng.randint(1, 2)):
        shutil.copy(source / name, run / name)


def with_files_of_its_own(run: Path, rng: random.Random) -> None:
    """What decides, put beside the records: policy, config, golden set, accepted drops, history, a baseline."""
    texts = {
        "thresholds.toml": "[gate]\nonly_named = true\n",
        "ragstone.toml": '[gate]\nfail_on = "never"\n',
        "golden.jsonl": '{"id": "house-0", "question": "Q?"}\n',
        "accepted.toml": '[[accepted]]\nid = "aaaaaaaa"\nmetric = "faithfulness"\ndrop = 1.0\nreason = "x"\n',
        "history.jsonl": "{}\n",
    }
    for name in rng.sample(sorted(texts), rng.randint(1, len(texts))):
        (run / name).write_text(texts[name], encoding="utf-8")
    if rng.random() < 0.5:
        shutil.copytree(run.parent / "bad", run / "baseline", dirs_exist_ok=True)


CHANGES: tuple[Change, ...] = (
    *(in_manifest, with_an_excuse, in_the_facts_of_rounds, in_the_facts_of_the_commit, in_scores, in_samples),
    *(with_masked_texts, with_drafts),
    *(limited_to_the_best, in_the_order_and_number, with_failures, with_a_passing_report, in_a_bit, of_another_run),
    with_files_of_its_own,
)


def contents(run: Path) -> dict[str, bytes]:
    return {path.relative_to(run).as_posix(): path.read_bytes() for path in run.rglob("*") if path.is_file()}


def tampered_exit_codes(world: World, original: Path, count: int) -> Iterator[tuple[str, int]]:
    """What `count` tamperings of `original` end in: the number and the names of each, and the code.

    Each changes something. They are the same ones in each run of the tests.
    """
    before = contents(original)
    done = number = 0
    while done < count:
        number += 1
        rng = random.Random(number)
        first = CHANGES[number % len(CHANGES)]
        chosen = [first, *rng.choices(CHANGES, k=rng.choice([0, 0, 1, 2, LIMIT - 1]))]
        with world.copy(original) as run:
            with contextlib.suppress(ValueError, LookupError, TypeError, AttributeError, OSError):
                for change in chosen:  # what came before may have left nothing that one could change
                    change(run, rng)
            if contents(run) == before:
                continue
            done += 1
            yield f"{number}: {', '.join(change.__name__ for change in chosen)}", world.exit_code(run)


REFUSALS = {2, 3, 4, 5, 6, 8}


@pytest.mark.attack(by="stored run", tries="any of a thousand changes to a run that fails", stopped_by="none passes")
@pytest.mark.heavy
def test_a_thousand_tamperings_let_no_run_pass_that_fails(world: World) -> None:
    """Each run fails, or is refused by one of the codes of a refusal."""
    codes = dict(tampered_exit_codes(world, world.bad, 1_000))
    assert len(codes) == 1_000
    assert {name: code for name, code in codes.items() if code not in {1, *REFUSALS}} == {}


@pytest.mark.heavy
def test_a_run_that_passes_is_refused_or_decided_right_whatever_is_changed(world: World) -> None:
    codes = [code for _, code in tampered_exit_codes(world, world.good, 200)]
    assert set(codes) <= {0, *REFUSALS}
    assert 0 < codes.count(0) < 100


@pytest.mark.heavy
@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_each_kind_of_tampering_lets_no_run_pass_that_fails(world: World, change: Change) -> None:
    for seed in range(3):
        with world.copy(world.bad) as run:
            change(run, random.Random(seed))
            assert world.exit_code(run) in {1, *REFUSALS}


def test_whoever_can_write_other_answers_and_judgements_is_believed(world: World) -> None:
    """What nothing can tell but a signature on the archive: SECURITY.md says so."""
    with world.copy(world.bad) as run:
        shutil.copy(world.good / SAMPLES, run / SAMPLES)
        assert world.exit_code(run) == 0
    page = (Path(__file__).parents[2] / "SECURITY.md").read_text(encoding="utf-8")
    assert "Whoever can write a stored run can write other answers and judgements" in page
