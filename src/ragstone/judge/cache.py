"""The cache of judgements: one SQLite file that travels with the run directory.

Keys are hashes of everything that a judgement depends on, so an entry is never out of
date. Values are the model's checked replies. They are checked again when read, so a
damaged entry is a miss and not a score. Each entry has the number of the last run that
used it, so that `prune` can drop what no recent run did, such as removed samples'
texts.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
import stat
import urllib.parse
import warnings
from pathlib import Path

from ragstone.errors import ConfigError

_FORMAT = 2
_MAX_VALUE = 1_000_000
_MAX_ENTRIES = 1_000_000
_MAX_FILE = 2 * 1024**3
_CREATE = (
    "CREATE TABLE IF NOT EXISTS judgements "
    "(key BLOB PRIMARY KEY, value TEXT NOT NULL, used INTEGER NOT NULL DEFAULT 0) WITHOUT ROWID"
)
MAX_KEPT_BYTES = 256 * 1024**2
"""Keys and values that a finished run keeps: those used last. The file travels with
every baseline."""
KEPT_RUNS = 3
"""Runs after which an entry that none of them used is dropped."""

_BESIDE = ("-wal", "-shm", "-journal")


class CacheWarning(UserWarning):
    """A cache could not be used, and was set aside or left alone. Judging continues
    without it."""


class NoCache:
    """Stands for a cache where nothing is to be stored."""

    def get(self, key: bytes) -> None:
        """Nothing is there."""

    def put(self, key: bytes, document: object) -> None:
        """Store nothing."""

    def close(self) -> None:
        """Nothing is open."""


class JudgementCache:
    """Judgements by key, in a file that several processes may share.

    A file that SQLite can't read is renamed to ``*.corrupt``
    with a CacheWarning. Disk errors are never raised: what can't be read is a miss, and
    what can't be written is judged again next time. Raises ConfigError if the file, or
    one of SQLite's files next to it, is a link, a pipe or a folder: a link could
    redirect writes anywhere.
    """

    def __init__(self, path: Path) -> None:
        for name in (path.name, *(path.name + end for end in _BESIDE)):
            _refuse_other_than_file(path.with_name(name))
        self.path = path
        self._used: set[bytes] = set()
        path.parent.mkdir(parents=True, exist_ok=True)
        self._db: sqlite3.Connection | None = self._open()

    def get(self, key: bytes) -> object | None:
        """The document stored under `key`, not validated yet; None if there is none."""
        if self._db is None:
            return None
        try:
            row = self._db.execute(
                "SELECT value FROM judgements WHERE key = ?", (key,)
            ).fetchone()
        except sqlite3.Error as error:
            self._give_up(error)
            return None
        content = None if row is None else row[0]
        if not isinstance(content, str) or len(content) > _MAX_VALUE:
            return None
        try:
            document: object = json.loads(content)
        except (ValueError, RecursionError):
            return None
        self._used.add(key)
        return document

    def put(self, key: bytes, document: object) -> None:
        """Store `document` under `key`, replacing any earlier one."""
        value = json.dumps(document, ensure_ascii=False, separators=(",", ":"))
        if self._db is None or len(value) > _MAX_VALUE:
            return
        try:
            self._db.execute(
                "INSERT OR REPLACE INTO judgements (key, value) VALUES (?, ?)",
                (key, value),
            )
            self._used.add(key)
        except (sqlite3.Error, UnicodeEncodeError) as error:
            self._give_up(error)

    def __len__(self) -> int:
        if self._db is None:
            return 0
        rows = self._db.execute("SELECT count(*) FROM judgements").fetchone()
        return int(rows[0])

    def restore_from(self, path: Path) -> int:
        """Copy the entries of another run's cache that are missing here, and its count
        of runs; returns how many.

        Only for the cache of a trusted baseline: an entry's key says what it is about,
        not that it is true. A file that is not a cache, is too large or is damaged is
        left alone with a CacheWarning.
        """
        if self._db is None or not path.is_file():
            return 0
        before = len(self)
        try:
            if path.is_symlink():
                raise sqlite3.DatabaseError("a link, which is not followed")
            if path.stat().st_size > _MAX_FILE:
                raise sqlite3.DatabaseError("larger than 2 GB")
            with contextlib.closing(_read_only(path)) as source:
                rows = source.execute(
                    "SELECT key, value, CAST(used AS INTEGER) FROM judgements "
                    "WHERE typeof(key) = 'blob' AND length(key) = 32 AND typeof(value) = 'text' AND length(value) <= ? "
                    "ORDER BY 3 DESC LIMIT ?",
                    (_MAX_VALUE, _MAX_ENTRIES),
                )
                with self._db as db:
                    db.execute("BEGIN IMMEDIATE")
                    db.executemany(
                        "INSERT INTO judgements (key, value, used) VALUES (?, ?, ?) "
                        "ON CONFLICT (key) DO UPDATE SET used = max(used, excluded.used)",
                        rows,
                    )
                    db.execute(
                        f"PRAGMA application_id = {max(_runs(db), _runs(source))}"
                    )
        except (sqlite3.Error, UnicodeError) as error:
            _warn(f"{path} is not a readable cache and was not restored ({error})")
        return len(self) - before

    def prune(self) -> None:
        """At the end of a finished run: keep what one of the last KEPT_RUNS runs used,
        at most MAX_KEPT_BYTES of it.

        What was used last is kept, with a CacheWarning if that is not all.
        """
        if self._db is None:
            return
        try:
            with self._db as db:
                db.execute("BEGIN IMMEDIATE")
                run = _runs(db) + 1
                db.executemany(
                    "UPDATE judgements SET used = ? WHERE key = ?",
                    ((run, key) for key in self._used),
                )
                outdated = db.execute(
                    "DELETE FROM judgements WHERE used <= ?", (run - KEPT_RUNS,)
                ).rowcount
                beyond = db.execute(
                    "DELETE FROM judgements WHERE key IN (SELECT key FROM (SELECT key, sum(length(key) + length(value))"
                    " OVER (ORDER BY used DESC, key) AS size FROM judgements) WHERE size > ?)",
                    (MAX_KEPT_BYTES,),
                ).rowcount
                db.execute(f"PRAGMA application_id = {run}")
            if outdated + beyond:
                with contextlib.suppress(
                    sqlite3.OperationalError
                ):  # another process has the file open
                    self._db.execute("VACUUM")
        except sqlite3.Error as error:
            self._give_up(error)
            return
        if beyond:
            _warn(
                f"{self.path} keeps {MAX_KEPT_BYTES:,} bytes, those used last; {beyond:,} were dropped"
            )

    def close(self) -> None:
        """Merge the write-ahead log into the file, so that the file can be copied on
        its own."""
        if self._db is not None:
            with contextlib.suppress(sqlite3.Error):
                self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            self._db.close()
            self._db = None

    def _open(self) -> sqlite3.Connection | None:
        """The file, or a new one if it is damaged, which is then renamed; None if that
        fails too."""
        try:
            return _connect(self.path)
        except sqlite3.OperationalError as error:
            _warn(f"{self.path} can't be opened ({error}); judging without it")
            return None
        except sqlite3.DatabaseError as error:
            damage = f"{self.path} is damaged ({error})"
        aside = self.path.with_name(self.path.name + ".corrupt")
        try:
            self.path.replace(aside)
            for suffix in _BESIDE:
                self.path.with_name(self.path.name + suffix).unlink(missing_ok=True)
            fresh = _connect(self.path)
        except (OSError, sqlite3.Error) as failure:
            _warn(f"{damage} and can't be set aside ({failure}); judging without it")
            return None
        _warn(f"{damage}; it was set aside as {aside.name}")
        return fresh

    def _give_up(self, error: Exception) -> None:
        if self._db is not None:
            self._db.close()
            self._db = None
            _warn(f"{self.path} failed ({error}); judging continues without it")


def _warn(text: str) -> None:
    warnings.warn(text, CacheWarning, stacklevel=3)


def _refuse_other_than_file(path: Path) -> None:
    try:
        mode = path.lstat().st_mode
    except OSError:
        return
    if not stat.S_ISREG(mode):
        what = "no file"
        if stat.S_ISLNK(mode):
            what = "a link, which is not followed"
        raise ConfigError(
            f"it is {what}.",
            where=str(path),
            hint="Remove it; judgements are kept in a file there.",
        )


def _connect(path: Path) -> sqlite3.Connection:
    db = sqlite3.connect(
        path, timeout=30.0, isolation_level=None, check_same_thread=False
    )
    db.text_factory = lambda raw: raw.decode(
        "utf-8", "replace"
    )  # a text from elsewhere may not be UTF-8
    try:
        db.execute("PRAGMA trusted_schema = OFF")
        db.execute("PRAGMA journal_mode = WAL")
        # A power cut may lose the last judgements, which are then requested again; it
        # can't damage the file.
        db.execute("PRAGMA synchronous = NORMAL")
        version = db.execute("PRAGMA user_version").fetchone()[0]
        if version not in (0, _FORMAT):
            raise sqlite3.DatabaseError(f"format {version} is not known")
        db.execute(_CREATE)
        _check_tables(db)
        db.execute(f"PRAGMA user_version = {_FORMAT}")
        if db.execute("PRAGMA quick_check(1)").fetchone()[0] != "ok":
            raise sqlite3.DatabaseError("the file fails SQLite's check")
    except BaseException:
        db.close()
        raise
    return db


def _read_only(path: Path) -> sqlite3.Connection:
    # Without a log next to it nobody is writing, so SQLite need not lock, and can read
    # from a read-only folder.
    how = "immutable=1"
    if path.with_name(path.name + "-wal").exists():
        how = "mode=ro"
    db = sqlite3.connect(
        f"file:{urllib.parse.quote(str(path.resolve()))}?{how}", uri=True, timeout=10.0
    )
    try:
        db.execute("PRAGMA trusted_schema = OFF")
        db.execute("PRAGMA cell_size_check = ON")
        _check_tables(db)
    except BaseException:
        db.close()
        raise
    return db


def _runs(db: sqlite3.Connection) -> int:
    """How many finished runs the file has seen; SQLite leaves this number of the header
    to applications."""
    return max(
        0, min(int(db.execute("PRAGMA application_id").fetchone()[0]), 2**31 - 2)
    )


def _check_tables(db: sqlite3.Connection) -> None:
    """Reject views, triggers and foreign tables: a file from elsewhere may contain data
    and nothing else."""
    entries = db.execute("SELECT type, name FROM sqlite_master").fetchall()
    if entries != [("table", "judgements")]:
        raise sqlite3.DatabaseError("the file contains more than judgements")
