"""Jobs of one pull request that run again: the answers of earlier ones count, if they are of the same files."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ragstone.evaluation.directory import RunDirectory
from ragstone.evaluation.earlier import MAX_EARLIER
from tests.github.api.fake import FakeGitHub
from tests.github.api.payloads import MERGE_SHA, pull_request
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
confirm = {confirm}

[metrics.token_f1]
max_drop = 0.0
"""
TREE, OTHER_TREE = "1" * 40, "2" * 40
MERGED, OTHER_MERGED = "3" * 40, "4" * 40
"""The files of a pull request's commit, and those of its merge with the base."""


class PullRequest:
    """The jobs of one pull request, each with what it uploads, and of the main branch before it.

    `wrong` is how many of the questions are answered wrongly, in other words each time.
    """

    def __init__(self, checkout: Checkout, service: Server) -> None:
        self.github, self.checkout, self.service = checkout.github, checkout, service
        self.wrong = self.runs = 0
        rows = [{"id": f"q{i}", "question": f"What is {i}?", "reference": f"It is {i}."} for i in range(N)]
        checkout.write("golden.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
        checkout.write("ragstone.toml", CONFIG.format(url=service.url))
        self.confirming("false")
        service.reply = self._answer
        self._run("push", tree=TREE, merged=MERGED)

    def _answer(self, _path: str, body: Any) -> Reply:
        number = int(body["question"].removeprefix("What is ").removesuffix("?"))
        if number < self.wrong:
            return said({"answer": f"No{'o' * len(self.service.seen)}"})
        return said({"answer": f"It is {number}."})

    def confirming(self, confirm: str) -> None:
        self.checkout.write("thresholds.toml", POLICY.format(confirm=confirm))
        self.checkout.is_base()

    @property
    def out(self) -> Path:
        return self.checkout.root / "ragstone-run"

    @property
    def run(self) -> RunDirectory:
        return RunDirectory.open(self.out)

    def job(self, wrong: int = 0, *, tree: str = TREE, merged: str = MERGED) -> Outcome:
        """A job of the pull request, and its upload."""
        self.wrong = wrong
        return self._run("pull_request", tree, merged)

    def again(self, wrong: int = 0) -> Outcome:
        """The last run, tried once more."""
        self.wrong = wrong
        run = self.github.runs[-1]
        run.update(status="in_progress", run_attempt=run["run_attempt"] + 1)
        return self._job("pull_request")

    def _run(self, event: str, tree: str, merged: str) -> Outcome:
        self.runs += 1
        self.github.trees[MERGE_SHA] = merged
        branch = "topic" if event == "pull_request" else "main"
        self.github.add_run(
            900 + self.runs,
            event=event,
            branch=branch,
            status="in_progress",
            tree=tree,
            sha=MERGE_SHA if event == "push" else f"{self.runs:040x}",
        )
        return self._job(event)

    def _job(self, event: str) -> Outcome:
        shutil.rmtree(self.out, ignore_errors=True)
        run = self.github.runs[-1]
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


def counted(outcome: Outcome) -> bool:
    return "of the same files" in outcome.summary


def test_a_red_pull_request_is_not_green_by_an_empty_commit(pull: PullRequest) -> None:
    pull.checkout.reports_again = True
    assert pull.job(LOST).code == 1
    second = pull.job(LOST // 2)
    assert second.code == 1
    assert "Counts the answers of 1 earlier run of the same files." in second.summary
    assert "Counts the answers of 1 earlier run of the same files." in pull.github.bodies()[-1]
    report = json.loads((pull.out / "report.json").read_text(encoding="utf-8"))
    assert any("1 earlier run of the same files" in finding["text"] for finding in report["findings"])
    assert report["run"]["answers"] == 2
    manifest = pull.run.manifest
    assert (manifest.answers, manifest.earlier, manifest.own_answers) == (2, (1,), 1)
    record = next(record for record in pull.run.records() if record.sample.id == f"q{LOST - 1}")
    assert record.response.answer == f"It is {LOST - 1}."
    assert record.answers[1].response.answer.startswith("No")


@pytest.mark.heavy
def test_without_the_earlier_answers_it_would_be_green(pull: PullRequest) -> None:
    assert pull.job(LOST).code == 1
    other = pull.job(LOST // 2, tree=OTHER_TREE, merged=OTHER_MERGED)
    assert (other.code, counted(other)) == (0, False)
    assert pull.run.manifest.earlier == ()


@pytest.mark.heavy
def test_earlier_answers_can_show_that_nothing_was_lost(pull: PullRequest) -> None:
    assert pull.job(LOST).code == 1
    codes = [pull.job().code for _ in range(4)]
    assert codes[-1] == 0


@pytest.mark.heavy
def test_a_second_attempt_of_a_run_counts_the_first(pull: PullRequest) -> None:
    assert pull.job(LOST).code == 1
    assert pull.again(LOST // 2).code == 1
    third = pull.again()
    assert "Counts the answers of 2 earlier runs of the same files." in third.summary
    assert pull.run.manifest.earlier == (1, 1)


@pytest.mark.heavy
def test_as_many_earlier_runs_count_as_the_limit_says_and_each_once(pull: PullRequest) -> None:
    for _ in range(MAX_EARLIER + 2):
        pull.job(1)
    assert pull.run.manifest.earlier == (1,) * MAX_EARLIER
    answers = [record.responses for record in pull.run.records() if record.sample.id == "q0"]
    assert len({response.answer for response in answers[0]}) == MAX_EARLIER + 1
    assert sum(seen.path.startswith("/blob/") for seen in pull.github.storage_seen) == 2 * (MAX_EARLIER + 2) - 1


@pytest.mark.heavy
def test_an_earlier_run_costs_no_answer(pull: PullRequest) -> None:
    pull.job(1)
    before = len(pull.service.seen)
    pull.job(1)
    assert len(pull.service.seen) == before + N


@pytest.mark.heavy
def test_answers_of_asking_again_count_too_and_come_before_those_of_earlier_runs(pull: PullRequest) -> None:
    pull.confirming("true")
    pull.job(LOST - 3)
    first = pull.run.manifest
    assert first.answers > 1
    second = pull.job(LOST - 3)
    manifest = pull.run.manifest
    assert counted(second)
    assert manifest.earlier == (first.answers,)
    assert manifest.own_answers > 1, "it was asked again"
    record = next(pull.run.records())
    said = [len(response.answer) for response in record.responses]
    assert sorted(said[: manifest.own_answers]) == said[: manifest.own_answers]
    assert min(said[: manifest.own_answers]) > max(said[manifest.own_answers :]), "asked later"


@pytest.mark.heavy
def test_another_base_makes_other_files(pull: PullRequest) -> None:
    pull.job(LOST)
    later = pull.job(merged=OTHER_MERGED)
    assert not counted(later)
    assert "it is of other files" in later.log


@pytest.mark.heavy
def test_a_pull_request_from_a_fork_counts_no_earlier_runs(pull: PullRequest) -> None:
    pull.job(LOST)
    pull.github.add_run(990, event="pull_request", branch="topic", status="in_progress", tree=TREE)
    found = pull.checkout.gate("pull_request", pull_request(fork=True), GITHUB_RUN_ID="990")
    assert not counted(found)


@pytest.mark.heavy
def test_a_commit_with_other_files_whose_artifact_claims_these_is_not_looked_at(pull: PullRequest) -> None:
    """Its workflow may have been another, and may have written anything."""
    pull.job(LOST, tree=OTHER_TREE)
    assert pull.run.manifest.invocation is not None
    assert pull.run.manifest.invocation.tree == MERGED
    assert not counted(pull.job())


@pytest.mark.heavy
def test_runs_of_another_golden_set_are_left_out_with_a_reason(pull: PullRequest) -> None:
    pull.job(LOST)
    golden = pull.checkout.root / "golden.jsonl"
    text = golden.read_text(encoding="utf-8")
    pull.checkout.write("golden.jsonl", text.replace("What is 19?", "What is 18?"))
    found = pull.job()
    assert "its questions are others" in found.log
    assert not counted(found)


@pytest.mark.heavy
def test_a_service_counts_only_with_its_version(pull: PullRequest) -> None:
    pull.checkout.write("ragstone.toml", CONFIG.format(url=pull.service.url).replace('version = "1"', ""))
    pull.checkout.is_base()
    pull.job(LOST)
    assert not counted(pull.job())


@pytest.mark.heavy
def test_without_the_right_to_read_runs_the_job_is_as_it_was(pull: PullRequest) -> None:
    pull.job()
    pull.github.fail("GET", "/actions/runs/90", 403, times=99)
    found = pull.job()
    assert not counted(found)
