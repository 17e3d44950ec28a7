"""In the built container, the user's code tries everything it should not be able to do, and fails."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ragstone.evaluation.directory import RunDirectory
from ragstone.github.api.commands import COMMAND_FILES
from ragstone.github.container.confinement import living
from tests.github.api.fake import FakeGitHub
from tests.github.api.openapi import Contract
from tests.github.builders import FACTS, Outcome
from tests.image.conftest import OWNER, RECORDED, SECRETS, Image, Runner, make_checkout, runner_of

pytestmark = pytest.mark.container

HOSTILE = Path(__file__).with_name("hostile.py")
NO_RIGHT = f"refused: {errno.EACCES}"  # there, and not to be had
SYSTEM = """
import hostile

FACTS = {facts!r}
hostile.attempt("worker")

def answer(question):
    print("::set-output name=verdict::pass")
    print("text ##[error]forged")
    return {{"answer": "Elephants are the largest animals on land today.", "contexts": [FACTS[question]]}}
"""
KEEPING_BUSY = """
import hostile, pathlib, time

hostile.attempt("worker")

def answer(question):
    pathlib.Path("/github/workspace/asked").touch()
    time.sleep(600)
"""
INPUTS: dict[str, Any] = {
    "golden_set": "golden.jsonl",
    "entrypoint": "python:rag:answer",
    "metrics": "faithfulness",
    "setup": "python hostile.py setup",
    "system_env": "MY_OWN_SETTING",
}


@dataclass(frozen=True)
class Attempted:
    """A step whose `setup` and whose system were both hostile, and what came of it."""

    step: Runner
    outcome: Outcome


@pytest.fixture(scope="module")
def attempted(image: Image, contract: Contract, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Attempted]:
    with FakeGitHub(contract) as fake:
        checkout = make_checkout(fake, tmp_path_factory.mktemp("hostile"))
        shutil.copy(HOSTILE, checkout.root / "hostile.py")
        checkout.write("rag.py", SYSTEM.format(facts={question: fact for _, question, fact in FACTS}))
        with runner_of(image, checkout) as step:
            yield Attempted(step, step.run(environ={"MY_OWN_SETTING": "passed on"}, **INPUTS))


def attempts(step: Runner, *who: str) -> list[dict[str, Any]]:
    files = (step.checkout.root / f"attempts-{one}.json" for one in who or ("setup", "worker"))
    return [json.loads(file.read_text(encoding="utf-8")) for file in files]


def shows_a_secret(found: Outcome) -> bool:
    log = [line for line in found.log.splitlines() if "add-mask" not in line]
    shown = "\n".join(log) + found.summary + str(found.outputs)
    return any(secret in shown for secret in SECRETS.values())


def wait_for(sign: Callable[[], bool], running: Future[Any]) -> None:
    while not sign():
        if running.done():
            pytest.fail(f"it ended before: {running.result()}")
        time.sleep(0.05)


def gates_below(root: int) -> list[int]:
    """The gates among the descendants of process `root`."""
    parents: dict[int, int] = {}
    gates = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                fields = (entry / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
                parents[int(entry.name)] = int(fields[1])
                command = (entry / "cmdline").read_bytes().split(b"\0")
                if command[0] == b"/opt/ragstone/bin/python" and b"ragstone.action" in command:
                    gates.append(int(entry.name))

    def is_below(pid: int) -> bool:
        return pid == root or (pid in parents and is_below(parents[pid]))

    # A worker that is being started still has the gate's command line, until it has become its own program.
    return [pid for pid in gates if is_below(pid) and parents[pid] not in gates]


def as_user(uid: int, gid: int, line: str, folder: Path) -> bool:
    done = subprocess.run(["/bin/sh", "-c", line], check=False, user=uid, group=gid, extra_groups=[], cwd=folder)
    return done.returncode == 0


@pytest.mark.attack(
    by="pull request",
    tries="read keys, gain privileges, change scores",
    stopped_by="a separate user, an allow-list, `no_new_privs`",
)
def test_the_users_code_gets_hold_of_nothing(attempted: Attempted) -> None:
    assert attempted.outcome.code == 1, attempted.outcome.log
    for found in attempts(attempted.step):
        everything = json.dumps(found)
        for name, secret in SECRETS.items():
            assert secret not in everything, name
        assert found["uid"] == OWNER
        assert found["gid"] not in (0, OWNER)
        assert found["groups"] in ([], [found["gid"]])
        assert found["no_new_privileges"] == "1"
        assert found["gates"], "the gate was not found, so nothing was tried"
        assert {*found["gate_environ"], *found["gate_memory"]} == {NO_RIGHT}
        assert found["gate_killable"] == []
        assert found["docker"] == NO_RIGHT
        assert not found["ragstone"]
        assert found["private_folders"], "no folder of ours was found, so nothing was tried"
        assert found["private"] == []
        assert not any(name.startswith(("INPUT_", "ACTIONS_", "GITHUB_", "RAGSTONE_")) for name in found["environ"])
        assert "LD_LIBRARY_PATH" not in found["environ"]
        assert found["environ"]["MY_OWN_SETTING"] == "passed on"
        assert found["environ"]["HOME"] != "/github/home"


@pytest.mark.attack(
    by="pull request", tries="replace the runner's files", stopped_by="closed first, created afresh afterwards"
)
def test_it_gets_at_none_of_the_runners_files(attempted: Attempted) -> None:
    for found in attempts(attempted.step):
        assert found["forged"] == []
    assert attempted.outcome.outputs["verdict"] == "fail"
    assert "EVIL" not in attempted.outcome.outputs
    for name in ("GITHUB_ENV", "GITHUB_PATH", "GITHUB_STATE"):
        assert attempted.step.command_file(name) == ""
    for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY"):
        assert "EVIL" not in attempted.step.command_file(name)
    for folder in (attempted.step.temporary, attempted.step.commands, attempted.step.home, attempted.step.workflow):
        assert (folder.stat().st_uid, folder.stat().st_mode & 0o777) == (OWNER, 0o755), "given back"


@pytest.mark.attack(by="pull request", tries="leave a process that forges later", stopped_by="killed, else exit code 4")
def test_nothing_of_it_lives_on_and_changes_what_was_found(attempted: Attempted) -> None:
    assert living(OWNER) == {}
    manifest = json.loads((attempted.step.checkout.root / "ragstone-run" / "manifest.json").read_text(encoding="utf-8"))
    assert manifest["verdict"] == "fail"
    assert attempted.outcome.code == 1


def test_a_gate_that_is_killed_leaves_nothing_forged(step: Runner) -> None:
    shutil.copy(HOSTILE, step.checkout.root / "hostile.py")
    step.checkout.write("rag.py", KEEPING_BUSY)
    with ThreadPoolExecutor(1) as pool:
        going = pool.submit(step.execute, "pull_request", **{**INPUTS, "setup": ""})
        wait_for((step.checkout.root / "asked").exists, going)
        (gate,) = gates_below(os.getpid())
        os.kill(gate, signal.SIGKILL)
        found = going.result()
    assert found.returncode != 0
    # Docker's process namespace ends with the gate; the one here is the machine's.
    assert living(OWNER), "nothing of it lived on, so nothing was tried"
    time.sleep(0.5)
    (worker,) = attempts(step, "worker")
    assert worker["forged"] == []
    for name in COMMAND_FILES:
        assert step.command_file(name) == ""
    manifest = step.checkout.root / "ragstone-run" / "manifest.json"
    assert not manifest.exists()
    # The runner is in the folder's group and can go on; the user's code is not.
    assert as_user(OWNER, OWNER, "touch set_output_2 && rm github_output_1", step.commands)
    assert not as_user(OWNER, worker["gid"], "touch set_output_3", step.commands)


@pytest.mark.attack(by="pull request", tries="become root through `docker.sock`", stopped_by="a separate group")
@pytest.mark.parametrize("mode", [0o660, 0o600])
def test_a_workspace_that_belongs_to_dockers_group(step: Runner, mode: int) -> None:
    os.chown(step.socket_path, 0, OWNER)
    step.socket_path.chmod(mode)
    shutil.copy(HOSTILE, step.checkout.root / "hostile.py")
    found = step.run(setup="python hostile.py setup", **RECORDED)
    assert found.code == 0, found.log
    (tried,) = attempts(step, "setup")
    assert tried["docker"] == NO_RIGHT


@pytest.mark.attack(
    by="pull request", tries="print workflow commands", stopped_by="printed between `::stop-commands::`"
)
def test_what_it_printed_does_not_act(attempted: Attempted) -> None:
    assert "forged" in attempted.outcome.log
    assert not any("forged" in line or "set-output" in line for line in attempted.outcome.annotations)


def test_the_results_belong_to_the_owner_of_the_workspace(attempted: Attempted) -> None:
    run = attempted.step.checkout.root / attempted.outcome.outputs["run-directory"]
    assert (run / "manifest.json").is_file()
    assert {path.stat().st_uid for path in (run, *run.iterdir())} == {OWNER}


def test_a_link_that_is_put_in_place_of_the_run_directory_is_not_written_through(step: Runner) -> None:
    step.checkout.write("decoy/keep.txt", "precious")
    found = step.run(setup="ln -s decoy ragstone-run", **RECORDED)
    assert found.code == 0, found.log
    assert "does not contain a run" in found.log
    assert found.outputs["run-directory"] == ""
    assert [path.name for path in (step.checkout.root / "decoy").iterdir()] == ["keep.txt"]


def test_a_golden_set_that_setup_changes_changes_nothing(step: Runner) -> None:
    step.checkout.write("easy.jsonl", json.dumps({"id": "moon", "question": "Is the Moon far away?"}) + "\n")
    found = step.run(setup="cp easy.jsonl golden.jsonl", **RECORDED)
    assert found.code == 0, found.log
    assert found.outputs["verdict"] == "pass"
    run = RunDirectory.open(step.checkout.root / "ragstone-run")
    assert {record.sample.question for record in run.records()} == {question for _, question, _ in FACTS}


@pytest.mark.attack(by="pull request", tries="have `/proc/self/environ` read through a link", stopped_by="not followed")
@pytest.mark.parametrize(("name", "code"), [("golden.jsonl", 3), ("thresholds.toml", 2), ("outputs.jsonl", 4)])
def test_a_file_that_leads_out_of_the_workspace_is_not_read(step: Runner, name: str, code: int) -> None:
    (step.checkout.root / name).unlink()
    (step.checkout.root / name).symlink_to("/proc/self/environ")
    found = step.run(thresholds="thresholds.toml", **RECORDED)
    assert found.code == code
    assert "outside the workspace" in found.log
    assert not shows_a_secret(found)


def test_a_link_that_setup_puts_in_place_shows_no_secret(step: Runner) -> None:
    found = step.run(setup="ln -sf /proc/self/environ golden.jsonl; ln -sf /proc/1/environ outputs.jsonl", **RECORDED)
    assert found.code != 0
    assert not shows_a_secret(found)


SLOW = """
import time

def answer(question):
    if "Moon" not in question:
        time.sleep(600)
    return "The Moon is 384400 kilometres away from the Earth."
"""


def test_a_time_limit_covers_setup_and_hands_over_what_is_there(step: Runner) -> None:
    step.checkout.write("rag.py", SLOW)
    step.checkout.write("ragstone.toml", "[system]\ntimeout_s = 600\n")
    inputs: dict[str, Any] = {**RECORDED, "entrypoint": "python:rag:answer", "metrics": "exact_match"}
    found = step.run(time_limit="20", **inputs)
    assert found.code == 124, found.log
    run = RunDirectory.open(step.checkout.root / found.outputs["run-directory"])
    assert run.manifest.state == "stopped"
    assert [record.sample.id for record in run.records()] == ["moon"]
    assert living(OWNER) == {}
    found = step.run(time_limit="2", setup="sleep 600", **inputs)
    assert found.code == 124, found.log
    assert "time limit was reached during" in found.log, "the setup script, or creating its environment"
    assert found.outputs["run-directory"] == ""
