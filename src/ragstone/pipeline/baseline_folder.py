"""A folder that keeps the runs of a branch, one archive per commit."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from ragstone.archive import read_members
from ragstone.evaluation.archive_members import pack_run
from ragstone.files import read_regular
from ragstone.pipeline.baseline_search import BaselineStore, StoredRun, StoreFailed

MAX_ARCHIVE_BYTES = 256 * 1024 * 1024
MIN_SAVED = 20
"""How many runs of the current branch are kept when old ones are removed."""


class BaselineFolder(BaselineStore):
    """A folder that jobs share: a cache, a mounted volume, a disk of the agent.

    Its runs can be baselines if their commits are among the `ancestors`: the current
    commit and those before it, the newest first. A shallow clone may lack some.
    """

    def __init__(
        self, folder: Path, ancestors: Sequence[str], is_shallow: bool = False
    ) -> None:
        self.folder = folder
        self.ancestors = ancestors
        self.is_shallow = is_shallow

    def why_empty(self) -> str:
        reason = "No baseline: the folder has no run of a commit before this one."
        if self.is_shallow:
            reason += " This is a shallow clone: fetch the commits before this one, so that their runs are found."
        return reason

    def newest(self) -> Iterator[StoredRun]:
        for commit in self.ancestors:
            path = self._archive(commit)
            if not os.path.lexists(path):
                continue
            try:
                archive = read_regular(
                    path, within=self.folder, limit=MAX_ARCHIVE_BYTES
                )
            except OSError as error:
                raise StoreFailed(
                    f"{path.name} can't be read: {error.strerror}"
                ) from None
            yield StoredRun(
                f"{self.folder.name}/{path.name}",
                partial(read_members, archive),
                self.ancestors.__contains__,
                commit=commit,
                exact=True,
            )

    def save(self, commit: str, run: Path) -> str:
        """Save the run directory `run` for `commit`, in place of an earlier run, and
        return the name of its archive.

        Of the runs of ancestors, all but the newest MIN_SAVED are removed. Raises
        StoreFailed.
        """
        path = self._archive(commit)
        temporary = self.folder / f".{commit}.{os.getpid()}.tmp"
        archive = pack_run(run)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with temporary.open("xb") as stream:
                stream.write(archive)
            temporary.replace(path)
            saved = [
                path for path in map(self._archive, self.ancestors) if path.exists()
            ]
            for old in saved[MIN_SAVED:]:
                old.unlink(missing_ok=True)
        except OSError as error:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)
            raise StoreFailed(f"{path} can't be written: {error.strerror}") from None
        return f"{self.folder.name}/{path.name}"

    def _archive(self, commit: str) -> Path:
        return self.folder / f"{commit}.zip"
