"""A run remembers its baseline, and carries it where it may not be one itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from ragstone.errors import RunDirectoryError
from ragstone.evaluation.directory import CACHE, MANIFEST, SAMPLES, RunDirectory
from ragstone.evaluation.lineage import (
    CARRIED,
    MAX_LINEAGE,
    carry,
    describe_baseline,
    eligible_run,
    lineage,
    remove_inner_run,
)
from ragstone.evaluation.manifest import BaselineFact
from ragstone.evaluation.writer import update_manifest
from tests.github.runs import make_run


@pytest.fixture
def good(tmp_path: Path) -> RunDirectory:
    return make_run(tmp_path / "good")


@pytest.fixture
def bad(tmp_path: Path) -> RunDirectory:
    return make_run(tmp_path / "bad", verdict="fail", n=5)


ELIGIBLE = BaselineFact(eligible=True, reason="it only lacked a baseline")


@pytest.mark.parametrize(
    ("fact", "update", "eligible"),
    [
        (None, {"verdict": "inconclusive"}, True),
        (None, {"verdict": None}, True),
        (None, {"verdict": "fail"}, False),
        (None, {"verdict": "error"}, False),
        (ELIGIBLE, {"verdict": "error"}, True),
        (ELIGIBLE, {"state": "stopped"}, False),
    ],
)
def test_a_finished_run_stands_as_it_says_or_by_its_verdict(
    good: RunDirectory, fact: BaselineFact | None, update: dict[str, object], eligible: bool
) -> None:
    assert update_manifest(good, baseline=fact, **update).manifest.standing.eligible is eligible


def test_the_fingerprint_follows_the_records_and_not_the_verdict(good: RunDirectory, bad: RunDirectory) -> None:
    before = good.fingerprint
    assert update_manifest(good, baseline=None, verdict="fail").fingerprint == before
    assert bad.fingerprint != before
    samples = good.path / SAMPLES
    samples.write_bytes(samples.read_bytes().replace(b'"latency_s"', b' "latency_s"'))
    assert RunDirectory.open(good.path).fingerprint != before


def test_a_failed_run_leads_to_the_baseline_that_it_carries(good: RunDirectory, bad: RunDirectory) -> None:
    carry(good, bad.path)
    failed = update_manifest(
        bad, baseline=BaselineFact(eligible=False, reason="it failed", used=describe_baseline(good, run_id=7))
    )
    found = eligible_run(failed)
    assert found is not None
    assert found.path == bad.path / CARRIED
    assert found.manifest == good.manifest
    assert found.scores().metrics["faithfulness"].values == good.scores().metrics["faithfulness"].values
    assert sorted(path.name for path in found.path.iterdir()) == [MANIFEST, SAMPLES]
    assert not (found.path / CACHE).exists()


def test_another_run_in_the_place_of_the_carried_one_is_refused(
    good: RunDirectory, bad: RunDirectory, tmp_path: Path
) -> None:
    other = make_run(tmp_path / "other", n=4)
    failed = update_manifest(
        bad, baseline=BaselineFact(eligible=False, reason="it failed", used=describe_baseline(good))
    )
    carry(other, failed.path)
    with pytest.raises(RunDirectoryError, match="not the baseline that the run was compared with"):
        eligible_run(failed)
    worse = make_run(tmp_path / "worse", verdict="fail")
    carry(worse, bad.path)
    assert eligible_run(update_manifest(bad, baseline=None, verdict="fail")) is None, "it failed itself"


def test_carrying_replaces_what_was_carried_and_follows_no_link(
    good: RunDirectory, bad: RunDirectory, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_text("kept", encoding="utf-8")
    (bad.path / CARRIED).symlink_to(outside)
    carry(good, bad.path)
    assert not (bad.path / CARRIED).is_symlink()
    assert [path.name for path in outside.iterdir()] == ["precious"]
    remove_inner_run(bad.path)
    assert not (bad.path / CARRIED).exists()
    remove_inner_run(bad.path)


def test_the_lineage_is_bounded_and_newest_first(good: RunDirectory) -> None:
    older = tuple(f"{number:016x}" for number in range(MAX_LINEAGE))
    run = update_manifest(good, baseline=BaselineFact(eligible=True, reason="it passed", lineage=older))
    assert lineage(run) == (run.fingerprint, *older[:-1])
