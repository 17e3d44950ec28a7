"""Finding the baseline, and each attempt to slip a false one in."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from ragstone.errors import RunDirectoryError
from ragstone.evaluation.directory import MANIFEST, SAMPLES, RunDirectory
from ragstone.github.api import artifacts
from ragstone.github.api.artifacts import fetch_without_token
from ragstone.github.api.client import GitHubApi, GitHubApiError
from ragstone.github.api.trusted_runs import GitHubArtifacts
from ragstone.pipeline.baseline_search import NoBaseline, TrustedBaseline, find_baseline
from tests.github.api.fake import ALL_RIGHTS, FORK_ID, TOKEN, Actor, FakeGitHub, Fault, Reply, zip_of
from tests.github.runs import failed_with, files_of, make_run

OWN_RUN = 900


pytestmark = pytest.mark.usefixtures("own_run")


@pytest.fixture(scope="module")
def passed(tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    return make_run(tmp_path_factory.mktemp("passed"))


@pytest.fixture(scope="module")
def files(passed: RunDirectory) -> dict[str, bytes]:
    return files_of(passed)


@pytest.fixture(scope="module")
def failed_files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    return files_of(make_run(tmp_path_factory.mktemp("failed"), verdict="fail"))


def find(
    api: GitHubApi, branch: str | None = "main", name: str = "ragstone-run", named: str | None = None
) -> TrustedBaseline | NoBaseline:
    store = GitHubArtifacts(api, run_id=OWN_RUN, workflow="gate.yml", branch=branch, artifact_name=name, named=named)
    return find_baseline(store)


def found_id(found: TrustedBaseline | NoBaseline) -> int:
    assert isinstance(found, TrustedBaseline), found
    return found.run_id


def reason(found: TrustedBaseline | NoBaseline) -> str:
    assert isinstance(found, NoBaseline), found
    return found.reason


def test_the_newest_passing_run_of_the_branch_is_taken_and_can_be_opened(
    github: FakeGitHub, api: GitHubApi, files: dict[str, bytes], passed: RunDirectory, tmp_path: Path
) -> None:
    for run in (1, 2, 3):
        github.add_run(run, event=("push", "schedule", "workflow_dispatch")[run - 1], artifact=files)
    found = find(api)
    assert isinstance(found, TrustedBaseline)
    assert (found.run_id, found.branch) == (3, "main")
    opened = found.materialise(tmp_path / "baseline")
    assert opened.manifest == passed.manifest
    assert opened.scores().metrics["faithfulness"].values == passed.scores().metrics["faithfulness"].values


def test_the_verdict_of_the_gate_counts_whatever_the_other_jobs_came_to(
    github: FakeGitHub, api: GitHubApi, files: dict[str, bytes], failed_files: dict[str, bytes]
) -> None:
    github.add_run(1, conclusion="failure", artifact=files)
    github.add_run(2, artifact=failed_files)
    assert found_id(find(api)) == 1


def test_of_several_attempts_the_newest_artifact_counts(
    github: FakeGitHub, api: GitHubApi, files: dict[str, bytes], failed_files: dict[str, bytes]
) -> None:
    github.add_run(1, artifact=files)
    github.add_artifact(1, failed_files)
    assert "can't be a baseline" in reason(find(api))


def test_the_default_branch_stands_in_where_none_is_named(
    github: FakeGitHub, api: GitHubApi, files: dict[str, bytes]
) -> None:
    github.add_run(1, artifact=files)
    found = find(api, branch=None)
    assert isinstance(found, TrustedBaseline)
    assert found.branch == "main"


def test_a_merge_group_counts_once_its_commit_is_merged(
    github: FakeGitHub, api: GitHubApi, files: dict[str, bytes]
) -> None:
    github.add_run(1, event="merge_group", branch="gh-readonly-queue/main/pr-5-abc", sha="e" * 40, artifact=files)
    assert isinstance(find(api), NoBaseline)
    github.merged.add("e" * 40)
    assert found_id(find(api)) == 1


def test_the_first_run_is_told_as_such(api: GitHubApi) -> None:
    assert reason(find(api)).startswith("First run")


def test_runs_without_our_artifact_are_told_as_such(
    github: FakeGitHub, api: GitHubApi, files: dict[str, bytes]
) -> None:
    github.add_run(1)
    github.add_artifact(1, files, name="other")
    assert "has an artifact called" in reason(find(api))


# -- a season of runs --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def carrying(passed: RunDirectory, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The artifact of a failed run that carries `passed`, which was run 1."""
    return failed_with(tmp_path_factory.mktemp("carrying"), passed)


@pytest.mark.parametrize("verdict", ["inconclusive", None])
def test_a_run_that_nothing_is_shown_against_may_be_the_baseline(
    github: FakeGitHub, api: GitHubApi, tmp_path: Path, verdict: str | None
) -> None:
    github.add_run(1)
    github.add_artifact(1, files_of(make_run(tmp_path, verdict=verdict)))
    assert found_id(find(api)) == 1


def test_thirty_failed_runs_lead_to_the_baseline_that_they_carry(
    github: FakeGitHub, api: GitHubApi, carrying: dict[str, bytes], passed: RunDirectory, tmp_path: Path
) -> None:
    for run in range(2, 32):
        github.add_run(run, created_at=f"2026-11-20T00:{run:02d}:00Z", conclusion="failure", artifact=carrying)
    found = find(api)
    assert isinstance(found, TrustedBaseline)
    assert (found.run_id, found.carried_by, found.url) == (1, 31, "https://github.com/acme/rag/actions/runs/1")
    assert len(github.storage_seen) == 1
    opened = found.materialise(tmp_path / "baseline")
    assert opened.manifest == passed.manifest
    assert opened.scores().metrics == passed.scores().metrics


def test_the_judgements_of_a_carried_baseline_are_those_of_the_run_that_carries_it(
    github: FakeGitHub, api: GitHubApi, carrying: dict[str, bytes]
) -> None:
    github.add_run(2, artifact={**carrying, "judgements.sqlite": b"outer"})
    found = find(api)
    assert isinstance(found, TrustedBaseline)
    assert sorted(found.files) == ["judgements.sqlite", MANIFEST, SAMPLES]
    assert found.files["judgements.sqlite"] == b"outer"


def test_a_carried_baseline_has_every_score_replayed(github: FakeGitHub, api: GitHubApi, tmp_path: Path) -> None:
    forged = make_run(tmp_path / "forged")
    lines = claims_perfection(files_of(forged))
    (forged.path / SAMPLES).write_bytes(lines[SAMPLES])
    github.add_run(2, artifact=failed_with(tmp_path / "failed", forged))
    found = find(api)
    assert isinstance(found, TrustedBaseline)
    with pytest.raises(RunDirectoryError, match="does not follow from the recorded judgements"):
        found.materialise(tmp_path / "baseline")


@pytest.mark.attack(
    by="fork",
    tries="put another run where a failed run carries its baseline",
    stopped_by="its fingerprint must be the recorded one, its commit on the branch",
)
def test_a_carried_run_other_than_the_one_that_was_used_is_left_out(
    github: FakeGitHub, api: GitHubApi, carrying: dict[str, bytes], tmp_path: Path
) -> None:
    other = files_of(make_run(tmp_path, n=4))
    github.add_run(2, artifact={**carrying, **{f"baseline/{name}": body for name, body in other.items()}})
    assert "carries a different run" in reason(find(api))


def test_a_carried_run_that_failed_itself_is_left_out(github: FakeGitHub, api: GitHubApi, tmp_path: Path) -> None:
    worse = make_run(tmp_path / "worse", verdict="fail", n=4)
    github.add_run(2, artifact=failed_with(tmp_path / "failed", worse))
    assert "carries a different run" in reason(find(api))


def test_a_carried_baseline_whose_commit_left_the_branch_is_left_out(
    github: FakeGitHub, api: GitHubApi, carrying: dict[str, bytes]
) -> None:
    github.add_run(2, sha="e" * 40)
    github.merged = {"e" * 40}
    github.add_artifact(2, carrying)
    assert "is not on 'main'" in reason(find(api))


def test_the_run_that_is_named_as_the_baseline_is_asked_where_nothing_is_carried(
    github: FakeGitHub, api: GitHubApi, files: dict[str, bytes], carrying: dict[str, bytes]
) -> None:
    github.add_run(1, created_at="2026-01-01T00:00:00Z", artifact=files)
    bare = {name: body for name, body in carrying.items() if not name.startswith("baseline/")}
    for run in range(2, 20):
        github.add_run(run, created_at=f"2026-11-20T00:{run:02d}:00Z", artifact=bare)
    assert found_id(find(api)) == 1
    assert len(github.storage_seen) == 2


@pytest.mark.heavy
def test_cancelled_runs_hide_no_baseline_and_cost_little(
    github: FakeGitHub, api: GitHubApi, files: dict[str, bytes]
) -> None:
    github.add_run(1, created_at="2026-01-01T00:00:00Z", artifact=files)
    for run in range(2, 452):
        github.add_run(run, created_at=f"2026-11-20T{run // 60:02d}:{run % 60:02d}:00Z", conclusion="cancelled")
    for run in range(2_000, 2_150):
        github.add_run(run, event="pull_request", branch="main", head_repository_id=FORK_ID, artifact=files)
    assert found_id(find(api)) == 1
    assert len(github.seen) + len(github.storage_seen) <= 30


def test_runs_found_by_their_artifacts_are_verified_like_any_other(
    github: FakeGitHub, api: GitHubApi, files: dict[str, bytes]
) -> None:
    lies = {"workflow_run": {"repository_id": 1001, "head_repository_id": 1001, "head_branch": "main"}}
    oddities: list[dict[str, Any]] = [
        {"event": "pull_request", "head_repository_id": FORK_ID},
        {"event": "push", "head_repository_id": FORK_ID},
        {"event": "pull_request_target"},
        {"event": "push", "workflow_id": 43},
        {"event": "push", "status": "in_progress"},
        {"event": "push", "sha": "e" * 40},
    ]
    for run, odd in enumerate(oddities, start=1):
        github.add_run(run, **odd)
        artifact = github.add_artifact(run, files)
        artifact["workflow_run"].update(lies["workflow_run"])
    for run in range(100, 160):
        github.add_run(run, conclusion="cancelled")
    assert isinstance(find(api), NoBaseline)
    assert github.storage_seen == []


def test_artifacts_that_have_expired_are_passed_over(
    github: FakeGitHub, api: GitHubApi, files: dict[str, bytes]
) -> None:
    github.add_run(1, created_at="2026-01-01T00:00:00Z", artifact=files)
    for run in range(2, 40):
        github.add_run(run, created_at=f"2026-11-20T00:{run:02d}:00Z")
        github.add_artifact(run, files, expired=True)
    assert found_id(find(api)) == 1
    assert len(github.storage_seen) == 1


@pytest.mark.parametrize("event", ["push", "workflow_dispatch"])
def test_the_run_of_a_tag_named_like_the_branch_is_not_the_baseline(
    github: FakeGitHub, api: GitHubApi, files: dict[str, bytes], event: str
) -> None:
    # GitHub gives the tag's name where a branch's would stand, and the tag may point anywhere.
    github.add_run(1, created_at="2026-01-01T00:00:00Z", artifact=files)
    github.add_run(2, event=event, branch="main", sha="e" * 40, artifact=files)
    assert found_id(find(api)) == 1
    compared = [seen.path for seen in github.seen if "/compare/" in seen.path]
    assert all(path.endswith(github.branches["main"]) for path in compared)
    assert len(github.storage_seen) == 1


def test_a_commit_that_github_no_longer_knows_is_on_no_branch(
    github: FakeGitHub, api: GitHubApi, files: dict[str, bytes]
) -> None:
    github.add_run(1, artifact=files)
    github.fail("GET", "/compare/", 404, times=9)
    assert "not on 'main'" in reason(find(api))


def test_the_history_is_that_of_the_newest_run_that_left_one(
    github: FakeGitHub, api: GitHubApi, files: dict[str, bytes], carrying: dict[str, bytes]
) -> None:
    github.add_run(1, artifact={**files, "history.jsonl": b"old"})
    github.add_run(2, artifact={**carrying, "history.jsonl": b"new"})
    found = find(api)
    assert isinstance(found, TrustedBaseline)
    assert (found.run_id, found.history) == (1, b"new")


def test_the_history_outlives_a_baseline_that_is_lost(
    github: FakeGitHub, api: GitHubApi, failed_files: dict[str, bytes]
) -> None:
    github.add_run(1, artifact={**failed_files, "history.jsonl": b"kept"})
    found = find(api)
    assert isinstance(found, NoBaseline)
    assert found.history == b"kept"


# -- poisoning ---------------------------------------------------------------------------------------------------------


@pytest.mark.attack(
    by="fork",
    tries="become the baseline: a branch or tag called `main`, another event or workflow, many artifacts of that name",
    stopped_by="workflow, event, branch, commit and repository of each are verified with GitHub",
)
@pytest.mark.parametrize(
    "run",
    [
        pytest.param({"event": "push", "head_repository_id": FORK_ID}, id="a fork whose branch is called main"),
        pytest.param({"event": "pull_request", "head_repository_id": FORK_ID}, id="a fork's pull request from main"),
        pytest.param({"event": "pull_request"}, id="a pull request of the same repository"),
        pytest.param({"event": "pull_request_target"}, id="pull_request_target"),
        pytest.param({"event": "workflow_run"}, id="workflow_run"),
        pytest.param({"event": "issue_comment"}, id="issue_comment"),
        pytest.param({"event": "push", "head_repository_id": None}, id="a head repository that is gone"),
        pytest.param({"event": "push", "branch": "topic"}, id="another branch"),
        pytest.param({"event": "push", "workflow_id": 43}, id="another workflow"),
        pytest.param({"event": "push", "status": "in_progress"}, id="a run that has not ended"),
        pytest.param(
            {"event": "push", "branch": "gh-readonly-queue/main/pr-1"}, id="a branch that looks like the queue"
        ),
        pytest.param(
            {"event": "merge_group", "branch": "main", "head_repository_id": FORK_ID},
            id="a queue of another repository",
        ),
    ],
)
def test_a_run_that_others_can_bring_about_is_never_the_baseline(
    github: FakeGitHub, api: GitHubApi, files: dict[str, bytes], run: dict[str, Any]
) -> None:
    github.merged.add("d" * 40)
    github.workflows["quality.yml"] = 44
    github.add_run(5, **run, artifact=files)
    github.add_run(6, **{"workflow_id": 44, **run})  # the same of another workflow, which the job may name
    github.add_artifact(6, files)
    assert isinstance(find(api), NoBaseline)
    assert isinstance(find(api, named="quality.yml"), NoBaseline)
    # GitHub does give null for a head repository that was deleted, whatever its description says.
    github.problems = [
        problem
        for problem in github.problems
        if "head_repository: None" not in problem and "type 'object'" not in problem
    ]


def test_the_runs_of_a_named_workflow_are_baselines_in_place_of_its_own(
    github: FakeGitHub, api: GitHubApi, files: dict[str, bytes]
) -> None:
    github.workflows["quality.yml"] = 44
    github.add_run(1, workflow_id=44, artifact=files)
    github.add_run(2, artifact=files)
    assert found_id(find(api, named="quality.yml")) == 1
    assert found_id(find(api)) == 2


def test_why_a_named_workflow_has_no_baseline(github: FakeGitHub, api: GitHubApi, files: dict[str, bytes]) -> None:
    github.workflows["quality.yml"] = 44
    assert reason(find(api, named="quality.yml")) == ("No baseline: no finished run of quality.yml on 'main' yet.")
    github.add_run(1, workflow_id=44)
    assert reason(find(api, named="quality.yml")).startswith("No run of quality.yml on 'main' has an artifact")
    assert "404" in reason(find(api, named="gone.yml"))


def test_where_the_own_run_can_not_be_read_other_workflows_do_not_count(
    github: FakeGitHub, api: GitHubApi, files: dict[str, bytes]
) -> None:
    github.runs.clear()
    github.add_run(5, workflow_id=43, artifact=files)
    assert isinstance(find(api), NoBaseline)
    github.add_run(6, artifact=files)
    assert found_id(find(api)) == 6


def test_a_server_that_does_not_filter_is_not_believed(
    github: FakeGitHub, api: GitHubApi, files: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    github.add_run(5, event="pull_request", head_repository_id=FORK_ID, artifact=files)
    honest = github._list_runs

    def unfiltered(seen: Any, actor: Any, workflow: str) -> Any:
        seen.query.clear()
        return honest(seen, actor, workflow)

    monkeypatch.setattr(github, "_list_runs", unfiltered)
    assert isinstance(find(api), NoBaseline)


def test_pull_requests_can_not_push_the_baseline_out_of_the_listing(
    github: FakeGitHub, api: GitHubApi, files: dict[str, bytes]
) -> None:
    github.add_run(1, created_at="2020-01-01T00:00:00Z", artifact=files)
    for n in range(150):
        github.add_run(2_000 + n, event="pull_request", head_repository_id=FORK_ID)
    assert found_id(find(api)) == 1


def test_an_artifact_of_another_run_is_not_taken_for_this_ones(
    github: FakeGitHub, api: GitHubApi, files: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    github.add_run(1)
    github.add_run(2, event="pull_request", head_repository_id=FORK_ID, artifact=files)
    artifacts = [artifact for artifact, _ in github.artifacts.values()]
    reply = Reply(200, {"total_count": 1, "artifacts": artifacts})
    monkeypatch.setattr(github, "_run_artifacts", lambda seen, actor, identity: reply)
    assert isinstance(find(api), NoBaseline)


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"digest": "sha256:" + "0" * 64}, "does not match the digest"),
        ({"digest": None}, "no digest"),
        ({"digest": "md5:00"}, "no digest"),
        ({"expired": True}, "expired"),
        ({"size_in_bytes": 10**12}, "larger than"),
    ],
)
def test_an_artifact_that_is_not_what_it_should_be_is_left_out_and_named(
    github: FakeGitHub, api: GitHubApi, files: dict[str, bytes], changed: dict[str, Any], says: str
) -> None:
    github.add_run(1)
    github.add_artifact(1, files, **changed)
    assert says in reason(find(api))


@pytest.mark.attack(
    by="fork",
    tries="a zip bomb, a path that leads out, a duplicate name, a wrong digest",
    stopped_by="read in memory, named members only, every size limited",
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
def test_a_hostile_archive_is_refused(
    github: FakeGitHub, api: GitHubApi, archive: bytes, says: str, tmp_path: Path
) -> None:
    github.add_run(1, artifact=archive)
    assert says in reason(find(api))
    assert list(tmp_path.iterdir()) == []


def claims_perfection(files: Mapping[str, bytes]) -> dict[str, bytes]:
    lines = [json.loads(line) for line in files[SAMPLES].splitlines()]
    changed = json.loads(json.dumps(lines))
    for line in changed:
        for score in line["scores"].values():
            if "value" in score:
                score["value"] = 1.0
    assert changed != lines
    return {**files, SAMPLES: b"".join(json.dumps(line).encode() + b"\n" for line in changed)}


@pytest.mark.attack(by="fork", tries="claim perfect scores", stopped_by="recomputed from the judgements")
def test_scores_that_do_not_follow_from_their_judgements_are_refused(
    github: FakeGitHub, api: GitHubApi, files: dict[str, bytes], tmp_path: Path
) -> None:
    github.add_run(1, artifact=claims_perfection(files))
    found = find(api)
    assert isinstance(found, TrustedBaseline)
    with pytest.raises(RunDirectoryError, match="does not follow from the recorded judgements"):
        found.materialise(tmp_path / "baseline")


def test_a_manifest_that_claims_scores_of_its_own_is_not_read(
    github: FakeGitHub, api: GitHubApi, files: dict[str, bytes]
) -> None:
    manifest = {**json.loads(files[MANIFEST]), "scores": {"faithfulness": 1.0}}
    github.add_run(1, artifact={**files, MANIFEST: json.dumps(manifest).encode()})
    assert isinstance(find(api), NoBaseline)


def test_a_run_that_lost_samples_is_refused(
    github: FakeGitHub, api: GitHubApi, files: dict[str, bytes], tmp_path: Path
) -> None:
    github.add_run(1, artifact={**files, SAMPLES: files[SAMPLES].splitlines(keepends=True)[0]})
    found = find(api)
    assert isinstance(found, TrustedBaseline)
    with pytest.raises(RunDirectoryError, match="counts 6 samples"):
        found.materialise(tmp_path / "baseline")


# -- the download ------------------------------------------------------------------------------------------------------


@pytest.mark.attack(
    by="network",
    tries="a storage host that collects tokens",
    stopped_by="artifacts are fetched without token, `.netrc` and redirects",
)
def test_the_storage_host_never_sees_the_token(
    github: FakeGitHub,
    api: GitHubApi,
    files: dict[str, bytes],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    netrc = tmp_path / ".netrc"
    netrc.write_text("default login mallory password stolen\n", encoding="utf-8")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    github.add_run(1, artifact=files)
    assert found_id(find(api)) == 1
    assert len(github.storage_seen) == 1
    headers = github.storage_seen[0].headers
    assert "authorization" not in headers
    assert "cookie" not in headers
    assert TOKEN not in str(github.storage_seen)
    assert all("authorization" in seen.headers for seen in github.seen)


@pytest.mark.parametrize("fault", [{"how": "truncated"}, {"how": "reset"}, {"status": 503}, {"status": 403}])
def test_a_transfer_that_breaks_is_begun_again(
    github: FakeGitHub, api: GitHubApi, files: dict[str, bytes], fault: dict[str, Any]
) -> None:
    github.add_run(1, artifact=files)
    github.storage_faults.append(Fault("GET", "blob", times=2, **fault))
    assert found_id(find(api)) == 1
    assert len(github.storage_seen) == 3


@pytest.mark.parametrize(("spare_bytes", "is_downloaded"), [(0, True), (-1, False)])
def test_an_archive_is_downloaded_up_to_a_size_whatever_github_says_of_it(
    github: FakeGitHub, api: GitHubApi, monkeypatch: pytest.MonkeyPatch, spare_bytes: int, is_downloaded: bool
) -> None:
    archive = zip_of({"other.json": b"{}"})
    monkeypatch.setattr(artifacts, "MAX_ARCHIVE_BYTES", len(archive) + spare_bytes)
    github.add_run(1)
    github.add_artifact(1, archive, size_in_bytes=1)
    assert ("contains no run" if is_downloaded else "larger than") in reason(find(api))


def test_a_plain_http_storage_host_is_refused_where_the_api_is_https(github: FakeGitHub, api: GitHubApi) -> None:
    api.plain_http = False
    with pytest.raises(GitHubApiError, match="not https"):
        fetch_without_token(api, f"{github.storage_url}/blob/1", deadline=1.0)
    assert github.storage_seen == []


# -- GitHub is unwell --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", [{"status": 404}, {"status": 500}, {"how": "reset"}, {"how": "garbage"}])
@pytest.mark.parametrize("path", [r"^/repos/acme/rag$", "workflows", "artifacts"])
def test_any_fault_means_no_baseline_and_says_why(
    github: FakeGitHub, api: GitHubApi, files: dict[str, bytes], fault: dict[str, Any], path: str
) -> None:
    github.add_run(1, artifact=files)
    github.fail("GET", path, times=99, **fault)
    assert "GitHub" in reason(find(api))


def test_a_missing_right_names_the_permission(github: FakeGitHub, connect: Callable[..., GitHubApi]) -> None:
    github.actors["weak"] = Actor("github-actions[bot]", reads=ALL_RIGHTS - {"actions"})
    assert "actions: read" in reason(find(connect("weak")))
