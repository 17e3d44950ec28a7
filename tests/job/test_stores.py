"""The season of a branch in a store: first run, merge request, failed run, the run after it."""

from __future__ import annotations

import io
import json
import os
import re
import stat
import subprocess
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from ragstone.ci.store import MIN_SAVED, BaselineStore, Stored, StoreFailed
from ragstone.errors import ConfigError
from ragstone.job.baseline import MAX_READ
from ragstone.job.stored_gate import CheckoutStore, Found
from ragstone.job.stores.folder import FolderStore
from ragstone.project.git import Git, GitFailed
from ragstone.run.directory import ATTESTATION, read_manifest
from tests.ci.fakes import WORSE, Repository
from tests.commands.project import ragstone

MAIN = {"GITLAB_CI": "true", "CI_COMMIT_BRANCH": "main", "CI_DEFAULT_BRANCH": "main"}
REQUEST = {"GITLAB_CI": "true", "CI_MERGE_REQUEST_IID": "5", "CI_DEFAULT_BRANCH": "main"}


def gate(
    folder: Path, store: str, environ: Mapping[str, str], *more: str, save: bool = True
) -> subprocess.CompletedProcess[str]:
    save_it = ["--save-baseline"] if save else []
    return ragstone(["gate", "--baseline-store", store, *save_it, *more], folder, env=environ)


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository.make(tmp_path / "origin")


def test_a_season_of_a_branch(repository: Repository) -> None:
    store, main, merge = f"folder:{repository.root}/store", MAIN, REQUEST
    first = repository.commit("first")

    done = gate(repository.job("1", first), store, main)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "No baseline: the store has no run of a commit before this one." in done.stdout
    assert "as a baseline" in done.stderr
    # What it is measured by is said before the system is asked, and attested.
    bar = json.loads((repository.root / "jobs/1/ragstone-run" / ATTESTATION).read_text())["predicate"]["bar"]
    line = "Bar: " + ", ".join(f"{name} {bar[name]}" for name in ("policy", "golden", "judge", "history"))
    assert 0 <= done.stderr.index(line) < done.stderr.index("Evaluating")

    # A merge request is compared with it, and leaves nothing behind.
    worse = repository.commit("worse", WORSE, branch="feature")
    done = gate(repository.job("2", worse), store, merge)
    assert done.returncode == 1, done.stdout + done.stderr
    assert f"compared with commit {first[:12]}" in " ".join(done.stdout.split())
    assert "not saved as a baseline: a merge request's run can't be one" in done.stderr

    # Merged all the same, main fails. That run is kept, and leads to the good one.
    broken = repository.commit("merged", WORSE)
    job = repository.job("3", broken)
    done = gate(job, store, main)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "with the baseline it was compared with (it failed" in done.stderr
    assert (job / "ragstone-run" / "baseline" / "manifest.json").is_file()
    again = repository.commit("again", WORSE)
    done = gate(repository.job("4", again), store, main)
    assert done.returncode == 1, done.stdout + done.stderr
    assert f"Baseline: commit {first[:12]}" in done.stderr
    history = (repository.root / "jobs/4/ragstone-run/history.jsonl").read_text().splitlines()
    assert sum('"commit"' in line and f'"{first}"' in line for line in history) == 1
    assert len({json.loads(line).get("commit") for line in history} - {None}) == 3


def test_a_run_of_another_branch_or_of_a_tag_is_not_kept(repository: Repository) -> None:
    commit = repository.commit("first")
    store = f"folder:{repository.root}/store"
    for name, environ in {
        "branch": {**MAIN, "CI_COMMIT_BRANCH": "feature"},
        "tag": {"GITLAB_CI": "true", "CI_DEFAULT_BRANCH": "main", "CI_COMMIT_TAG": "main"},
        "fork": {"BUILDKITE": "true", "BUILDKITE_BRANCH": "main", "BUILDKITE_PULL_REQUEST": "7"},
        "detached": {},
    }.items():
        job = repository.job(name, commit)
        done = gate(job, store, environ)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "not saved as a baseline" in done.stderr
        assert not read_manifest(job / "ragstone-run").standing.eligible
    assert not (repository.root / "store").exists()
    # On a laptop, the branch is the one that is checked out; and nothing is kept without the option.
    job = repository.job("laptop", commit, "--branch=main")
    assert "Kept" not in gate(job, store, {}, save=False).stderr
    assert "Saved to store/" in gate(job, store, {}).stderr


def test_of_other_branches_only_one_that_is_protected_makes_baselines(repository: Repository) -> None:
    commit = repository.commit("first")
    store = f"folder:{repository.root}/store"
    job = repository.job("trunk", commit)
    for protected in ({}, {"CI_COMMIT_REF_PROTECTED": "false"}):
        trunk = {**MAIN, "CI_COMMIT_BRANCH": "trunk", **protected}
        done = gate(job, store, trunk, "--baseline-branch", "trunk")
        assert done.returncode == 0, done.stdout + done.stderr
        assert "'trunk' is neither the default branch nor protected" in done.stderr
    assert not (repository.root / "store").exists()
    trunk = {**MAIN, "CI_COMMIT_BRANCH": "trunk", "CI_COMMIT_REF_PROTECTED": "true"}
    done = gate(job, store, trunk, "--baseline-branch", "trunk")
    assert "Saved to store/" in done.stderr
    # Azure doesn't say: there the branch is named outside of the checkout, or it is main.
    azure = {"TF_BUILD": "True", "BUILD_SOURCEBRANCH": "refs/heads/trunk"}
    assert "not saved as a baseline" in gate(repository.job("azure", commit), store, azure).stderr
    assert "Saved to store/" in gate(repository.job("named", commit), store, azure, "--baseline-branch", "trunk").stderr


def test_a_config_file_does_not_name_the_branch(repository: Repository) -> None:
    job = repository.job("trunk", repository.commit("first"))
    config = job / "ragstone.toml"
    config.write_text(config.read_text() + '\n[gate]\nbaseline_branch = "trunk"\n')
    done = gate(job, f"folder:{repository.root}/store", {**MAIN, "CI_COMMIT_BRANCH": "trunk"})
    assert done.returncode == 2, done.stdout + done.stderr
    assert "'gate.baseline_branch' must not be set in a file" in done.stderr


def test_a_shallow_clone_says_what_is_missing(repository: Repository) -> None:
    first = repository.commit("first")
    store = f"folder:{repository.root}/store"
    gate(repository.job("1", first), store, MAIN)
    repository.commit("second")
    done = gate(repository.job("2", "", "--depth=1"), store, REQUEST)
    assert "This is a shallow clone" in " ".join(done.stdout.split())
    assert done.returncode == 0


def kept_run(repository: Repository) -> tuple[FolderStore, Git, str, Path]:
    commit = repository.commit("first")
    job = repository.job("1", commit)
    done = gate(job, f"folder:{repository.root}/store", MAIN)
    assert done.returncode == 0, done.stdout + done.stderr
    return (
        FolderStore(repository.root / "store"),
        Git(job, dict(os.environ), "gate.baseline_store"),
        commit,
        job / "ragstone-run",
    )


def find(store: BaselineStore, checkout: Git, directory: Path) -> Found:
    return CheckoutStore(checkout, store, checkout.head()).find(directory)


def archive_of(files: Mapping[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return packed.getvalue()


def test_what_is_wrong_with_an_archive_is_a_reason_and_never_a_baseline(repository: Repository, tmp_path: Path) -> None:
    store, checkout, commit, run = kept_run(repository)
    place = store.folder / f"{commit}.zip"
    good = place.read_bytes()
    files = {name: (run / name).read_bytes() for name in ("manifest.json", "samples.jsonl")}
    manifest = json.loads(files["manifest.json"])
    failed = {**manifest, "verdict": "fail", "baseline": {"eligible": False, "reason": "it failed"}}
    other = {**manifest, "system": {**manifest["system"], "commit": "f" * 40}}
    link = zipfile.ZipInfo("samples.jsonl")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    linked = io.BytesIO()
    with zipfile.ZipFile(linked, "w") as archive:
        archive.writestr("manifest.json", files["manifest.json"])
        archive.writestr(link, "/etc/passwd")
    forged = re.sub(rb'("faithfulness":\{"state":"scored","value":)[0-9.]+', rb"\g<1>0.1", files["samples.jsonl"])
    assert forged != files["samples.jsonl"]
    for number, (body, why) in enumerate(
        [
            (b"not a zip", "not a readable zip archive"),
            (archive_of({"notes.txt": b""}), "no run that this version can read"),
            (archive_of({**files, "../x": b""}), "leads out of it"),
            (archive_of({**files, "manifest.json": json.dumps(failed).encode()}), "can't be a baseline"),
            (archive_of({**files, "manifest.json": json.dumps(other).encode()}), "a run of commit ffffffffffff"),
            (archive_of({**files, "samples.jsonl": forged}), "does not follow from the recorded judgements"),
            (linked.getvalue(), "can't be used"),
        ]
    ):
        place.write_bytes(body)
        found = find(store, checkout, tmp_path / f"bad-{number}")
        assert found.run is None
        assert why in found.reason
    place.write_bytes(good)
    assert find(store, checkout, tmp_path / "good").run is not None


def test_a_carried_baseline_of_a_commit_that_is_not_before_this_one_is_refused(
    repository: Repository, tmp_path: Path
) -> None:
    store, _, first, _ = kept_run(repository)
    broken = repository.commit("broken", WORSE)
    job = repository.job("2", broken)
    assert gate(job, f"folder:{store.folder}", MAIN).returncode == 1
    archive = (store.folder / f"{broken}.zip").read_bytes()
    # In a repository whose history has only the broken commit, the carried run is a stranger's.
    alone = Repository.make(tmp_path / "alone")
    (store.folder / f"{first}.zip").unlink()
    only = Git(alone.root / "work", dict(os.environ), "gate.baseline_store")
    commit = alone.commit("only")
    files = {
        name: zipfile.ZipFile(io.BytesIO(archive)).read(name)
        for name in zipfile.ZipFile(io.BytesIO(archive)).namelist()
    }
    manifest = json.loads(files["manifest.json"])
    files["manifest.json"] = json.dumps({**manifest, "system": {**manifest["system"], "commit": commit}}).encode()
    (store.folder / f"{commit}.zip").write_bytes(archive_of(files))
    found = find(store, only, tmp_path / "found")
    assert found.run is None
    assert "is of a commit that is not before this one" in found.reason


def test_a_folder_is_read_without_following_links_and_keeps_the_newest(repository: Repository, tmp_path: Path) -> None:
    store, checkout, commit, run = kept_run(repository)
    place = store.folder / f"{commit}.zip"
    place.rename(tmp_path / "outside.zip")
    place.symlink_to(tmp_path / "outside.zip")
    assert "outside the workspace" in find(store, checkout, tmp_path / "x").reason
    place.unlink()
    commits = [f"{number:040x}" for number in range(MIN_SAVED + 3)]
    for one in reversed(commits):
        store.save(one, run, commits)
    assert {path.stem for path in store.folder.iterdir()} == set(commits[:MIN_SAVED])
    with pytest.raises(StoreFailed, match="can't be written"):
        FolderStore(run / "manifest.json").save(commit, run, ())


def test_only_so_many_archives_are_read(repository: Repository, tmp_path: Path) -> None:
    store, checkout, commit, _ = kept_run(repository)
    (store.folder / f"{commit}.zip").write_bytes(b"broken")

    class Endless(FolderStore):
        read = 0

        def newest(self, ancestors: Sequence[str]) -> Iterator[Stored]:
            stored = next(iter(store.newest([commit])))
            while True:
                Endless.read += 1
                yield stored

    found = find(Endless(store.folder), checkout, tmp_path / "x")
    assert found.run is None
    assert Endless.read <= MAX_READ + 1


def test_a_run_that_passed_and_can_not_be_kept_is_exit_code_6(repository: Repository) -> None:
    commit = repository.commit("first")
    (repository.root / "store").write_text("a file in the place of the folder")
    done = gate(repository.job("1", commit), f"folder:{repository.root}/store", MAIN)
    assert done.returncode == 6, done.stdout + done.stderr
    assert "could not be saved to the store" in done.stderr


def test_git_that_refuses_shows_no_password(repository: Repository) -> None:
    checkout = Git(repository.root / "work", dict(os.environ), "gate.baseline_store")
    with pytest.raises(GitFailed) as refused:
        checkout.text("fetch", "https://gitlab-ci-token:top-secret-1@127.0.0.1:9/x.git")
    assert "127.0.0.1" in str(refused.value)
    assert "top-secret-1" not in str(refused.value)


@pytest.mark.parametrize(
    ("store", "more", "message"),
    [
        ("ftp://x", (), "is not a baseline store"),
        ("gitlab", (), "is for jobs of GitLab CI"),
        ("folder:x", ("--baseline", "y"), "two baselines"),
        ("folder:x", ("--baseline-commit", "HEAD"), "two baselines"),
    ],
)
def test_a_store_that_can_not_be_meant_is_exit_code_2(
    repository: Repository, store: str, more: tuple[str, ...], message: str
) -> None:
    repository.commit("first")
    done = ragstone(["gate", "--baseline-store", store, *more], repository.root / "work")
    assert done.returncode == 2
    assert message in done.stderr


def test_outside_of_a_checkout_there_is_no_store(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="not a checkout"):
        Git(tmp_path, dict(os.environ), "gate.baseline_store").head()


def test_another_front_door_says_that_it_does_not_read_the_store(repository: Repository) -> None:
    import asyncio

    from ragstone.commands.context import run_context
    from ragstone.config.load import load_settings
    from tests.project.asked import gate as decide

    repository.commit("first")
    settings = load_settings(
        directory=repository.root / "work", environ={}, overrides={"gate.baseline_store": "folder:x"}
    )
    with run_context(settings) as context:
        verdict = asyncio.run(decide(settings, context)).verdict
    assert any("only the command `ragstone gate` reads it" in line for line in verdict.warnings)


def test_check_looks_the_baseline_up(repository: Repository) -> None:
    store, _, commit, _ = kept_run(repository)
    done = ragstone(["check", "--baseline-store", f"folder:{store.folder}"], repository.root / "work")
    assert done.returncode == 0, done.stderr
    assert f"baseline     Baseline: commit {commit[:12]}" in done.stdout


def test_tokens_of_the_job_never_reach_the_system(repository: Repository) -> None:
    nosy = (
        "import os, json\n"
        "def answer(question):\n    return {'answer': json.dumps(dict(os.environ)), 'contexts': ['x']}\n"
    )
    commit = repository.commit("nosy", nosy)
    job = repository.job("1", commit)
    tokens = {"CI_JOB_TOKEN": "tok-aaaa-1", "SYSTEM_ACCESSTOKEN": "tok-bbbb-2"}
    tokens |= {"GITLAB_TOKEN": "tok-dddd-4"}
    config = job / "ragstone.toml"
    config.write_text(config.read_text().replace("[system]", '[system]\nenv = ["*_TOKEN"]'))
    gate(job, f"folder:{repository.root}/store", {**MAIN, **tokens})
    written = b"".join(path.read_bytes() for path in (job / "ragstone-run").rglob("*") if path.is_file())
    assert b"CI_JOB_TOKEN" not in written
    assert not [value for value in tokens.values() if value.encode() in written]
    config.write_text(config.read_text().replace("*_TOKEN", "CI_JOB_TOKEN"))
    assert "must not be passed to the system under test" in gate(job, "folder:x", {**MAIN, **tokens}).stderr
