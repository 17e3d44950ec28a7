"""What a job logs before any code of the change runs, and how its runs are verified."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from ragstone.gate.policy import load_policy
from ragstone.golden.load import load_golden_set
from ragstone.run.directory import ATTESTATION, DIGESTS
from ragstone.tools.verify.verify import Own, State, verify
from tests.ci.github.fake import FakeGitHub
from tests.job.builders import Checkout
from tests.job.runs import artifact_of


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path)


def own(checkout: Checkout, baseline: Path | None = None) -> Own:
    policy = load_policy(checkout.root / "thresholds.toml", known_metrics=None)
    return Own(policy=policy, golden=load_golden_set(["golden.jsonl"], root=checkout.root), baseline=baseline)


def test_the_bar_is_logged_before_any_code_of_the_change_runs(github: FakeGitHub, checkout: Checkout) -> None:
    checkout.write("answers.py", 'raise SystemExit("the code of the change runs")\n')
    checkout.write(
        "ragstone.toml", '[golden]\npaths = "golden.jsonl"\n[system]\nentrypoint = "python:answers:answer"\n'
    )
    found = checkout.gate(github, "push")
    assert 0 <= found.log.index("Bar: policy ") < found.log.index("the code of the change runs")


def test_the_attestation_repeats_the_bar(github: FakeGitHub, checkout: Checkout) -> None:
    found = checkout.gate(github, "push")
    (line,) = (line for line in found.log.splitlines() if line.startswith("Bar: "))
    said = json.loads((checkout.root / "ragstone-run" / ATTESTATION).read_text(encoding="utf-8"))["predicate"]
    assert said["bar"] == said["digests"]
    names = ("policy", "golden", "judge", "history")
    assert line == "Bar: " + ", ".join(f"{name} {said['bar'][name]}" for name in names)


def test_a_job_gives_out_what_another_job_signs(github: FakeGitHub, checkout: Checkout) -> None:
    found = checkout.gate(github, "push")
    run = checkout.root / "ragstone-run"
    assert found.outputs["predicate"] == (run / DIGESTS).read_text(encoding="utf-8")
    said = json.loads(found.outputs["predicate"])
    assert said["attestation"]["sha256"] == hashlib.sha256((run / ATTESTATION).read_bytes()).hexdigest()
    (checkout.root / "thresholds.toml").write_text("[metrics.faithfulnes]\n", encoding="utf-8")
    assert checkout.gate(github, "push").outputs["predicate"] == ""


def test_runs_of_a_branch_and_of_a_pull_request_are_verified_with_their_artifacts(
    github: FakeGitHub, checkout: Checkout, tmp_path: Path
) -> None:
    run = checkout.root / "ragstone-run"
    for number in (1, 2):
        assert checkout.gate(github, "push").code == 0
        states = {part.name: part for part in verify(run, own(checkout, tmp_path / str(number - 1)))}
        assert {part.name for part in states.values() if part.state is State.DIFFERS} == set(), states
        assert states["verdict"].state is State.RECOMPUTED, states
        assert states["bar"].holds
        run.rename(tmp_path / str(number))
        github.add_run(number)
        github.add_artifact(number, artifact_of(tmp_path / str(number)))
    checkout.answer_badly()
    checkout.gate(github, "pull_request")
    states = {part.name: part for part in verify(run, own(checkout, tmp_path / "2"))}
    assert {part.name for part in states.values() if part.state is State.DIFFERS} == set(), states
    for name in ("policy", "golden", "scores", "baseline", "history", "checks", "verdict", "bar"):
        assert states[name].holds, states[name]
    said = json.loads((run / ATTESTATION).read_text(encoding="utf-8"))["predicate"]
    assert said["trusted"]["event"] == "pull_request"
    assert "run 2 of 'main'" in said["trusted"]["baseline"]


def test_a_bar_that_was_moved_differs(github: FakeGitHub, checkout: Checkout) -> None:
    checkout.gate(github, "push")
    file = checkout.root / "ragstone-run" / ATTESTATION
    whole = json.loads(file.read_text(encoding="utf-8"))
    whole["predicate"]["bar"]["golden"] = "0" * 64
    file.write_text(json.dumps(whole), encoding="utf-8")
    (part,) = (part for part in verify(file.parent, own(checkout)) if part.name == "bar")
    assert (part.state, part.what) == (State.DIFFERS, "golden")
