"""A season at a small size: what must hold over many merges, whatever happens in between."""

from __future__ import annotations

import pytest

from ragstone.gate.verdict import Status
from tests.bench.season import Season, episodes, simulate
from tests.github.api.fake import FakeGitHub
from tests.github.api.openapi import Contract

pytestmark = pytest.mark.heavy

MERGES = 80
SAMPLES = 100


@pytest.fixture(scope="module")
def season(contract: Contract, tmp_path_factory: pytest.TempPathFactory) -> Season:
    with FakeGitHub(contract) as github:
        found = simulate(tmp_path_factory.mktemp("season"), github, merges=MERGES, samples=SAMPLES)
    assert github.problems == []
    return found


def test_no_run_is_unguarded_in_silence(season: Season) -> None:
    unguarded = [job for job in season.jobs if not job.guarded]
    assert unguarded, "the first run has no baseline"
    assert [job for job in unguarded if not job.warned] == []


def test_a_healthy_main_branch_has_a_young_baseline(season: Season) -> None:
    first = min(job.merge for job in season.of("main"))
    after_the_gap = episodes(MERGES)["nobody merges for 100 days"].start
    # After 100 days nothing is left: the next main run that finishes is the new baseline.
    anew = next(job.merge for job in season.of("main") if job.merge >= after_the_gap)
    found = [job for job in season.jobs if job.healthy and job.merge > first and not after_the_gap <= job.merge <= anew]
    assert [job for job in found if job.baseline is None] == []
    assert max(age for job in found if (age := season.age(job)) is not None) <= 5


def test_after_a_broken_week_nobody_has_to_do_anything(season: Season) -> None:
    mended = episodes(MERGES)["broken week"].stop
    found = [job for job in season.jobs if mended <= job.merge < mended + 4]
    assert {job.healthy for job in found} == {True}
    assert [job for job in found if job.kind == "pull request" and job.verdict == Status.FAIL] == []
    # Main is red until recovery is shown, which takes the runs of two commits at least.
    main = [job for job in found if job.kind == "main"]
    assert [job for job in main[2:] if job.verdict == Status.FAIL] == []


def test_an_accepted_drop_is_spent(season: Season) -> None:
    accepted = season.accepted_at
    assert accepted is not None
    assert [job.code for job in season.rerun] == [0]
    assert season.removable_at is not None
    assert season.removable_at - accepted <= 5
