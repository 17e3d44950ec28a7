"""What a monitor remembers between jobs, in an SQLite file: places in logs, interactions by window, decided windows.

Every batch of lines and the place after it are one transaction. So a job that is killed counts what it has written and
nothing else, and an interaction that is read again, from another file or by another job, is known by its key.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from heapq import heappop, heappush
from pathlib import Path
from typing import Any, Literal

from ragstone.errors import ConfigError
from ragstone.files import refuse_link
from ragstone.tools.monitor.interaction import Interaction
from ragstone.tools.monitor.logs import Head, Log, Place

SCHEMA = 2
MAX_LABELS = 50
"""Routes, and versions, that are told apart."""
OTHER = "(other)"
_WAIT_S = 60.0

Note = Literal["told", "drafted"]
"""The alerts that a webhook was sent last, and the last window whose cases became drafts."""

_TABLES = """
CREATE TABLE meta (name TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE logs (digest BLOB NOT NULL, size INTEGER NOT NULL, offset INTEGER NOT NULL, line INTEGER NOT NULL,
  PRIMARY KEY (digest, size)) WITHOUT ROWID;
CREATE TABLE interactions (key BLOB PRIMARY KEY, ref BLOB, window TEXT NOT NULL, route TEXT NOT NULL,
  draw INTEGER NOT NULL, latency REAL, sourced INTEGER, found INTEGER, abstained INTEGER, error INTEGER NOT NULL,
  answered INTEGER NOT NULL, judgeable INTEGER NOT NULL, feedback REAL, user BLOB, session BLOB, payload TEXT,
  version TEXT NOT NULL DEFAULT '') WITHOUT ROWID;
CREATE INDEX by_window ON interactions (window, route, draw);
CREATE INDEX by_ref ON interactions (ref) WHERE ref IS NOT NULL;
CREATE TABLE windows (window TEXT PRIMARY KEY, decided_at TEXT NOT NULL, summary TEXT NOT NULL) WITHOUT ROWID;
"""


@dataclass(frozen=True, slots=True)
class Row:
    """An interaction in its window. `payload` is what a judge needs, as JSON; None: the log lacks it."""

    interaction: Interaction
    window: str
    abstained: bool | None
    payload: str | None


@dataclass(frozen=True, slots=True)
class Drawn:
    """An interaction of a random sample, and the probability with which it was drawn."""

    key: str
    payload: str
    probability: float
    version: str


class State:
    """The state in the file `path`, which is created if needed. `candidates` is how many texts are kept per route and
    version.

    `created` is when it was created.

    Raises ConfigError for a file that is not the state of a monitor, or was created with other `terms`.
    """

    def __init__(self, path: Path, *, terms: Mapping[str, str], candidates: int, now: datetime) -> None:
        self._path = path
        self._candidates = candidates
        self._limits: dict[tuple[str, str, str], int] = {}
        try:
            refuse_link(path)
            path.parent.mkdir(parents=True, exist_ok=True)
            if not path.exists():
                os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
            self._db = sqlite3.connect(path, timeout=_WAIT_S, isolation_level=None)
            self._db.execute("PRAGMA trusted_schema = OFF")
            self._db.execute("PRAGMA temp_store = MEMORY")
            self._begin(terms, now)
        except (sqlite3.DatabaseError, OSError) as error:
            raise ConfigError(
                f"can't be used as the state of a monitor: {error}.",
                where=str(path),
                hint="Use another file with --state, or remove this one to count all logs anew.",
            ) from None

    def _begin(self, terms: Mapping[str, str], now: datetime) -> None:
        with self.transaction():
            if not self._db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
                for statement in _TABLES.split(";"):
                    self._db.execute(statement)
                self._db.execute(f"PRAGMA user_version = {SCHEMA}")
                self._set("salt", os.urandom(16))
                self._set("created", now.isoformat().encode())
                self._set("terms", json.dumps(dict(terms)).encode())
            version = self._db.execute("PRAGMA user_version").fetchone()[0]
        if version != SCHEMA:
            raise ConfigError(f"has schema version {version}, expected {SCHEMA}.", where=str(self._path))
        known = json.loads(self._get("terms"))
        for name, value in terms.items():
            if known.get(name) != value:
                raise ConfigError(
                    f"was created with {name} = {known.get(name)}, but now it is {value}.",
                    where=str(self._path),
                    hint="Windows of both kinds can't be compared: use another file with --state.",
                )
        self.salt: bytes = self._get("salt")
        self.created = datetime.fromisoformat(self._get("created").decode())
        self._routes, self._versions = (
            set(self._column(f"SELECT DISTINCT {label} FROM interactions"))  # noqa: S608
            for label in ("route", "version")
        )

    def _set(self, name: str, value: bytes) -> None:
        self._db.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (name, value))

    def _get(self, name: str) -> Any:
        for value in self._column("SELECT value FROM meta WHERE name = ?", name):
            return value
        raise sqlite3.DatabaseError("it has other tables")

    def _column(self, query: str, *given: object) -> list[Any]:
        return [row[0] for row in self._db.execute(query, given)]

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Either all of the block is written, or nothing. Only one process at a time is in such a block."""
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")

    def place_of(self, log: Log) -> tuple[Place, Head | None]:
        """Where to go on in `log`, and the head by which it is known. In a transaction."""
        best: tuple[Place, Head | None] = (Place(), None)
        for (size,) in self._db.execute("SELECT DISTINCT size FROM logs ORDER BY size").fetchall():
            head = log.head_of(size)
            if head.size != size:
                continue
            row = self._db.execute(
                "SELECT offset, line FROM logs WHERE digest = ? AND size = ?", (head.digest, size)
            ).fetchone()
            if row is not None and row[0] >= best[0].offset:
                best = Place(*row), head
        return best

    def remember(self, log: Log, place: Place, known: Head | None) -> Head | None:
        """Go on in `log` at `place` from now on. Returns the head by which it is known then."""
        if place.offset == 0:
            return known
        head = log.head_of(min(log.head.size, place.offset))
        if known is not None and known != head:
            self._db.execute("DELETE FROM logs WHERE digest = ? AND size = ?", (known.digest, known.size))
        self._db.execute(
            "INSERT OR REPLACE INTO logs VALUES (?, ?, ?, ?)", (head.digest, head.size, place.offset, place.line)
        )
        return head

    def add(self, rows: Iterable[Row]) -> tuple[int, int, int]:
        """Add interactions; returns how many were new, were known, and are feedback on none. In a transaction."""
        new = known = lost = 0
        touched = set()
        for row in rows:
            one = row.interaction
            if one.only_feedback:
                changed = self._db.execute(
                    "UPDATE interactions SET feedback = ? WHERE ref = ? AND feedback IS NOT ?",
                    (one.feedback, one.ref, one.feedback),
                ).rowcount
                if changed > 0:
                    new += 1
                elif self._db.execute("SELECT 1 FROM interactions WHERE ref = ?", (one.ref,)).fetchone():
                    known += 1
                else:
                    lost += 1
                continue
            route, version = _known(one.route, self._routes), _known(one.version, self._versions)
            place = (row.window, route, version)
            draw = self._draw(one.key)
            candidate = self._candidates > 0 and row.payload is not None and draw < self._limits.get(place, 1 << 63)
            values = (
                one.key, one.ref, row.window, route, draw, one.latency_s,
                None if one.sources is None else bool(one.sources), None if one.results is None else one.results > 0,
                row.abstained, one.error is not None, bool(one.answer), row.payload is not None,
                one.feedback, one.user, one.session, row.payload if candidate else None, version,
            )  # fmt: skip
            marks = ", ".join("?" * len(values))
            added = self._db.execute(f"INSERT OR IGNORE INTO interactions VALUES ({marks})", values).rowcount  # noqa: S608
            if added > 0:
                new += 1
                if candidate:
                    touched.add(place)
            else:
                known += 1
                if one.feedback is not None:
                    self._db.execute("UPDATE interactions SET feedback = ? WHERE key = ?", (one.feedback, one.key))
        for place in touched:
            self._trim(place)
        return new, known, lost

    def _trim(self, place: tuple[str, str, str]) -> None:
        """Keep only the texts of the interactions that a sample of this window, route and version may draw."""
        row = self._db.execute(
            "SELECT draw FROM interactions WHERE window = ? AND route = ? AND version = ? AND judgeable"
            " ORDER BY draw LIMIT 1 OFFSET ?",
            (*place, self._candidates),
        ).fetchone()
        if row is not None:
            self._limits[place] = row[0]
            self._db.execute(
                "UPDATE interactions SET payload = NULL WHERE window = ? AND route = ? AND version = ? AND draw >= ?"
                " AND payload IS NOT NULL",
                (*place, row[0]),
            )

    def _draw(self, key: bytes) -> int:
        """A number that decides on sampling, random for all who don't know the salt."""
        return int.from_bytes(hashlib.blake2b(key, key=self.salt, digest_size=8).digest(), "big") >> 1

    def versions(self, window: str) -> list[str]:
        """The versions in a window, the most frequent first; none if no interaction has one."""
        query = "SELECT version FROM interactions WHERE window = ? GROUP BY version ORDER BY count(*) DESC, version"
        found = self._column(query, window)
        return found if any(found) else []

    def open_windows(self) -> list[str]:
        """The windows that have interactions and are not decided, oldest first."""
        query = "SELECT DISTINCT window FROM interactions WHERE window NOT IN (SELECT window FROM windows) ORDER BY 1"
        return self._column(query)

    def decided(self) -> dict[str, dict[str, Any]]:
        """The summaries of the decided windows by name, oldest first."""
        rows = self._db.execute("SELECT window, summary FROM windows ORDER BY window")
        return {window: json.loads(summary) for window, summary in rows}

    def decided_names(self) -> list[str]:
        """The decided windows, oldest first."""
        return self._column("SELECT window FROM windows ORDER BY window")

    def decide(self, window: str, summary: Mapping[str, Any], now: datetime) -> None:
        """Record the summary of a window, unless it was decided before, and forget its texts."""
        row = (window, now.isoformat(timespec="seconds"), json.dumps(summary, allow_nan=False))
        with self.transaction():
            self._db.execute("INSERT OR IGNORE INTO windows VALUES (?, ?, ?)", row)
            self._db.execute("UPDATE interactions SET payload = NULL WHERE window = ?", (window,))

    def note(self, name: Note) -> str:
        """What was noted as `name`; empty for nothing."""
        found = self._column("SELECT value FROM meta WHERE name = ?", name)
        return bytes(found[0]).decode() if found else ""

    def write_note(self, name: Note, text: str) -> None:
        with self.transaction():
            self._set(name, text.encode())

    def cases(self, window: str, condition: str, limit: int) -> list[bytes]:
        """The keys of at most `limit` interactions of a window that meet an SQL `condition`, drawn at random."""
        query = f"SELECT key FROM interactions WHERE window = ? AND ({condition}) ORDER BY draw, key LIMIT ?"  # noqa: S608
        return self._column(query, window, limit)

    def meets(self, key: bytes, condition: str) -> bool:
        query = f"SELECT 1 FROM interactions WHERE key = ? AND ({condition})"  # noqa: S608
        return bool(self._column(query, key))

    def forget(self, before: str) -> None:
        """Remove the interactions of decided windows before a window."""
        with self.transaction():
            self._db.execute(
                "DELETE FROM interactions WHERE window < ? AND window IN (SELECT window FROM windows)", (before,)
            )

    def one(self, query: str, given: Mapping[str, object]) -> tuple[Any, ...]:
        found: tuple[Any, ...] = self._db.execute(query, given).fetchone()
        return found

    def drawn(self, window: str, size: int) -> list[Drawn]:
        """A random sample of the interactions of a window that can be judged, stratified by route and version, at most
        `size`.

        A stratum gets a share in proportion to the root of its size (power allocation: M. Bankier, The American
        Statistician 42, 1988), so that small ones are seen too, but at least one.
        """
        rows = self._db.execute(
            "SELECT route, version, count(*) FROM interactions WHERE window = ? AND judgeable"
            " GROUP BY route, version ORDER BY route, version",
            (window,),
        ).fetchall()
        found = []
        for (route, version, total), n in zip(rows, allocated([row[-1] for row in rows], size), strict=True):
            texts = self._db.execute(
                "SELECT key, payload FROM interactions WHERE window = ? AND route = ? AND version = ? AND judgeable"
                " ORDER BY draw LIMIT ?",
                (window, route, version, n),
            ).fetchall()
            found += [Drawn(key.hex(), text, n / total, version) for key, text in texts if text is not None]
        return found

    def close(self) -> None:
        self._db.close()


def _known(label: str, known: set[str]) -> str:
    """`label`, one of those `known` from now on, or OTHER if there are too many of them."""
    if label not in known and len(known) >= MAX_LABELS:
        return OTHER
    known.add(label)
    return label


def allocated(counts: Sequence[int], size: int) -> list[int]:
    """How many of each stratum to draw, `size` together, in proportion to the roots of their `counts`."""
    found = [0] * len(counts)
    turns = [(0.0, i) for i in range(len(counts))]
    for _ in range(min(size, sum(counts))):
        _, i = heappop(turns)
        found[i] += 1
        if found[i] < counts[i]:
            heappush(turns, (found[i] / counts[i] ** 0.5, i))
    return found
