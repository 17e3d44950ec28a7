"""The workflow "in shards" of the documentation, each of its jobs in the image, under the runner's contract."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from ragstone.run.directory import SAMPLES, RunDirectory
from tests.ci.github.fake import FakeGitHub
from tests.ci.github.payloads import pull_request
from tests.image.conftest import Runner
from tests.job.builders import Outcome
from tests.job.runs import artifact_of

pytestmark = pytest.mark.container

ROOT = Path(__file__).parents[2]
OWN_RUN = 900
# What the example leaves to its reader: a system of one's own, and a judge that needs no key.
OURS: dict[str, Any] = {
    "golden_set": "golden.jsonl",
    "entrypoint": "python:rag:answer",
    "judge": "offline",
    "metrics": "faithfulness",
}
NOT_HERE = {"requirements", "judge_api_key"}
SYSTEM = """
    import json, os, pathlib, sys

    FACTS = {{line["question"]: line["reference"] for line in map(json.loads, open("golden.jsonl"))}}

    def answer(question):
        {attack}
        return {{"answer": FACTS[question], "contexts": [FACTS[question]]}}
"""


def workflow() -> dict[str, Any]:
    page = (ROOT / "docs" / "github-action.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```yaml\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    (found,) = (block for block in blocks if "name: RAG quality, in shards" in block)
    parsed: dict[str, Any] = yaml.safe_load(found)
    return parsed


class Jobs:
    """The jobs of the workflow, one after the other on one runner."""

    def __init__(self, step: Runner, github: FakeGitHub) -> None:
        self.step = step
        self.github = github
        self.jobs = workflow()["jobs"]
        self.numbers: list[int] = self.jobs["evaluate"]["strategy"]["matrix"]["shard"]
        step.checkout.write("rag.py", SYSTEM.format(attack="pass"))

    def run(self, job: str, shard: int = 0, /, **more: Any) -> Outcome:
        """The steps of a job: the action, and the upload if its condition holds."""
        action, upload = self.jobs[job]["steps"][1:]
        values = {"matrix.shard": str(shard), "strategy.job-total": str(len(self.numbers))}

        def filled(text: str) -> str:
            return re.sub(r"\$\{\{ (matrix\.shard|strategy\.job-total) \}\}", lambda found: values[found[1]], text)

        written = {name.replace("-", "_"): filled(value) for name, value in action["with"].items()}
        inputs: dict[str, Any] = {
            name: OURS.get(name, value) for name, value in written.items() if name not in NOT_HERE
        }
        if job == "evaluate":
            inputs["metrics"] = OURS["metrics"]
        done = self.step.run("pull_request", pull_request(), **inputs, **more)
        assert upload["if"] == "always() && steps.gate.outputs.run-directory != ''"
        assert upload["with"]["path"] == "${{ steps.gate.outputs.run-directory }}"
        if folder := done.outputs.get("run-directory"):
            path = self.step.checkout.root / folder
            self.github.add_artifact(OWN_RUN, artifact_of(path), name=filled(upload["with"]["name"]))
        return done

    def run_directory(self) -> Path:
        return self.step.checkout.root / "ragstone-run"

    def clean(self) -> None:
        """A job begins in a workspace of its own."""
        shutil.rmtree(self.run_directory(), ignore_errors=True)


@pytest.fixture
def jobs(step: Runner, github: FakeGitHub) -> Jobs:
    return Jobs(step, github)


def test_the_matrix_evaluates_and_one_job_merges_decides_and_comments(jobs: Jobs, github: FakeGitHub) -> None:
    whole = jobs.step.run("pull_request", pull_request(), **OURS)
    assert whole.code == 0, whole.log
    expected = RunDirectory.open(jobs.run_directory()).scores().metrics
    github.comments.clear()
    for number in jobs.numbers:
        jobs.clean()
        shard = jobs.run("evaluate", number)
        assert shard.code == 0, shard.log
        assert "verdict" not in shard.outputs
    assert github.comments == []
    jobs.clean()
    merged = jobs.run("gate")
    assert merged.code == 0, merged.log
    assert merged.outputs["verdict"] == "pass"
    assert len(github.bodies()) == 1
    found = RunDirectory.open(jobs.run_directory())
    assert found.scores().metrics == expected
    assert found.manifest.shard is None
    assert [one["name"] for one, _ in github.artifacts.values()] == [
        *(f"ragstone-shard-{number}" for number in jobs.numbers),
        "ragstone-run",
    ]


def test_a_job_that_was_killed_is_run_again_alone(jobs: Jobs, github: FakeGitHub) -> None:
    for number in jobs.numbers:
        jobs.clean()
        assert jobs.run("evaluate", number).code == 0
    jobs.clean()
    assert jobs.run("gate").code == 0
    records = (jobs.run_directory() / SAMPLES).read_bytes()
    lost = next(key for key, (one, _) in github.artifacts.items() if one["name"] == "ragstone-shard-2")
    del github.artifacts[lost]
    jobs.clean()
    without = jobs.run("gate")
    assert without.code == 2
    assert f"shard 2 of {len(jobs.numbers)} is missing" in without.log
    jobs.clean()
    assert jobs.run("evaluate", 2).code == 0
    jobs.clean()
    assert jobs.run("gate").code == 0
    assert without_times((jobs.run_directory() / SAMPLES).read_bytes()) == without_times(records)


def without_times(records: bytes) -> list[Any]:
    rows = [json.loads(line) for line in records.splitlines()]
    for row in rows:
        row["response"].pop("latency_s")
    return rows


def test_the_code_of_a_shard_gets_at_no_record_and_the_job_that_merges_runs_none(
    jobs: Jobs, github: FakeGitHub
) -> None:
    attack = (
        "[print(p) or p.write_text('forged') for p in pathlib.Path('/').glob('tmp/*/run/samples.jsonl')]; "
        "pathlib.Path('ragstone-run').mkdir(exist_ok=True); "
        "pathlib.Path('ragstone-run/samples.jsonl').write_text('forged'); "
        "pathlib.Path('ran').write_text(' '.join(sorted(os.environ)))"
    )
    jobs.step.checkout.write("rag.py", SYSTEM.format(attack=attack))
    for number in jobs.numbers:
        shard = jobs.run("evaluate", number)
        assert shard.code == 0, shard.log
    seen = (jobs.step.checkout.root / "ran").read_text(encoding="utf-8").split()
    assert not [name for name in seen if name.startswith(("ACTIONS_", "INPUT_")) or "TOKEN" in name]
    (jobs.step.checkout.root / "ran").unlink()
    jobs.clean()
    merged = jobs.run("gate")
    assert merged.code == 0, merged.log
    assert not (jobs.step.checkout.root / "ran").exists()
