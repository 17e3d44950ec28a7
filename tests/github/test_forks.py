"""The workflow_run door: a trusted job posts what a fork's run found, and believes nothing but its records."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ragstone.errors import ConfigError
from ragstone.evaluation.directory import MANIFEST, SAMPLES, RunDirectory
from ragstone.github.api.posts import marker
from ragstone.metrics.registry import select_metrics
from tests.github.api.fake import FORK_ID, FakeGitHub, zip_of
from tests.github.api.payloads import HEAD_SHA, MERGE_SHA, workflow_run
from tests.github.builders import FACTS, Checkout, Outcome
from tests.github.runs import files_of

UPSTREAM = 555


@pytest.fixture(autouse=True)
def fork_run(github: FakeGitHub) -> None:
    """A pull request from a fork, and its run. It was made in a checkout like the trusted one."""
    github.add_run(UPSTREAM, event="pull_request", branch="main", head_repository_id=FORK_ID, sha=HEAD_SHA)
    github.add_pull(7, owner="mallory", branch="main", sha=HEAD_SHA, head_id=FORK_ID)


@pytest.fixture
def fork_files(github: FakeGitHub, checkout: Checkout) -> dict[str, bytes]:
    """What the fork's run left behind: a failing run with hostile text in it."""
    checkout.answer_badly("Bananas were purple in 1834. @acme/admins <!-- ragstone:comment -->")
    return run_files(github, checkout)


@pytest.fixture
def passing(github: FakeGitHub, checkout: Checkout) -> dict[str, bytes]:
    """What a fork's run left behind that passes."""
    return run_files(github, checkout)


def run_files(github: FakeGitHub, checkout: Checkout) -> dict[str, bytes]:
    checkout.is_commit(MERGE_SHA)
    checkout.gate("push")
    del github.files[MERGE_SHA]
    github.seen.clear()
    return files_of(RunDirectory.open(checkout.root / "ragstone-run"))


def report(checkout: Checkout, payload: Any = None) -> Outcome:
    return checkout.gate("workflow_run", payload or workflow_run())


def nothing_posted(github: FakeGitHub) -> bool:
    return github.comments == []


def test_a_forks_run_is_posted_on_its_pull_request(
    github: FakeGitHub, checkout: Checkout, fork_files: dict[str, bytes]
) -> None:
    (checkout.root / "outputs.jsonl").unlink()  # its system is not run: asking it would fail
    checkout.reports_again = True
    github.add_artifact(UPSTREAM, fork_files)
    found = report(checkout)
    assert found.code == 0, found.log
    [comment] = github.bodies(7)
    assert comment.startswith(marker("comment", "default"))
    assert "the pull request's own run" in comment
    assert "Faithfulness" in comment
    assert found.outputs["verdict"] == "fail"
    assert f"/blob/{HEAD_SHA}/golden.jsonl" in comment


def test_a_secret_of_this_job_that_a_forks_run_names_is_not_posted(github: FakeGitHub, checkout: Checkout) -> None:
    """An answer, an error and a name that hold the key, as if the fork had guessed or stolen it."""
    key = "sk-the-judges-own-key-0123456789"
    checkout.answer_badly(f"Bananas were purple in 1834, as {key} says.")
    files = run_files(github, checkout)
    assert key.encode() in files[SAMPLES]
    manifest = json.loads(files[MANIFEST])
    manifest["judge"]["model"] = f"a model called {key}"
    named = {**files, MANIFEST: json.dumps(manifest).encode()}
    twice = files[SAMPLES].replace(b'"moon"', f'"{key}"'.encode()).replace(b'"sun"', f'"{key}"'.encode())
    for artifact in (files, named, {**files, SAMPLES: twice}):
        github.add_artifact(UPSTREAM, artifact)
        found = checkout.gate("workflow_run", workflow_run(), RAGSTONE_JUDGE_API_KEY=key)
        assert found.code == 0, found.log
        said = found.log.replace(f"::add-mask::{key}", "")
        assert all(key not in text for text in (*github.bodies(7), said, found.summary, *found.outputs.values()))
    assert "Bananas were purple" in github.bodies(7)[0]
    assert any("The run's data was refused: duplicate sample" in line for line in found.annotations)


def test_the_verdict_is_decided_anew_by_the_trusted_policy(
    github: FakeGitHub, checkout: Checkout, fork_files: dict[str, bytes]
) -> None:
    manifest = {**json.loads(fork_files[MANIFEST]), "verdict": "pass"}
    github.add_artifact(UPSTREAM, {**fork_files, MANIFEST: json.dumps(manifest).encode()})
    assert report(checkout).outputs["verdict"] == "fail"
    checkout.write("thresholds.toml", '[gate]\ndecision = "point"\n[metrics.faithfulness]\nmin = 0.0\n')
    assert report(checkout).outputs["verdict"] == "pass"
    assert len(github.bodies(7)) == 1


@pytest.mark.attack(
    by="fork",
    tries="make the `workflow_run` job post arbitrary text",
    stopped_by="only records are read; all else is determined afresh",
)
def test_rendered_text_and_numbers_from_the_artifact_are_not_looked_at(
    github: FakeGitHub, checkout: Checkout, fork_files: dict[str, bytes]
) -> None:
    extra = {"report.md": b"All is well, merge me", "pr-number.txt": b"1", "event.json": b'{"number": 1}'}
    github.add_artifact(UPSTREAM, {**fork_files, **extra})
    report(checkout)
    assert github.bodies(1) == []
    assert "merge me" not in github.bodies(7)[0]


@pytest.mark.parametrize("how", ["higher", "left out"])
def test_forged_scores_are_refused(
    github: FakeGitHub, checkout: Checkout, fork_files: dict[str, bytes], how: str
) -> None:
    def forge(document: dict[str, Any]) -> None:
        if "sample" in document and how == "higher":
            document["scores"]["faithfulness"]["value"] = 0.87
        elif document.get("sample", {}).get("id") == "moon":
            document["scores"].clear()

    github.add_artifact(UPSTREAM, changed(fork_files, forge))
    found = report(checkout)
    assert found.code == 0
    assert nothing_posted(github)
    assert any("does not follow" in line for line in found.annotations)


@pytest.mark.parametrize(
    ("archive", "says"),
    [
        (zip_of({"../../x": b""}), "leads out"),
        (zip_of({"manifest.json": b"{}", "samples.jsonl": b""}), "not a valid manifest"),
        (zip_of({}), "no manifest.json"),
    ],
)
def test_a_hostile_artifact_posts_nothing_and_fails_nothing(
    github: FakeGitHub, checkout: Checkout, fork_files: dict[str, bytes], archive: bytes, says: str
) -> None:
    github.add_artifact(UPSTREAM, archive)
    found = report(checkout)
    assert found.code == 0
    assert nothing_posted(github)
    assert any(says in line for line in found.annotations), found.annotations


@pytest.mark.parametrize(
    "pull",
    [
        {"sha": "f" * 40},
        {"head_id": 3003},
        {"owner": "somebody-else"},
        {"branch": "other"},
    ],
    ids=["moved on", "another repository", "another owner", "another branch"],
)
def test_a_pull_request_that_is_not_the_runs_is_not_commented_on(
    github: FakeGitHub, checkout: Checkout, fork_files: dict[str, bytes], pull: dict[str, Any]
) -> None:
    github.pulls.clear()
    github.add_pull(8, **{"owner": "mallory", "branch": "main", "sha": HEAD_SHA, "head_id": FORK_ID, **pull})
    github.add_artifact(UPSTREAM, fork_files)
    assert report(checkout).code == 0
    assert nothing_posted(github)


def test_two_pull_requests_of_one_head_are_ambiguous(
    github: FakeGitHub, checkout: Checkout, fork_files: dict[str, bytes]
) -> None:
    github.add_pull(8, owner="mallory", branch="main", sha=HEAD_SHA, head_id=FORK_ID, base="release")
    github.add_artifact(UPSTREAM, fork_files)
    assert report(checkout).code == 0
    assert nothing_posted(github)


def test_a_run_that_left_nothing_is_no_error(
    github: FakeGitHub, checkout: Checkout, fork_files: dict[str, bytes]
) -> None:
    assert report(checkout).code == 0
    assert nothing_posted(github)


@pytest.mark.attack(by="fork", tries="poison the cache of judgements", stopped_by="an untrusted run's is never used")
def test_the_forks_cache_of_judgements_is_never_taken_in(
    github: FakeGitHub, checkout: Checkout, fork_files: dict[str, bytes], tmp_path: Path
) -> None:
    github.add_artifact(UPSTREAM, {**fork_files, "judgements.sqlite": b"SQLite format 3\0poison"})
    assert report(checkout).code == 0
    assert not list(tmp_path.rglob("judgements.sqlite"))


def test_a_run_after_anything_but_a_pull_request_is_refused(checkout: Checkout) -> None:
    with pytest.raises(ConfigError, match="follows a run of 'push'"):
        report(checkout, workflow_run(event="push"))


@pytest.mark.parametrize("fault", [{"status": 403}, {"status": 500}, {"how": "reset"}])
def test_a_github_that_is_unwell_fails_nothing(
    github: FakeGitHub, checkout: Checkout, fork_files: dict[str, bytes], fault: dict[str, Any]
) -> None:
    github.add_artifact(UPSTREAM, fork_files)
    for method in ("GET", "POST"):
        github.fail(method, ".", times=1000, **fault)
    assert report(checkout).code == 0


def test_a_fork_judged_offline_is_compared_with_the_baseline_judged_offline(
    github: FakeGitHub, checkout: Checkout, fork_files: dict[str, bytes]
) -> None:
    checkout.answer({name: fact for name, _, fact in FACTS})
    checkout.gate("push")
    before = files_of(RunDirectory.open(checkout.root / "ragstone-run"))
    manifest = json.loads(before[MANIFEST])
    manifest["judge"].update(provider="openai", model="gpt-x", version="0" * 64)
    github.add_run(444, event="push", sha="b" * 40, artifact={**before, MANIFEST: json.dumps(manifest).encode()})
    checkout.write("thresholds.toml", '[gate]\ndecision = "point"\n[metrics.faithfulness]\nmax_drop = 0.05\n')
    github.add_artifact(UPSTREAM, fork_files)
    found = report(checkout)
    assert found.outputs["verdict"] == "fail", found.log
    assert "the baseline's answers were judged again by offline judge" in github.bodies(7)[0]


# -- what can't be vouched for has not passed --------------------------------------------------------------------------


def changed(files: dict[str, bytes], change: Any) -> dict[str, bytes]:
    """`files` after `change` was made to each record and to the manifest (the last)."""
    records = [json.loads(line) for line in files[SAMPLES].splitlines()]
    manifest = json.loads(files[MANIFEST])
    for document in (*records, manifest):
        change(document)
    lines = b"".join(json.dumps(record).encode() + b"\n" for record in records)
    return {**files, SAMPLES: lines, MANIFEST: json.dumps(manifest).encode()}


@pytest.mark.attack(
    by="fork",
    tries="claim another version of a metric, or leave scores out",
    stopped_by="unverified or missing; inconclusive at best",
)
@pytest.mark.parametrize(("version", "named"), [("99", True), ("latest", True), ("0", False)])
def test_a_metric_of_a_version_that_can_not_be_replayed_is_unverified_and_no_pass(
    github: FakeGitHub, checkout: Checkout, passing: dict[str, bytes], version: str, named: bool
) -> None:
    def forge(document: dict[str, Any]) -> None:
        if "metrics" in document:
            document["metrics"]["faithfulness"] = version
        else:
            document["scores"]["faithfulness"]["value"] = 1.0

    if not named:
        checkout.write("thresholds.toml", '[gate]\ndecision = "point"\n')
    github.add_artifact(UPSTREAM, changed(passing, forge))
    found = report(checkout)
    assert found.outputs["verdict"] in ("inconclusive", "error")
    assert found.outputs["faithfulness"] == ""
    [comment] = github.bodies(7)
    assert "✅ Ragstone" not in comment
    assert "Faithfulness is unverified and left out" in comment


@pytest.mark.parametrize("count", [None, 1])
def test_a_run_of_other_files_than_its_commits_is_no_pass(
    github: FakeGitHub, checkout: Checkout, passing: dict[str, bytes], count: int | None
) -> None:
    def forge(document: dict[str, Any]) -> None:
        if "invocation" in document:
            document["invocation"]["changed"] = count

    github.add_artifact(UPSTREAM, passing)
    assert report(checkout).outputs["verdict"] == "pass"
    github.add_artifact(UPSTREAM, changed(passing, forge))
    assert report(checkout).outputs["verdict"] == "inconclusive"
    assert "does not show that the files it evaluated were those of its commit" in github.bodies(7)[0]


def test_a_metric_that_nobody_knows_is_unverified(
    github: FakeGitHub, checkout: Checkout, passing: dict[str, bytes]
) -> None:
    def forge(document: dict[str, Any]) -> None:
        if "metrics" in document:
            document["metrics"]["wonderfulness"] = "1"
        else:
            document["scores"]["wonderfulness"] = document["scores"]["faithfulness"]

    github.add_artifact(UPSTREAM, changed(passing, forge))
    assert report(checkout).outputs["verdict"] == "inconclusive"
    assert "Wonderfulness is unverified" in github.bodies(7)[0]


def test_a_metric_with_a_number_of_its_own_is_replayed(
    github: FakeGitHub, checkout: Checkout, passing: dict[str, bytes]
) -> None:
    def forge(document: dict[str, Any]) -> None:
        if "metrics" in document:
            document["metrics"]["recall@7"] = select_metrics(["recall@7"])[0].info.version
        else:
            document["scores"]["recall@7"] = document["scores"]["faithfulness"]

    github.add_artifact(UPSTREAM, changed(passing, forge))
    found = report(checkout)
    assert nothing_posted(github)
    assert any("recall@7 does not follow" in line for line in found.annotations)


def easier(document: dict[str, Any]) -> None:
    """Other questions, under the hashes and ids of the real ones."""
    if "sample" in document:
        document["sample"]["question"] = "Is that so?"


def fewer(files: dict[str, bytes]) -> dict[str, bytes]:
    lines = files[SAMPLES].splitlines(keepends=True)[1:]
    manifest = json.loads(files[MANIFEST])
    manifest["golden"]["samples"] = len(lines)
    manifest["counts"]["scored"] = len(lines)
    return {**files, SAMPLES: b"".join(lines), MANIFEST: json.dumps(manifest).encode()}


def renamed(document: dict[str, Any]) -> None:
    if "sample" in document:
        document["sample"]["id"] += "-2"


@pytest.mark.attack(
    by="fork",
    tries="other questions under the real ids, or other files than the commit's",
    stopped_by="compared with the default branch's golden set; inconclusive at best",
)
@pytest.mark.parametrize(
    ("forge", "says"),
    [
        (lambda files: changed(files, easier), "4 changed of 4"),
        (fewer, "1 missing of 4"),
        (lambda files: changed(files, renamed), "4 new, 4 missing of 4"),
    ],
    ids=["easier", "fewer", "renamed"],
)
def test_other_questions_are_not_the_default_branchs_and_no_pass(
    github: FakeGitHub, checkout: Checkout, passing: dict[str, bytes], forge: Any, says: str
) -> None:
    github.add_artifact(UPSTREAM, forge(passing))
    found = report(checkout)
    assert found.outputs["verdict"] == "inconclusive", found.log
    [comment] = github.bodies(7)
    assert "are not those of the default branch's golden set" in comment
    assert says in comment
    assert "✅ Ragstone" not in comment


def test_what_a_sample_must_reach_is_read_from_the_default_branch(
    github: FakeGitHub, checkout: Checkout, passing: dict[str, bytes]
) -> None:
    def easy(document: Any) -> None:
        if "sample" in document:
            document["sample"]["min"] = {"faithfulness": 0.0}

    github.add_artifact(UPSTREAM, changed(passing, easy))
    assert report(checkout).outputs["verdict"] == "pass"
    assert "unverified" not in github.bodies(7)[0].lower()
    rows = [json.loads(line) for line in (checkout.root / "golden.jsonl").read_text(encoding="utf-8").splitlines()]
    strict = [{**row, "min": {"faithfulness": 1.0}} for row in rows]
    checkout.write("golden.jsonl", "".join(json.dumps(row) + "\n" for row in strict))
    assert report(checkout).outputs["verdict"] == "fail"
    assert "Faithfulness is 0.98, required 1.00" in github.bodies(7)[0]


def test_easier_questions_under_the_real_hashes_are_not_paired_with_the_baselines(
    github: FakeGitHub, checkout: Checkout, passing: dict[str, bytes]
) -> None:
    github.add_run(1)
    github.add_artifact(1, changed(passing, easier))  # a baseline whose questions are not those of its hashes
    checkout.write("thresholds.toml", '[gate]\ndecision = "point"\n[metrics.faithfulness]\nmin = 0.1\nmax_drop = 0.5\n')
    found = checkout.gate("push", RAGSTONE_BASELINE="artifact")
    assert "no sample is the same" in found.summary


@pytest.mark.parametrize("when", ["yesterday", "2026-13-45T99:99:99"])
def test_a_manifest_that_no_run_has_is_refused_and_fails_nothing(
    github: FakeGitHub, checkout: Checkout, passing: dict[str, bytes], when: str
) -> None:
    manifest = {**json.loads(passing[MANIFEST]), "created_at": when}
    github.add_artifact(UPSTREAM, {**passing, MANIFEST: json.dumps(manifest).encode()})
    found = report(checkout)
    assert found.code == 0
    assert nothing_posted(github)
