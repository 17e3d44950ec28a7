"""Jobs on a fake GitHub: pull requests, merges, forks, and bases that nobody reviewed."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from tests.corpus.workbench import Registry, Steps, Workbench
from tests.github.api.fake import ALL_RIGHTS, BASE_SHA, TOKEN, Actor, FakeGitHub
from tests.github.api.openapi import load_contract
from tests.github.api.payloads import FORK_ID, HEAD_SHA, MERGE_SHA, pull_request, workflow_run
from tests.github.builders import FACTS, POLICY, Checkout
from tests.github.builders import Outcome as JobOutcome
from tests.github.runs import artifact_of
from tests.github.test_base_commit import Repository
from tests.github.test_baseline_in_jobs import Season

CASES = Registry()
EVIL_SHA = "9" * 40
LOWER = POLICY.replace("min = 0.5", "min = 0.0")
COMMIT = {"RAGSTONE_BASELINE": "commit"}


class Jobs:
    """Jobs of one repository, and what became of each."""

    def __init__(self, github: FakeGitHub, bench: Workbench) -> None:
        self.github = github
        self.checkout = Checkout(github, bench.folder)
        self.steps: dict[str, Any] = {}
        self.season = Season(self.checkout)
        self.checkout.write("thresholds.toml", POLICY)

    def record(self, step: str, job: JobOutcome) -> None:
        """The exit code, the report, and what other jobs and people see of it."""
        outcome = Workbench.outcome(job.code, self.checkout.root / "ragstone-run" / "report.json")
        seen = {"verdict": job.outputs.get("verdict"), "passed": job.outputs.get("passed")}
        comments = len(self.github.bodies())
        self.steps[step] = {**outcome, "outputs": seen, "comments": comments}

    def run(self, step: str, event: str = "pull_request", payload: Any = None, **variables: str) -> None:
        """A job in a fresh checkout, whose run nobody uploads."""
        shutil.rmtree(self.checkout.root / "ragstone-run", ignore_errors=True)
        if not any(run["id"] == 900 for run in self.github.runs):
            self.github.add_run(900, event="pull_request", branch="topic", status="in_progress", conclusion="neutral")
        self.record(step, self.checkout.gate(event, payload, **variables))

    def merge(self, step: str, **variables: str) -> None:
        """A job on main, whose run is uploaded."""
        self.record(step, self.season.merge(**variables))

    def pull(self, step: str, **variables: str) -> None:
        self.record(step, self.season.job(**variables))

    def answer_badly(self, count: int = len(FACTS)) -> None:
        """The first `count` answers are wrong, each in its own words."""
        answers = {name: fact for name, _, fact in FACTS}
        for number, name in enumerate(list(answers)[:count]):
            answers[name] = f"Bananas are purple and were invented in 1834 by a committee{'!' * number}"
        self.checkout.answer(answers)


@contextmanager
def _github() -> Iterator[FakeGitHub]:
    with FakeGitHub(load_contract()) as github:
        yield github
        assert github.problems == []


def _job(play: Callable[[Jobs], None], bench: Workbench) -> Steps:
    with _github() as github:
        jobs = Jobs(github, bench)
        play(jobs)
        return jobs.steps


def job(name: str) -> Callable[[Callable[[Jobs], None]], Callable[[Jobs], None]]:
    """Register a function that runs jobs."""

    def register(play: Callable[[Jobs], None]) -> Callable[[Jobs], None]:
        CASES.add(f"job: {name}", _job, play)
        return play

    return register


# -- pull requests and merges ------------------------------------------------------------------------------------------


@job("a pull request")
def _pull_request(jobs: Jobs) -> None:
    jobs.run("good")
    jobs.answer_badly()
    jobs.run("bad")
    jobs.run("bad, and never fails", RAGSTONE_FAIL_ON="never")


@job("other events")
def _other_events(jobs: Jobs) -> None:
    for event in ("push", "schedule", "workflow_dispatch", "merge_group"):
        jobs.run(event, event)


@job("a golden set that is wrong")
def _wrong_golden_set(jobs: Jobs) -> None:
    jobs.checkout.write("golden.jsonl", "{}\n")
    jobs.run("pull request")


@job("a season of merges")
def _season(jobs: Jobs) -> None:
    """A merge breaks main; pull requests are still compared with the good run; then it is healed."""
    jobs.checkout.write("thresholds.toml", "[gate]\nmin_coverage = 0.5\n[metrics.faithfulness]\nmax_drop = 0.05\n")
    jobs.merge("merge 1, good")
    jobs.pull("pull request, good")
    jobs.answer_badly()
    jobs.pull("pull request, bad")
    jobs.merge("merge 2, bad")
    jobs.merge("merge 3, bad")
    jobs.season.heal()
    jobs.pull("pull request, healed")
    jobs.merge("merge 4, healed")
    jobs.answer_badly(1)
    jobs.pull("pull request, one answer is wrong")


@job("the baseline's artifact expired")
def _expired(jobs: Jobs) -> None:
    """A failed run carries the baseline that it was compared with."""
    jobs.merge("merge 1, good")
    jobs.answer_badly()
    jobs.merge("merge 2, bad")
    for artifact, _ in list(jobs.github.artifacts.values())[:-1]:
        artifact["expired"] = True
    jobs.pull("pull request, bad")
    jobs.season.heal()
    jobs.pull("pull request, healed")


@job("a baseline is required")
def _required(jobs: Jobs) -> None:
    jobs.checkout.write("thresholds.toml", '[gate]\non_no_baseline = "fail"\n[metrics.faithfulness]\nmax_drop = 0.05\n')
    jobs.pull("pull request, without one")
    jobs.merge("merge 1")
    jobs.pull("pull request, with one")


# -- what a pull request changes about the gate ------------------------------------------------------------------------


@job("a pull request lowers the floor")
def _lowers(jobs: Jobs) -> None:
    jobs.checkout.is_base()
    jobs.answer_badly()
    jobs.run("by the policy of the base")
    jobs.checkout.write("thresholds.toml", LOWER)
    jobs.run("by a lower floor")


@job("a pull request edits the golden set")
def _edits(jobs: Jobs) -> None:
    jobs.merge("merge 1")
    jobs.checkout.is_base()
    lines = (jobs.checkout.root / "golden.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    jobs.checkout.write("golden.jsonl", "".join(lines[:2]))
    jobs.pull("half of it removed")


@job("the base can't be read")
def _unreadable(jobs: Jobs) -> None:
    jobs.checkout.is_base()
    jobs.github.fail("GET", "/contents/", 500, times=99)
    jobs.run("pull request")


@job("tokens with few rights")
def _tokens(jobs: Jobs) -> None:
    jobs.github.actors[TOKEN] = Actor("github-actions[bot]", reads=ALL_RIGHTS - {"contents"})
    jobs.run("no contents")
    jobs.github.actors[TOKEN] = Actor("github-actions[bot]", writes=frozenset())
    jobs.run("read only")
    jobs.run("none", GITHUB_TOKEN="")


# -- forks -------------------------------------------------------------------------------------------------------------

HOSTED = """
[golden]
paths = ["golden.jsonl"]
[system]
entrypoint = "file:outputs.jsonl"
[judge]
name = "openai:gpt-x"
[run]
metrics = ["faithfulness"]
[gate]
without_key = "{without_key}"
"""


def _fork(without_key: str, jobs: Jobs) -> None:
    jobs.checkout.write("ragstone.toml", HOSTED.format(without_key=without_key))
    fork = pull_request(fork=True)
    jobs.run("good", "pull_request", fork)
    jobs.answer_badly()
    jobs.run("bad", "pull_request", fork)
    jobs.checkout.write("thresholds.toml", POLICY.replace("[gate]", '[gate]\ninconclusive = "fail"'))
    jobs.run("bad, where that has to be known", "pull_request", fork)


job("a fork without a key, not judged")(partial(_fork, "skip"))
job("a fork without a key, judged offline")(partial(_fork, "offline"))


def _fork_ran(jobs: Jobs, **run: Any) -> None:
    """GitHub has run 555 of the fork, and the fork's pull request."""
    jobs.github.add_run(555, event="pull_request", branch="main", head_repository_id=FORK_ID, sha=HEAD_SHA, **run)
    jobs.github.add_pull(7, owner="mallory", branch="main", sha=HEAD_SHA, head_id=FORK_ID)


@job("a fork's run is reported")
def _reported(jobs: Jobs) -> None:
    """A trusted job decides about the run of a fork, by its own policy."""
    jobs.answer_badly()
    jobs.checkout.is_commit(MERGE_SHA)
    jobs.run("the fork's own job", "pull_request", pull_request(fork=True), RAGSTONE_COMMENT="off")
    _fork_ran(jobs, artifact=artifact_of(jobs.checkout.root / "ragstone-run"))
    jobs.run("report", "workflow_run", workflow_run())
    jobs.checkout.write("thresholds.toml", LOWER)
    jobs.run("report by a lower floor", "workflow_run", workflow_run())


@job("a fork's artifact is damaged")
def _damaged(jobs: Jobs) -> None:
    _fork_ran(jobs)
    jobs.github.add_artifact(555, b"junk")
    jobs.run("report", "workflow_run", workflow_run())


# -- bases -------------------------------------------------------------------------------------------------------------


@job("a base that nobody reviewed")
def _unreviewed(jobs: Jobs) -> None:
    jobs.github.branches["evil-base"] = EVIL_SHA
    jobs.github.files[EVIL_SHA] = {"thresholds.toml": LOWER.encode()}
    jobs.checkout.is_base()
    jobs.checkout.write("thresholds.toml", LOWER)
    payload = pull_request()
    payload["pull_request"]["base"].update(ref="evil-base", sha=EVIL_SHA)
    jobs.run("good", "pull_request", payload)
    jobs.answer_badly()
    jobs.run("bad", "pull_request", payload)
    jobs.github.protected.add("evil-base")
    jobs.run("bad, and the base is protected", "pull_request", payload)


def _base_commit(play: Callable[[Jobs, Repository], None], bench: Workbench) -> Steps:
    """The base commit's system is asked in the same job."""
    with _github() as github:
        jobs = Jobs(github, bench)
        play(jobs, Repository(jobs.checkout, bench.folder))
        return jobs.steps


def _base(jobs: Jobs, repository: Repository) -> None:
    jobs.run("good", **COMMIT)
    jobs.checkout.write("rag.py", repository.rag(broken=True))
    jobs.run("bad", **COMMIT)
    repository.commit(BASE_SHA)
    jobs.run("the base is as bad", **COMMIT)


def _base_fails(jobs: Jobs, repository: Repository) -> None:
    jobs.checkout.write("rag.py", "import no_such_module\n")
    repository.commit(BASE_SHA)
    jobs.checkout.write("rag.py", repository.rag())
    jobs.run("it does not start", **COMMIT)
    jobs.github.fail("GET", "/tarball/", 500, times=99)
    jobs.run("it can't be downloaded", **COMMIT)


CASES.add("job: base commit", _base_commit, _base)
CASES.add("job: base commit fails", _base_commit, _base_fails)
