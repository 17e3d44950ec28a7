"""A store in the repository itself: git notes on the commits, under ``refs/notes/ragstone``.

A clone doesn't fetch notes unless it asks for them. They stay small: the newest MIN_SAVED runs, without judgements that
make an archive larger than MAX_NOTE_BYTES, in one commit without a history.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ragstone.ci.store import MIN_SAVED, BaselineStore, Stored, StoreFailed, of_commit
from ragstone.project.git import Git, GitFailed
from ragstone.run.archive_members import pack_run
from ragstone.run.directory import CACHE

REF = "refs/notes/ragstone"
MAX_NOTE_BYTES = 5_000_000
_MAX_READ_BYTES = 64 * 1024 * 1024
_ATTEMPTS = 3
_AUTHOR = ("-c", "user.name=ragstone", "-c", "user.email=ragstone@localhost")


@dataclass(frozen=True, slots=True)
class GitNotesStore(BaselineStore):
    """Notes on commits of `remote`."""

    git: Git
    remote: str

    def newest(self, ancestors: Sequence[str]) -> Iterator[Stored]:
        try:
            if self._fetch() is None:
                return
            notes = self._notes()
            for commit in ancestors:
                if commit not in notes:
                    continue
                blob = notes[commit]
                if int(self.git.text("cat-file", "-s", blob)) > _MAX_READ_BYTES:
                    raise StoreFailed(f"the note on {commit[:12]} is larger than {_MAX_READ_BYTES:,} bytes")
                note = self.git.run("cat-file", "blob", blob)
                yield of_commit(commit, note, f"a note on {commit[:12]}", ancestors)
        except GitFailed as failed:
            raise StoreFailed(str(failed)) from None

    def save(self, commit: str, run: Path, ancestors: Sequence[str]) -> str:
        body = pack_run(run)
        if len(body) > MAX_NOTE_BYTES:
            body = pack_run(run, without=frozenset({CACHE}))
        if len(body) > MAX_NOTE_BYTES:
            raise StoreFailed(
                f"the run has {len(body):,} bytes packed, and a note at most {MAX_NOTE_BYTES:,}: use another store"
            )
        try:
            blob = self.git.run("hash-object", "-w", "--stdin", given=body).decode().strip()
            for attempt in range(1, _ATTEMPTS + 1):
                before = self._fetch()
                self._add(commit, blob, ancestors)
                try:
                    # Only if nobody else has written since: their notes would be lost.
                    lease = f"--force-with-lease={REF}:{before or ''}"
                    self.git.run("push", "--quiet", lease, self.remote, f"{REF}:{REF}")
                except GitFailed:
                    if attempt == _ATTEMPTS:
                        raise
                else:
                    return f"a git note on {commit[:12]} in {self.remote}"
        except GitFailed as failed:
            raise StoreFailed(str(failed)) from None
        raise AssertionError("unreachable")

    def _fetch(self) -> str | None:
        """Replace the local notes by those of the remote. The commit they are in; None if there are none."""
        listed = self.git.text("ls-remote", "--quiet", self.remote, REF).split()
        if not listed:
            self.git.run("update-ref", "-d", REF)
            return None
        self.git.run("fetch", "--quiet", "--no-tags", "--no-write-fetch-head", self.remote, f"+{REF}:{REF}")
        return self.git.text("rev-parse", REF)

    def _notes(self) -> dict[str, str]:
        """Commit to blob."""
        lines = (line.split() for line in self.git.text("notes", f"--ref={REF}", "list").splitlines())
        return {commit: blob for blob, commit in lines}

    def _add(self, commit: str, blob: str, ancestors: Sequence[str]) -> None:
        """Add the note, drop those on commits too far back, and forget the history of the notes."""
        ours = (*_AUTHOR, "notes", f"--ref={REF}")
        self.git.run(*ours, "add", "--force", f"--reuse-message={blob}", commit)
        order = {one: number for number, one in enumerate(ancestors)}
        noted = sorted(self._notes(), key=lambda one: order.get(one, len(order)))
        for old in noted[MIN_SAVED:]:
            self.git.run(*ours, "remove", "--ignore-missing", old)
        tree = self.git.text("rev-parse", f"{REF}^{{tree}}")
        alone = self.git.text(*_AUTHOR, "commit-tree", "-m", "Baselines of ragstone", tree)
        self.git.run("update-ref", REF, alone)
