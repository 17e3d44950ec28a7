"""The season of a branch in a folder: first run, change, failed run, the run after it."""

from __future__ import annotations

import asyncio
import io
import json
import os
import re
import stat
import subprocess
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from ragstone.cli.context import run_context
from ragstone.errors import ConfigError
from ragstone.evaluation.directory import read_manifest
from ragstone.pipeline.baseline_folder import MIN_SAVED, BaselineFolder
from ragstone.pipeline.baseline_search import MAX_READ, StoredRun, StoreFailed
from ragstone.pipeline.folder_gate import CheckoutFolder, FolderBaseline
from ragstone.pipeline.git import Git, GitFailed
from ragstone.settings.load import load_settings
from tests.cli.project import ragstone
from tests.pipeline import asked
from tests.pipeline.repository import WORSE, Repository, git


def gate(
    checkout: Path, folder: Path, *more: str, save: bool = True, **environ: str
) -> subprocess.CompletedProcess[str]:
    save_it = ["--save-baseline"] if save else []
    return ragstone(["gate", "--baseline-folder", str(folder), *save_it, *more], checkout, env=environ)


def git_of(folder: Path) -> Git:
    return Git(folder, dict(os.environ), "gate.baseline_folder")


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository.make(tmp_path / "origin")


def test_a_season_of_a_branch(repository: Repository) -> None:
    folder = repository.root / "baselines"
    first = repository.commit("first")

    done = gate(repository.job("1", first), folder)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "No baseline: the folder has no run of a commit before this one." in done.stdout
    assert "as a baseline" in done.stderr

    # A change is compared with it, and leaves nothing behind.
    worse = repository.commit("worse", WORSE, branch="feature")
    done = gate(repository.job("2", worse), folder)
    assert done.returncode == 1, done.stdout + done.stderr
    assert f"compared with commit {first[:12]}" in " ".join(done.stdout.split())
    assert "not saved as a baseline: its commit is not on 'main', whose runs are baselines" in done.stderr

    # Merged all the same, main fails. That run is kept, and leads to the good one.
    broken = repository.commit("merged", WORSE)
    job = repository.job("3", broken)
    done = gate(job, folder)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "with the baseline it was compared with (it failed" in done.stderr
    assert (job / "ragstone-run" / "baseline" / "manifest.json").is_file()
    again = repository.commit("again", WORSE)
    done = gate(repository.job("4", again), folder)
    assert done.returncode == 1, done.stdout + done.stderr
    assert f"Baseline: commit {first[:12]}" in done.stderr
    history = (repository.root / "jobs/4/ragstone-run/history.jsonl").read_text().splitlines()
    assert sum('"commit"' in line and f'"{first}"' in line for line in history) == 1
    assert len({json.loads(line).get("commit") for line in history} - {None}) == 3


@pytest.mark.heavy
@pytest.mark.attack(
    by="other CI",
    tries="be kept as a baseline: a fork's `main`, a tag, another branch",
    stopped_by="the commit must be on the remote's branch",
)
def test_a_run_of_another_branch_or_of_a_tag_is_not_kept(repository: Repository) -> None:
    repository.commit("first")
    work, folder = repository.root / "work", repository.root / "baselines"
    git(work, "tag", "main-tag")
    proposed = repository.commit("proposed", branch="feature")
    git(work, "tag", "release/main", proposed)  # a tag's name says nothing
    git(work, "push", "-q", "origin", "release/main")
    detached = repository.job("detached", proposed)
    branch = repository.job("branch", proposed)
    git(branch, "checkout", "-q", "feature")
    # As a fork does whose branch is called main, too: what counts is main of the remote.
    fork = repository.job("fork", proposed)
    git(fork, "checkout", "-q", "-B", "main")
    tag = repository.job("tag", "release/main")
    for job in (detached, branch, fork, tag):
        done = gate(job, folder)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "not saved as a baseline: its commit is not on 'main'" in done.stderr
        assert not read_manifest(job / "ragstone-run").standing.eligible
    assert not folder.exists()
    # A machine without a remote goes by its own branch; and nothing is kept without the option.
    alone = repository.job("alone", "origin/main")
    git(alone, "checkout", "-q", "main")
    git(alone, "remote", "remove", "origin")
    assert "Saved" not in gate(alone, folder, save=False).stderr
    assert "Saved to baselines/" in gate(alone, folder).stderr


@pytest.mark.heavy
def test_the_branch_can_be_another_one(repository: Repository) -> None:
    repository.commit("first")
    job = repository.job("trunk", repository.commit("second", branch="trunk"))
    folder = repository.root / "baselines"
    assert "not saved as a baseline" in gate(job, folder, RAGSTONE_BASELINE_BRANCH="no such branch").stderr
    assert "Saved to baselines/" in gate(job, folder, RAGSTONE_BASELINE_BRANCH="trunk").stderr


def test_a_config_file_does_not_name_the_branch(repository: Repository) -> None:
    job = repository.job("trunk", repository.commit("first"))
    config = job / "ragstone.toml"
    config.write_text(config.read_text() + '\n[gate]\nbaseline_branch = "trunk"\n')
    done = gate(job, repository.root / "baselines")
    assert done.returncode == 2, done.stdout + done.stderr
    assert "'gate.baseline_branch' must not be set in a file" in done.stderr


@pytest.mark.heavy
def test_a_shallow_clone_says_what_is_missing(repository: Repository) -> None:
    first = repository.commit("first")
    folder = repository.root / "baselines"
    gate(repository.job("1", first), folder)
    repository.commit("second")
    done = gate(repository.job("2", "", "--depth=1"), folder)
    assert "This is a shallow clone" in " ".join(done.stdout.split())
    assert done.returncode == 0


def kept_run(repository: Repository) -> tuple[BaselineFolder, Git, str, Path]:
    commit = repository.commit("first")
    job = repository.job("1", commit)
    done = gate(job, repository.root / "baselines")
    assert done.returncode == 0, done.stdout + done.stderr
    checkout = git_of(job)
    return BaselineFolder(repository.root / "baselines", checkout.ancestors()), checkout, commit, job / "ragstone-run"


def find(store: BaselineFolder, checkout: Git, directory: Path) -> FolderBaseline:
    return CheckoutFolder(checkout, store, checkout.head()).find(directory)


def archive_of(files: Mapping[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return packed.getvalue()


@pytest.mark.attack(
    by="other CI",
    tries="an archive with a link, a path that leads out, forged scores",
    stopped_by="named members only; scores are recomputed",
)
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


@pytest.mark.heavy
def test_a_carried_baseline_of_a_commit_that_is_not_before_this_one_is_refused(
    repository: Repository, tmp_path: Path
) -> None:
    store, _, first, _ = kept_run(repository)
    broken = repository.commit("broken", WORSE)
    job = repository.job("2", broken)
    assert gate(job, store.folder).returncode == 1
    archive = (store.folder / f"{broken}.zip").read_bytes()
    # In a repository whose history has only the broken commit, the carried run is a stranger's.
    alone = Repository.make(tmp_path / "alone")
    (store.folder / f"{first}.zip").unlink()
    only = git_of(alone.root / "work")
    commit = alone.commit("only")
    packed = zipfile.ZipFile(io.BytesIO(archive))
    files = {name: packed.read(name) for name in packed.namelist()}
    manifest = json.loads(files["manifest.json"])
    files["manifest.json"] = json.dumps({**manifest, "system": {**manifest["system"], "commit": commit}}).encode()
    (store.folder / f"{commit}.zip").write_bytes(archive_of(files))
    found = find(BaselineFolder(store.folder, only.ancestors()), only, tmp_path / "found")
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
    full = BaselineFolder(store.folder, commits)
    for number in reversed(commits):
        full.save(number, run)
    assert {path.stem for path in store.folder.iterdir()} == set(commits[:MIN_SAVED])
    with pytest.raises(StoreFailed, match="can't be written"):
        BaselineFolder(run / "manifest.json", ()).save(commit, run)


def test_only_so_many_archives_are_read(repository: Repository, tmp_path: Path) -> None:
    store, checkout, commit, _ = kept_run(repository)
    (store.folder / f"{commit}.zip").write_bytes(b"broken")

    class Endless(BaselineFolder):
        read = 0

        def newest(self) -> Iterator[StoredRun]:
            stored = next(iter(store.newest()))
            while True:
                Endless.read += 1
                yield stored

    found = find(Endless(store.folder, store.ancestors), checkout, tmp_path / "x")
    assert found.run is None
    assert Endless.read <= MAX_READ + 1


def test_a_run_that_passed_and_can_not_be_kept_is_exit_code_6(repository: Repository) -> None:
    commit = repository.commit("first")
    (repository.root / "baselines").write_text("a file in the place of the folder")
    done = gate(repository.job("1", commit), repository.root / "baselines")
    assert done.returncode == 6, done.stdout + done.stderr
    assert "could not be saved to the folder" in done.stderr


@pytest.mark.attack(by="other CI", tries="git that shows a password", stopped_by="none in messages")
def test_git_that_refuses_shows_no_password(repository: Repository) -> None:
    checkout = git_of(repository.root / "work")
    with pytest.raises(GitFailed) as refused:
        checkout.text("fetch", "https://user:top-secret-1@127.0.0.1:9/x.git")
    assert "127.0.0.1" in str(refused.value)
    assert "top-secret-1" not in str(refused.value)


@pytest.mark.parametrize("more", [("--baseline", "y"), ("--baseline-commit", "HEAD")])
def test_two_baselines_are_exit_code_2(repository: Repository, more: tuple[str, ...]) -> None:
    repository.commit("first")
    done = gate(repository.root / "work", repository.root / "baselines", *more, save=False)
    assert done.returncode == 2
    assert "two baselines" in done.stderr


def test_outside_of_a_checkout_there_is_no_baseline(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="not a checkout"):
        git_of(tmp_path).head()


def test_another_front_door_says_that_it_does_not_read_the_folder(repository: Repository) -> None:
    repository.commit("first")
    settings = load_settings(directory=repository.root / "work", environ={}, overrides={"gate.baseline_folder": "x"})
    with run_context(settings) as context:
        verdict = asyncio.run(asked.gate(settings, context)).verdict
    assert any("only the command `ragstone gate` reads it" in line for line in verdict.warnings)


@pytest.mark.heavy
def test_check_looks_the_baseline_up(repository: Repository) -> None:
    store, _, commit, _ = kept_run(repository)
    done = ragstone(["check"], repository.root / "work", env={"RAGSTONE_BASELINE_FOLDER": str(store.folder)})
    assert done.returncode == 0, done.stderr
    assert f"baseline     Baseline: commit {commit[:12]}" in done.stdout
