"""Which run is the baseline: the named one, the one that it carries, or the newest of a store."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from ragstone.archive import ArchiveRefused, read_members
from ragstone.errors import BaselineError, ConfigError
from ragstone.evaluation.archive_members import pack_run
from ragstone.evaluation.directory import RunDirectory
from ragstone.evaluation.lineage import carry, describe_baseline
from ragstone.evaluation.manifest import BaselineFact
from ragstone.evaluation.writer import update_manifest
from ragstone.pipeline.baseline import open_baseline, refuse_overlap
from ragstone.pipeline.baseline_search import (
    MAX_READ,
    BaselineSearch,
    BaselineStore,
    StoredRun,
    StoreFailed,
    open_baseline_in,
)
from tests.pipeline.conftest import write

SCORES = {"faithfulness": {"a": 1.0, "b": 0.5}}


def good_run(path: Path) -> RunDirectory:
    return update_manifest(write(path, SCORES), verdict="pass")


def failed_run(path: Path, baseline: RunDirectory | None = None) -> RunDirectory:
    """A run that failed; against `baseline`, which it carries."""
    run = write(path, {"faithfulness": {"a": 0.0, "b": 0.0}})
    fact = BaselineFact(
        eligible=False, reason="it failed", used=None if baseline is None else describe_baseline(baseline, run_id=7)
    )
    if baseline is not None:
        carry(baseline, path)
    return update_manifest(run, verdict="fail", baseline=fact)


@pytest.mark.parametrize(
    ("name", "place"), [("good", "good"), ("bad", "bad/baseline"), ("bad/baseline", "bad/baseline")]
)
def test_the_baseline_of_a_run_is_never_one_that_failed(tmp_path: Path, name: str, place: str) -> None:
    good = good_run(tmp_path / "good")
    failed_run(tmp_path / "bad", good)
    baseline = open_baseline(tmp_path / name)
    assert baseline.path == tmp_path / place
    assert baseline.scores()["faithfulness"].values == SCORES["faithfulness"]


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("bad", "this run can't be a baseline: it failed"),
        ("stopped", "the baseline run was stopped, not finished"),
        ("none", "the baseline can't be used: "),
    ],
)
def test_what_is_no_baseline_is_refused(tmp_path: Path, name: str, says: str) -> None:
    failed_run(tmp_path / "bad")
    update_manifest(good_run(tmp_path / "stopped"), state="stopped")
    with pytest.raises(BaselineError, match=says):
        open_baseline(tmp_path / name)


@pytest.mark.parametrize(
    ("name", "out"), [("good", "good"), ("./link/", "good"), ("good", "good/new"), ("good/inner", "good")]
)
def test_a_run_is_never_written_over_its_own_baseline(tmp_path: Path, name: str, out: str) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "good")
    with pytest.raises(ConfigError, match="must be in directories of their own"):
        refuse_overlap(tmp_path / name, tmp_path / out)
    refuse_overlap(tmp_path / "good", tmp_path / "good-2")


# -- the newest of a store ---------------------------------------------------------------------------------------------


class Store(BaselineStore):
    """Archives in memory, the newest first."""

    def __init__(self, *stored: StoredRun, fails: str = "") -> None:
        self.stored = stored
        self.fails = fails

    def newest(self) -> Iterator[StoredRun]:
        yield from self.stored
        if self.fails:
            raise StoreFailed(self.fails, "Look.")

    def why_empty(self) -> str:
        return "It is empty."


def stored(place: str, run: RunDirectory | None, *, on_branch: bool = True, **more: Any) -> StoredRun:
    """A run in the store; None: an archive that can't be read."""

    def read(limits: Mapping[str, int]) -> dict[str, bytes]:
        if run is None:
            raise ArchiveRefused("it is broken")
        return read_members(pack_run(run.path), limits)

    return StoredRun(place, read, lambda _commit: on_branch, commit="c", **more)


def test_the_newest_run_that_can_be_a_baseline_is_found_through_those_that_can_not(tmp_path: Path) -> None:
    good = good_run(tmp_path / "good")
    passed = stored("passed", good, run_id=3, url="https://x/runs/3")
    failed = stored("failed", failed_run(tmp_path / "bad", good), run_id=9, url="https://x/runs/9")
    own = BaselineSearch(Store(stored("broken", None), passed, failed), tmp_path / "own").find()
    assert own is not None
    assert (own.place, own.run_id, own.carried_by) == ("passed", 3, None)
    carried = BaselineSearch(Store(failed, passed), tmp_path / "carried").find()
    assert carried is not None
    assert (carried.place, carried.run_id, carried.carried_by, carried.url) == ("failed", 7, 9, "https://x/runs/7")
    opened = open_baseline_in(Store(failed, passed), tmp_path / "found").run
    assert opened is not None
    assert opened.fingerprint == good.fingerprint


def test_a_carried_run_that_is_not_of_the_branch_is_left_out(tmp_path: Path) -> None:
    good = good_run(tmp_path / "good")
    failed = stored("failed", failed_run(tmp_path / "bad", good), on_branch=False)
    found = BaselineSearch(Store(failed, stored("older", good)), tmp_path / "older").find()
    assert found is not None
    assert found.place == "older"
    search = BaselineSearch(Store(failed), tmp_path / "none")
    assert search.find() is None
    assert "of a commit that is not before this one" in search.reason
    assert not search.is_unread


@pytest.mark.parametrize(
    ("kinds", "fails", "reason", "unread"),
    [
        ([], "", "It is empty.", False),
        ([], "no disk", "The baseline folder can't be read: no disk. Look.", True),
        (["broken"], "", "can be a baseline (broken was left out: it is broken)", True),
        (["refused"], "", "refused was left out: too old", False),
        (["failed", "failed"], "", "None of the newest runs in the folder can be a baseline", False),
        (["other"], "", "it contains a run of commit unknown", True),
    ],
)
def test_that_there_is_none_is_told_from_one_that_could_not_be_read(
    tmp_path: Path, kinds: list[str], fails: str, reason: str, unread: bool
) -> None:
    good = good_run(tmp_path / "good")
    runs = {
        "broken": stored("broken", None),
        "refused": stored("refused", good, refused="too old"),
        "failed": stored("failed", failed_run(tmp_path / "bad")),
        "other": stored("other", good, exact=True),
    }
    found = open_baseline_in(Store(*(runs[kind] for kind in kinds), fails=fails), tmp_path / "found")
    assert found.run is None
    assert reason in found.reason
    assert (found.unproven is not None) is unread


def test_only_so_many_archives_are_read(tmp_path: Path) -> None:
    good, bad = good_run(tmp_path / "good"), failed_run(tmp_path / "bad")
    within = Store(*[stored("bad", bad)] * (MAX_READ - 1), stored("good", good))
    assert BaselineSearch(within, tmp_path / "within").find() is not None
    beyond = Store(*[stored("bad", bad)] * MAX_READ, stored("good", good))
    assert BaselineSearch(beyond, tmp_path / "beyond").find() is None
