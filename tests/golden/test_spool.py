"""A golden set that is too long for memory: the same samples, from a temporary file."""

from __future__ import annotations

import json
import pickle
import tempfile
from functools import partial
from pathlib import Path

import pytest

from ragstone.errors import GoldenSetError
from ragstone.golden import spool
from ragstone.golden.load import load_golden_set
from ragstone.golden.sample import GoldenSet, Origin, Sample
from ragstone.golden.spool import Spool, spooled

N = 47


@pytest.fixture(autouse=True)
def few_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spool, "MAX_IN_MEMORY", 5)
    monkeypatch.setattr(spool, "_CHUNK", 4)


def row(at: int) -> dict[str, object]:
    return {
        "id": f"q{at}",
        "question": f"What is {at}, é?",
        "reference": f"It is {at}.",
        "tags": ["odd" if at % 2 else "even"],
        "relevant_ids": {f"d{at}": 2},
        "must_contain": [str(at)],
    }


def written(folder: Path, rows: list[dict[str, object]], name: str = "golden.jsonl") -> Path:
    (folder / name).write_text("".join(f"{json.dumps(one)}\n" for one in rows))
    return folder / name


def loaded(folder: Path) -> GoldenSet:
    return load_golden_set([written(folder, [row(at) for at in range(N)])], root=folder)


def test_a_long_golden_set_is_what_it_is_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    golden = loaded(tmp_path)
    monkeypatch.setattr(spool, "MAX_IN_MEMORY", 1000)
    whole = tuple(loaded(tmp_path))
    assert tuple(golden) == tuple(golden) == whole
    assert len(golden) == N
    assert golden.content_hash() == GoldenSet(whole).content_hash()
    assert [golden[at] for at in (0, 4, 5, 8, 9, 46, -1, 7)] == [whole[at] for at in (0, 4, 5, 8, 9, 46, -1, 7)]
    assert tuple(golden[3:30:2]) == whole[3:30:2]
    with pytest.raises(IndexError):
        golden[N]


def test_a_long_golden_set_does_not_change_with_its_file(tmp_path: Path) -> None:
    golden = loaded(tmp_path)
    (tmp_path / "golden.jsonl").write_text("changed")
    assert [sample.id for sample in golden] == [f"q{at}" for at in range(N)]


def test_two_readers_do_not_disturb_each_other(tmp_path: Path) -> None:
    golden = loaded(tmp_path)
    pairs = [(one.id, other.id) for one, other in zip(golden, reversed(golden.samples), strict=True)]
    assert pairs[:2] == [("q0", "q46"), ("q1", "q45")]
    assert pairs[-1] == ("q46", "q0")


@pytest.mark.parametrize("place", [3, 6, 20, 46])
def test_a_duplicate_id_is_found_wherever_it_is(tmp_path: Path, place: int) -> None:
    first = written(tmp_path, [row(at) for at in range(N)])
    second = written(tmp_path, [row(100), row(place)], "more.jsonl")
    with pytest.raises(GoldenSetError, match=rf"duplicate id 'q{place}' at golden.jsonl:{place + 1} and more.jsonl:2"):
        load_golden_set([first, second], root=tmp_path)


def test_a_full_disk_is_an_error_of_the_golden_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("needs /dev/full")
    monkeypatch.setattr(tempfile, "TemporaryFile", partial(Path("/dev/full").open, "w+b"))
    with pytest.raises(GoldenSetError, match="temporary file for its samples can't be written: No space left"):
        loaded(tmp_path)


def test_a_few_values_are_a_tuple_and_many_are_in_a_file() -> None:
    assert spooled(iter("abcd")) == ("a", "b", "c", "d")
    many = spooled(iter("abcdefghijk"))
    assert isinstance(many, Spool)
    assert "".join(many) == "abcdefghijk"
    assert len(many) == 11


def test_samples_share_their_tags_again_and_keep_every_field() -> None:
    sample = Sample("a", "?", "r", ("c",), {"d": 1.0}, False, ("t",), "g", Origin("f", 3), other_references=("s",))
    assert pickle.loads(pickle.dumps(sample)) == sample
