"""Loads a golden set: from paths and globs to samples with unique ids."""

from __future__ import annotations

import glob
import os
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from ragstone.errors import ConfigError, GoldenSetError, suggestion
from ragstone.formatting import some
from ragstone.golden import in_memory
from ragstone.golden.columns import MAPPABLE, ColumnPlan, plan_columns
from ragstone.golden.conversations import (
    EarlierAnswers,
    TurnReading,
    conversation,
)
from ragstone.golden.formats.registry import Format, format_of
from ragstone.golden.profile import profile_rows
from ragstone.golden.promptfoo import has_expectations, read_promptfoo_cells
from ragstone.golden.reader import SampleReader
from ragstone.golden.refusals import refuse_names, refuse_results
from ragstone.golden.rows import (
    MAX_FILE_BYTES,
    ByField,
    FileRows,
    Row,
    SourceFile,
    Table,
)
from ragstone.golden.sample import MAX_SAMPLES, ColumnMapping, GoldenSet, Sample
from ragstone.golden.tables import find_table
from ragstone.printable import shown_name

_GLOB_SIGNS = frozenset("*?[")
_TABLES = frozenset({"csv", "tsv", "xlsx"})


def load_golden_set(
    paths: Sequence[str | Path] | str | Path,
    *,
    root: Path = Path(),
    columns: ByField | None = None,
    limit: int | None = None,
    within: Path | None = None,
    history: EarlierAnswers = "own",
) -> GoldenSet:
    """Read the samples of all `paths` (files and globs, relative to `root`), in file
    order.

    `columns` maps fields of Sample to columns (dotted paths), or to "" to leave a field
    out; other fields are found by their aliases, and a native file needs no column in
    `columns`. `limit` is the maximum number of samples; a conversation that begins
    within it is read to its end. `history` is what conversations are asked with that
    say nothing of it. Files must be below `within`. The origin of a sample has its path
    relative to `root`, with forward slashes. Raises GoldenSetError with file, line and
    a hint, also for more than MAX_SAMPLES, and ConfigError for a field in `columns`
    that doesn't exist.
    """
    loading = _Loading(columns, limit, history)
    for source in find_files(paths, root, within):
        if limit is not None and len(loading.samples) >= limit:
            loading.limited = True  # every file has samples
            break
        file_format = format_of(source)
        table = _open(source, file_format, loading.columns)
        loading.add(source, file_format.name, table)
    return loading.golden_set()


def table_rows(source: SourceFile) -> Iterable[Row]:
    """The rows of `source`, in any format and layout that a golden set may have, as
    they are written.

    Raises GoldenSetError.
    """
    return _open(source, format_of(source), {}).rows


def read_rows(
    path: Path, *, required: Sequence[str], expected: str, limit: int = MAX_FILE_BYTES
) -> Iterator[tuple[str, Mapping[str, object]]]:
    """The rows of a file in any format of a golden set, each with its place
    (``scores.csv:12``).

    If there are fields `required`, every row has them, and all names are in lower case;
    empty cells are None. `expected` tells the user what a row looks like; `limit` is in
    bytes. Raises ConfigError.
    """
    source = SourceFile(path, str(path), limit=limit)
    try:
        for row in table_rows(source):
            where = source.at(row.line)
            if required:
                yield where, with_fields(row.values, required, where, expected)
            else:
                yield where, row.values
    except GoldenSetError as error:
        raise ConfigError(error.message, where=error.where, hint=expected) from None


def with_fields(
    row: Mapping[str, object], required: Sequence[str], where: str, expected: str
) -> Mapping[str, object]:
    """The cells of `row` by their names in lower case. Raises ConfigError if one that
    is `required` is missing."""
    values = {str(name).lower(): cell for name, cell in row.items()}
    for name in required:
        if name not in values:
            columns = ", ".join(map(repr, values))[:200]
            raise ConfigError(
                f"'{name}' is missing, found: {columns}.", where=where, hint=expected
            )
    return values


def golden_set_of(data: object, *, columns: ByField | None = None) -> GoldenSet:
    """The samples in `data`: a data frame (pandas, Polars), an Arrow table, mappings,
    or a mapping of columns.

    `columns` and errors are those of `load_golden_set`. The origin of a sample is its
    row, from 1.
    """
    loading = _Loading(columns, None, "own")
    source = in_memory.SOURCE
    if isinstance(data, Mapping):
        document = in_memory.read_document(data)
        table = find_table(source, document, loading.columns)
    else:
        table = Table("", in_memory.read_rows(data))
    loading.add(source, source.name, table)
    return loading.golden_set()


class _Loading:
    """Reads one golden set, file by file."""

    def __init__(
        self,
        columns: ByField | None,
        limit: int | None,
        history: EarlierAnswers,
    ) -> None:
        self.columns = dict(columns or {})
        for name in self.columns:
            if name not in MAPPABLE:
                raise ConfigError(
                    f"unknown field '{name}'.",
                    where="[golden.columns]",
                    hint=suggestion(name, MAPPABLE),
                )
        self.limited = False
        """Whether the limit left samples out."""
        self.samples: dict[str, Sample] = {}
        self._limit = limit
        self._history = history
        self._mappings: list[ColumnMapping] = []
        self._missing = {name: path for name, path in self.columns.items() if path}
        """The user's columns that no file had so far."""

    def golden_set(self) -> GoldenSet:
        are_native = all(map(_is_native, self._mappings))
        if self._missing and not self.limited and not are_native:
            name, path = next(iter(self._missing.items()))
            columns: set[str] = set()
            for mapping in self._mappings:
                columns.update(mapping.columns.values(), mapping.ignored)
            file_columns = sorted(map(repr, columns))
            raise GoldenSetError(
                f"there is no column '{path}', which is mapped to the {name}. "
                f"Columns found: {some(file_columns, 40)}.",
                where="[golden.columns]",
                hint=suggestion(path, columns),
            )
        samples = tuple(self.samples.values())
        mappings = tuple(self._mappings)
        return GoldenSet(samples, mappings, self.limited)

    def add(self, source: SourceFile, kind: str, table: Table) -> None:
        """Read the samples of `table`. Raises GoldenSetError."""
        reading = TurnReading(
            source, self.columns.get("question") or "question", self._history
        )

        inside = table.column("")
        columns = {
            name: path.removeprefix(inside) for name, path in self.columns.items()
        }
        rows = _expanded(reading, table.rows)
        profile = profile_rows(source, rows, columns.values())
        count = self._count_to_read(source, profile.rows)
        for name in list(self._missing):
            if columns[name] in profile.found:
                del self._missing[name]
        plan = plan_columns(source, profile, columns)
        if "question" not in columns:
            refuse_results(source, profile, plan.fields, plan.recorded)
        reader = SampleReader(source, plan)
        samples = _read_samples(reading, reader, table.rows, count)
        refuse_names(source, plan.fields, columns, samples)
        for sample in samples:
            first = self.samples.setdefault(sample.id, sample)
            if first is not sample:
                raise _duplicate(first, sample, table)
        self.limited = len(samples) < profile.rows
        mapping = _mapping(source, kind, table, plan)
        self._mappings.append(mapping)

    def _count_to_read(self, source: SourceFile, count: int) -> int:
        """How many of the `count` samples of a file are read."""
        if not count:
            raise source.error(
                "contains no samples.",
                hint='Add at least one, such as {"question": "…"}.',
            )
        if self._limit is not None:
            count = min(count, self._limit - len(self.samples))
        total = len(self.samples) + count
        if total > MAX_SAMPLES:
            raise source.error(
                f"with this file, the golden set has {total:,} samples, more than {MAX_SAMPLES:,}.",
                hint="Split it, and evaluate each part in a run of its own, or use --limit.",
            )
        return count


def _expanded(reading: TurnReading, rows: Iterable[Row]) -> Iterator[Row]:
    for row in rows:
        turns, _ = reading.rows_of(row)
        yield from turns


def _read_samples(
    reading: TurnReading, reader: SampleReader, rows: Iterable[Row], count: int
) -> list[Sample]:
    """The first `count` samples, and the other turns of the last conversation."""
    samples: list[Sample] = []
    for row in rows:
        if len(samples) >= count:
            break
        turns, history = reading.rows_of(row)
        read = list(map(reader.sample, turns))
        if history is None:
            samples += read
        else:
            samples += conversation(reading.source, turns, read, history)
    return samples


def _is_native(mapping: ColumnMapping) -> bool:
    """Whether every column of the file has the name of a field, as in those that
    Ragstone writes."""
    names = {*mapping.columns.values(), *mapping.ignored}
    is_jsonl = mapping.format == "jsonl"
    return names <= MAPPABLE and is_jsonl and not mapping.recorded


# --- files


def find_files(
    paths: Sequence[str | Path] | str | Path, root: Path, within: Path | None
) -> list[SourceFile]:
    """The files that match `paths`, each once, globs in sorted order. Raises
    GoldenSetError if a path has no match."""
    patterns = [paths] if isinstance(paths, str | Path) else list(paths)
    if not patterns:
        raise GoldenSetError(
            "no golden set.",
            hint='Set one in ragstone.toml:\n  [golden]\n  paths = ["golden.jsonl"]',
        )
    files: dict[str, SourceFile] = {}
    for pattern in map(str, patterns):
        escaped = pattern.encode("utf-8", "backslashreplace")
        shown = escaped.decode()[:200]
        try:
            for path in _expand(pattern, root):
                name = path.as_posix()
                with suppress(ValueError):  # on another drive
                    relative = os.path.relpath(path, root)
                    name = Path(relative).as_posix()
                name.encode()  # file names are written into records and reports
                source = SourceFile(path, name, within)
                real_path = os.path.realpath(path)
                files.setdefault(real_path, source)
        except ValueError:
            raise GoldenSetError(
                "a file name must be UTF-8, and can't contain a null character.",
                where=shown,
                hint="Rename the file.",
            ) from None
        except OSError as error:
            raise GoldenSetError(
                f"can't be looked up: {error.strerror}.", where=shown
            ) from None
    return list(files.values())


def _expand(pattern: str, root: Path) -> list[Path]:
    path = root / pattern
    with suppress(FileNotFoundError, NotADirectoryError):
        mode = path.stat().st_mode
        if stat.S_ISREG(mode):
            return [path]
        raise GoldenSetError(
            "is a folder, or not a regular file.",
            where=pattern,
            hint='Name files, such as "golden/*.jsonl".',
        )
    folder = shown_name(str(root.resolve()))
    hint = f"Looked in {folder}: check the path, or [golden] paths."
    if not _GLOB_SIGNS & set(pattern):
        raise GoldenSetError("not found.", where=pattern, hint=hint)
    matches = sorted(glob.glob(pattern, root_dir=root, recursive=True))  # noqa: PTH207 (absolute patterns work)
    matching_paths = map(root.joinpath, matches)
    files = [match for match in matching_paths if match.is_file()]
    if not files:
        raise GoldenSetError("no file matches this pattern.", where=pattern, hint=hint)
    return files


def _open(source: SourceFile, file_format: Format, columns: ByField) -> Table:
    if file_format.is_document:
        document = file_format.read(source)
        if document is None:
            raise source.error("contains no samples.")
        return find_table(source, document, columns)
    rows = FileRows(partial(file_format.read, source))
    if file_format.name in _TABLES and has_expectations(rows):
        return read_promptfoo_cells(rows)
    return Table("", rows)


# --- what is said of a file


def _mapping(
    source: SourceFile, kind: str, table: Table, plan: ColumnPlan
) -> ColumnMapping:
    columns = {name: table.column(path) for name, path in plan.fields.items()}
    notes = [*table.notes, *plan.notes]
    inverse = columns.pop("unanswerable", None)
    if inverse:
        columns["answerable"] = inverse
        notes.append(f"answerable is read from '{inverse}', inverted")
    ignored = tuple(map(table.column, plan.ignored))
    recorded = {name: table.column(path) for name, path in plan.recorded.items()}
    return ColumnMapping(
        file=source.name,
        format=kind,
        columns=columns,
        ignored=ignored,
        recorded=recorded,
        notes=tuple(notes),
    )


def _duplicate(first: Sample, second: Sample, table: Table) -> GoldenSetError:
    places = f"at {first.origin} and {second.origin}"
    message = f"duplicate id '{second.id}' {places}."
    hint = "Give each sample a unique id."
    if second.id.startswith("q-") and first.content_hash() == second.content_hash():
        question = first.question[:80]
        message = f"duplicate question {places}: {question!r}."
        hint = "Remove one, or give each a unique id."
        rows = list(table.rows)
        for name in rows[0].values:
            texts = {str(row.values.get(name)) for row in rows}
            longest = max(map(len, texts))
            if len(texts) == len(rows) and longest < 100:
                column = table.column(name)
                hint += f' A column of ids can be mapped in ragstone.toml:\n  [golden.columns]\n  id = "{column}"'
                break
    return GoldenSetError(message, where=str(second.origin), hint=hint)
