"""`baseline: commit` in the container: both versions are installed and asked, and neither gets at the other."""

from __future__ import annotations

import json

import pytest

from tests.github.api.fake import BASE_SHA, FakeGitHub
from tests.github.api.payloads import HEAD_SHA, MERGE_SHA
from tests.image.conftest import Runner

pytestmark = pytest.mark.container

POLICY = "[gate]\nmin_coverage = 0.5\nconfirm = false\n\n[metrics.faithfulness]\nmax_drop = 0.05\n"
SYSTEM = """
import json, os, pathlib, importlib.metadata
LINES = pathlib.Path(__file__).with_name("facts.jsonl").read_text().splitlines()
FACTS = {line["question"]: line["reference"] for line in map(json.loads, LINES)}
assert os.environ["RAGSTONE_SIDE"] == "SIDE"
assert (os.getuid() == os.stat("/github/workspace").st_uid) == (os.environ["RAGSTONE_SIDE"] == "head")
assert not [name for name in os.environ if "KEY" in name or "TOKEN" in name]
assert importlib.metadata.version("iniconfig") == "VERSION"
assert pathlib.Path("set-up").read_text().strip() == os.environ["RAGSTONE_SIDE"]


def answer(question):
    ATTACK
    good = "SIDE" == "base"
    return {"answer": FACTS[question] if good else "Bananas: " + question, "contexts": [FACTS[question]]}
"""
ATTACK = """import signal, subprocess
    # Its own facts stay: another worker of this system may only now be about to read them.
    subprocess.run("find / -name facts.jsonl -not -path '/proc/*' -not -path '/github/workspace/*' "
                   "-writable -exec truncate -s 0 {} +; "
                   "rm -rf /tmp/ragstone-base-*; for d in /tmp/ragstone-base-*; do touch $d/checkout/facts.jsonl; done",
                   shell=True, capture_output=True)
    for entry in os.listdir("/proc"):
        if entry.isdigit() and int(entry) not in (os.getpid(), os.getppid()):
            try:
                if os.stat("/proc/" + entry).st_uid != os.getuid():
                    os.kill(int(entry), signal.SIGKILL)
            except OSError:
                pass"""


def system(side: str, version: str, attack: str = "pass") -> str:
    return SYSTEM.replace('"SIDE"', f'"{side}"').replace("VERSION", version).replace("ATTACK", attack)


@pytest.mark.attack(
    by="pull request", tries="change the base commit's files or processes", stopped_by="another user, a closed folder"
)
def test_the_base_is_asked_as_another_user_and_the_change_does_not_get_at_it(step: Runner, github: FakeGitHub) -> None:
    checkout = step.checkout
    facts = (checkout.root / "golden.jsonl").read_bytes()
    checkout.write("thresholds.toml", POLICY)
    checkout.write("facts.jsonl", facts.decode())
    checkout.write("requirements.txt", "iniconfig==2.1.0\n")
    checkout.write("rag.py", system("head", "2.1.0", ATTACK))
    github.parents[MERGE_SHA] = [BASE_SHA, HEAD_SHA]
    github.files[BASE_SHA] = {
        "facts.jsonl": facts,
        "requirements.txt": b"iniconfig==2.0.0\n",
        "rag.py": system("base", "2.0.0").encode(),
        "thresholds.toml": POLICY.encode(),
        "golden.jsonl": facts,
    }
    found = step.run(
        golden_set="golden.jsonl",
        entrypoint="python:rag:answer",
        metrics="faithfulness",
        requirements="requirements.txt",
        setup="echo $RAGSTONE_SIDE > set-up",
        baseline="commit",
    )
    assert found.code == 1, found.log
    assert f"commit {BASE_SHA[:12]}, asked in the same job" in found.summary
    base = json.loads((checkout.root / "ragstone-run" / "base-commit" / "manifest.json").read_text(encoding="utf-8"))
    assert base["system"]["commit"] == BASE_SHA
    assert base["counts"]["system_failed"] == 0
    assert (checkout.root / "set-up").read_text(encoding="utf-8").strip() == "head"
