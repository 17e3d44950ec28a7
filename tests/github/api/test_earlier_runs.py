"""Which earlier run of a pull request counts: of the same files, by what GitHub says and by what its artifact says."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from ragstone.evaluation.directory import MANIFEST, SAMPLES, RunDirectory
from ragstone.evaluation.manifest import Invocation
from ragstone.evaluation.writer import update_manifest
from ragstone.github.api.client import GitHubApi
from ragstone.github.api.earlier_runs import MAX_READ_ARTIFACTS, find_earlier_run
from tests.github.api.fake import FORK_ID, FakeGitHub
from tests.github.runs import files_of, make_run

OWN, EARLIER = 903, 902
TREE, OTHER_TREE = "1" * 40, "2" * 40
MERGED, OTHER_MERGED = "3" * 40, "4" * 40
"""The files of a pull request's commit, and those of its merge with the base."""
NAME = "ragstone-run"


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The artifact of a run whose manifest says that its files were `MERGED`."""
    run = make_run(tmp_path_factory.mktemp("earlier"))
    return files_of(update_manifest(run, invocation=Invocation(command="gate", tree=MERGED)))


def changed(files: Mapping[str, bytes], **fields: Any) -> dict[str, bytes]:
    return {**files, MANIFEST: json.dumps(json.loads(files[MANIFEST]) | fields).encode()}


class Pull:
    """A pull request: its own run is the newest, and each of the others left an artifact."""

    def __init__(self, github: FakeGitHub, api: GitHubApi, folder: Path) -> None:
        self.github, self.api, self.folder = github, api, folder
        self.said: list[str] = []
        self.own = github.add_run(OWN, event="pull_request", branch="topic", status="in_progress", tree=TREE)

    def ran(self, run_id: int, artifact: Mapping[str, bytes] | bytes, tree: str = TREE) -> dict[str, Any]:
        return self.github.add_run(run_id, event="pull_request", branch="topic", tree=tree, artifact=artifact)

    def earlier(self) -> RunDirectory | None:
        return find_earlier_run(self.api, OWN, NAME, tree=MERGED, folder=self.folder, write=self.said.append)


@pytest.fixture
def pull(github: FakeGitHub, api: GitHubApi, tmp_path: Path) -> Pull:
    return Pull(github, api, tmp_path)


def test_the_newest_artifact_of_the_same_files_counts(pull: Pull, files: dict[str, bytes]) -> None:
    pull.ran(901, files)
    pull.ran(EARLIER, changed(files, repeats=1, wall_s=7.0))
    found = pull.earlier()
    assert found is not None
    assert found.manifest.wall_s == 7.0
    assert len(pull.github.storage_seen) == 1


def test_an_earlier_attempt_of_the_own_run_counts(
    pull: Pull, files: dict[str, bytes], connect: Callable[[], GitHubApi]
) -> None:
    pull.github.add_artifact(OWN, files)
    assert pull.earlier() is None, "this attempt left nothing yet"
    pull.own.update(run_attempt=2)
    pull.api = connect()  # that of the job that tries again
    assert pull.earlier() is not None


OTHERS = (
    {"event": "push"},
    {"workflow_id": 43},
    {"head_branch": "x"},
    {"status": "in_progress"},
    {"head_commit": None},
)


@pytest.mark.parametrize("said", OTHERS, ids=str)
def test_only_finished_runs_of_this_workflow_for_this_pull_request_count(
    pull: Pull, files: dict[str, bytes], said: dict[str, Any]
) -> None:
    run = pull.ran(EARLIER, files)
    assert pull.earlier() is not None
    run.update(said)
    assert pull.earlier() is None
    assert len(pull.github.storage_seen) == 1


@pytest.mark.parametrize("said", [{"head_branch": None}, {"event": "push"}, {"head_commit": None}], ids=str)
def test_nothing_counts_for_a_job_that_is_not_a_pull_requests_own(
    pull: Pull, files: dict[str, bytes], said: dict[str, Any]
) -> None:
    for run in (pull.own, pull.ran(EARLIER, files)):
        run.update(said)
    assert pull.earlier() is None
    assert [seen.path for seen in pull.github.seen] == [f"/repos/acme/rag/actions/runs/{OWN}"]


@pytest.mark.attack(
    by="fork", tries="plant answers by a branch's name", stopped_by="only the repository's own runs count"
)
@pytest.mark.parametrize("forked", [1, 2], ids=["the earlier run's", "both"])
def test_a_fork_with_a_branch_of_the_same_name_plants_nothing(pull: Pull, files: dict[str, bytes], forked: int) -> None:
    for run in (pull.ran(EARLIER, files), pull.own)[:forked]:
        run["head_repository"].update(id=FORK_ID)
    assert pull.earlier() is None


@pytest.mark.attack(
    by="pull request", tries="plant answers by an earlier commit", stopped_by="its files must be the same"
)
def test_a_commit_with_other_files_whose_artifact_claims_these_is_not_looked_at(
    pull: Pull, files: dict[str, bytes]
) -> None:
    """Its workflow may have been another, and may have written anything."""
    pull.ran(EARLIER, files, tree=OTHER_TREE)
    assert pull.earlier() is None
    assert pull.github.storage_seen == []


DAMAGED: dict[str, Callable[[dict[str, bytes]], Mapping[str, bytes] | bytes]] = {
    "it is a run of other files": lambda files: changed(files, invocation={"command": "gate", "tree": OTHER_MERGED}),
    "a run of other files": lambda files: changed(files, invocation=None),
    "not a readable zip archive": lambda _: b"no archive",
    "not a valid manifest": lambda files: {**files, MANIFEST: b"{}"},
    "does not follow from the recorded": lambda files: {**files, SAMPLES: files[SAMPLES].replace(b"1.0", b"0.5")},
    "it lacks answers": lambda files: changed(files, earlier=[1]),
    "it lacks answers, or their scores": lambda files: changed(files, state="stopped"),
}
"""Artifacts that don't count, by the reason."""


@pytest.mark.parametrize("reason", DAMAGED)
def test_what_does_not_count_is_left_out_with_a_reason_for_the_one_before(
    pull: Pull, files: dict[str, bytes], reason: str
) -> None:
    pull.ran(901, changed(files, wall_s=7.0))
    pull.ran(EARLIER, DAMAGED[reason](files))
    found = pull.earlier()
    assert reason in pull.said[-1]
    assert found is not None
    assert found.manifest.wall_s == 7.0, "that of the first run"


def test_downloads_are_bounded(pull: Pull, files: dict[str, bytes]) -> None:
    for run_id in range(800, 800 + 2 * MAX_READ_ARTIFACTS):
        pull.ran(run_id, b"no archive")
    assert pull.earlier() is None
    assert len(pull.github.storage_seen) == len(pull.said) == MAX_READ_ARTIFACTS


@pytest.mark.parametrize("path", [f"/actions/runs/{OWN}$", "/runs$", "/artifacts$", "/zip$"])
def test_what_github_refuses_is_said_and_nothing_counts(pull: Pull, files: dict[str, bytes], path: str) -> None:
    pull.ran(EARLIER, files)
    pull.github.fail("GET", path, 403, times=99)
    assert pull.earlier() is None
    assert "can't be read" in pull.said[-1]
