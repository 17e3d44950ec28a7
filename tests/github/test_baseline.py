"""Finding the baseline, and each attempt to slip a false one in."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from ragstone.errors import RunDirectoryError
from ragstone.evaluation.directory import MANIFEST, SAMPLES, RunDirectory
from ragstone.evaluation.lineage import cache_of
from ragstone.evaluation.replay import confirm
from ragstone.github.api import artifacts
from ragstone.github.api.artifacts import fetch_without_token
from ragstone.github.api.client import GitHubApi, GitHubApiError
from ragstone.github.api.trusted_runs import GitHubArtifacts
from ragstone.pipeline.baseline_search import BaselineSearch, TrustedBaseline
from tests.github.api.fake import ALL_RIGHTS, BASE_SHA, FORK_ID, TOKEN, Actor, FakeGitHub, Fault, Reply, zip_of
from tests.github.runs import failed_with, files_of, make_run

OWN_RUN = 900
LONG_AGO = "2020-01-01T00:00:00Z"
QUALITY = 44
"""Another workflow, quality.yml, that a job may name."""
Files = dict[str, bytes]


@dataclass
class Main:
    """The runs on main, among which a job looks for its baseline."""

    github: FakeGitHub
    api: GitHubApi
    folder: Path

    def search(
        self, branch: str | None = "main", workflow: str | None = "gate.yml", named: str | None = None
    ) -> tuple[TrustedBaseline | None, BaselineSearch]:
        store = GitHubArtifacts(
            self.api,
            run_id=OWN_RUN,
            workflow=workflow,
            branch=branch,
            artifact_name="ragstone-run",
            baseline_workflow=named,
        )
        search = BaselineSearch(store, self.folder / uuid4().hex)
        return search.find(), search

    def found(self, **where: str | None) -> TrustedBaseline:
        found, search = self.search(**where)
        assert found is not None, search.reason
        return found

    def reason(self, **where: str | None) -> str:
        found, search = self.search(**where)
        assert found is None, found
        return search.reason


@pytest.fixture
def main(own_run: None, github: FakeGitHub, api: GitHubApi, tmp_path: Path) -> Main:
    github.workflows["quality.yml"] = QUALITY
    return Main(github, api, tmp_path / "opened")


@pytest.fixture(scope="module")
def passed(tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    return make_run(tmp_path_factory.mktemp("passed"))


@pytest.fixture(scope="module")
def files(passed: RunDirectory) -> Files:
    return files_of(passed)


@pytest.fixture(scope="module")
def failed_files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return files_of(make_run(tmp_path_factory.mktemp("failed"), verdict="fail"))


@pytest.fixture(scope="module")
def carrying(passed: RunDirectory, tmp_path_factory: pytest.TempPathFactory) -> Files:
    """The artifact of a failed run that carries `passed`, which was run 1."""
    return failed_with(tmp_path_factory.mktemp("carrying"), passed)


def test_the_newest_passing_run_is_taken_whatever_the_other_jobs_came_to(
    main: Main, files: Files, failed_files: Files, passed: RunDirectory, tmp_path: Path
) -> None:
    assert main.reason().startswith("First run")
    main.github.add_run(1, artifact=files)
    main.github.add_run(2, event="schedule", conclusion="failure", artifact=files)
    main.github.add_run(3, event="workflow_dispatch", artifact=failed_files)
    found = main.found(branch=None)
    assert (found.run_id, found.branch) == (2, "main")
    opened = confirm(found.run)
    assert opened.manifest == passed.manifest
    assert opened.scores().metrics["faithfulness"].values == passed.scores().metrics["faithfulness"].values


def test_a_commit_counts_that_the_branch_holds_or_ends_with(main: Main, files: Files) -> None:
    queue = "gh-readonly-queue/main/pr-5-abc"
    main.github.add_run(1, event="merge_group", branch=queue, sha="e" * 40, artifact=files)
    assert "not on 'main'" in main.reason()
    main.github.merged.add("e" * 40)
    assert main.found().run_id == 1
    main.github.add_run(2, sha=BASE_SHA, artifact=files)
    assert main.found().run_id == 2
    main.github.fail("GET", "/compare/", 404, times=9)  # GitHub no longer knows them
    assert "not on 'main'" in main.reason()


# -- a season of runs --------------------------------------------------------------------------------------------------


def test_thirty_failed_runs_lead_to_the_baseline_that_they_carry(
    main: Main, carrying: Files, passed: RunDirectory, tmp_path: Path
) -> None:
    artifact = {**carrying, "judgements.sqlite": b"outer"}
    for run in range(2, 32):
        main.github.add_run(run, created_at=f"2026-11-20T00:{run:02d}:00Z", conclusion="failure", artifact=artifact)
    found = main.found()
    assert (found.run_id, found.carried_by, found.url) == (1, 31, "https://github.com/acme/rag/actions/runs/1")
    assert len(main.github.storage_seen) == 1
    assert cache_of(found.run).read_bytes() == b"outer", "of the run that carries it"
    assert confirm(found.run).manifest == passed.manifest


@pytest.mark.attack(by="fork", tries="replace a carried baseline", stopped_by="its fingerprint is recorded")
def test_a_carried_run_other_than_the_one_that_was_used_is_left_out(
    main: Main, carrying: Files, tmp_path: Path
) -> None:
    other = files_of(make_run(tmp_path / "other", n=4))
    main.github.add_run(2, artifact={**carrying, **{f"baseline/{name}": body for name, body in other.items()}})
    assert "not the baseline that the run was compared with" in main.reason()
    worse = make_run(tmp_path / "worse", verdict="fail", n=4)
    main.github.add_artifact(2, failed_with(tmp_path / "failed", worse))
    assert "can be a baseline" in main.reason()
    main.github.merged = {"e" * 40}
    main.github.add_run(3, sha="e" * 40, artifact=carrying)
    assert "is not on 'main'" in main.reason()


def test_behind_runs_without_an_artifact_an_older_one_is_the_baseline(main: Main, files: Files) -> None:
    queue = "gh-readonly-queue/main/pr-5-abc"
    main.github.add_run(1, event="merge_group", branch=queue, created_at=LONG_AGO, artifact=files)
    for run in range(2, 6):
        main.github.add_run(run, created_at=f"2026-11-20T00:{run:02d}:00Z")
    main.github.add_artifact(2, files, expired=True)
    assert main.found().run_id == 1


@pytest.mark.parametrize("event", ["push", "workflow_dispatch"])
def test_the_run_of_a_tag_named_like_the_branch_is_not_the_baseline(main: Main, files: Files, event: str) -> None:
    # GitHub gives the tag's name where a branch's would stand, and the tag may point anywhere.
    main.github.add_run(1, created_at=LONG_AGO, artifact=files)
    main.github.add_run(2, event=event, branch="main", sha="e" * 40, artifact=files)
    assert main.found().run_id == 1
    compared = [seen.path for seen in main.github.seen if "/compare/" in seen.path]
    assert all(path.endswith(main.github.branches["main"]) for path in compared)
    assert len(main.github.storage_seen) == 1


def test_the_history_is_that_of_the_newest_run_that_left_one_and_outlives_the_baseline(
    main: Main, files: Files, carrying: Files, failed_files: Files
) -> None:
    main.github.add_run(1, artifact={**files, "history.jsonl": b"old"})
    main.github.add_run(2, artifact={**carrying, "history.jsonl": b"new"})
    assert main.found().run_id == 1
    assert main.search()[1].history == b"new"
    main.github.artifacts.clear()
    main.github.add_artifact(2, {**failed_files, "history.jsonl": b"kept"})
    assert main.reason()
    assert main.search()[1].history == b"kept"


# -- poisoning ---------------------------------------------------------------------------------------------------------


BY_OTHERS: dict[str, dict[str, Any]] = {
    "a fork whose branch is called main": {"event": "push", "head_repository_id": FORK_ID},
    "a fork's pull request from main": {"event": "pull_request", "head_repository_id": FORK_ID},
    "a pull request of the same repository": {"event": "pull_request"},
    "pull_request_target": {"event": "pull_request_target"},
    "workflow_run": {"event": "workflow_run"},
    "issue_comment": {"event": "issue_comment"},
    "a head repository that is gone": {"event": "push", "head_repository_id": None},
    "another branch": {"event": "push", "branch": "topic"},
    "another workflow": {"event": "push", "workflow_id": 43},
    "a run that has not ended": {"event": "push", "status": "in_progress"},
    "a branch that looks like a queue": {"event": "push", "branch": "gh-readonly-queue/main/pr-1"},
    "a queue without its branch": {"event": "merge_group", "branch": "main"},
    "a run of another repository": {"event": "push", "repository_id": FORK_ID},
    "a commit that is not on the branch": {"event": "push", "sha": "e" * 40},
}


@pytest.mark.attack(
    by="fork",
    tries="a branch or tag called `main` as the baseline",
    stopped_by="workflow, event, branch and commit are verified with GitHub",
)
@pytest.mark.parametrize("run", BY_OTHERS.values(), ids=list(BY_OTHERS))
def test_a_run_that_others_can_bring_about_is_never_the_baseline(
    main: Main, files: Files, run: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = main.github._list_runs

    def unfiltered(seen: Any, actor: Any, workflow: str) -> Any:
        seen.query.clear()
        return honest(seen, actor, workflow)

    monkeypatch.setattr(main.github, "_list_runs", unfiltered)
    repository_id = run.get("repository_id", 1001)
    described = {name: value for name, value in run.items() if name != "repository_id"}
    for run_id, workflow_id in ((5, 42), (6, QUALITY)):  # the same of another workflow, which the job may name
        main.github.add_run(run_id, **{"workflow_id": workflow_id, **described})
        main.github.runs[-1]["repository"].update(id=repository_id)
        # What an artifact says of its run is not believed.
        lies = {"repository_id": 1001, "head_repository_id": 1001, "head_branch": "main"}
        main.github.add_artifact(run_id, files)["workflow_run"].update(lies)
    assert main.reason()
    assert main.github.storage_seen == []
    assert main.reason(named="quality.yml")
    # GitHub does give null for a head repository that was deleted, whatever its description says.
    problems = main.github.problems
    main.github.problems = [each for each in problems if "_repository: None" not in each and "'object'" not in each]


def test_the_runs_of_a_named_workflow_are_baselines_in_place_of_its_own(main: Main, files: Files) -> None:
    assert main.reason(named="quality.yml") == "First run: no finished run of quality.yml on 'main' yet."
    main.github.add_run(1, workflow_id=QUALITY)
    assert main.reason(named="quality.yml").startswith("No run of quality.yml on 'main' has an artifact")
    assert "404" in main.reason(named="gone.yml")
    main.github.add_artifact(1, files)
    main.github.add_run(2, artifact=files)
    assert main.found(named="quality.yml").run_id == 1
    assert main.found().run_id == 2


def test_where_the_own_run_can_not_be_read_the_workflow_is_known_by_its_file_alone(main: Main, files: Files) -> None:
    main.github.runs.clear()
    main.github.add_run(5, workflow_id=43, artifact=files)
    assert main.reason()
    main.github.add_run(6, artifact=files)
    assert main.found().run_id == 6
    assert "/runs/900" in main.reason(workflow=None)


def test_pull_requests_can_not_push_the_baseline_out_of_the_listing(main: Main, files: Files) -> None:
    main.github.add_run(1, created_at=LONG_AGO, artifact=files)
    for run in range(2_000, 2_150):
        main.github.add_run(run, event="pull_request", head_repository_id=FORK_ID)
    assert main.found().run_id == 1


@pytest.mark.parametrize(("run_id", "name"), [(1, "other"), (2, "ragstone-run")])
def test_an_artifact_of_another_run_or_name_is_not_taken_for_ours(
    main: Main, files: Files, monkeypatch: pytest.MonkeyPatch, run_id: int, name: str
) -> None:
    main.github.add_run(1)
    main.github.add_run(2, event="pull_request", head_repository_id=FORK_ID)
    artifact = main.github.add_artifact(run_id, files, name=name)
    reply = Reply(200, {"total_count": 1, "artifacts": [artifact]})
    monkeypatch.setattr(main.github, "_run_artifacts", lambda *_: reply)
    assert "has an artifact called" in main.reason()


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"digest": "sha256:" + "0" * 64}, "does not match the digest"),
        ({"digest": None}, "no SHA-256 digest"),
        ({"digest": "md5:00"}, "no SHA-256 digest"),
        ({"expired": True}, "expired"),
        ({"size_in_bytes": 10**12}, "larger than"),
    ],
)
def test_an_artifact_that_is_not_what_it_should_be_is_left_out_and_named(
    main: Main, files: Files, changed: dict[str, Any], says: str
) -> None:
    main.github.add_run(1)
    main.github.add_artifact(1, files, **changed)
    assert says in main.reason()


@pytest.mark.attack(
    by="fork", tries="a zip bomb, a path out, a duplicate name", stopped_by="named members, limited sizes, in memory"
)
@pytest.mark.parametrize(
    ("archive", "says"),
    [
        (zip_of({"manifest.json": b"{}", "../../../etc/cron.d/evil": b"x"}), "leads out"),
        (zip_of({"manifest.json": b"\0" * 5_000_000}), "bytes when decompressed"),
        (b"not a zip", "not a readable zip"),
        (zip_of({"other.json": b"{}"}), "contains no run"),
    ],
)
def test_a_hostile_archive_is_refused(main: Main, archive: bytes, says: str, tmp_path: Path) -> None:
    main.github.add_run(1, artifact=archive)
    assert says in main.reason()
    assert not any(path.is_file() for path in tmp_path.rglob("*"))


def claims_perfection(files: Mapping[str, bytes]) -> Files:
    lines = [json.loads(line) for line in files[SAMPLES].splitlines()]
    for line in lines:
        for score in line["scores"].values():
            if "value" in score:
                score["value"] = 1.0
    changed = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
    assert changed != files[SAMPLES]
    return {**files, SAMPLES: changed}


@pytest.mark.attack(by="fork", tries="claim perfect scores", stopped_by="recomputed from the judgements")
@pytest.mark.parametrize("how", ["forged", "forged and carried", "fewer samples", "scores in the manifest"])
def test_what_does_not_follow_from_the_records_is_refused(main: Main, files: Files, tmp_path: Path, how: str) -> None:
    artifact, says = claims_perfection(files), "does not follow from the recorded judgements"
    if how == "forged and carried":
        forged = make_run(tmp_path / "forged")
        (forged.path / SAMPLES).write_bytes(claims_perfection(files_of(forged))[SAMPLES])
        artifact = failed_with(tmp_path / "failed", forged)
    elif how == "fewer samples":
        artifact, says = {**files, SAMPLES: files[SAMPLES].splitlines(keepends=True)[0]}, "counts 6 samples"
    elif how == "scores in the manifest":
        manifest = {**json.loads(files[MANIFEST]), "scores": {"faithfulness": 1.0}}
        artifact = {**files, MANIFEST: json.dumps(manifest).encode()}
    main.github.add_run(2, artifact=artifact)
    if how == "scores in the manifest":
        assert main.reason()
        return
    with pytest.raises(RunDirectoryError, match=says):
        confirm(main.found().run)


# -- the download ------------------------------------------------------------------------------------------------------


@pytest.mark.attack(by="network", tries="a storage host that collects tokens", stopped_by="fetched without them")
def test_the_storage_host_never_sees_the_token(
    main: Main, files: Files, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    netrc = tmp_path / ".netrc"
    netrc.write_text("default login mallory password stolen\n", encoding="utf-8")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    main.github.add_run(1, artifact=files)
    assert main.found().run_id == 1
    [seen] = main.github.storage_seen
    assert not {"authorization", "cookie"} & seen.headers.keys()
    assert TOKEN not in str(seen)
    assert all("authorization" in seen.headers for seen in main.github.seen)


@pytest.mark.parametrize("fault", [{"how": "truncated"}, {"how": "reset"}, {"status": 503}, {"status": 403}])
def test_a_transfer_that_breaks_is_begun_again(main: Main, files: Files, fault: dict[str, Any]) -> None:
    main.github.add_run(1, artifact=files)
    main.github.storage_faults.append(Fault("GET", "blob", times=2, **fault))
    assert main.found().run_id == 1
    assert len(main.github.storage_seen) == 3
    main.github.storage_faults.append(Fault("GET", "blob", times=99, **fault))
    assert "the storage host" in main.reason()
    assert len(main.github.storage_seen) == 3 + main.api.retry_policy.attempts


@pytest.mark.parametrize(("spare_bytes", "is_downloaded"), [(0, True), (-1, False)])
def test_an_archive_is_downloaded_up_to_a_size_whatever_github_says_of_it(
    main: Main, monkeypatch: pytest.MonkeyPatch, spare_bytes: int, is_downloaded: bool
) -> None:
    archive = zip_of({"other.json": b"{}"})
    monkeypatch.setattr(artifacts, "MAX_ARCHIVE_BYTES", len(archive) + spare_bytes)
    main.github.add_run(1)
    main.github.add_artifact(1, archive, size_in_bytes=1)
    assert ("contains no run" if is_downloaded else "larger than") in main.reason()


@pytest.mark.parametrize(("scheme", "plain_http"), [("http", False), ("ftp", True)])
def test_a_storage_host_is_asked_by_https_or_as_the_api_is(main: Main, scheme: str, plain_http: bool) -> None:
    main.api.allows_http = plain_http
    with pytest.raises(GitHubApiError, match="not https"):
        fetch_without_token(main.api, f"{main.github.storage_url}/blob/1".replace("http", scheme), deadline_s=1.0)
    assert main.github.storage_seen == []


# -- GitHub is unwell --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", [{"status": 404}, {"status": 500}, {"how": "garbage"}])
@pytest.mark.parametrize("path", [r"^/repos/acme/rag$", "workflows", "artifacts"])
def test_any_fault_means_no_baseline_and_says_why(main: Main, files: Files, fault: dict[str, Any], path: str) -> None:
    main.github.add_run(1, artifact=files)
    main.github.fail("GET", path, times=99, **fault)
    assert "GitHub" in main.reason()


def test_a_missing_right_names_the_permission(main: Main, connect: Callable[..., GitHubApi]) -> None:
    main.github.actors["weak"] = Actor("github-actions[bot]", reads=ALL_RIGHTS - {"actions"})
    main.api = connect("weak")
    assert "actions: read" in main.reason()
