"""Writes a run directory: every record as soon as it is finished, so that the run can
be resumed."""

from __future__ import annotations

import contextlib
import os
from collections import Counter
from collections.abc import Callable, Iterable, Set
from operator import attrgetter
from pathlib import Path
from typing import IO

from msgspec.structs import replace

from ragstone.errors import RunDirectoryError, disk_errors
from ragstone.evaluation.directory import (
    BASE_COMMIT,
    CACHE,
    LOCK,
    MANIFEST,
    MAX_MANIFEST_BYTES,
    SAMPLES,
    SPENT,
    RunDirectory,
    read_manifest,
)
from ragstone.evaluation.manifest import Cost, Counts, Manifest
from ragstone.evaluation.record import RecordLine
from ragstone.evaluation.records_file import RecordsFile
from ragstone.evaluation.round_facts import (
    JudgeFacts,
    RoundFacts,
    read_facts,
    write_facts,
)
from ragstone.evaluation.run_files import open_new, replace_text, writing_to
from ragstone.files import open_regular

_FIXED_FIELDS = (
    "golden",
    "judge",
    "metrics",
    "repeats",
    "answers",
    "system.entrypoint",
    "system.part",
)
"""Fields of the manifest that must not change when a run is resumed."""


class RunWriter:
    """Writes a run. Every record is on disk when `append` returns; `finish` puts them
    in the order of the golden set.

    `offsets` says where in the file the record of each sample begins.
    """

    def __init__(
        self,
        path: Path,
        manifest: Manifest,
        stream: IO[bytes],
        offsets: dict[str, int],
        redact: Callable[[str], str],
    ) -> None:
        self.path = path
        self.manifest = manifest
        self._stream = stream
        self._offsets = offsets
        self._redact = redact

    @classmethod
    def create(
        cls, path: Path, manifest: Manifest, *, redact: Callable[[str], str] = str
    ) -> RunWriter:
        """Start a run in `path`. An earlier run there, and the facts of its rounds, are
        replaced; its judgement cache stays.

        Raises RunDirectoryError if `path` contains something other than a run.
        """
        refuse_foreign(path)
        with writing_to(path):
            path.mkdir(parents=True, exist_ok=True)
            (path / SPENT).unlink(missing_ok=True)
            write_facts(path, RoundFacts())
            write_manifest(path, manifest)
            stream = open_new(path / SAMPLES)
        return cls(path, manifest, stream, {}, redact)

    @classmethod
    def resume(
        cls, path: Path, manifest: Manifest, *, redact: Callable[[str], str] = str
    ) -> RunWriter:
        """Resume the run in `path`, or start one if there is none.

        An incomplete last line of a killed run is removed. Raises RunDirectoryError if
        the run can't be resumed: if its manifest describes another evaluation than
        `manifest`, the error says what differs.
        """
        if not (path / MANIFEST).exists():
            return cls.create(path, manifest, redact=redact)
        earlier = read_manifest(path)
        if earlier.earlier or read_facts(path).confirm.asked_again:
            raise RunDirectoryError(
                "there is nothing to resume: this run is finished, and its verdict was confirmed with more answers.",
                where=str(path),
                hint="Start over without --resume, or show its result with `ragstone report`.",
            )
        differing = [
            name.removeprefix("system.")
            for name in _FIXED_FIELDS
            if attrgetter(name)(earlier) != attrgetter(name)(manifest)
        ]
        if differing:
            raise RunDirectoryError(
                f"can't resume: {' and '.join(differing)} differ from the existing run.",
                where=str(path),
                hint="Use the settings of that run, or start over without --resume.",
            )
        samples = path / SAMPLES
        if samples.is_symlink():
            raise RunDirectoryError(
                "is a link, which Ragstone does not write to.", where=str(samples)
            )
        states: Counter[str] = Counter()
        cost = Cost()
        with disk_errors(samples, "can't be resumed", kind=RunDirectoryError):
            samples.touch()
            records = RecordsFile(samples, is_complete=False)
            for record in records:
                states[record.state] += 1
                cost = cost.plus(Cost.of(record.ledger))
            os.truncate(samples, records.end)
        planted = read_facts(path).judge.planted
        write_facts(path, RoundFacts(JudgeFacts(planted=planted)))
        continued = manifest.model_copy(
            update={
                "counts": Counts(**states),
                "cost": cost,
                "wall_s": earlier.wall_s,
                "created_at": earlier.created_at,
            }
        )
        write_manifest(path, continued)
        with writing_to(samples):
            stream = samples.open("ab")
        return cls(path, continued, stream, records.offsets(), redact)

    @property
    def finished_ids(self) -> Set[str]:
        return self._offsets.keys()

    def append(self, record: RecordLine) -> None:
        """Write a record and flush it to the operating system. Raises RunDirectoryError
        for disk errors."""
        line = self._redact(record.line).encode("utf-8", "replace") + b"\n"
        with writing_to(self.path / SAMPLES):
            offset = self._stream.tell()
            self._stream.write(line)
            self._stream.flush()
        self._offsets[record.sample_id] = offset
        counts = self.manifest.counts
        count = getattr(counts, record.state) + 1
        self.manifest = self.manifest.model_copy(
            update={
                "counts": counts.model_copy(update={record.state: count}),
                "cost": self.manifest.cost.plus(Cost.of(record.ledger)),
            }
        )

    def stop(self, reason: str, *, wall_s: float) -> None:
        """End a run that could not be finished, and can be resumed. `wall_s` is how
        long it took this time."""
        # If the disk is full, the last line may be cut off: resuming removes it.
        with contextlib.suppress(OSError):
            self._stream.close()
        self._update_manifest(
            state="stopped", stop_reason=reason, wall_s=self.manifest.wall_s + wall_s
        )

    def finish(self, order: Iterable[str], *, wall_s: float) -> RunDirectory:
        """End the run, with its records in the `order` of sample ids, so that equal
        runs have equal files."""
        samples = self.path / SAMPLES
        offsets = [self._offsets[name] for name in order if name in self._offsets]
        with writing_to(samples):
            self._stream.close()
            if offsets != sorted(offsets):
                temporary = samples.with_name(f".{SAMPLES}.tmp")
                with samples.open("rb") as unsorted, open_new(temporary) as out:
                    for offset in offsets:
                        unsorted.seek(offset)
                        out.write(unsorted.readline())
                temporary.replace(samples)
        self._update_manifest(state="finished", wall_s=self.manifest.wall_s + wall_s)
        return RunDirectory(self.path, self.manifest)

    def _update_manifest(self, **update: object) -> None:
        self.manifest = self.manifest.model_copy(update=update)
        write_manifest(self.path, self.manifest)


def write_manifest(path: Path, manifest: Manifest) -> None:
    """Replace the manifest atomically."""
    replace_text(path / MANIFEST, manifest.model_dump_json(indent=2) + "\n")


def update_manifest(run: RunDirectory, **changes: object) -> RunDirectory:
    """Change fields of the manifest of `run`, write it, and return the changed run."""
    manifest = run.manifest.model_copy(update=changes)
    write_manifest(run.path, manifest)
    return run.with_manifest(manifest)


def update_rounds(run: RunDirectory, **changes: object) -> RunDirectory:
    """Change the facts of these rounds of `run`, write them, and return the changed
    run."""
    rounds = replace(run.rounds, **changes)
    write_facts(run.path, rounds)
    return run.with_rounds(rounds)


def refuse_foreign(path: Path) -> None:
    """Raise RunDirectoryError if `path`, or the target of a link there, contains
    something other than a run."""
    problem = ""
    with disk_errors(path, kind=RunDirectoryError):
        is_dangling = path.is_symlink() and not path.exists()
        target = path if is_dangling else path.resolve()  # fails in a loop of links
        if is_dangling:
            problem = "it is a dangling link."
        elif target.exists() and not target.is_dir():
            problem = "it is a file."
        elif ".git" in target.parts:
            problem = "it is git's own folder, or is inside it."
        elif target.exists() and not _can_take_run(target):
            problem = "the directory exists and does not contain a run."
    if problem:
        raise RunDirectoryError(
            problem,
            where=str(path),
            hint="Use another directory with --out, or `out` under [run].",
        )


def _can_take_run(folder: Path) -> bool:
    """Whether `folder` is empty, or a run was written there."""
    names = {entry.name for entry in folder.iterdir()} - {LOCK, BASE_COMMIT}
    if not names or names & {SAMPLES, CACHE}:
        return True
    if MANIFEST not in names:
        return False
    # Other programs write a manifest.json, too.
    with open_regular(folder / MANIFEST) as stream:
        return b'"ragstone_version"' in stream.read(MAX_MANIFEST_BYTES)
