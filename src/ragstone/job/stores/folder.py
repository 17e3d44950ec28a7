"""A store in a folder."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ragstone.ci.store import ENDING, MAX_ARCHIVE_BYTES, MIN_SAVED, BaselineStore, Stored, StoreFailed, of_commit
from ragstone.files import read_regular
from ragstone.run.archive_members import pack_run


@dataclass(frozen=True, slots=True)
class FolderStore(BaselineStore):
    """A folder that jobs share: a mounted volume, a cache, a disk of the agent."""

    folder: Path

    def newest(self, ancestors: Sequence[str]) -> Iterator[Stored]:
        for commit in ancestors:
            path = self.folder / f"{commit}{ENDING}"
            if not os.path.lexists(path):
                continue
            try:
                body = read_regular(path, within=self.folder, limit=MAX_ARCHIVE_BYTES)
            except OSError as error:
                raise StoreFailed(f"{path.name} can't be read: {error.strerror}") from None
            yield of_commit(commit, body, f"{self.folder.name}/{path.name}", ancestors)

    def save(self, commit: str, run: Path, ancestors: Sequence[str]) -> str:
        path = self.folder / f"{commit}{ENDING}"
        temporary = self.folder / f".{commit}.{os.getpid()}.tmp"
        body = pack_run(run)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with temporary.open("xb") as stream:
                stream.write(body)
            temporary.replace(path)
            saved = [one for one in ancestors if (self.folder / f"{one}{ENDING}").exists()]
            for old in saved[MIN_SAVED:]:
                (self.folder / f"{old}{ENDING}").unlink(missing_ok=True)
        except OSError as error:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)
            raise StoreFailed(f"{path} can't be written: {error.strerror}") from None
        return f"{self.folder.name}/{path.name}"
