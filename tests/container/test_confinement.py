"""In the built container, the user's code tries everything it should not be able to do, and fails."""

from __future__ import annotations

import errno
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.container.conftest import OWNER, SECRETS, Runner
from tests.github.worlds import FACTS

pytestmark = pytest.mark.container

NO_RIGHT = f"refused: {errno.EACCES}"  # there, and not to be had
SYSTEM = """
import hostile

FACTS = {facts!r}
hostile.attempt("worker")

def answer(question):
    print("::set-output name=verdict::pass")
    print("text ##[error]forged")
    return {{"answer": FACTS[question], "contexts": [FACTS[question]]}}
"""
INPUTS = {
    "golden_set": "golden.jsonl",
    "entrypoint": "python:rag:answer",
    "metrics": "faithfulness",
    "setup": "python hostile.py setup",
    "system_env": "MY_OWN_SETTING",
}


@pytest.fixture
def attempted(step: Runner) -> Any:
    """A step whose `setup` and whose system are both hostile."""
    shutil.copy(Path(__file__).with_name("hostile.py"), step.checkout.root / "hostile.py")
    step.checkout.write("rag.py", SYSTEM.format(facts={question: fact for _, question, fact in FACTS}))
    return step.run(environ={"MY_OWN_SETTING": "passed on"}, **INPUTS)


def attempts(step: Runner) -> list[dict[str, Any]]:
    return [
        json.loads((step.checkout.root / f"attempts-{who}.json").read_text(encoding="utf-8"))
        for who in ("setup", "worker")
    ]


def test_the_users_code_gets_hold_of_nothing(step: Runner, attempted: Any) -> None:
    assert attempted.code == 0, attempted.log
    for found in attempts(step):
        everything = json.dumps(found)
        for name, secret in SECRETS.items():
            assert secret not in everything, name
        assert found["uid"] == OWNER
        assert found["groups"] in ([], [OWNER])
        assert found["gates"], "the gate was not found, so nothing was tried"
        assert {*found["gate_environ"], *found["gate_memory"]} == {NO_RIGHT}
        assert not any(found["gate_killable"])
        assert found["docker"] == NO_RIGHT
        assert not found["ragstone"]
        assert found["private_folders"], "no folder of ours was found, so nothing was tried"
        assert found["private"] == []
        assert not any(name.startswith(("INPUT_", "ACTIONS_", "GITHUB_", "RAGSTONE_")) for name in found["environ"])
        assert "LD_LIBRARY_PATH" not in found["environ"]
        assert found["environ"]["MY_OWN_SETTING"] == "passed on"
        assert found["environ"]["HOME"] != "/github/home"


def test_what_it_wrote_for_github_to_read_is_gone_and_its_strays_are_dead(step: Runner, attempted: Any) -> None:
    assert attempted.outputs["verdict"] == "pass"
    assert "EVIL" not in attempted.outputs
    for name in ("GITHUB_ENV", "GITHUB_PATH", "GITHUB_STATE"):
        assert step.command_file(name) == ""
    for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY"):
        assert "STRAY" not in step.command_file(name)
        assert "EVIL" not in step.command_file(name)


def test_what_it_printed_does_not_act(attempted: Any) -> None:
    assert "forged" in attempted.log
    assert not any("forged" in line or "set-output" in line for line in attempted.annotations)


def test_the_results_belong_to_the_owner_of_the_workspace(step: Runner, attempted: Any) -> None:
    run = step.checkout.root / attempted.outputs["run-directory"]
    assert (run / "manifest.json").is_file()
    assert {path.stat().st_uid for path in (run, *run.iterdir())} == {OWNER}


def test_a_link_in_place_of_the_run_directory_is_not_followed(step: Runner) -> None:
    step.checkout.write("decoy/keep.txt", "precious")
    (step.checkout.root / "ragstone-run").symlink_to("decoy")
    found = step.run(golden_set="golden.jsonl", entrypoint="file:outputs.jsonl", metrics="faithfulness")
    assert found.code == 0, found.log
    assert not (step.checkout.root / "ragstone-run").is_symlink()
    assert [path.name for path in (step.checkout.root / "decoy").iterdir()] == ["keep.txt"]


def test_a_golden_set_that_setup_changes_gives_no_verdict(step: Runner) -> None:
    step.checkout.write("easy.jsonl", json.dumps({"id": "moon", "question": "Is the Moon far away?"}) + "\n")
    found = step.run(
        golden_set="golden.jsonl",
        entrypoint="file:outputs.jsonl",
        metrics="faithfulness",
        setup="cp easy.jsonl golden.jsonl",
    )
    assert found.code == 2, found.log
    assert found.outputs["verdict"] == "error"
    assert "golden set changed" in found.log


@pytest.mark.parametrize("name", ["golden.jsonl", "thresholds.toml", "outputs.jsonl"])
def test_a_file_that_leads_out_of_the_workspace_is_not_read(step: Runner, name: str) -> None:
    (step.checkout.root / name).unlink()
    (step.checkout.root / name).symlink_to("/proc/self/environ")
    found = step.run(
        golden_set="golden.jsonl", thresholds="thresholds.toml", entrypoint="file:outputs.jsonl", metrics="faithfulness"
    )
    assert found.code == 2
    assert "outside of the workspace" in found.log
    for secret in SECRETS.values():
        assert secret not in "\n".join(line for line in found.log.splitlines() if "add-mask" not in line)


def test_a_docker_socket_that_anybody_may_use_stops_the_job(step: Runner) -> None:
    step.socket_path.chmod(0o666)
    found = step.run(golden_set="golden.jsonl", entrypoint="file:outputs.jsonl")
    assert found.code == 2
    assert "docker.sock" in found.log


def test_a_link_that_setup_puts_in_place_shows_no_secret(step: Runner) -> None:
    found = step.run(
        golden_set="golden.jsonl",
        entrypoint="file:outputs.jsonl",
        metrics="faithfulness",
        setup="ln -sf /proc/self/environ golden.jsonl; ln -sf /proc/1/environ outputs.jsonl",
    )
    assert found.code != 0
    shown = "\n".join(line for line in found.log.splitlines() if "add-mask" not in line)
    for secret in SECRETS.values():
        assert secret not in shown + found.summary + str(found.outputs)
