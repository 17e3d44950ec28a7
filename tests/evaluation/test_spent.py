"""What a run has spent, as it is kept in its directory."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ragstone.errors import RunDirectoryError
from ragstone.evaluation.manifest import Cost
from ragstone.evaluation.spent import read_spent, write_spent
from ragstone.judge.protocol import Ledger


@pytest.mark.parametrize(
    "spent",
    [
        Ledger(),
        Ledger(calls=10**12, input_tokens=10**15, cached_input_tokens=10**15, output_tokens=10**15, cost_usd=1e-300),
        Ledger(calls=3, cost_usd=None),
    ],
)
def test_what_is_written_is_read_and_replaces_what_was_there(tmp_path: Path, spent: Ledger) -> None:
    path = tmp_path / "spent.json"
    assert read_spent(path) == Ledger()
    write_spent(path, Ledger(calls=7, cost_usd=7.0))
    size = path.stat().st_size
    write_spent(path, spent)
    assert path.stat().st_size == size
    assert read_spent(path) == spent


@pytest.mark.parametrize(
    "content",
    [
        *("", "\0" * 256, '{"calls": 3, "usd": 0.1', '{"calls": 1}' + " " * 1000),
        *('{"calls": -1}', '{"usd": NaN}', "[" * 256),
    ],
)
def test_a_torn_or_hostile_file_is_an_error_that_says_what_to_do(tmp_path: Path, content: str) -> None:
    path = tmp_path / "spent.json"
    path.write_text(content)
    with pytest.raises(RunDirectoryError, match=r"spent\.json: what the run has spent can't be read") as caught:
        read_spent(path)
    assert "without --resume" in str(caught.value)


def test_neither_a_pipe_nor_a_folder_is_read_and_no_link_is_written_to(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    for name in ("pipe", "folder", "dangling"):
        with pytest.raises(RunDirectoryError):
            read_spent(tmp_path / name)
    with pytest.raises(RunDirectoryError, match="can't be written"):
        write_spent(tmp_path / "dangling", Ledger(calls=1))
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize(("first", "second", "total"), [(1.0, 0.5, 1.5), (None, 0.5, None), (0.5, None, None)])
def test_a_cost_that_is_not_known_stays_unknown(first: float | None, second: float | None, total: float | None) -> None:
    assert Cost(usd=first).plus(Cost(usd=second)).usd == total
