"""The cache of judgements: one SQLite file that travels with the run directory.

Keys are hashes of everything that a judgement depends on, so an entry is never out of
date. Values are the model's checked replies. They are checked again when read, so a
damaged entry is a miss and not a score. Each entry has the number of the last run that
used it, so that `prune` can drop entries that no recent run used, such as the texts of
removed samples.
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
"""The version of the table, stored in SQLite's `user_version`."""
_MAX_VALUE_CHARACTERS = 1_000_000
_MAX_RESTORED_ENTRIES = 1_000_000
_MAX_RESTORED_FILE_BYTES = 2 * 1024**3
_CREATE = (
    "CREATE TABLE IF NOT EXISTS judgements "
    "(key BLOB PRIMARY KEY, value TEXT NOT NULL, used INTEGER NOT NULL DEFAULT 0) WITHOUT ROWID"
)
"""The column `used` is the number of the last finished run that used the entry."""
_DROP_OVER_LIMIT = (
    "DELETE FROM judgements WHERE key IN (SELECT key FROM (SELECT key, "
    "sum(length(key) + length(CAST(value AS BLOB))) OVER (ORDER BY used DESC, key) AS total_bytes "
    "FROM judgements) WHERE total_bytes > ?)"
)
"""Adds up the bytes of the entries, the last used first, and drops those past a
limit."""
MAX_KEPT_BYTES = 256 * 1024**2
"""How many bytes of keys and values a finished run keeps. The file travels with every
baseline."""
KEPT_RUNS = 3
"""Runs after which an entry that none of them used is dropped."""

_SQLITE_SUFFIXES = ("-wal", "-shm", "-journal")
"""The ends of the names of the files that SQLite creates next to a database."""


class CacheWarning(UserWarning):
    """A cache could not be used, and was set aside or left alone. Judging continues
    without it."""


class _UnusableCacheError(Exception):
    """Says why a file can't be used as a cache."""


class NoCache:
    """Takes the place of a cache and stores nothing."""

    def get(self, key: bytes) -> None:
        """Find nothing."""

    def put(self, key: bytes, document: object) -> None:
        """Store nothing."""

    def close(self) -> None:
        """Do nothing."""


class JudgementCache:
    """Judgements by key, in a file that several processes may share.

    A file that is damaged or of another format is renamed to ``*.corrupt`` with a
    CacheWarning. Disk errors are never raised: what can't be read is a miss, and what
    can't be written is judged again next time. Raises ConfigError if the file, or one
    of SQLite's files next to it, is a link, a pipe or a folder: a link could redirect
    writes anywhere.
    """

    def __init__(self, path: Path) -> None:
        for suffix in ("", *_SQLITE_SUFFIXES):
            _check_is_file_if_present(path.with_name(path.name + suffix))
        self.path = path
        self._used_keys: set[bytes] = set()
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
        value = None if row is None else row[0]
        if not isinstance(value, str) or len(value) > _MAX_VALUE_CHARACTERS:
            return None
        try:
            document: object = json.loads(value)
        except (ValueError, RecursionError):
            return None
        self._used_keys.add(key)
        return document

    def put(self, key: bytes, document: object) -> None:
        """Store `document` under `key`, replacing any earlier one.

        A document that is too long, or has text that is not valid Unicode, is not
        stored.
        """
        value = json.dumps(document, ensure_ascii=False, separators=(",", ":"))
        if self._db is None or len(value) > _MAX_VALUE_CHARACTERS:
            return
        try:
            self._db.execute(
                "INSERT OR REPLACE INTO judgements (key, value) VALUES (?, ?)",
                (key, value),
            )
            self._used_keys.add(key)
        except UnicodeEncodeError:
            return
        except sqlite3.Error as error:
            self._give_up(error)

    def restore_from(self, path: Path) -> int:
        """Copy the entries of another run's cache that are missing here, and its number
        of runs; returns how many entries were copied.

        Only for the cache of a trusted baseline: an entry's key says what it is about,
        not that it is true. A file that is not a cache, is too large, is damaged or
        can't be read is left alone with a CacheWarning.
        """
        if self._db is None:
            return 0
        copied = 0
        try:
            if not path.is_file():
                return 0
            if path.is_symlink():
                raise _UnusableCacheError("it is a link, which is not followed")
            if path.stat().st_size > _MAX_RESTORED_FILE_BYTES:
                raise _UnusableCacheError("it is larger than 2 GiB")
            with contextlib.closing(_connect_read_only(path)) as source:
                entries = source.execute(
                    "SELECT key, value, CAST(used AS INTEGER) AS used_run FROM judgements "
                    "WHERE typeof(key) = 'blob' AND length(key) = 32 AND typeof(value) = 'text' AND length(value) <= ? "
                    "ORDER BY used_run DESC LIMIT ?",
                    (_MAX_VALUE_CHARACTERS, _MAX_RESTORED_ENTRIES),
                )
                with self._db as db:
                    db.execute("BEGIN IMMEDIATE")
                    entries_before = _count_entries(db)
                    db.executemany(
                        "INSERT INTO judgements (key, value, used) VALUES (?, ?, ?) "
                        "ON CONFLICT (key) DO UPDATE SET used = max(used, excluded.used)",
                        entries,
                    )
                    finished_runs = max(_finished_runs(db), _finished_runs(source))
                    db.execute(f"PRAGMA application_id = {finished_runs}")
                    copied = _count_entries(db) - entries_before
        except (_UnusableCacheError, OSError, sqlite3.Error, UnicodeError) as error:
            _warn(
                f"the judgements in {path} can't be used again ({error}); they are made anew"
            )
        return copied

    def prune(self) -> None:
        """Drop entries that none of the last KEPT_RUNS runs used, at the end of a
        finished run.

        Of more than MAX_KEPT_BYTES, the entries used last are kept, with a
        CacheWarning.
        """
        if self._db is None:
            return
        try:
            with self._db as db:
                db.execute("BEGIN IMMEDIATE")
                run = _finished_runs(db) + 1
                db.executemany(
                    "UPDATE judgements SET used = ? WHERE key = ?",
                    ((run, key) for key in self._used_keys),
                )
                dropped_unused = db.execute(
                    "DELETE FROM judgements WHERE used <= ?", (run - KEPT_RUNS,)
                ).rowcount
                dropped_over_limit = db.execute(
                    _DROP_OVER_LIMIT, (MAX_KEPT_BYTES,)
                ).rowcount
                db.execute(f"PRAGMA application_id = {run}")
            if dropped_unused + dropped_over_limit:
                # VACUUM fails while another process has the file open.
                with contextlib.suppress(sqlite3.OperationalError):
                    self._db.execute("VACUUM")
        except sqlite3.Error as error:
            self._give_up(error)
            return
        if dropped_over_limit:
            _warn(
                f"{self.path} has more than {MAX_KEPT_BYTES:,} bytes of judgements; "
                f"{dropped_over_limit:,} that were not used for longest were dropped"
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
        """Open the file, or a new one in place of a file that is no usable cache, which
        is renamed; None, with a warning, if neither can be opened."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            return _connect(self.path)
        except (OSError, sqlite3.OperationalError) as error:
            _warn(
                f"{self.path} can't be opened ({error}); judging continues without it"
            )
            return None
        except (_UnusableCacheError, sqlite3.DatabaseError) as error:
            problem = f"{self.path} is no usable cache of judgements ({error})"
        renamed_path = self.path.with_name(self.path.name + ".corrupt")
        try:
            self.path.replace(renamed_path)
            for suffix in _SQLITE_SUFFIXES:
                self.path.with_name(self.path.name + suffix).unlink(missing_ok=True)
            new_db = _connect(self.path)
        except (OSError, sqlite3.Error, _UnusableCacheError) as error:
            _warn(
                f"{problem} and can't be set aside ({error}); judging continues without it"
            )
            return None
        _warn(f"{problem}; it was set aside as {renamed_path.name}")
        return new_db

    def _give_up(self, error: Exception) -> None:
        """Close the file, with a warning, because it can't be read or written."""
        if self._db is not None:
            self._db.close()
            self._db = None
            _warn(
                f"{self.path} can't be read or written ({error}); judging continues without it"
            )


def _warn(text: str) -> None:
    warnings.warn(text, CacheWarning, stacklevel=3)


def _check_is_file_if_present(path: Path) -> None:
    """Raise ConfigError if there is a link, a folder or a pipe at `path`."""
    try:
        mode = path.lstat().st_mode
    except OSError:
        return
    if not stat.S_ISREG(mode):
        problem = "this is not a regular file."
        if stat.S_ISLNK(mode):
            problem = "this is a link, which is not followed."
        raise ConfigError(
            problem,
            where=str(path),
            hint="Remove it: the cache of judgements is stored in a file with this name.",
        )


def _connect(path: Path) -> sqlite3.Connection:
    """Open the cache at `path` for writing, creating it if there is none.

    Raises _UnusableCacheError for a database that is no cache of this format.
    """
    db = sqlite3.connect(
        path, timeout=30.0, isolation_level=None, check_same_thread=False
    )
    # A value that another program wrote may not be UTF-8.
    db.text_factory = lambda value: value.decode("utf-8", "replace")
    try:
        db.execute("PRAGMA trusted_schema = OFF")
        db.execute("PRAGMA journal_mode = WAL")
        # A power cut may lose the last judgements, which are then requested again; it
        # can't damage the file.
        db.execute("PRAGMA synchronous = NORMAL")
        version = db.execute("PRAGMA user_version").fetchone()[0]
        if version not in (0, _FORMAT):
            raise _UnusableCacheError(
                f"its format is {version}, but this version of Ragstone reads {_FORMAT}"
            )
        db.execute(_CREATE)
        _check_tables(db)
        db.execute(f"PRAGMA user_version = {_FORMAT}")
        if db.execute("PRAGMA quick_check(1)").fetchone()[0] != "ok":
            raise _UnusableCacheError("it fails SQLite's check")
    except BaseException:
        db.close()
        raise
    return db


def _connect_read_only(path: Path) -> sqlite3.Connection:
    """Open the cache at `path` for reading. Raises _UnusableCacheError for a database
    that is no cache."""
    # Without a write-ahead log nobody is writing, so SQLite need not lock, and can read
    # from a read-only folder.
    mode = "immutable=1"
    if path.with_name(path.name + "-wal").exists():
        mode = "mode=ro"
    quoted_path = urllib.parse.quote(str(path.resolve()))
    db = sqlite3.connect(f"file:{quoted_path}?{mode}", uri=True, timeout=10.0)
    try:
        db.execute("PRAGMA trusted_schema = OFF")
        db.execute("PRAGMA cell_size_check = ON")
        _check_tables(db)
    except BaseException:
        db.close()
        raise
    return db


def _count_entries(db: sqlite3.Connection) -> int:
    count: int = db.execute("SELECT count(*) FROM judgements").fetchone()[0]
    return count


def _finished_runs(db: sqlite3.Connection) -> int:
    """How many finished runs have used the file.

    The number is in `application_id`, a field of the header that SQLite leaves to
    applications, as a signed number of 32 bits; the next run must fit, too.
    """
    runs: int = db.execute("PRAGMA application_id").fetchone()[0]
    return max(0, min(runs, 2**31 - 2))


def _check_tables(db: sqlite3.Connection) -> None:
    """Raise _UnusableCacheError unless the only table is that of judgements: views and
    triggers could run statements."""
    tables = db.execute("SELECT type, name FROM sqlite_master").fetchall()
    if tables != [("table", "judgements")]:
        raise _UnusableCacheError("it contains something other than judgements")
