"""What rounds add to a run: it travels with the run, is bounded, and is never read through a link."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ragstone.archive import read_members
from ragstone.errors import RunDirectoryError
from ragstone.evaluation.archive_members import MEMBER_LIMITS, pack_run, unpack_run
from ragstone.evaluation.directory import RunDirectory
from ragstone.evaluation.lineage import carry
from ragstone.evaluation.round_facts import (
    FACTS_FILES,
    MAX_FACTS_BYTES,
    ConfirmFacts,
    JudgeFacts,
    Observed,
    OracleFacts,
    Planted,
    RoundFacts,
    write_facts,
)
from tests.github.runs import make_run

FACTS = RoundFacts(
    JudgeFacts(observed=Observed(models=("judge-1",)), planted=Planted(asked=3, passed=1)),
    ConfirmFacts(asked_again=True),
    OracleFacts(asked=2, without=1, unanswered=0),
)


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    made = make_run(tmp_path / "run")
    write_facts(made.path, FACTS)
    return RunDirectory.open(made.path)


def test_they_come_back_from_an_artifact_and_from_the_folder_of_a_run_that_carries_them(
    run: RunDirectory, tmp_path: Path
) -> None:
    members = read_members(pack_run(run.path), MEMBER_LIMITS)
    assert unpack_run(members, tmp_path / "opened").rounds == FACTS
    assert carry(run, tmp_path / "later").rounds == FACTS
    assert run.scores().rounds == FACTS


def test_a_round_that_was_undone_leaves_no_file(run: RunDirectory) -> None:
    write_facts(run.path, RoundFacts())
    assert RunDirectory.open(run.path).rounds == RoundFacts()
    assert not any((run.path / name).exists() for name in FACTS_FILES)


@pytest.mark.parametrize("name", FACTS_FILES)
@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b'{"forged": true}', "not a file of this version"),
        (b"[" * 100_000, "not a file of this version"),
        (b" " * (MAX_FACTS_BYTES + 1), "larger than 4,194,304 bytes"),
    ],
    ids=["another field", "deeply nested", "too large"],
)
def test_a_file_that_is_not_one_is_refused_by_its_name(run: RunDirectory, name: str, content: bytes, why: str) -> None:
    (run.path / name).write_bytes(content)
    with pytest.raises(RunDirectoryError, match=why) as caught:
        RunDirectory.open(run.path).scores()
    assert name in str(caught.value)


def test_a_pipe_is_refused_and_nothing_is_written_through_a_link(run: RunDirectory, tmp_path: Path) -> None:
    outside = tmp_path / "outside.json"
    outside.write_text("kept", encoding="utf-8")
    (run.path / "judge.json").unlink()
    (run.path / "judge.json").symlink_to(outside)
    write_facts(run.path, FACTS)
    assert outside.read_text(encoding="utf-8") == "kept"
    assert not (run.path / "judge.json").is_symlink()
    (run.path / "judge.json").unlink()
    os.mkfifo(run.path / "judge.json")
    with pytest.raises(RunDirectoryError, match=r"judge\.json"):
        RunDirectory.open(run.path).scores()
