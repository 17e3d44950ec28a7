"""The workflow_run door: a trusted job posts what a fork's run found, and believes nothing but its records."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ragstone.errors import ConfigError
from ragstone.evaluation.directory import MANIFEST, SAMPLES, RunDirectory
from ragstone.github.api.posts import marker
from ragstone.metrics.registry import select_metrics
from tests.github.api.fake import FORK_ID, zip_of
from tests.github.api.payloads import HEAD_SHA, MERGE_SHA, workflow_run
from tests.github.builders import CONFIG, Checkout, Outcome
from tests.github.runs import files_of

Files = dict[str, bytes]


class Fork:
    """A pull request from a fork, whose run left an artifact, and the trusted job that reports it."""

    def __init__(self, checkout: Checkout) -> None:
        self.checkout, self.github = checkout, checkout.github
        self.run = self.github.add_fork_run()

    def files(self, bad: str = "") -> Files:
        """What its run left behind, made in a checkout like the trusted one; one that fails if it answers `bad`."""
        self.checkout.answer_well()
        if bad:
            self.checkout.answer_badly(bad)
        self.checkout.is_commit(MERGE_SHA)
        self.checkout.gate("push")
        del self.github.files[MERGE_SHA]
        return files_of(RunDirectory.open(self.checkout.out))

    def report(self, files: Files | bytes | None = None, payload: Any = None, **environ: str) -> Outcome:
        if files is not None:
            self.github.add_artifact(self.run["id"], files)
        found = self.checkout.gate("workflow_run", payload or workflow_run(), **environ)
        assert found.code == 0, found.log
        return found

    @property
    def comment(self) -> str:
        [comment] = self.checkout.comments
        return comment


@pytest.fixture
def fork(checkout: Checkout) -> Fork:
    return Fork(checkout)


@pytest.fixture
def bad_files(fork: Fork) -> Files:
    return fork.files("Bananas were purple in 1834. @acme/admins <!-- ragstone:comment -->")


@pytest.fixture
def passing(fork: Fork) -> Files:
    return fork.files()


def changed(files: Files, change: Callable[[dict[str, Any]], None]) -> Files:
    """`files` after `change` was made to each record and to the manifest (the last)."""
    records = [json.loads(line) for line in files[SAMPLES].splitlines()]
    manifest = json.loads(files[MANIFEST])
    for document in (*records, manifest):
        change(document)
    lines = b"".join(json.dumps(record).encode() + b"\n" for record in records)
    return {**files, SAMPLES: lines, MANIFEST: json.dumps(manifest).encode()}


@pytest.mark.attack(by="fork", tries="have `workflow_run` post arbitrary text", stopped_by="only records are read")
def test_a_forks_run_is_posted_on_its_pull_request_by_its_records_alone(fork: Fork, bad_files: Files) -> None:
    (fork.checkout.root / "outputs.jsonl").unlink()  # its system is not run: asking it would fail
    fork.checkout.reports_again = True
    claims = {**json.loads(bad_files[MANIFEST]), "verdict": "pass"}
    extra = {"report.md": b"All is well, merge me", "pr-number.txt": b"1", "event.json": b'{"number": 1}'}
    found = fork.report({**bad_files, **extra, MANIFEST: json.dumps(claims).encode()})
    assert found.verdict == "fail"
    assert fork.comment.startswith(marker("default"))
    for words in ("the pull request's own run", "Faithfulness", f"/blob/{HEAD_SHA}/golden.jsonl"):
        assert words in fork.comment
    assert fork.github.bodies(1) == []
    assert "merge me" not in fork.comment
    fork.checkout.write("thresholds.toml", "[gate]\nconfirm = false\n[metrics.faithfulness]\nmin = 0.0\n")
    assert fork.report().verdict == "pass", "by the policy of this checkout"
    assert fork.comment


def test_a_secret_of_this_job_that_a_forks_run_names_is_not_posted(fork: Fork) -> None:
    """An answer, an error and a name that hold the key, as if the fork had guessed or stolen it."""
    key = "sk-the-judges-own-key-0123456789"
    files = fork.files(f"Bananas were purple in 1834, as {key} says.")
    assert key.encode() in files[SAMPLES]
    manifest = json.loads(files[MANIFEST])
    manifest["judge"]["model"] = f"a model called {key}"
    named = {**files, MANIFEST: json.dumps(manifest).encode()}
    twice = files[SAMPLES].replace(b'"moon"', f'"{key}"'.encode()).replace(b'"sun"', f'"{key}"'.encode())
    for artifact in (files, named, {**files, SAMPLES: twice}):
        found = fork.report(artifact, RAGSTONE_JUDGE_API_KEY=key)
        said = found.log.replace(f"::add-mask::{key}", "")
        assert key not in f"{fork.checkout.comments}{said}{found.summary}{found.outputs}"
    assert "Bananas were purple" in fork.comment
    assert any("The run is not reported: " in line and "duplicate sample" in line for line in found.annotations)


def higher(document: dict[str, Any]) -> None:
    if "sample" in document:
        document["scores"]["faithfulness"]["value"] = 0.87


def left_out(document: dict[str, Any]) -> None:
    if document.get("sample", {}).get("id") == "moon":
        document["scores"].clear()


def with_a_number(document: dict[str, Any]) -> None:
    """A metric of a number that nobody else has asked for."""
    if "metrics" in document:
        document["metrics"]["recall@7"] = select_metrics(["recall@7"])[0].info.version
    else:
        document["scores"]["recall@7"] = document["scores"]["faithfulness"]


def made_at(when: str) -> Callable[[dict[str, Any]], None]:
    return lambda document: document.update({"created_at": when} if "created_at" in document else {})


REFUSED: dict[str, tuple[Callable[[Files], Files | bytes], str]] = {
    "higher scores": (lambda files: changed(files, higher), "does not follow"),
    "scores that are left out": (lambda files: changed(files, left_out), "does not follow"),
    "a metric of another number": (lambda files: changed(files, with_a_number), "recall@7 does not follow"),
    "a day that is none": (lambda files: changed(files, made_at("yesterday")), "The run is not reported"),
    "an hour that is none": (
        lambda files: changed(files, made_at("2026-13-45T99:99:99")),
        "The run is not reported",
    ),
    "a path that leads out": (lambda _: zip_of({"../../x": b""}), "leads out"),
    "no manifest": (lambda _: zip_of({}), "no manifest.json"),
    "an empty manifest": (lambda _: zip_of({"manifest.json": b"{}", "samples.jsonl": b""}), "not a valid manifest"),
}


@pytest.mark.parametrize("how", REFUSED)
def test_an_artifact_that_is_no_run_posts_nothing_and_fails_nothing(fork: Fork, bad_files: Files, how: str) -> None:
    forge, says = REFUSED[how]
    found = fork.report(forge(bad_files))
    assert fork.checkout.comments == []
    assert any(says in line for line in found.annotations), found.annotations


@pytest.mark.parametrize(
    ("pull", "run", "says"),
    [
        ({"sha": "f" * 40}, {}, "0 open pull requests"),
        ({"head_id": 3003}, {}, "0 open pull requests"),
        ({"owner": "somebody-else"}, {}, "0 open pull requests"),
        ({"branch": "other"}, {}, "0 open pull requests"),
        ({"base_id": 3003}, {}, "0 open pull requests"),
        ({"count": 2}, {}, "2 open pull requests"),
        ({}, {"event": "push"}, "is not for a pull request"),
        ({}, {"head_sha": "f" * 40}, "is of another commit than the event says"),
        ({}, {"head_branch": None}, "no longer exists"),
        ({}, {"head_repository": None}, "no longer exists"),
        ({}, {}, "left no artifact"),
    ],
    ids=str,
)
def test_a_run_that_is_not_of_one_open_pull_request_is_not_posted(
    fork: Fork, pull: dict[str, Any], run: dict[str, Any], says: str
) -> None:
    fork.github.pulls.clear()
    of_base = pull.pop("base_id", None)
    for number in range(pull.pop("count", 1)):
        described = {"owner": "mallory", "branch": "main", "sha": HEAD_SHA, "head_id": FORK_ID, **pull}
        fork.github.add_pull(8 + number, **described)
    if of_base is not None:
        fork.github.pulls[0]["base"]["repo"].update(id=of_base)
    fork.run.update(run)
    assert any(says in line for line in fork.report().annotations)
    assert fork.checkout.comments == []
    fork.github.problems.clear()  # GitHub gives null for what was deleted, whatever its description says


@pytest.mark.attack(by="fork", tries="poison the cache of judgements", stopped_by="never used")
def test_the_forks_cache_of_judgements_is_never_taken_in(fork: Fork, bad_files: Files, tmp_path: Path) -> None:
    fork.report({**bad_files, "judgements.sqlite": b"SQLite format 3\0poison"})
    assert fork.comment
    assert not list(tmp_path.rglob("judgements.sqlite"))


@pytest.mark.parametrize("fault", [{"status": 403}, {"status": 500}, {"how": "reset"}])
def test_a_github_that_is_unwell_fails_nothing(fork: Fork, bad_files: Files, fault: dict[str, Any]) -> None:
    for method in ("GET", "POST"):
        fork.github.fail(method, ".", times=1000, **fault)
    assert any("The run is not reported" in line for line in fork.report(bad_files).annotations)


def test_a_fork_judged_offline_is_compared_with_the_baseline_judged_offline(fork: Fork) -> None:
    before = fork.files()
    manifest = json.loads(before[MANIFEST])
    manifest["judge"].update(provider="openai", model="gpt-x", version="0" * 64)
    fork.github.add_run(444, sha="b" * 40, artifact={**before, MANIFEST: json.dumps(manifest).encode()})
    files = fork.files("Bananas were purple in 1834.")
    fork.checkout.write("thresholds.toml", "[gate]\nconfirm = false\n[metrics.faithfulness]\nmax_drop = 0.05\n")
    assert fork.report(files).verdict == "fail"
    assert "the baseline's answers were judged again by offline judge" in fork.comment


# -- what can't be vouched for has not passed --------------------------------------------------------------------------


@pytest.mark.attack(by="fork", tries="another version of a metric", stopped_by="inconclusive at best")
@pytest.mark.parametrize(("version", "named"), [("99", True), ("latest", True), ("0", False)])
def test_a_metric_of_a_version_that_can_not_be_replayed_is_unverified_and_no_pass(
    fork: Fork, passing: Files, version: str, named: bool
) -> None:
    def forge(document: dict[str, Any]) -> None:
        if "metrics" in document:
            document["metrics"]["faithfulness"] = version
        else:
            document["scores"]["faithfulness"]["value"] = 1.0

    if not named:
        fork.checkout.write("thresholds.toml", "[gate]\nconfirm = false\n")
    found = fork.report(changed(passing, forge))
    assert found.verdict in ("inconclusive", "error")
    assert found.outputs["faithfulness"] == ""
    assert "✅ Ragstone" not in fork.comment
    assert "Faithfulness is unverified and left out" in fork.comment


def test_a_metric_of_this_checkout_without_its_function_is_an_error_of_its_config(fork: Fork, passing: Files) -> None:
    fork.github.add_artifact(fork.run["id"], passing)
    fork.checkout.write("ragstone.toml", CONFIG + '[metrics.tone]\npython = "no_such_module:grade"\n')
    with pytest.raises(ConfigError, match="the function's file was not found"):
        fork.checkout.gate("workflow_run", workflow_run())


def easier(document: dict[str, Any]) -> None:
    """Other questions, under the hashes and ids of the real ones."""
    if "sample" in document:
        document["sample"]["question"] = "Is that so?"


def fewer(files: Files) -> Files:
    lines = files[SAMPLES].splitlines(keepends=True)[1:]
    manifest = json.loads(files[MANIFEST])
    manifest["golden"]["samples"] = manifest["counts"]["scored"] = len(lines)
    return {**files, SAMPLES: b"".join(lines), MANIFEST: json.dumps(manifest).encode()}


def renamed(document: dict[str, Any]) -> None:
    if "sample" in document:
        document["sample"]["id"] += "-2"


def unknown(document: dict[str, Any]) -> None:
    if "metrics" in document:
        document["metrics"]["wonderfulness"] = "1"
    else:
        document["scores"]["wonderfulness"] = document["scores"]["faithfulness"]


def differing(count: int | None) -> Callable[[dict[str, Any]], None]:
    return lambda document: document["invocation"].update(changed=count) if "invocation" in document else None


OTHERS = "are not those of the default branch's golden set"
OF_ITS_COMMIT = "does not show that the files it evaluated were those of its commit"


@pytest.mark.attack(by="fork", tries="other questions under the real ids", stopped_by="inconclusive at best")
@pytest.mark.parametrize(
    ("forge", "says"),
    [
        (lambda files: changed(files, easier), (OTHERS,)),
        (fewer, (OTHERS,)),
        (lambda files: changed(files, renamed), (OTHERS,)),
        (lambda files: changed(files, unknown), ("Wonderfulness is unverified",)),
        (lambda files: changed(files, differing(None)), (OF_ITS_COMMIT,)),
        (lambda files: changed(files, differing(1)), (OF_ITS_COMMIT,)),
    ],
    ids=["easier", "fewer", "renamed", "a metric that nobody knows", "of unknown files", "of other files"],
)
def test_what_is_not_the_default_branchs_or_the_commits_is_no_pass(
    fork: Fork, passing: Files, forge: Callable[[Files], Files], says: tuple[str, ...]
) -> None:
    assert fork.report(passing).verdict == "pass"
    found = fork.report(forge(passing))
    assert found.verdict == "inconclusive", found.log
    for words in says:
        assert words in fork.comment
    assert "✅ Ragstone" not in fork.comment


def test_what_a_sample_must_reach_is_read_from_the_default_branch(fork: Fork, passing: Files) -> None:
    def easy(document: Any) -> None:
        if "sample" in document:
            document["sample"]["min"] = {"faithfulness": 0.0}

    assert fork.report(changed(passing, easy)).verdict == "pass"
    assert "unverified" not in fork.comment.lower()
    strict = [{**row, "min": {"faithfulness": 1.0}} for row in fork.checkout.golden_rows()]
    fork.checkout.write_golden(strict)
    assert fork.report().verdict == "fail"
    assert "Faithfulness is 0.98, required 1.00" in fork.comment


def test_easier_questions_under_the_real_hashes_are_not_paired_with_the_baselines(fork: Fork, passing: Files) -> None:
    fork.github.add_run(1, artifact=changed(passing, easier))  # whose questions are not those of its hashes
    policy = "[gate]\nconfirm = false\n[metrics.faithfulness]\nmin = 0.1\nmax_drop = 0.5\n"
    fork.checkout.write("thresholds.toml", policy)
    assert "no sample is the same" in fork.checkout.gate("push", RAGSTONE_BASELINE="artifact").summary
