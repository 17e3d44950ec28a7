"""The baseline over a season of jobs: what each uploads is all that the next ones know."""

from __future__ import annotations

import json
import shlex
import shutil
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ragstone.errors import ConfigError
from ragstone.evaluation.directory import RunDirectory
from ragstone.evaluation.lineage import CARRIED, carry
from tests.cli.project import ragstone
from tests.github.api.fake import FakeGitHub
from tests.github.builders import CONFIG, FACTS, Checkout, Outcome, pull_request
from tests.github.runs import artifact_of, make_run

POLICY = """
[gate]
min_coverage = 0.5
confirm = false
confidence = 0.51

[metrics.faithfulness]
max_drop = 0.05
"""
FLOOR = "[gate]\nconfirm = false\n[metrics.faithfulness]\nmin = 0.5\n"
BROKEN = "Bananas are purple and were invented in 1834 by a committee."


class Season:
    """One repository over time: jobs on main leave artifacts, each begins with a fresh checkout."""

    def __init__(self, checkout: Checkout) -> None:
        self.github = checkout.github
        self.checkout = checkout
        self.out = checkout.out
        self.runs = 0
        checkout.write("thresholds.toml", POLICY)

    def manifest(self) -> Any:
        return self.checkout.read("manifest.json")

    def merge(self, event: str = "push", **more: str) -> Outcome:
        """A job on main, of a commit of its own, whatever comes of it, and the upload after it."""
        sha = f"{900 + self.runs:040x}"
        self.github.merged.add(sha)
        found = self.job(event, **{"GITHUB_SHA": sha, **more})
        self.upload(event, sha)
        return found

    def job(self, event: str = "pull_request", payload: Any = None, **more: str) -> Outcome:
        self.runs += 1
        shutil.rmtree(self.out, ignore_errors=True)
        self.run = self.github.add_run(
            900 + self.runs,
            event="pull_request",
            branch="topic",
            status="in_progress",
            sha=f"{self.runs:040x}",
            tree="1" * 40,
        )
        return self.checkout.gate(event, payload, GITHUB_RUN_ID=str(900 + self.runs), **more)

    def upload(self, event: str = "push", sha: str = "b" * 40) -> None:
        """The newest job becomes a finished run on main."""
        self.github.runs.remove(self.run)
        created = f"2026-11-20T{self.runs // 60:02d}:{self.runs % 60:02d}:00Z"
        self.run = self.github.add_run(900 + self.runs, event=event, created_at=created, sha=sha)
        self.github.add_artifact(900 + self.runs, artifact_of(self.out))

    def heal(self) -> None:
        self.checkout.answer_well()


@pytest.fixture
def season(github: FakeGitHub, tmp_path: Path) -> Season:
    return Season(Checkout(github, tmp_path))


def test_failed_runs_leave_the_good_baseline_until_one_passes(season: Season) -> None:
    season.checkout.write("thresholds.toml", FLOOR)
    assert season.merge().code == 0
    good = RunDirectory.open(season.out).fingerprint
    season.checkout.answer_badly()
    for _ in range(2):
        assert season.merge().code == 1
        assert (season.out / CARRIED / "manifest.json").is_file()
        assert season.manifest()["baseline"]["used"]["fingerprint"] == good
    bad = season.job()
    assert (bad.code, bad.baseline) == (1, "901")
    assert "actions/runs/901" in season.checkout.comments[0]
    assert "gh run download 903 --name ragstone-run --dir ragstone-baseline" in season.checkout.comments[0]
    season.heal()
    repaired = season.merge()
    assert (repaired.code, repaired.baseline) == (0, "901")
    assert not (season.out / CARRIED).exists()
    last = season.runs
    assert season.job().baseline == str(900 + last)


@pytest.mark.parametrize("fails_by_itself", [False, True])
def test_a_first_run_that_lacks_its_baseline_is_one_unless_it_fails_by_itself(
    season: Season, fails_by_itself: bool
) -> None:
    policy = POLICY.replace("[gate]", '[gate]\non_no_baseline = "fail"')
    season.checkout.write("thresholds.toml", policy.replace("max_drop", "min = 0.5\nmax_drop"))
    if fails_by_itself:
        season.checkout.answer_badly()
    assert season.merge().code != 0
    assert season.job().baseline == ("" if fails_by_itself else "901")


def test_a_run_of_a_tag_makes_no_baseline_and_carries_none(season: Season) -> None:
    season.merge()
    assert season.job("push", GITHUB_REF="refs/tags/main").code == 0
    assert season.manifest()["baseline"]["reason"] == "it ran on a tag, not on a branch"
    assert not (season.out / CARRIED).exists()


def test_the_workflow_of_the_baseline_is_one_of_this_repository(season: Season) -> None:
    season.merge()
    named = season.job("release", RAGSTONE_BASELINE_WORKFLOW=".github/workflows/gate.yml")
    assert (named.code, named.baseline) == (0, "901")
    found = season.job("release", RAGSTONE_BASELINE_WORKFLOW="gaet.yml")
    assert (found.verdict, "gaet.yml" in found.summary) == ("inconclusive", True)
    for other in ("other/repo/.github/workflows/gate.yml", "RAG quality"):
        with pytest.raises(ConfigError, match=r"is not a file of \.github/workflows"):
            season.job("release", RAGSTONE_BASELINE_WORKFLOW=other)


def refuse_to_list(github: FakeGitHub) -> None:
    github.fail("GET", "/actions/workflows/", 403, times=99)


def damage_the_archive(github: FakeGitHub) -> None:
    for number, (artifact, _) in list(github.artifacts.items()):
        github.artifacts[number] = (artifact, b"not a zip")


@pytest.mark.attack(by="network", tries="make the baseline unreadable", stopped_by="inconclusive")
@pytest.mark.parametrize("make_unreadable", [refuse_to_list, damage_the_archive])
def test_a_run_whose_baseline_could_not_be_read_does_not_pass(
    season: Season, make_unreadable: Callable[[FakeGitHub], None]
) -> None:
    season.merge()
    make_unreadable(season.github)
    found = season.job()
    assert found.verdict == "inconclusive", found.log
    assert "a baseline could not be read" in found.summary
    season.github.faults.clear()
    season.merge()  # on main it is the first one that can be read again
    assert season.job().verdict == "pass"


def test_a_baseline_that_lies_in_the_checkout_is_not_carried(season: Season, tmp_path: Path) -> None:
    planted = make_run(tmp_path / "planted")
    season.checkout.write("thresholds.toml", POLICY.replace("max_drop", "min = 0.5\nmax_drop"))
    season.checkout.answer_badly()
    season.runs += 1
    shutil.copytree(planted.path, season.out)
    carry(planted, season.out)
    season.run = season.github.add_run(901, event="pull_request", branch="topic", status="in_progress")
    assert season.checkout.gate("push", GITHUB_RUN_ID="901").code == 1
    assert not (season.out / CARRIED).exists()
    season.upload()
    assert season.job().baseline == ""


# -- a drop that is accepted -------------------------------------------------------------------------------------------


def trade_off(season: Season, wrong: int = 2) -> None:
    """A change that makes so many of the four answers wrong."""
    season.checkout.answer({name: BROKEN if i < wrong else fact for i, (name, _, fact) in enumerate(FACTS)})


@pytest.mark.heavy
def test_a_trade_off_is_accepted_merged_and_spent(season: Season) -> None:
    assert season.merge().code == 0
    trade_off(season)
    assert season.job().code == 1
    comment = season.checkout.comments[0]
    assert "<details><summary>If this drop is worth it, accept it</summary>" in comment
    [line] = [line for line in comment.splitlines() if line.startswith("ragstone accept")]
    ragstone(shlex.split(line)[1:], season.checkout.root, exit_code=0)
    [entry] = tomllib.loads((season.checkout.root / "accepted.toml").read_text(encoding="utf-8"))["accepted"]
    assert (entry["metric"], entry["drop"]) == ("faithfulness", pytest.approx(0.5, abs=0.03))

    assert season.job().code == 0
    said = season.checkout.comments[0].split("|", 1)[0]
    assert f"accepts a drop of faithfulness of up to {entry['drop']:g}" in said
    trade_off(season, wrong=4)
    assert season.job().code == 1  # never more than its size
    trade_off(season)
    assert season.merge().code == 0
    fact = season.manifest()["baseline"]
    assert (fact["eligible"], fact["spent"]) == (True, [entry["id"]])
    assert fact["accepted"] == [{"id": entry["id"], "metric": "faithfulness", "slice": None, "drop": entry["drop"]}]

    unchanged = season.job()
    assert (unchanged.code, unchanged.baseline) == (0, str(900 + season.runs - 1))
    assert f"({entry['id']}) is spent, because the baseline includes" in season.checkout.comments[0]
    trade_off(season, wrong=4)
    assert season.job().code == 1  # the entry is spent: it allows nothing on top of the new baseline
    trade_off(season)
    assert season.merge().code == 0
    assert season.manifest()["baseline"]["spent"] == [entry["id"]]


# -- a judge that changed ----------------------------------------------------------------------------------------------


def test_a_fork_that_is_judged_offline_is_guarded_too_by_a_baseline_whose_answers_are_only_judged(
    season: Season,
) -> None:
    hostile = "\n::set-output name=verdict::pass\n"
    season.checkout.answer({name: fact + hostile * (name == "moon") for name, _, fact in FACTS})
    offline = 'name = "openai:gpt-x"\n[gate]\nwithout_key = "offline"\n'
    season.checkout.write("ragstone.toml", f"{CONFIG}[judge]\n{offline}")
    assert season.job("push", RAGSTONE_JUDGE="offline").code == 0
    manifest = season.manifest()
    manifest["judge"].update(provider="openai", model="gpt-x", version="0" * 64)
    (season.out / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    season.upload()
    season.checkout.answer_badly()
    found = season.job("pull_request", pull_request(fork=True))
    assert (found.code, found.verdict) == (1, "fail")
    assert "offline judge is used instead" in found.summary
    assert "the baseline's answers were judged again by offline judge" in found.summary
    assert not any("set-output" in line for line in found.annotations)
