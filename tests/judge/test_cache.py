"""The cache of judgements: safe to share, safe to carry, and never able to lie about what it can't know."""

from __future__ import annotations

import multiprocessing
import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragstone.errors import ConfigError
from ragstone.judge.cache import CacheWarning, JudgementCache

A, B = b"a" * 32, b"b" * 32


def cache_with(path: Path, **values: object) -> Path:
    """A cache of 32-byte keys, each made of one letter."""
    with closing(JudgementCache(path)) as cache:
        for letter, value in values.items():
            cache.put(letter.encode() * 32, value)
    return path


def alter(path: Path, statement: str, *rows: tuple[object, object]) -> None:
    with closing(sqlite3.connect(path)) as db:
        if rows:
            db.executemany(statement, rows)
        else:
            db.execute(statement)
        db.commit()


def entries(path: Path) -> dict[str, object]:
    """The values of a cache by the letters of their keys."""
    with closing(JudgementCache(path)) as cache:
        stored = {letter: cache.get(letter.encode() * 32) for letter in "abck"}
    return {letter: value for letter, value in stored.items() if value is not None}


def restored(new: Path, old: Path) -> int:
    with closing(JudgementCache(new)) as cache:
        return cache.restore_from(old)


def test_what_was_put_is_there_in_the_next_run(tmp_path: Path) -> None:
    path = cache_with(tmp_path / "run" / "judgements.sqlite", a={"verdicts": {"s1": "über"}})
    assert not path.with_name("judgements.sqlite-wal").exists()
    assert entries(path) == {"a": {"verdicts": {"s1": "über"}}}


@pytest.mark.parametrize("content", [b"not a database at all" * 100, b"SQLite format 3\x00" + b"\xff" * 4096])
def test_a_corrupt_file_is_set_aside_with_a_warning(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "c.sqlite"
    path.write_bytes(content)
    with pytest.warns(CacheWarning, match="set aside as c.sqlite.corrupt"):
        cache_with(path, a=1)
    assert entries(path) == {"a": 1}
    assert path.with_name("c.sqlite.corrupt").read_bytes() == content


def test_a_file_of_another_kind_is_not_written_to(tmp_path: Path) -> None:
    path = tmp_path / "c.sqlite"
    alter(path, "CREATE TABLE precious (x)")
    with pytest.warns(CacheWarning, match="other than judgements"):
        JudgementCache(path).close()
    with closing(sqlite3.connect(path.with_name("c.sqlite.corrupt"))) as db:
        assert ("precious",) in db.execute("SELECT name FROM sqlite_master").fetchall()


def _fill(path: Path, start: int) -> None:
    with closing(JudgementCache(path)) as cache:
        for number in range(start, start + 200):
            cache.put(number.to_bytes(32, "big"), {"n": number})


def test_processes_share_a_file(tmp_path: Path) -> None:
    path = tmp_path / "c.sqlite"
    JudgementCache(path).close()
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=_fill, args=(path, start)) for start in (0, 100, 200)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0, 0, 0]
    with closing(JudgementCache(path)) as cache:
        assert all(cache.get(number.to_bytes(32, "big")) == {"n": number} for number in range(400))
        assert cache.get((399).to_bytes(32, "big")) == {"n": 399}


def test_a_baseline_s_entries_are_taken_over_where_there_are_none(tmp_path: Path) -> None:
    old = cache_with(tmp_path / "old.sqlite", a="old", b="old")
    new = cache_with(tmp_path / "new.sqlite", a="new")
    assert restored(new, old) == 1
    assert entries(new) == {"a": "new", "b": "old"}
    assert restored(new, tmp_path / "missing.sqlite") == 0


def test_a_baseline_in_a_folder_that_can_not_be_written_to_is_read(tmp_path: Path) -> None:
    old = cache_with(tmp_path / "baseline" / "old.sqlite", a="old")
    old.parent.chmod(0o500)
    try:
        assert restored(tmp_path / "new.sqlite", old) == 1
    finally:
        old.parent.chmod(0o700)


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TRIGGER t AFTER INSERT ON judgements BEGIN DELETE FROM judgements; END",
        "CREATE VIEW v AS SELECT * FROM judgements",
        "CREATE TABLE other (x)",
        "DROP TABLE judgements",
    ],
)
def test_a_baseline_that_brings_more_than_data_is_refused(tmp_path: Path, statement: str) -> None:
    old = cache_with(tmp_path / "old.sqlite", a="old")
    alter(old, statement)
    with pytest.warns(CacheWarning, match="can't be used again"):
        assert restored(tmp_path / "new.sqlite", old) == 0
    assert entries(tmp_path / "new.sqlite") == {}


def test_entries_of_the_wrong_shape_are_left_behind(tmp_path: Path) -> None:
    old = cache_with(tmp_path / "old.sqlite", a="good")
    rows = [(b"short", '"x"'), (B, b"\xff\xfe"), ("text" * 8, '"x"'), (b"c" * 32, '"' + "x" * 1_000_001 + '"')]
    alter(old, "INSERT INTO judgements (key, value) VALUES (?, ?)", *rows)
    assert restored(tmp_path / "new.sqlite", old) == 1


@settings(max_examples=10, deadline=None)
@given(st.text())
def test_a_value_that_is_no_json_is_a_miss(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    path = cache_with(tmp_path_factory.mktemp("c") / "c.sqlite")
    value = "{" + text.encode("utf-8", "replace").decode()
    alter(path, "INSERT INTO judgements (key, value) VALUES (?, ?)", (A, value))
    with closing(JudgementCache(path)) as cache:
        document = cache.get(A)
    assert document is None or isinstance(document, dict)


def test_a_text_that_is_not_unicode_is_not_stored_and_the_next_one_is(tmp_path: Path) -> None:
    with closing(JudgementCache(tmp_path / "c.sqlite")) as cache:
        cache.put(A, "\ud800")
        cache.put(B, "stored")
        assert (cache.get(A), cache.get(B)) == (None, "stored")


def test_a_file_of_a_newer_format_is_set_aside_and_not_called_damaged(tmp_path: Path) -> None:
    path = cache_with(tmp_path / "c.sqlite", a=1)
    alter(path, "PRAGMA user_version = 3")
    with pytest.warns(CacheWarning, match="format is 3") as warned:
        assert entries(path) == {}
    assert "damaged" not in str(warned[0].message)
    assert path.with_name("c.sqlite.corrupt").exists()


def test_a_folder_that_can_not_be_made_costs_the_cache_only(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.warns(CacheWarning, match="judging continues"):
        cache_with(tmp_path / "file" / "c.sqlite", a=1)


def test_a_disk_error_while_judgements_are_restored_is_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = cache_with(tmp_path / "old.sqlite", a=1)

    def fail(*_: object) -> None:
        raise PermissionError("not allowed")

    with closing(JudgementCache(tmp_path / "new.sqlite")) as cache:
        monkeypatch.setattr(Path, "is_file", fail)
        with pytest.warns(CacheWarning, match="not allowed"):
            cache.restore_from(old)


def test_a_cache_that_was_closed_answers_nothing_and_raises_nothing(tmp_path: Path) -> None:
    cache = JudgementCache(tmp_path / "c.sqlite")
    cache.close()
    cache.put(A, 1)
    assert cache.get(A) is None
    cache.close()


@pytest.mark.attack(by="pull request", tries="a link or pipe for the judgements", stopped_by="refused")
@pytest.mark.parametrize("name", ["c.sqlite", "c.sqlite-wal", "c.sqlite-shm", "c.sqlite-journal"])
@pytest.mark.parametrize("kind", ["link", "dangling link", "pipe", "folder"])
def test_what_is_no_file_is_neither_followed_nor_waited_for(tmp_path: Path, name: str, kind: str) -> None:
    elsewhere = cache_with(tmp_path / "elsewhere", k=1)
    content = elsewhere.read_bytes()
    here = tmp_path / "run"
    here.mkdir()
    match kind:
        case "link":
            (here / name).symlink_to(elsewhere)
        case "dangling link":
            (here / name).symlink_to(tmp_path / "nowhere")
        case "pipe":
            os.mkfifo(here / name)
        case _:
            (here / name).mkdir()
    with pytest.raises(ConfigError, match="not followed" if "link" in kind else "not a regular file") as refused:
        JudgementCache(here / "c.sqlite")
    assert refused.value.where == str(here / name)
    assert elsewhere.read_bytes() == content
    assert not (tmp_path / "nowhere").exists()
    assert [path.name for path in here.iterdir()] == [name]


def test_judgements_are_not_restored_through_a_link(tmp_path: Path) -> None:
    elsewhere = cache_with(tmp_path / "elsewhere", k=1)
    (tmp_path / "link").symlink_to(elsewhere)
    with pytest.warns(CacheWarning, match="a link, which is not followed"):
        assert restored(tmp_path / "c.sqlite", tmp_path / "link") == 0
    assert restored(tmp_path / "c.sqlite", elsewhere) == 1


def numbers_in(path: Path) -> set[int]:
    with closing(JudgementCache(path)) as cache:
        return {number for number in range(100) if cache.get(key_of(number)) is not None}


def key_of(number: int) -> bytes:
    return number.to_bytes(32, "big")


def run_with(path: Path, needed: range, baseline: Path | None = None, *, finished: bool = True) -> None:
    """A run that needs the judgements `needed`, made unless the cache has them."""
    with closing(JudgementCache(path)) as cache:
        if baseline is not None:
            cache.restore_from(baseline)
    with closing(JudgementCache(path)) as cache:
        for number in needed:
            if cache.get(key_of(number)) is None:
                cache.put(key_of(number), {"text": f"text {number}"})
        if finished:
            cache.prune()


def test_what_three_runs_did_not_need_is_gone_and_its_text_too(tmp_path: Path) -> None:
    baseline = None
    for release in range(6):  # each changes 10 of 60 answers
        path = tmp_path / f"{release}.sqlite"
        run_with(path, range(10 * release, 10 * release + 40), baseline)
        baseline = path
    assert baseline is not None
    assert numbers_in(baseline) == set(range(30, 90))
    assert b"text 29" not in baseline.read_bytes()


def test_a_run_that_was_stopped_drops_nothing_and_counts_for_nothing(tmp_path: Path) -> None:
    path = tmp_path / "c.sqlite"
    run_with(path, range(20))
    for _ in range(5):
        run_with(path, range(20, 30), finished=False)
    run_with(path, range(20, 30))
    assert numbers_in(path) == set(range(30))


def test_past_its_limit_the_newest_are_kept_with_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ragstone.judge.cache.MAX_KEPT_BYTES", 600)
    path = tmp_path / "c.sqlite"
    run_with(path, range(10))
    with pytest.warns(CacheWarning, match="9 that were not used for longest were dropped"):
        run_with(path, range(50, 61))
    assert numbers_in(path) > set(range(50, 61))
    assert len(numbers_in(path)) == 12


def test_the_limit_counts_bytes_and_not_characters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ragstone.judge.cache.MAX_KEPT_BYTES", 200)
    path = tmp_path / "c.sqlite"
    with closing(JudgementCache(path)) as cache:
        for number in range(4):
            cache.put(key_of(number), "返品" * 10)  # 22 characters, 62 bytes, and 32 of the key
        with pytest.warns(CacheWarning, match="2 that were not used"):
            cache.prune()
