"""`baseline: commit` in a job: the base commit comes from GitHub, and is asked beside the change."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from github.GitTreeElement import GitTreeElement

from ragstone.archive import ArchiveRefused
from ragstone.errors import ConfigError
from ragstone.github.api import base_tree
from ragstone.github.api.base_files import SUBMODULE
from ragstone.github.api.base_tree import compared_commit, download_tree
from ragstone.github.api.client import GitHubApi
from ragstone.github.api.event import build_event
from ragstone.github.api.reviewed import ReviewedBase, reviewed_base
from ragstone.github.base_commit import find_base_commit
from ragstone.github.job_plan import BaselineSource, JobPlan, JobTask
from tests.github.api import fake as fakes
from tests.github.api.fake import BASE_SHA, FakeGitHub
from tests.github.api.payloads import HEAD_SHA, MERGE_SHA, pull_request, runner
from tests.github.builders import Checkout, Outcome
from tests.github.runs import artifact_of

POLICY = "[gate]\nmin_coverage = 0.5\nconfirm = false\n\n[metrics.faithfulness]\nmax_drop = 0.05\n"
CONFIG = (
    '[golden]\npaths = ["golden.jsonl"]\n[run]\nmetrics = ["faithfulness"]\n'
    '[system]\nentrypoint = "python:rag:answer"\nconcurrency = 1\n'
)
RAG = """
import json, pathlib

LINES = pathlib.Path(__file__).with_name("facts.jsonl").read_text().splitlines()
FACTS = {line["question"]: line["reference"] for line in map(json.loads, LINES)}
PROVIDER = pathlib.Path("STATE")


def answer(question):
    fact = FACTS[question]
    bad = PROVIDER.exists() or BROKEN
    return {"answer": f"Bananas are purple, like the {question}" if bad else fact, "contexts": [fact]}
"""


class Repository:
    """A checkout of a pull request, and the commit that it is based on, which GitHub has."""

    def __init__(self, checkout: Checkout, folder: Path) -> None:
        self.checkout = checkout
        self.github = checkout.github
        self.provider = folder / "bad-hour"
        for name, text in (
            ("ragstone.toml", CONFIG),
            ("thresholds.toml", POLICY),
            ("rag.py", self.rag()),
            ("facts.jsonl", (checkout.root / "golden.jsonl").read_text(encoding="utf-8")),
        ):
            checkout.write(name, text)
        self.commit(BASE_SHA)
        checkout.github.parents[MERGE_SHA] = [BASE_SHA, HEAD_SHA]

    def rag(self, *, broken: bool = False) -> str:
        """The system. While its provider has a bad hour, whoever asks gets bad answers."""
        return RAG.replace("STATE", str(self.provider)).replace("BROKEN", str(broken))

    def commit(self, sha: str, **more: bytes | str) -> None:
        names = ("ragstone.toml", "thresholds.toml", "rag.py", "facts.jsonl", "golden.jsonl")
        files: dict[str, bytes | str] = {name: (self.checkout.root / name).read_bytes() for name in names}
        self.github.files[sha] = {**files, **more}

    def gate(self, event: str = "pull_request", **more: str) -> Outcome:
        return self.checkout.gate(event, **{"RAGSTONE_BASELINE": "commit", **more})

    def manifest(self, folder: str = "") -> Any:
        return self.checkout.read(f"{folder}/manifest.json" if folder else "manifest.json")


@pytest.fixture
def repository(checkout: Checkout, tmp_path: Path) -> Repository:
    return Repository(checkout, tmp_path)


def test_a_pull_request_is_compared_with_its_base_asked_in_the_same_job(repository: Repository) -> None:
    assert repository.gate().code == 0
    repository.checkout.write("rag.py", repository.rag(broken=True))
    repository.checkout.reports_again = True
    found = repository.gate()
    assert (found.code, found.baseline) == (1, ""), found.log
    assert f"commit {BASE_SHA[:12]}, asked in the same job" in found.summary
    assert f"/commit/{BASE_SHA}" in found.summary
    assert repository.manifest()["system"]["commit"] == MERGE_SHA
    assert repository.manifest("base-commit")["system"]["commit"] == BASE_SHA
    assert not repository.manifest("base-commit")["baseline"]["eligible"]


@pytest.mark.heavy
def test_a_bad_hour_of_the_provider_is_not_blamed_on_the_pull_request(repository: Repository) -> None:
    assert repository.gate("push").code == 0
    repository.checkout.uploaded()
    repository.provider.write_text("since this morning", encoding="utf-8")
    assert repository.gate(RAGSTONE_BASELINE="artifact").code == 1
    found = repository.gate()
    assert (found.code, found.baseline) == (0, ""), found.log
    assert "base-commit/manifest.json" in artifact_of(repository.checkout.out)
    repository.github.artifacts.clear()
    repository.checkout.uploaded(2)
    assert repository.gate(RAGSTONE_BASELINE="artifact").baseline == "", "the base's run in it is not found as one"


def test_a_push_to_the_branch_is_compared_with_the_newest_run(repository: Repository) -> None:
    found = repository.gate("push")
    assert found.code == 0, found.log
    assert any("no base commit" in line for line in found.annotations)
    assert not (repository.checkout.out / "base-commit").exists()


NEWER = "e" * 40


def base_of(api: GitHubApi, **pull: Any) -> ReviewedBase:
    return reviewed_base(api, build_event(runner("pull_request"), pull_request(**pull)))


@pytest.mark.parametrize(
    ("parents", "compared"),
    [
        ([NEWER, HEAD_SHA], NEWER),
        ([NEWER, "f" * 40], BASE_SHA),
        ([NEWER], BASE_SHA),
        ([NEWER, HEAD_SHA, "f" * 40], BASE_SHA),
        (None, BASE_SHA),
    ],
    ids=["merged with a newer base", "another head", "no merge", "a merge of three", "GitHub does not know it"],
)
def test_the_base_is_the_one_that_was_merged_with(
    repository: Repository, api: GitHubApi, parents: list[str] | None, compared: str
) -> None:
    del repository.github.parents[MERGE_SHA]
    if parents is not None:
        repository.github.parents[MERGE_SHA] = parents
    assert compared_commit(api, base_of(api)) == compared


def test_the_system_of_the_base_has_its_settings_and_files(repository: Repository) -> None:
    """Outside of the container both share a user: the base's files are in a folder of their own all the same."""
    sabotage = "pathlib.Path(__file__).with_name('facts.jsonl').write_text('')\n"
    repository.checkout.write("good.py", repository.rag() + sabotage)
    repository.checkout.write("rag.py", repository.rag(broken=True))
    repository.checkout.write("ragstone.toml", CONFIG.replace("rag:answer", "good:answer"))
    assert repository.gate().code == 0
    assert repository.manifest("base-commit")["system"]["entrypoint"] == "python:rag:answer"
    assert repository.manifest()["system"]["entrypoint"] == "python:good:answer"


@pytest.mark.attack(by="pull request", tries="`baseline_commit` in the config file", stopped_by="refused on GitHub")
@pytest.mark.parametrize(
    "keys", [("baseline_commit",), ("baseline_entrypoint",), ("baseline_folder",), ("baseline", "baseline_entrypoint")]
)
@pytest.mark.parametrize("source", ["commit", "artifact"])
def test_a_pull_request_does_not_choose_what_it_is_compared_with(
    repository: Repository, keys: tuple[str, ...], source: str
) -> None:
    lines = "".join(f'{key} = "artifact"\n' for key in keys)
    repository.checkout.write("ragstone.toml", f"{CONFIG}[gate]\n{lines}")
    more = {} if "baseline" in keys else {"RAGSTONE_BASELINE": source}
    found = repository.checkout.gate(**more)
    assert found.code == 2, found.log
    assert any(f"gate.{keys[0]}" in line and "the workflow chooses" in line for line in found.annotations)


def test_a_base_that_can_not_be_downloaded_ends_with_7(repository: Repository) -> None:
    repository.github.fail("GET", f"/repos/acme/rag/tarball/{BASE_SHA}", 403, times=5)
    found = repository.gate()
    assert found.code == 7, found.log
    assert any("can't be downloaded" in line and "contents: read" in line for line in found.annotations)
    repository.github.fail("GET", "/git/commits/", 403, times=5)
    assert repository.gate().code == 7
    found = repository.gate(GITHUB_TOKEN="")
    assert found.code == 7
    assert any("no GitHub token" in line for line in found.annotations)


def test_a_base_that_does_not_start_is_named_and_recorded_answers_are_refused(repository: Repository) -> None:
    repository.commit(BASE_SHA, **{"rag.py": b"import no_such_module\n"})
    found = repository.gate()
    assert (found.code, found.verdict) == (4, "error")
    assert any(f"the base, commit {BASE_SHA[:12]}" in line for line in found.annotations)
    assert repository.gate(RAGSTONE_ENTRYPOINT="file:outputs.jsonl").code == 2


def test_in_the_container_the_base_commit_needs_a_user_of_its_own() -> None:
    """Which the input asks for; a variable comes too late."""
    job: Any = SimpleNamespace(plan=JobPlan(JobTask.GATE, BaselineSource.COMMIT), container=SimpleNamespace(base=None))
    with pytest.raises(ConfigError, match="only an input"):
        find_base_commit(job)


# -- the tree of a commit ----------------------------------------------------------------------------------------------

Entry = tuple[str, str | bytes]
INNER: Entry = ("top/a", b"x")


def _archive(*entries: Entry) -> bytes:
    """An archive of files, of links (where they lead, as text), and of folders (names that end with a slash)."""
    body = io.BytesIO()
    with tarfile.open(fileobj=body, mode="w:gz") as opened:
        for name, content in entries:
            entry = tarfile.TarInfo(name)
            if isinstance(content, str):
                entry.type, entry.linkname = (tarfile.DIRTYPE if name.endswith("/") else tarfile.SYMTYPE), content
                opened.addfile(entry)
            else:
                entry.size = len(content)
                opened.addfile(entry, io.BytesIO(content))
    return body.getvalue()


@pytest.mark.parametrize(
    ("entries", "limits"),
    [
        ((("top/../../outside", b"x"),), {}),
        ((("top/link", "../.."), ("top/link/outside", b"x")), {}),
        ((("top/link", "../.."), ("top/link/outside/more", "anywhere")), {}),
        ((INNER, INNER), {}),
        ((INNER, ("top/b", b"y")), {"MAX_FILES": 1}),
        ((INNER, ("top/b", b"y")), {"MAX_TREE_BYTES": 1}),
    ],
    ids=["a path out", "a file below a link", "a link below a link", "a file twice", "too many", "too large"],
)
def test_an_archive_writes_nothing_outside_of_its_folder_and_no_more_than_is_bounded(
    api: GitHubApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, entries: tuple[Entry, ...], limits: dict[str, int]
) -> None:
    monkeypatch.setattr(fakes, "tar_of", lambda *_: _archive(*entries))
    for name, limit in limits.items():
        monkeypatch.setattr(base_tree, name, limit)
    inside = tmp_path / "inner" / "checkout"
    inside.parent.mkdir()
    with pytest.raises(ArchiveRefused):
        download_tree(api, BASE_SHA, inside, tmp_path)
    assert [path for path in tmp_path.rglob("outside") if not path.is_relative_to(inside)] == []


def test_a_tree_is_written_as_it_is_up_to_its_limits(
    api: GitHubApi, github: FakeGitHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entries: tuple[Entry, ...] = (
        ("top/", ""),
        ("top", "away"),
        ("top/a/", ""),
        ("top/b", b"text"),
        ("top/l", "/etc/x"),
    )
    monkeypatch.setattr(fakes, "tar_of", lambda *_: _archive(*entries))
    monkeypatch.setattr(base_tree, "MAX_FILES", len(entries))
    monkeypatch.setattr(base_tree, "MAX_TREE_BYTES", 4)
    folder = tmp_path / "checkout"
    monkeypatch.setattr(base_tree, "list_commit_files", lambda *_: ())
    download_tree(api, BASE_SHA, folder, tmp_path)
    assert sorted(path.name for path in folder.iterdir()) == ["b", "l"]
    assert (folder / "b").read_text(encoding="utf-8") == "text"
    assert str((folder / "l").readlink()) == "/etc/x"
    assert [seen for seen in github.storage_seen if "authorization" in seen.headers] == []


def leave_out(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    """GitHub's archives lack what `export-ignore` in the commit's .gitattributes names."""
    whole = fakes.tar_of
    monkeypatch.setattr(
        fakes, "tar_of", lambda files, top: whole({k: v for k, v in files.items() if k not in names}, top)
    )


@pytest.mark.attack(by="pull request", tries="an archive without some files (`export-ignore`)", stopped_by="an error")
def test_a_base_whose_archive_leaves_files_out_blocks(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without its facts, its code, its config, or its policy, the base would look worse or would be read wrongly."""
    repository.commit(BASE_SHA, link="rag.py")
    assert repository.gate().code == 0
    for name in ("facts.jsonl", "link"):
        with monkeypatch.context() as patched:
            leave_out(patched, name)
            found = repository.gate()
        assert found.code == 7, found.log
        assert any(f"lacks '{name}'" in line and "baseline: artifact" in line for line in found.annotations)


def test_a_base_of_more_files_than_github_lists_blocks(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = repository.github._tree

    def cut(*arguments: Any) -> Any:
        reply = whole(*arguments)
        reply.body["truncated"] = True
        return reply

    monkeypatch.setattr(repository.github, "_tree", cut)
    assert repository.gate().code == 7


def test_a_submodule_is_missed_where_the_workspace_has_it(
    api: GitHubApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = {"path": "data/docs", "type": "commit", "mode": SUBMODULE, "sha": "d" * 40}
    monkeypatch.setattr(base_tree, "list_commit_files", lambda *_: (GitTreeElement(api, {}, entry),))
    workspace = tmp_path / "workspace"
    (workspace / "data" / "docs").mkdir(parents=True)
    download_tree(api, BASE_SHA, tmp_path / "first", workspace)  # this checkout does without the submodule, too
    (workspace / "data" / "docs" / "one.txt").touch()
    with pytest.raises(ArchiveRefused, match="lacks 'data/docs'"):
        download_tree(api, BASE_SHA, tmp_path / "second", workspace)
