"""`ragstone verify` as an auditor uses it: what it prints, how it exits, and what it does with hostile input."""

from __future__ import annotations

import json
import os
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from ragstone.app.attestation import canonical
from ragstone.run.directory import ATTESTATION, MANIFEST, SAMPLES
from ragstone.tools.verify.verify import MAX_ATTESTATION_BYTES, State, verify
from tests.app.conftest import Ragstone
from tests.commands.project import make_project
from tests.commands.project import ragstone as run_ragstone
from tests.tools.verify.world import World, git, make_world


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> World:
    return make_world(tmp_path_factory.mktemp("verify") / "repo")


@pytest.fixture
def world(made: World, tmp_path: Path) -> World:
    """In the folder in which `ragstone` is run."""
    return World(shutil.copytree(made.root, tmp_path, dirs_exist_ok=True))


ALL = ("--policy", "thresholds.toml", "--golden", "golden.jsonl", "--baseline", "baseline", "--history", "before.jsonl")


def test_an_auditor_with_everything_verifies_everything(world: World, ragstone: Ragstone) -> None:
    code, out, _ = ragstone("verify", "ragstone-run", *ALL, "--commit", world.commit)
    assert code == 0, out
    lines = out.splitlines()
    assert all(len(line) <= 80 for line in lines)
    assert [line.split()[0] for line in lines[:-1]] == [
        *("attestation", "run", "files", "records", "commit", "policy", "golden", "scores"),
        *("baseline", "history", "checks", "verdict"),
    ]
    assert lines[-1] == "Verified: attestation, commit, policy, golden, scores, checks, verdict."


def test_what_is_missing_is_named_with_the_option_that_supplies_it(world: World, ragstone: Ragstone) -> None:
    code, out, err = ragstone("verify", "ragstone-run")
    assert code == 2
    for option in ("--policy", "--golden", "--baseline", "--history", "--commit"):
        assert option in out
    assert "not verified: commit, policy, golden, checks, verdict." in err


def test_a_first_run_needs_no_history(tmp_path: Path, ragstone: Ragstone) -> None:
    make_project(tmp_path, n=6)
    assert ragstone("gate", "--history", "history.jsonl")[0] == 0
    (tmp_path / "history.jsonl").unlink()
    code, out, err = ragstone("verify", "ragstone-run", "--require", "verdict")
    assert code == 0, out + err
    assert "history      matches        no earlier run" in out


def test_the_verifier_says_what_must_hold(world: World, ragstone: Ragstone) -> None:
    assert ragstone("verify", "ragstone-run", "--require", "scores,records")[0] == 0
    code, _, err = ragstone("verify", "ragstone-run", "--require", "score")
    assert code == 2
    assert "Did you mean 'scores'?" in err


def test_what_differs_ends_with_a_code_of_its_own_and_says_where(world: World, ragstone: Ragstone) -> None:
    file = world.run / MANIFEST
    file.write_text(file.read_text().replace('"calls": 0', '"calls": 7'))
    code, out, err = ragstone("verify", "ragstone-run", *ALL, "--commit", world.commit)
    assert code == 9
    assert "cost.calls" in out
    assert "differs from the attestation: run, files." in err


def test_another_commit_is_not_the_one_that_was_evaluated(world: World, ragstone: Ragstone) -> None:
    code, out, _ = ragstone("verify", "ragstone-run", "--commit", "0" * 40)
    assert code == 9
    assert f"{world.commit} is attested" in out


def test_json_has_every_part(world: World, ragstone: Ragstone) -> None:
    code, out, _ = ragstone("verify", "ragstone-run", *ALL, "--commit", world.commit, "--json")
    found = json.loads(out)
    assert code == 0
    assert (found["differs"], found["missing"]) == ([], [])
    assert {"name": "verdict", "state": "recomputed", "what": "fail"} in found["parts"]


def test_an_attestation_is_checked_without_its_run_as_far_as_it_goes(world: World, tmp_path: Path) -> None:
    alone = tmp_path / "elsewhere" / ATTESTATION
    alone.parent.mkdir()
    shutil.copy(world.run / ATTESTATION, alone)
    states = {part.name: part.state for part in verify(alone, world.own())}
    assert {states[name] for name in ("attestation", "commit", "policy", "golden")} == {State.MATCHES}
    assert {states[name] for name in ("run", "scores", "checks", "verdict")} == {State.NOT_AVAILABLE}


def test_a_run_is_checked_against_an_attestation_from_elsewhere(world: World, ragstone: Ragstone) -> None:
    """Such as a signed one."""
    shutil.move(world.run / ATTESTATION, world.root / "signed.json")
    given = ("verify", "ragstone-run", "--attestation", "signed.json", "--require", "scores")
    assert ragstone(*given)[0] == 0
    body = (world.root / "signed.json").read_text()
    (world.root / "signed.json").write_text(body.replace('"calls":0', '"calls":1'))
    code, out, _ = ragstone(*given)
    assert code == 9
    assert "cost.calls" in out


def test_a_random_sample_is_judged_again_with_an_interval(world: World, ragstone: Ragstone) -> None:
    code, out, _ = ragstone("verify", "ragstone-run", "--require", "scores", "--rejudge", "4", "--seed", "1")
    assert code == 0
    assert "faithfulness: 4 of 4 agree (39.8 % to 100 %)" in out
    assert "Judged again by offline judge" in out


def test_a_judge_that_lied_is_found_by_judging_again(world: World, ragstone: Ragstone) -> None:
    """A run whose answers are all called supported: consistent, and wrong."""
    lines = [json.loads(line) for line in (world.run / SAMPLES).read_text().splitlines()]
    for line in lines:
        line["scores"]["faithfulness"] = {"state": "scored", "value": 1.0}
    (world.run / SAMPLES).write_text("".join(json.dumps(line) + "\n" for line in lines))
    _, out, _ = ragstone("verify", "ragstone-run", "--rejudge", "10", "--seed", "1")
    assert "faithfulness: 1 of 10 agree" in out


# -- before a deployment -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def passed(tmp_path_factory: pytest.TempPathFactory) -> World:
    """A repository whose run passed."""
    world = World(make_project(tmp_path_factory.mktemp("deploy") / "repo", n=12))
    git(world.root, "init", "-q")
    (world.root / ".gitignore").write_text("ragstone-*/\n__pycache__/\n")
    git(world.root, "add", "-A")
    git(world.root, "commit", "-qm", "A system")
    done = run_ragstone(["gate"], world.root)
    assert done.returncode == 0, done.stdout + done.stderr
    return world


def copied(world: World, folder: Path) -> World:
    return World(shutil.copytree(world.root, folder, dirs_exist_ok=True))


def test_a_commit_whose_run_passed_can_be_deployed(passed: World, tmp_path: Path, ragstone: Ragstone) -> None:
    world = copied(passed, tmp_path)
    code, out, err = ragstone("verify", "ragstone-run", "--for-deployment", world.commit)
    assert code == 0, err
    assert "deployment   matches        passed, 0 days ago" in out
    assert out.splitlines()[-1] == "Verified: attestation, commit, deployment, run, files, records, scores."
    assert max(map(len, out.splitlines())) <= 80
    more = ("--policy", "thresholds.toml", "--golden", "golden.jsonl", "--require", "policy,golden,verdict")
    code, out, err = ragstone("verify", "ragstone-run", "--for-deployment", world.commit, *more)
    assert code == 0, err
    assert out.splitlines()[-1].endswith("scores, policy, golden, verdict.")


def test_the_attestation_alone_is_enough_where_its_signature_is_checked(
    passed: World, tmp_path: Path, ragstone: Ragstone
) -> None:
    shutil.copy(passed.run / ATTESTATION, tmp_path)
    code, out, err = ragstone("verify", ATTESTATION, "--for-deployment", passed.commit)
    assert code == 0, err
    assert out.splitlines()[-1] == "Verified: attestation, commit, deployment."


def edited(run: Path, **changes: object) -> None:
    """Rewrite the attestation alone, as somebody who can't sign it."""
    file = run / ATTESTATION
    whole = json.loads(file.read_text())
    for place, value in changes.items():
        *way, last = place.split("__")
        at = whole["predicate"]
        for key in way:
            at = at[key]
        at[last] = value
    file.write_text("".join(canonical(whole)))


NOT_DEPLOYED: dict[str, tuple[dict[str, object], str]] = {
    "failed": ({"verdict": "fail"}, "the verdict is fail"),
    "called a pass": ({"run__verdict": "fail"}, "the verdict of its run is fail"),
    "inconclusive": ({"verdict": "inconclusive"}, "the verdict is inconclusive"),
    "edited": ({"run__invocation__changed": 2}, "2 files differed from the commit"),
    "a part": ({"terms__limited": True}, "only a part of the golden set was evaluated"),
    "a half": ({"run__system__part": "retrieval"}, "only the retrieval was evaluated"),
    "old": ({"run__created_at": "2026-01-01T00:00:00+00:00"}, "days old, more than 7"),
    "from the future": ({"run__created_at": "2126-01-01T00:00:00+00:00"}, "it is from the future"),
    "no time": ({"run__created_at": "yesterday"}, "its time can't be read"),
}


@pytest.mark.parametrize("name", NOT_DEPLOYED)
def test_what_must_not_be_deployed(passed: World, tmp_path: Path, ragstone: Ragstone, name: str) -> None:
    changes, why = NOT_DEPLOYED[name]
    shutil.copy(passed.run / ATTESTATION, tmp_path)
    edited(tmp_path, **changes)
    code, _, err = ragstone("verify", ATTESTATION, "--for-deployment", passed.commit)
    assert code == 9
    assert f"{passed.commit[:12]} must not be deployed: " in err
    assert why in " ".join(err.split())


def test_another_commit_or_a_run_that_was_changed_is_not_deployed(
    passed: World, tmp_path: Path, ragstone: Ragstone
) -> None:
    world = copied(passed, tmp_path)
    code, _, err = ragstone("verify", "ragstone-run", "--for-deployment", "0" * 40)
    assert code == 9
    assert f"000000000000 must not be deployed: {world.commit} is attested." in " ".join(err.split())
    lines = (world.run / SAMPLES).read_text().splitlines(keepends=True)
    (world.run / SAMPLES).write_text("".join(lines[1:]))
    assert ragstone("verify", "ragstone-run", "--for-deployment", world.commit)[0] == 9


def test_an_older_one_can_be_allowed(passed: World, tmp_path: Path, ragstone: Ragstone) -> None:
    shutil.copy(passed.run / ATTESTATION, tmp_path)
    made = datetime.now(UTC) - timedelta(days=20)
    edited(tmp_path, run__created_at=made.isoformat())
    given = ("verify", ATTESTATION, "--for-deployment", passed.commit)
    assert ragstone(*given)[0] == 9
    assert ragstone(*given, "--max-age-days", "30")[0] == 0


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (("--for-deployment", "main"), "'main' is no commit id."),
        (("--commit", "0a1b2c3"), "'0a1b2c3' is no commit id."),
        (("--max-age-days", "3"), "Add --for-deployment SHA."),
        (("--for-deployment", "0" * 40, "--commit", "1" * 40), "names another commit"),
    ],
)
def test_options_that_don_t_fit_are_refused(
    passed: World, tmp_path: Path, ragstone: Ragstone, given: tuple[str, ...], says: str
) -> None:
    shutil.copy(passed.run / ATTESTATION, tmp_path)
    code, _, err = ragstone("verify", ATTESTATION, *given)
    assert (code, says in err) == (2, True), err


# -- hostile input -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"null",
        b"[" * 100_000,
        b'{"_type":' * 10_000,
        b"\xff\xfe",
        b'{"_type":"https://in-toto.io/Statement/v1"}',
        b'{"predicate":' + b"9" * 10_000 + b"}",
        json.dumps({"_type": "\ud800", "subject": None, "predicate": {}, "predicateType": 1}).encode(),
    ],
    ids=lambda body: repr(body[:20]),
)
def test_what_is_no_attestation_is_said_so(world: World, ragstone: Ragstone, body: bytes) -> None:
    (world.run / ATTESTATION).write_bytes(body)
    code, out, _ = ragstone("verify", "ragstone-run")
    assert code == 9
    assert out.startswith("attestation  differs")


def test_one_that_is_too_large_is_not_read(world: World, ragstone: Ragstone) -> None:
    with (world.run / ATTESTATION).open("wb") as stream:
        stream.truncate(MAX_ATTESTATION_BYTES + 1)
    code, _, err = ragstone("verify", "ragstone-run")
    assert code == 2
    assert "it is larger than" in err


@pytest.mark.parametrize(
    "change",
    [
        {"gates": 0},
        {"seed": -1},
        {"gates": -(10**18)},
        {"looked_in_order": ["nobody"]},
        {"level": True, "required": True, "rejudged": True},
        {"given": {"gate": ["nothing", "__class__"], "__init__": []}},
        {"past": {"main": True, "releases": {"x" * 40: "\x1b[31m"}}},
        {"policy": {"gate": {"confidence": 0.5000001}}},
        {"baseline": "/etc", "history": "/dev/zero", "policy_file": "/etc/passwd"},
    ],
    ids=str,
)
def test_terms_that_nobody_would_have_end_in_an_answer(
    world: World, ragstone: Ragstone, change: dict[str, object]
) -> None:
    file = world.run / ATTESTATION
    whole = json.loads(file.read_text())
    whole["predicate"]["terms"] |= change
    file.write_text("".join(canonical(whole)))
    code, out, err = ragstone("verify", "ragstone-run", *ALL, "--commit", world.commit)
    assert code == 9, out + err
    assert "attestation  differs" in out
    assert "\x1b[31m" not in out + err


def test_no_place_outside_the_run_is_opened_that_it_names(world: World, tmp_path: Path) -> None:
    (world.run / "report.md").unlink()
    os.mkfifo(world.run / "report.md")
    (world.run / "junit.xml").unlink()
    (world.run / "junit.xml").symlink_to(tmp_path)
    (part,) = (part for part in verify(world.run, world.own()) if part.name == "files")
    assert part.what == "junit.xml missing, report.md changed"
