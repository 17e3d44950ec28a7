"""The season of a branch in a folder: first run, change, failed run, the run after it."""

from __future__ import annotations

import io
import os
import re
import stat
import zipfile
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import cast
from unittest.mock import Mock

import pytest

from ragstone.errors import ConfigError
from ragstone.evaluation.directory import RunDirectory, read_manifest
from ragstone.evaluation.rounds.context import RunContext
from ragstone.pipeline.baseline_folder import MIN_SAVED, BaselineFolder
from ragstone.pipeline.baseline_search import StoreFailed, open_baseline_in
from ragstone.pipeline.gate import GatedRun, GateRequest
from ragstone.pipeline.git import Git, GitFailed
from ragstone.pipeline.open_request import OpenedRequest, open_request, why_no_baseline
from ragstone.settings.load import load_settings
from tests.cli.project import Completed, git, ragstone, read_rows, words
from tests.pipeline.repository import WORSE, Repository


def gate(
    checkout: Path, folder: Path, *more: str, save: bool = True, code: int | None = None, **environ: str
) -> Completed:
    settings = {"RAGSTONE_BASELINE_FOLDER": str(folder), "RAGSTONE_SAVE_BASELINE": str(save)}
    return ragstone(["gate", *more], checkout, env={**settings, **environ}, exit_code=code)


def git_of(folder: Path) -> Git:
    return Git(folder, dict(os.environ), "gate.baseline_folder")


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository.make(tmp_path / "origin")


def test_a_season_of_a_branch(repository: Repository) -> None:
    folder = repository.root / "baselines"
    first = repository.commit("first")
    done = gate(repository.job("1", first), folder, code=0)
    assert "No baseline: the folder has no run of a commit before this one." in done.stdout
    assert "as a baseline" in done.stderr
    # A change is compared with it, and leaves nothing behind.
    worse = repository.commit("worse", WORSE, branch="feature")
    done = gate(repository.job("2", worse), folder, code=1)
    assert f"compared with commit {first[:12]}" in words(done.stdout)
    assert "not saved as a baseline: its commit is not on 'main', whose runs are baselines" in done.stderr
    # Merged all the same, main fails. That run is kept, and leads to the good one.
    job = repository.job("3", repository.commit("merged", WORSE))
    done = gate(job, folder, code=1)
    assert "with the baseline it was compared with (it failed" in done.stderr
    assert (job / "ragstone-run" / "baseline" / "manifest.json").is_file()
    job = repository.job("4", repository.commit("again", WORSE))
    done = gate(job, folder, code=1)
    assert f"Baseline: commit {first[:12]}" in done.stderr
    history = read_rows(job / "ragstone-run/history.jsonl")
    assert len({line.get("commit") for line in history} - {None}) == 3


@pytest.mark.attack(
    by="other CI", tries="be kept as a baseline", stopped_by="the commit must be on the remote's branch"
)
def test_a_run_of_another_branch_or_of_a_tag_is_not_kept(repository: Repository) -> None:
    repository.commit("first")
    work = repository.root / "work"
    proposed = repository.commit("proposed", branch="feature")
    git(work, "tag", "release/main", proposed)  # a tag's name says nothing
    git(work, "push", "-q", "origin", "release/main")
    jobs = {name: repository.job(name, proposed) for name in ("detached", "branch", "fork")}
    jobs["tag"] = repository.job("tag", "release/main")
    git(jobs["branch"], "checkout", "-q", "feature")
    # As a fork does whose branch is called main, too: what counts is main of the remote.
    git(jobs["fork"], "checkout", "-q", "-B", "main")
    for name, job in jobs.items():
        assert why_no_baseline(git_of(job), None) == "its commit is not on 'main', whose runs are baselines", name
    assert why_no_baseline(git_of(jobs["detached"]), "feature") is None
    assert why_no_baseline(git_of(repository.job("main", "origin/main")), "no such branch") is not None


@pytest.mark.heavy
def test_a_run_is_saved_if_that_is_asked_for_and_its_branch_is_the_one(repository: Repository) -> None:
    repository.commit("first")
    folder = repository.root / "baselines"
    job = repository.job("job", "origin/main")
    assert "Saved" not in gate(job, folder, save=False).stderr
    other = gate(job, folder, RAGSTONE_BASELINE_BRANCH="no such branch")
    assert "not saved as a baseline" in other.stderr
    assert not read_manifest(job / "ragstone-run").standing.eligible
    git(job, "checkout", "-q", "main")
    git(job, "remote", "remove", "origin")
    assert "not saved as a baseline" in gate(job, folder).stderr, "main of the machine alone says nothing"
    assert not folder.exists()


def test_a_shallow_clone_says_what_is_missing(repository: Repository) -> None:
    repository.commit("first")
    repository.commit("second")
    settings = load_settings(
        directory=repository.job("1", "", "--depth=1"), environ={}, overrides={"gate.baseline_folder": "baselines"}
    )
    with open_request(settings, RunContext(environ=dict(os.environ))) as opened:
        assert "This is a shallow clone" in opened.request.warnings[0]


def kept_run(repository: Repository) -> tuple[BaselineFolder, str, Path]:
    commit = repository.commit("first")
    job = repository.job("1", commit)
    gate(job, repository.root / "baselines", code=0)
    checkout = git_of(job)
    return BaselineFolder(repository.root / "baselines", checkout.ancestors()), commit, job / "ragstone-run"


def archive_of(files: Mapping[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return packed.getvalue()


@pytest.mark.attack(
    by="other CI", tries="an archive with links or forged scores", stopped_by="named members, scores recomputed"
)
def test_what_is_wrong_with_an_archive_is_a_reason_and_never_a_baseline(repository: Repository, tmp_path: Path) -> None:
    store, commit, run = kept_run(repository)
    place = store.folder / f"{commit}.zip"
    good = place.read_bytes()
    files = {name: (run / name).read_bytes() for name in ("manifest.json", "samples.jsonl")}
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
            (archive_of({**files, "samples.jsonl": forged}), "does not follow from the recorded judgements"),
            (linked.getvalue(), "can't be used"),
        ]
    ):
        place.write_bytes(body)
        found = open_baseline_in(store, tmp_path / f"bad-{number}")
        assert (found.run, why in found.reason) == (None, True)
    place.write_bytes(good)
    assert open_baseline_in(store, tmp_path / "good").run is not None


def test_a_folder_is_read_without_following_links_and_keeps_the_newest(repository: Repository, tmp_path: Path) -> None:
    store, commit, run = kept_run(repository)
    place = store.folder / f"{commit}.zip"
    place.rename(tmp_path / "outside.zip")
    place.symlink_to(tmp_path / "outside.zip")
    assert "outside the workspace" in open_baseline_in(store, tmp_path / "x").reason
    place.unlink()
    commits = [f"{number:040x}" for number in range(MIN_SAVED + 3)]
    full = BaselineFolder(store.folder, commits)
    for number in reversed(commits):
        full.save(number, run)
    assert {path.stem for path in store.folder.iterdir()} == set(commits[:MIN_SAVED])
    with pytest.raises(StoreFailed, match="can't be written"):
        BaselineFolder(run / "manifest.json", ()).save(commit, run)


def test_a_run_of_another_commit_than_the_one_that_is_checked_out_is_not_saved(
    repository: Repository, tmp_path: Path
) -> None:
    _, commit, run = kept_run(repository)
    outcome = SimpleNamespace(run=RunDirectory.open(run), exit_code=0)
    lines: list[str] = []
    for place, checked_out in (("same", commit), ("other", "f" * 40)):
        folder = BaselineFolder(tmp_path / place, ())
        opened = OpenedRequest(Mock(spec=GateRequest), folder, checked_out)
        opened.save(cast(GatedRun, outcome), RunContext(environ={}, say=lines.append))
    assert lines[1] == ("The run was not saved as a baseline: its commit is not the one that is checked out.")
    assert ((tmp_path / "same").exists(), (tmp_path / "other").exists()) == (True, False)


def test_a_run_that_passed_and_can_not_be_kept_is_exit_code_6(repository: Repository) -> None:
    commit = repository.commit("first")
    (repository.root / "baselines").write_text("a file in the place of the folder")
    done = gate(repository.job("1", commit), repository.root / "baselines", code=6)
    assert "could not be saved to the folder" in done.stderr


@pytest.mark.attack(by="other CI", tries="git that shows a password", stopped_by="none in messages")
def test_git_that_refuses_shows_no_password(repository: Repository) -> None:
    checkout = git_of(repository.root / "work")
    with pytest.raises(GitFailed) as refused:
        checkout.text("fetch", "https://user:top-secret-1@127.0.0.1:9/x.git")
    assert "127.0.0.1" in str(refused.value)
    assert "top-secret-1" not in str(refused.value)


def test_two_baselines_are_exit_code_2(repository: Repository) -> None:
    repository.commit("first")
    for more in (("--baseline", "y"), ("--baseline-commit", "HEAD")):
        done = gate(repository.root / "work", repository.root / "baselines", *more, save=False, code=2)
        assert "there are two baselines" in done.stderr


def test_outside_of_a_checkout_and_without_git_there_is_no_baseline(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="not a checkout"):
        git_of(tmp_path).head()
    with pytest.raises(ConfigError, match="git was not found on PATH"):
        Git(tmp_path, {"PATH": str(tmp_path)}, "gate.baseline_folder").head()


@pytest.mark.heavy
def test_check_looks_the_baseline_up(repository: Repository) -> None:
    store, commit, _ = kept_run(repository)
    variables = {"RAGSTONE_BASELINE_FOLDER": str(store.folder)}
    done = ragstone(["check"], repository.root / "work", env=variables, exit_code=0)
    assert f"baseline     commit {commit[:12]}" in done.stdout
