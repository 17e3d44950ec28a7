"""A matrix of jobs evaluates shards, and one job of the same workflow run merges, decides and comments."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ragstone.run.directory import MANIFEST, SAMPLES, RunDirectory
from ragstone.run.writer import samples_digest
from tests.ci.github.fake import FORK_ID, FakeGitHub, zip_of
from tests.ci.github.payloads import HEAD_SHA, pull_request, workflow_run
from tests.job.builders import FACTS, Checkout, Outcome
from tests.job.runs import artifact_of
from tests.judge.conftest import FakeLlm, Loop

OWN_RUN = 900
OF = 2
MERGE = {"RAGSTONE_MERGE": "ragstone-shard-*"}
FORK_PULL = pull_request(fork=True)


@pytest.fixture
def checkout(github: FakeGitHub, tmp_path: Path) -> Checkout:
    github.add_run(OWN_RUN, event="pull_request", branch="topic", status="in_progress", conclusion="neutral")
    return Checkout(tmp_path)


@pytest.fixture
def fake() -> Iterator[FakeLlm]:
    loop = Loop()
    yield loop.serve(FakeLlm())
    loop.close()


def evaluate(
    github: FakeGitHub, checkout: Checkout, event: str = "pull_request", payload: Any = None, **more: str
) -> list[Outcome]:
    """The jobs of the matrix, and the artifacts that they upload."""
    found = []
    for number in range(1, OF + 1):
        found.append(evaluate_one(github, checkout, number, event, payload, **more))
    return found


def evaluate_one(
    github: FakeGitHub, checkout: Checkout, number: int, event: str = "pull_request", payload: Any = None, **more: str
) -> Outcome:
    one = checkout.gate(github, event, payload, RAGSTONE_SHARD=f"{number}/{OF}", **more)
    if one.outputs.get("run-directory"):
        folder = checkout.root / one.outputs["run-directory"]
        github.add_artifact(OWN_RUN, artifact_of(folder), name=f"ragstone-shard-{number}")
        shutil.rmtree(folder)
    return one


def merge(github: FakeGitHub, checkout: Checkout, event: str = "pull_request", **more: str) -> Outcome:
    return checkout.gate(github, event, None, **MERGE, **more)


def told(checkout: Checkout) -> dict[str, Any]:
    """The report, without times."""
    report: dict[str, Any] = json.loads((checkout.root / "ragstone-run" / "report.json").read_text(encoding="utf-8"))
    return {**report, "run": {key: value for key, value in report["run"].items() if key not in TIMES}}


TIMES = {"created_at", "wall_s"}


def test_the_job_that_merges_finds_comments_and_writes_what_one_job_does(
    github: FakeGitHub, checkout: Checkout
) -> None:
    one = checkout.gate(github, "pull_request")
    expected, records = told(checkout), (checkout.root / "ragstone-run" / SAMPLES).read_bytes()
    shutil.rmtree(checkout.root / "ragstone-run")
    github.comments.clear()
    shards = evaluate(github, checkout)
    assert [shard.code for shard in shards] == [0] * OF
    merged = merge(github, checkout)
    assert merged.code == one.code == 0, merged.log
    assert told(checkout) == expected
    assert (checkout.root / "ragstone-run" / SAMPLES).read_bytes() == records
    assert len(github.bodies()) == 1
    ignored = {"comment-url", "predicate"}
    assert {k: v for k, v in merged.outputs.items() if k not in ignored} == {
        k: v for k, v in one.outputs.items() if k not in ignored
    }
    attested = [json.loads(found.outputs["predicate"]) for found in (merged, one)]
    assert attested[0].pop("attestation") != attested[1].pop("attestation")  # each has its own times
    assert attested[0].pop("bar") | {"judge": attested[0]["digests"]["judge"]} == attested[1].pop("bar")
    assert attested[0] == attested[1]


def test_a_job_that_evaluates_a_shard_decides_and_publishes_nothing(github: FakeGitHub, checkout: Checkout) -> None:
    checkout.answer_badly()
    for shard in evaluate(github, checkout):
        assert shard.code == 0, shard.log
        assert shard.outputs == {"run-directory": "ragstone-run"}
        assert shard.summary == ""
        assert any(re.search(rf"of {OF}: \d samples? scored", line) for line in shard.annotations)
    assert github.comments == []
    merged = merge(github, checkout)
    assert merged.code == 1
    assert merged.outputs["verdict"] == "fail"


def test_a_failed_shard_fails_its_job_without_a_comment_and_the_merge_names_it(
    github: FakeGitHub, checkout: Checkout
) -> None:
    evaluate_one(github, checkout, 1)
    (checkout.root / "outputs.jsonl").unlink()
    failed = evaluate_one(github, checkout, 2)
    assert failed.code != 0
    assert github.comments == []
    merged = merge(github, checkout)
    assert merged.code == 2
    assert merged.outputs["verdict"] == "error"
    assert f"shard 2 of {OF} is missing" in merged.log
    assert f"shard 2 of {OF} is missing" in github.bodies()[0]


def test_a_shard_that_is_run_again_alone_replaces_the_one_of_the_earlier_attempt(
    github: FakeGitHub, checkout: Checkout
) -> None:
    evaluate(github, checkout)
    run = next(one for one, _ in github.artifacts.values() if one["name"] == "ragstone-shard-2")
    github.artifacts[run["id"]] = (run, zip_of({MANIFEST: b"{}"}))
    assert "digest" in merge(github, checkout).log
    evaluate_one(github, checkout, 2)
    assert merge(github, checkout).code == 0


def test_missing_shards_count_as_failures_if_the_workflow_says_so(github: FakeGitHub, checkout: Checkout) -> None:
    evaluate_one(github, checkout, 1)
    merged = merge(github, checkout, RAGSTONE_ALLOW_MISSING="true")
    run = RunDirectory.open(checkout.root / "ragstone-run")
    assert run.manifest.counts.total == len(FACTS)
    assert run.manifest.counts.system_failed > 0
    assert f"Shard 2 of {OF} is missing" in merged.summary


def test_nothing_to_merge_says_what_to_upload(github: FakeGitHub, checkout: Checkout) -> None:
    merged = merge(github, checkout)
    assert merged.code == 2
    assert "no artifact called 'ragstone-shard-*'" in merged.log


def test_shards_of_other_runs_are_not_looked_at(github: FakeGitHub, checkout: Checkout) -> None:
    evaluate(github, checkout)
    github.add_run(901, event="pull_request", branch="topic")
    for artifact, _ in github.artifacts.values():
        artifact["workflow_run"]["id"] = 901
    assert "no artifact called" in merge(github, checkout).log


def test_the_merged_run_of_the_branch_is_the_next_baseline(github: FakeGitHub, checkout: Checkout) -> None:
    evaluate(github, checkout, "push")
    assert merge(github, checkout, "push").code == 0
    manifest = RunDirectory.open(checkout.root / "ragstone-run").manifest
    assert manifest.standing.eligible
    github.add_run(1)
    github.add_artifact(1, artifact_of(checkout.root / "ragstone-run"))
    github.artifacts = {key: one for key, one in github.artifacts.items() if one[0]["name"] == "ragstone-run"}
    evaluate(github, checkout)
    assert merge(github, checkout).outputs["baseline-run-id"] == "1"


def test_a_merged_run_of_the_branch_that_fails_carries_the_baseline(github: FakeGitHub, checkout: Checkout) -> None:
    github.add_run(1)
    assert checkout.gate(github, "push", None, GITHUB_RUN_ID="1").code == 0
    github.add_artifact(1, artifact_of(checkout.root / "ragstone-run"))
    baseline = RunDirectory.open(checkout.root / "ragstone-run").fingerprint
    shutil.rmtree(checkout.root / "ragstone-run")
    checkout.answer_badly()
    for shard in evaluate(github, checkout, "push"):
        assert shard.code == 0
    assert merge(github, checkout, "push").code == 1
    merged = RunDirectory.open(checkout.root / "ragstone-run")
    assert not merged.manifest.standing.eligible
    assert RunDirectory.open(merged.path / "baseline").fingerprint == baseline
    assert (merged.path / "history.jsonl").read_text(encoding="utf-8").count('"run":') == 2


def test_the_judges_key_is_needed_by_the_shards_only(github: FakeGitHub, checkout: Checkout, fake: FakeLlm) -> None:
    judge = {"RAGSTONE_JUDGE": "openai:gpt-4o-mini", "RAGSTONE_JUDGE_BASE_URL": f"{fake.url}/v1"}
    evaluate(github, checkout, **judge, RAGSTONE_JUDGE_API_KEY="sk-0123456789")
    calls = len(fake.seen)
    assert calls > 0
    merged = merge(github, checkout, **judge)
    assert merged.code == 0, merged.log
    assert len(fake.seen) == calls
    assert RunDirectory.open(checkout.root / "ragstone-run").manifest.judge.provider == "openai"


def test_a_baseline_branchs_canaries_are_repeated_by_the_shards(
    github: FakeGitHub, checkout: Checkout, fake: FakeLlm
) -> None:
    judge = {"RAGSTONE_JUDGE": "openai:gpt-4o-mini", "RAGSTONE_JUDGE_BASE_URL": f"{fake.url}/v1"}
    key = {"RAGSTONE_JUDGE_API_KEY": "sk-0123456789"}
    assert checkout.gate(github, "push", None, **judge, **key).code == 0
    github.add_run(1)
    github.add_artifact(1, artifact_of(checkout.root / "ragstone-run"))
    fake.seen.clear()
    evaluate(github, checkout, "push", **judge, **key)
    assert fake.kinds() == ["verdicts"] * len(FACTS)
    assert f"0 of {len(FACTS)} verdicts differ" in merge(github, checkout, "push", **judge).summary


# -- forks -------------------------------------------------------------------------------------------------------------


def test_a_fork_without_a_key_ends_as_in_one_job(github: FakeGitHub, checkout: Checkout) -> None:
    judge = {"RAGSTONE_JUDGE": "openai:gpt-4o-mini"}
    one = checkout.gate(github, "pull_request", FORK_PULL, **judge)
    shards = evaluate(github, checkout, "pull_request", FORK_PULL, **judge)
    assert [(shard.code, shard.outputs) for shard in shards] == [(0, {"run-directory": ""})] * OF
    merged = checkout.gate(github, "pull_request", FORK_PULL, **MERGE, **judge)
    assert (merged.code, merged.outputs) == (one.code, one.outputs)
    assert "no key on pull requests from forks" in merged.log


def test_a_fork_is_judged_offline_where_the_config_says_so(github: FakeGitHub, checkout: Checkout) -> None:
    checkout.write(
        "ragstone.toml",
        """
        [golden]
        paths = ["golden.jsonl"]
        [system]
        entrypoint = "file:outputs.jsonl"
        [judge]
        name = "openai:gpt-4o-mini"
        [run]
        metrics = ["faithfulness"]
        [gate]
        without_key = "offline"
        """,
    )
    github.files["c" * 40]["ragstone.toml"] = (checkout.root / "ragstone.toml").read_bytes()
    evaluate(github, checkout, "pull_request", FORK_PULL)
    merged = checkout.gate(github, "pull_request", FORK_PULL, **MERGE)
    assert merged.outputs["verdict"] == "pass", merged.log
    assert "The offline judge is used instead" in merged.summary


def test_a_forks_merged_run_is_posted_like_any_other(github: FakeGitHub, checkout: Checkout) -> None:
    evaluate(github, checkout, "pull_request", FORK_PULL)
    assert checkout.gate(github, "pull_request", FORK_PULL, **MERGE).code == 0
    github.comments.clear()
    github.add_run(555, event="pull_request", branch="main", head_repository_id=FORK_ID, sha=HEAD_SHA)
    github.add_pull(7, owner="mallory", branch="main", sha=HEAD_SHA, head_id=FORK_ID)
    github.add_artifact(555, artifact_of(checkout.root / "ragstone-run"))
    posted = checkout.gate(github, "workflow_run", workflow_run())
    assert posted.code == 0, posted.log
    assert len(github.bodies(7)) == 1


# -- what a pull request can not do ------------------------------------------------------------------------------------


def config(checkout: Checkout, text: str) -> None:
    checkout.write(
        "ragstone.toml", f'[golden]\npaths = ["golden.jsonl"]\n[system]\nentrypoint = "file:outputs.jsonl"\n{text}'
    )


def test_its_config_can_not_turn_the_gate_into_a_shard(github: FakeGitHub, checkout: Checkout) -> None:
    config(checkout, '[run]\nshard = "1/200"\n')
    checkout.answer_badly()
    with pytest.raises(Exception, match=r"'run.shard' must not be set in a file"):
        checkout.gate(github, "pull_request")


def test_run_directories_in_the_checkout_are_no_shards(github: FakeGitHub, checkout: Checkout) -> None:
    # Had they been downloaded to the workspace, one in the checkout could stand for one that failed.
    evaluate(github, checkout)
    found = {one["name"]: key for key, (one, _) in github.artifacts.items()}
    github.artifacts.pop(found["ragstone-shard-2"])
    forged = checkout.root / "shards" / "ragstone-shard-2"
    assert checkout.gate(github, "pull_request", None, RAGSTONE_SHARD=f"2/{OF}", RAGSTONE_OUT=str(forged)).code == 0
    assert f"shard 2 of {OF} is missing" in merge(github, checkout).log


def test_a_shard_with_other_scores_than_its_judgements_give_is_refused(github: FakeGitHub, checkout: Checkout) -> None:
    checkout.answer_badly()
    evaluate_one(github, checkout, 1)
    assert checkout.gate(github, "pull_request", None, RAGSTONE_SHARD=f"2/{OF}").code == 0
    folder = checkout.root / "ragstone-run"
    records = folder / SAMPLES
    rows = [json.loads(line) for line in records.read_text(encoding="utf-8").splitlines()]
    for row in rows:
        row["scores"]["faithfulness"]["value"] = 1.0
    records.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    manifest["shard"]["digest"] = samples_digest(folder)
    files = artifact_of(folder) | {MANIFEST: json.dumps(manifest).encode()}
    github.add_artifact(OWN_RUN, files, name="ragstone-shard-2")
    merged = merge(github, checkout)
    assert merged.code == 2
    assert "does not follow from the recorded judgements" in merged.log


def test_a_shard_of_another_commit_is_refused(github: FakeGitHub, checkout: Checkout) -> None:
    evaluate(github, checkout, GITHUB_SHA="f" * 40)
    assert "another commit than this job's" in merge(github, checkout).log


def test_an_archive_that_leads_out_is_refused(github: FakeGitHub, checkout: Checkout) -> None:
    evaluate(github, checkout)
    github.add_artifact(OWN_RUN, {"../../evil": b"x", MANIFEST: b"{}"}, name="ragstone-shard-3")
    merged = merge(github, checkout)
    assert merged.code == 2
    assert "leads out of it" in merged.log


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"RAGSTONE_SHARD": "1/2", **MERGE}, "one job evaluates a shard, and another one merges them"),
        ({"RAGSTONE_ALLOW_MISSING": "true"}, "allow-missing needs merge"),
        ({"RAGSTONE_BASELINE": "commit", **MERGE}, "baseline: commit can't be combined with merging shards: it needs"),
        (
            {"RAGSTONE_BASELINE": "commit", "RAGSTONE_SHARD": "1/2"},
            "can't be combined with --shard: it needs",
        ),
    ],
)
def test_what_does_not_go_together_is_named(
    github: FakeGitHub, checkout: Checkout, more: dict[str, str], said: str
) -> None:
    found = checkout.gate(github, "pull_request", None, **more)
    assert found.code == 2
    assert said in found.log


def test_without_a_token_there_is_nothing_to_merge(github: FakeGitHub, checkout: Checkout) -> None:
    assert "merging needs a GitHub token" in merge(github, checkout, GITHUB_TOKEN="").log


def test_without_the_right_to_read_artifacts_the_error_says_which_one(github: FakeGitHub, checkout: Checkout) -> None:
    evaluate(github, checkout)
    github.fail("GET", "/actions/runs/900/artifacts", 403, times=5)
    merged = merge(github, checkout)
    assert merged.code == 7
    assert "actions: read" in merged.log
