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
from ragstone.evaluation.directory import MANIFEST, REPORT, SAMPLES
from ragstone.gate.verdict import Status
from tests.cli.project import append, git, ragstone, read_json
from tests.pipeline.decided import (
    POLICY,
    TODAY,
    World,
    edit_manifest,
    lines_of,
    make_world,
    records_of,
    run_gate,
    set_field,
    write_lines,
)

Tampering = Callable[[Path], None]
UNFINISHED, OTHER_QUESTIONS, OTHER_COMMIT = JudgeError.exit_code, GoldenSetError.exit_code, ConfigError.exit_code
NO_BASELINE = BaselineError.exit_code


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


def contents(run: Path) -> dict[str, bytes]:
    return {path.relative_to(run).as_posix(): path.read_bytes() for path in run.rglob("*") if path.is_file()}


def test_an_honest_run_is_decided_as_the_gate_decided_it_and_nothing_is_written(world: World) -> None:
    before = contents(world.bad)
    good, bad = world.decide(world.good), world.decide(world.bad)
    assert contents(world.bad) == before
    assert (good.verdict.exit_code, bad.verdict.exit_code) == (0, 1)
    for fact in ("pass", "thresholds.toml", "12 questions", world.commit[:12]):
        assert fact in good.summary
    stored = read_json(world.bad / "report.json")["checks"]
    decided = {check.name: check.status.value for check in bad.document.checks}
    assert decided == {check["name"]: check["status"] for check in stored}
    assert bad.document.run.label == str(world.bad)


# -- questions ---------------------------------------------------------------------------------------------------------


Lines = list[dict[str, Any]]


def in_sample(place: int, **changes: object) -> Callable[[Lines], None]:
    return lambda lines: lines[place]["sample"].update(changes)


def put_one_in_the_place_of_another(lines: Lines) -> None:
    lines[0] = lines[3]


def swap_ids(lines: Lines) -> None:
    lines[0]["sample"]["id"], lines[2]["sample"]["id"] = lines[2]["sample"]["id"], lines[0]["sample"]["id"]


def add_an_easy_question(lines: Lines) -> None:
    lines.append({**lines[0], "sample": {**lines[0]["sample"], "id": "easy"}})


def not_ask(lines: Lines) -> None:
    lines[4]["answers"][0]["response"] = {
        "sample_id": "house-4",
        "failure": {"kind": "missing", "message": "no answer"},
    }


@pytest.mark.attack(
    by="stored run", tries="leave out, double or reword questions", stopped_by="compared with the golden set"
)
@pytest.mark.parametrize(
    ("tamper", "named"),
    [
        (lambda lines: lines.pop(0), "'house-0' is missing"),
        (lambda lines: lines.append(lines[3]), "'house-3' is repeated"),
        (put_one_in_the_place_of_another, "'house-3' is repeated, 'house-0' is missing"),
        (swap_ids, "'house-2' differs from that of the golden set, 'house-0' differs"),
        (add_an_easy_question, "'easy' is not in the golden set"),
        (not_ask, "'house-4' was not asked"),
        (
            in_sample(5, question="*** is the colour of house number 5?"),
            "'house-5' differs from that of the golden set",
        ),
        (in_sample(5, reference="It is painted."), "'house-5' differs"),
        (in_sample(5, review={"status": "draft"}), "'house-5' differs"),
        (in_sample(4, tags=["odd"]), "'house-4' differs"),
        (in_sample(4, group="together"), "'house-4' differs"),
        (in_sample(4, answerable=False), "'house-4' differs"),
        (in_sample(4, other_references=["Any colour."]), "'house-4' differs"),
    ],
)
def test_a_question_that_is_not_as_in_the_golden_set_is_named(
    world: World, tamper: Callable[[Lines], object], named: str
) -> None:
    with world.copy(world.good) as run:
        with records_of(run) as lines:
            tamper(lines)
        code, said = world.refusal(run)
    assert (code, named in said) == (OTHER_QUESTIONS, True), said


def test_a_run_of_a_part_of_the_golden_set_is_refused_whatever_limit_the_config_has(world: World) -> None:
    with gated(world, "--limit", "6") as limited:
        set_field(limited, "invocation.changed", 0)
        for limit in (None, 6):
            code, said = world.refusal(limited, golden__limit=limit)
            assert (code, "'house-6' is missing" in said) == (OTHER_QUESTIONS, True)


# -- the commit, and what kind of run it is ----------------------------------------------------------------------------


def of(path: str, value: object) -> Tampering:
    return lambda run: set_field(run, path, value)


def without(metric: str) -> Tampering:
    def tamper(run: Path) -> None:
        with records_of(run) as lines:
            for line in lines:
                del line["scores"][metric]
        edit_manifest(run, lambda manifest: manifest["metrics"].pop(metric))

    return tamper


def cut_short(run: Path) -> None:
    write_lines(run, lines_of(run)[:5])
    set_field(run, "state", "stopped")


@pytest.mark.attack(
    by="stored run", tries="another commit, an edited checkout", stopped_by="compared with the named commit"
)
@pytest.mark.parametrize(
    ("tamper", "code", "said"),
    [
        (of("system.commit", "c" * 40), OTHER_COMMIT, "the run is of commit cccc"),
        (of("system.commit", None), OTHER_COMMIT, "does not say which commit"),
        (of("invocation.changed", 1), OTHER_COMMIT, "1 file differed from the commit"),
        (of("invocation.changed", None), OTHER_COMMIT, "not known whether files differed"),
        (of("invocation", None), OTHER_COMMIT, "not known whether files differed"),
        (of("state", "running"), UNFINISHED, "the run was running, not finished"),
        (cut_short, UNFINISHED, "the run was stopped, not finished"),
        (of("oracle_of", "2026-11-28T00:00:00+00:00"), 2, "it is the oracle half"),
        (of("system.part", "generation"), 2, "it evaluated generation, but the config says the whole system"),
        (of("judge.provider", "scripted"), 5, "the run was judged by scripted"),
        (of("answers", 2), 2, "has 1 answer, but the manifest says 2"),
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
        found = world.refusal(run)
    assert (found[0], said in found[1]) == (code, True), found


@contextlib.contextmanager
def gated(world: World, *options: str) -> Iterator[Path]:
    """A new run of the checkout as it is."""
    run_gate(world.root, "tampered", "--baseline", "baseline", *options, code=0)
    yield world.root / "tampered"
    shutil.rmtree(world.root / "tampered")


@contextlib.contextmanager
def edited(world: World, name: str, *, hidden: str | None = None) -> Iterator[Path]:
    """A file to edit, which is put back; git is told by the flag `hidden` not to look at it."""
    file = world.root / name
    text = file.read_text(encoding="utf-8")
    if hidden is not None:
        git(world.root, "update-index", f"--{hidden}", name)
    try:
        yield file
    finally:
        file.write_text(text, encoding="utf-8")
        if hidden is not None:
            git(world.root, "update-index", f"--no-{hidden}", name)


def test_a_dirty_checkout_and_an_earlier_commit_are_refused(world: World) -> None:
    with edited(world, "houses.py") as houses:
        append(houses, "\n# edited\n")
        with gated(world) as run:
            assert "1 file differed from the commit" in world.refusal(run)[1]
    assert world.exit_code(world.good, commit=git(world.root, "rev-parse", "HEAD^")) == OTHER_COMMIT


@pytest.mark.heavy
@pytest.mark.attack(by="stored run", tries="hide an edited file from git", stopped_by="a hidden file counts as changed")
@pytest.mark.parametrize("flag", ["assume-unchanged", "skip-worktree"])
def test_an_edit_that_git_was_told_not_to_look_at_is_seen(world: World, flag: str) -> None:
    with edited(world, "houses.py", hidden=flag) as houses:
        append(houses, "\n# edited\n")
        assert git(world.root, "status", "--porcelain", "houses.py") == ""
        with gated(world) as run:
            assert "1 file differed from the commit" in world.refusal(run)[1]


def test_what_a_sparse_checkout_leaves_out_is_no_change(world: World) -> None:
    with edited(world, "notes.txt", hidden="skip-worktree") as notes:
        notes.unlink()
        with gated(world) as run:
            assert world.exit_code(run) == 0


def test_the_baseline_in_place_of_the_run_is_refused(world: World) -> None:
    assert world.exit_code(world.baseline) == OTHER_COMMIT
    code, said = world.refusal(world.baseline, commit=git(world.root, "rev-parse", "HEAD^"))
    assert (code, "can't be compared with itself" in said) == (NO_BASELINE, True)


@pytest.mark.attack(by="stored run", tries="remove a metric, claim another judge", stopped_by="the caller says these")
def test_a_metric_that_the_run_no_longer_has_is_missed(world: World) -> None:
    with world.copy(world.bad) as run:
        without("faithfulness")(run)
        code, said = world.refusal(run)
    assert (code, "faithfulness can't be computed" in said) == (JudgeError.exit_code, True)


# -- scores and verdict ------------------------------------------------------------------------------------------------


def with_higher_scores(run: Path) -> None:
    with records_of(run) as lines:
        for line in lines:
            line["scores"]["faithfulness"]["value"] = 1.0


def with_a_stored_pass(run: Path) -> None:
    set_field(run, "verdict", "pass")
    body = read_json(run / REPORT)
    body["verdict"] |= {"status": "pass", "passed": True, "exit_code": 0}
    for check in body["checks"]:
        check["status"] = "pass"
    (run / REPORT).write_text(json.dumps(body), encoding="utf-8")


def with_a_broken_verdict(run: Path) -> None:
    (run / REPORT).write_text("{", encoding="utf-8")


def without_baseline_and_verdict(run: Path) -> None:
    set_field(run, "baseline", None)
    (run / REPORT).unlink()


@pytest.mark.attack(by="stored run", tries="write higher scores", stopped_by="checked by the judgements")
def test_scores_that_do_not_follow_from_the_judgements_are_refused(world: World) -> None:
    with world.copy(world.bad) as run:
        with_higher_scores(run)
        code, said = world.refusal(run)
        assert (code, "does not follow from the recorded judgements" in said) == (2, True)
    with world.copy(world.baseline) as baseline:
        with_higher_scores(baseline)
        assert world.exit_code(world.bad, gate__baseline=str(baseline)) == NO_BASELINE


@pytest.mark.parametrize("tamper", [with_a_stored_pass, with_a_broken_verdict, without_baseline_and_verdict])
def test_what_the_run_says_of_itself_is_not_believed(world: World, tamper: Tampering) -> None:
    with world.copy(world.bad) as run:
        tamper(run)
        assert world.exit_code(run) == 1


@pytest.mark.attack(by="stored run", tries="make the command crash", stopped_by="bounded, an error")
def test_judgements_that_fit_no_answer_are_an_error_and_no_crash(world: World) -> None:
    with world.copy(world.good) as run:
        with records_of(run) as lines:
            for line in lines:
                line["answers"][0]["judgements"][0]["support"]["supports"] = []
        assert world.exit_code(run) not in (0, 70)


# -- the baseline ------------------------------------------------------------------------------------------------------


def test_drops_without_a_baseline_are_an_error(world: World) -> None:
    decision = world.decide(world.good, gate__baseline=None)
    assert (decision.verdict.status, decision.verdict.exit_code) == (Status.ERROR, NO_BASELINE)
    assert "no baseline" in decision.verdict.reason.lower()


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
    assert "no drop was checked, because no baseline is named" in decision.summary


@pytest.mark.parametrize(
    ("original", "tamper"),
    [
        ("baseline", without("context_recall")),
        ("baseline", of("judge.version", "1")),
        ("bad", lambda run: shutil.rmtree(run / "baseline", ignore_errors=True)),
    ],
    ids=["of other metrics", "of another judge", "that failed"],
)
def test_a_baseline_that_can_not_show_every_drop_is_an_error(world: World, original: str, tamper: Tampering) -> None:
    with world.copy(world.root / original) as baseline:
        tamper(baseline)
        assert world.exit_code(world.good, gate__baseline=str(baseline)) == NO_BASELINE


def test_a_policy_that_limits_drift_needs_the_history_beside_the_baseline(world: World, rules: Path) -> None:
    rules.write_text(f"{POLICY}\n[drift]\nmax_drift = 0.03\n", encoding="utf-8")
    code, said = world.refusal(world.good)
    assert (code, "history.jsonl" in said) == (NO_BASELINE, True)
    with world.copy(world.baseline) as baseline:
        ragstone(["history", "add", "tampered", "--history", "tampered/history.jsonl"], world.root, exit_code=0)
        assert world.exit_code(world.good, gate__baseline=str(baseline)) == 0


# -- the policy --------------------------------------------------------------------------------------------------------


def test_an_undecided_run_never_passes_whatever_the_policy_or_fail_on_says(world: World, rules: Path) -> None:
    lenient = POLICY.replace("[gate]", '[gate]\ninconclusive = "pass"')
    rules.write_text(f"{lenient}[system]\nlatency_p95_s = 0.5\n", encoding="utf-8")
    with world.copy(world.good) as run:
        with records_of(run) as lines:
            for place, line in enumerate(lines):
                line["answers"][0]["response"]["latency_s"] = 1.0 if place == 0 else 0.1
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
    words = ["accept", "bad", "--metric", "faithfulness", "--reason", "A trade-off", *more]
    ragstone(words, world.root, exit_code=0)


def test_an_accepted_drop_counts_where_it_lies_beside_the_named_policy(world: World, rules: Path) -> None:
    rules.write_text(ONE_DROP, encoding="utf-8")
    assert world.exit_code(world.bad) == 1
    with world.copy(world.bad) as run:
        accept(world)
        shutil.copy(world.root / "accepted.toml", run)
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
MOST = 7
"""Each tampering is one to so many changes."""
EXCUSES: tuple[tuple[str, Any], ...] = (
    ("verdict", "pass"),
    ("baseline", {"eligible": True, "reason": "it passed"}),
    ("golden.limited", True),
    ("golden.samples", 3),
    ("system.part", "retrieval"),
    ("same_job", True),
    ("earlier", [1]),
    ("price", {"input": 0, "output": 0}),
    ("invocation", None),
    ("invocation.changed", 12),
    ("invocation.flags", ["--limit=3", "--fail-on=never"]),
)
OWN_FILES = {
    "confirm.json": '{"steady": true}',
    "judge.json": '{"planted": {"asked": 3, "passed": 0}}',
    "oracle.json": '{"asked": -1}',
    "thresholds.toml": "[gate]\nonly_named = true\n",
    "ragstone.toml": '[gate]\nfail_on = "never"\n',
    "golden.jsonl": '{"id": "house-0", "question": "Q?"}\n',
    "accepted.toml": '[[accepted]]\nid = "aaaaaaaa"\nmetric = "faithfulness"\ndrop = 1.0\nreason = "x"\n',
    "history.jsonl": "{}\n",
}
"""Facts of rounds, and what decides, put beside the records."""


def change_a_leaf(tree: Any, rng: random.Random) -> None:
    """Give a value in `tree` another one, mostly of the same type."""
    while True:
        key = rng.choice(list(tree) if isinstance(tree, dict) else range(len(tree)))
        if not isinstance(tree[key], dict | list) or not tree[key] or rng.random() < 0.1:
            break
        tree = tree[key]
    value = tree[key]
    others: list[Any] = [None, [], {}, "x", 1.0, True, {"status": "draft"}]
    if isinstance(value, int | float):
        others = [not value, value + rng.randint(1, 9), 0, 1]
    if isinstance(value, str):
        others = [value[:-1], value.replace("house", "***"), "pass", "finished", "offline", ""]
    tree[key] = rng.choice(others)


def in_manifest(run: Path, rng: random.Random) -> None:
    edit_manifest(run, lambda manifest: change_a_leaf(manifest, rng))


def with_an_excuse(run: Path, rng: random.Random) -> None:
    set_field(run, *rng.choice(EXCUSES))


def in_samples(run: Path, rng: random.Random) -> None:
    with records_of(run) as lines:
        for line in rng.sample(lines, rng.randint(1, len(lines))):
            change_a_leaf(line["sample"], rng)


def in_scores(run: Path, rng: random.Random) -> None:
    states = [{"state": "scored", "value": 1.0}, {"state": "not_applicable", "reason": "it has no reference"}]
    with records_of(run) as lines:
        for line in rng.sample(lines, rng.randint(1, len(lines))):
            for name in line["scores"]:
                line["scores"][name] = rng.choice(states)


def with_failures(run: Path, rng: random.Random) -> None:
    """As if the system had not been asked, or the judge had failed, where the scores are low."""
    with records_of(run) as lines:
        for line in rng.sample(lines, rng.randint(2, len(lines))):
            if rng.random() < 0.5:
                failure = {"kind": "missing", "message": "no answer"}
                line["answers"][0]["response"] = {"sample_id": line["sample"]["id"], "failure": failure}
            else:
                line["answers"][0]["judgements"] = []


def in_the_order_and_number(run: Path, rng: random.Random) -> None:
    with records_of(run) as lines:
        for _ in range(rng.randint(1, 4)):
            place = rng.randrange(len(lines))
            if rng.random() < 0.5 and len(lines) > 1:
                del lines[place]
            else:
                lines.insert(rng.randrange(len(lines)), lines[place])


def in_a_bit(run: Path, rng: random.Random) -> None:
    file = run / rng.choice([SAMPLES, MANIFEST, REPORT])
    body = bytearray(file.read_bytes())
    body[rng.randrange(len(body))] ^= 1 << rng.randrange(8)
    file.write_bytes(body)


def with_files_of_others(run: Path, rng: random.Random) -> None:
    """Manifest or verdict of the baseline, or of the run that passes; files of its own; a baseline."""
    source = run.parent / rng.choice(["baseline", "good"])
    for name in rng.sample([MANIFEST, REPORT], rng.randint(0, 2)):
        shutil.copy(source / name, run / name)
    for name in rng.sample(sorted(OWN_FILES), rng.randint(1, len(OWN_FILES))):
        (run / name).write_text(OWN_FILES[name], encoding="utf-8")
    if rng.random() < 0.5:
        shutil.copytree(run.parent / "bad", run / "baseline", dirs_exist_ok=True)


CHANGES: tuple[Change, ...] = (
    *(in_manifest, with_an_excuse, in_samples, in_scores, with_failures, in_the_order_and_number),
    *(in_a_bit, with_files_of_others),
)


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
        chosen = [first, *rng.choices(CHANGES, k=rng.choice([0, 0, 1, 2, MOST - 1]))]
        with world.copy(original) as run:
            with contextlib.suppress(ValueError, LookupError, TypeError, AttributeError, OSError):
                for change in chosen:  # what came before may have left nothing that one could change
                    change(run, rng)
            if contents(run) == before:
                continue
            done += 1
            yield f"{number}: {', '.join(change.__name__ for change in chosen)}", world.exit_code(run)


REFUSALS = {2, 3, 4, 5, 6, 8}


@pytest.mark.attack(by="stored run", tries="any of a thousand changes", stopped_by="none passes")
@pytest.mark.heavy
def test_a_thousand_tamperings_let_no_run_pass_that_fails(world: World) -> None:
    """Each run fails, or is refused by one of the codes of a refusal."""
    codes = dict(tampered_exit_codes(world, world.bad, 1_000))
    assert len(codes) == 1_000
    assert {name: code for name, code in codes.items() if code not in {1, *REFUSALS}} == {}


def test_whoever_can_write_other_answers_and_judgements_is_believed(world: World) -> None:
    """What nothing can tell but a signature on the archive: SECURITY.md says so."""
    with world.copy(world.bad) as run:
        shutil.copy(world.good / SAMPLES, run / SAMPLES)
        assert world.exit_code(run) == 0
    page = (Path(__file__).parents[2] / "SECURITY.md").read_text(encoding="utf-8")
    assert "Whoever can write a stored run can write other answers and judgements" in page
