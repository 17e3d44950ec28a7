"""Jobs of one pull request that run again: the answers of earlier ones count, if they are of the same files."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ragstone.evaluation.directory import RunDirectory
from tests.github.api.fake import FakeGitHub
from tests.github.api.payloads import MERGE_SHA
from tests.github.builders import Checkout, Outcome
from tests.github.runs import artifact_of
from tests.system.service import Reply, Server, said

N = 20
LOST = 8
"""Questions: enough to fail by one answer each."""
CONFIG = """
[golden]
paths = "golden.jsonl"
[system]
entrypoint = "{url}/ask"
version = "1"
[run]
metrics = ["token_f1"]
"""
POLICY = """
[gate]
confirm = false

[metrics.token_f1]
max_drop = 0.0
"""


class PullRequest:
    """The jobs of one pull request, each with what it uploads, and of the main branch before it.

    `wrong` is how many of the questions are answered wrongly, in other words each time.
    """

    def __init__(self, checkout: Checkout, service: Server) -> None:
        self.github, self.checkout, self.service = checkout.github, checkout, service
        self.out = checkout.out
        self.wrong = self.runs = 0
        rows = [{"id": f"q{i}", "question": f"What is {i}?", "reference": f"It is {i}."} for i in range(N)]
        checkout.write("golden.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
        checkout.write("ragstone.toml", CONFIG.format(url=service.url))
        checkout.write("thresholds.toml", POLICY)
        checkout.is_base()
        service.reply = self._answer
        self.github.trees[MERGE_SHA] = "3" * 40
        self._run("push")

    def _answer(self, _path: str, body: Any) -> Reply:
        number = int(body["question"].removeprefix("What is ").removesuffix("?"))
        if number < self.wrong:
            return said({"answer": f"No{'o' * len(self.service.seen)}"})
        return said({"answer": f"It is {number}."})

    @property
    def run(self) -> RunDirectory:
        return RunDirectory.open(self.out)

    def job(self, wrong: int) -> Outcome:
        """A job of the pull request, and its upload."""
        self.wrong = wrong
        return self._run("pull_request")

    def _run(self, event: str) -> Outcome:
        self.runs += 1
        branch, sha = ("main", MERGE_SHA) if event == "push" else ("topic", f"{self.runs:040x}")
        run = self.github.add_run(
            900 + self.runs, event=event, branch=branch, status="in_progress", tree="1" * 40, sha=sha
        )
        shutil.rmtree(self.out, ignore_errors=True)
        outcome = self.checkout.gate(event, GITHUB_RUN_ID=str(run["id"]))
        run.update(status="completed")
        self.github.add_artifact(run["id"], artifact_of(self.out))
        return outcome


@pytest.fixture
def service() -> Iterator[Server]:
    server = Server()
    yield server
    server.stop()


@pytest.fixture
def pull(github: FakeGitHub, tmp_path: Path, service: Server) -> PullRequest:
    return PullRequest(Checkout(github, tmp_path), service)


def test_a_red_pull_request_is_not_green_by_an_empty_commit(pull: PullRequest) -> None:
    pull.checkout.reports_again = True
    assert pull.job(LOST).code == 1
    before = len(pull.service.seen)
    second = pull.job(LOST // 2)
    assert second.code == 1
    assert len(pull.service.seen) == before + N, "the earlier run costs no answer"
    for text in (second.summary, pull.checkout.comments[-1]):
        assert "Counts the answers of 1 earlier run of the same files." in text
    report = pull.checkout.read("report.json")
    assert any("1 earlier run of the same files" in finding["text"] for finding in report["findings"])
    assert report["run"]["answers"] == 2
    manifest = pull.run.manifest
    assert (manifest.answers, manifest.earlier, manifest.own_answers) == (2, (1,), 1)
    record = next(record for record in pull.run.records() if record.sample.id == f"q{LOST - 1}")
    assert record.response.answer == f"It is {LOST - 1}."
    assert record.answers[1].response.answer.startswith("No")
