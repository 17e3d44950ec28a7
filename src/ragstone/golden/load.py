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
from ragstone.formatting import join_first
from ragstone.golden import in_memory
from ragstone.golden.columns import MAPPABLE, ColumnPlan, plan_columns
from ragstone.golden.conversations import (
    ConversationReader,
    EarlierAnswers,
    join_turns,
)
from ragstone.golden.formats.registry import Format, format_of
from ragstone.golden.profile import profile_rows
from ragstone.golden.promptfoo import has_expectations, read_promptfoo_cells
from ragstone.golden.reader import SampleReader
from ragstone.golden.refusals import refuse_document_names, refuse_results
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

_GLOB_CHARACTERS = frozenset("*?[")
_TABLE_FORMATS = frozenset({"csv", "tsv", "xlsx"})
_MAX_SHOWN_PATTERN_CHARACTERS = 200
_MAX_SUGGESTED_ID_CHARACTERS = 99
"""Longer values are not suggested as ids."""


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
    out. Other fields are found by their aliases. A native file may lack a mapped column.

    `limit` is the maximum number of samples; a conversation that begins before the limit
    is read to its end. `history` is what later turns are asked with, unless their
    conversation says otherwise. Files must be below `within`.

    Raises GoldenSetError, with file, line and a hint, for files that can't be read and
    for more than MAX_SAMPLES; and ConfigError for a field in `columns` that doesn't
    exist.
    """
    loading = _Loading(columns, limit, history)
    for source in find_files(paths, root, within):
        if limit is not None and len(loading.samples) >= limit:
            # A file without samples is refused, so this one has some.
            loading.is_limited = True
            break
        file_format = format_of(source)
        table = _read_table(source, file_format, loading.columns)
        loading.add(source, file_format.name, table)
    return loading.golden_set()


def table_rows(source: SourceFile) -> Iterable[Row]:
    """Return the rows of `source`, in any format and layout that a golden set may have,
    without looking for fields. Raises GoldenSetError."""
    return _read_table(source, format_of(source), columns={}).rows


def read_rows(
    path: Path,
    *,
    required: Sequence[str],
    expected: str,
    max_bytes: int = MAX_FILE_BYTES,
) -> Iterator[tuple[str, Mapping[str, object]]]:
    """Yield the rows of a file in any format of a golden set, each with its place
    (``scores.csv:12``).

    If fields are `required`, every row has them, and its names are in lower case.
    `expected`, the hint of errors, tells the user what a row looks like. Raises
    ConfigError.
    """
    source = SourceFile(path, str(path), max_bytes=max_bytes)
    try:
        for row in table_rows(source):
            where = source.location(row.line)
            if required:
                yield where, require_fields(row.values, required, where, expected)
            else:
                yield where, row.values
    except GoldenSetError as error:
        raise ConfigError(error.message, where=error.where, hint=expected) from None


def require_fields(
    row: Mapping[str, object], required: Sequence[str], where: str, expected: str
) -> Mapping[str, object]:
    """Return `row` with its names in lower case. Raises ConfigError if a `required` one
    is missing."""
    values = {str(name).lower(): cell for name, cell in row.items()}
    for name in required:
        if name not in values:
            columns = ", ".join(map(repr, values))[:200]
            raise ConfigError(
                f"'{name}' is missing, found: {columns}.", where=where, hint=expected
            )
    return values


def golden_set_from_data(data: object, *, columns: ByField | None = None) -> GoldenSet:
    """Read the samples in `data`: a data frame (pandas, Polars), an Arrow table,
    mappings, or a mapping of columns.

    `columns` and errors are those of `load_golden_set`. The line in a sample's origin is
    the number of its row, from 1.
    """
    loading = _Loading(columns, limit=None, history="own")
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
        self.is_limited = False
        """Whether the limit left samples out."""
        self.samples: dict[str, Sample] = {}
        self._limit = limit
        self._history = history
        self._mappings: list[ColumnMapping] = []
        self._missing_columns = {
            field: path for field, path in self.columns.items() if path
        }
        """The user's columns that no file has had so far."""

    def golden_set(self) -> GoldenSet:
        """Return the golden set of all samples. Raises GoldenSetError if a column that
        the user maps is in no file."""
        are_native = all(map(_is_native, self._mappings))
        # A file that was not read because of the limit may have the column.
        if self._missing_columns and not self.is_limited and not are_native:
            field, path = next(iter(self._missing_columns.items()))
            columns: set[str] = set()
            for mapping in self._mappings:
                columns.update(mapping.columns.values(), mapping.ignored)
            file_columns = sorted(map(repr, columns))
            raise GoldenSetError(
                f"there is no column '{path}', which is mapped to the {field}. "
                f"Columns found: {join_first(file_columns, 40)}.",
                where="[golden.columns]",
                hint=suggestion(path, columns),
            )
        samples = tuple(self.samples.values())
        mappings = tuple(self._mappings)
        return GoldenSet(samples, mappings, self.is_limited)

    def add(self, source: SourceFile, format_name: str, table: Table) -> None:
        """Read the samples of `table`. Raises GoldenSetError."""
        question_column = self.columns.get("question") or "question"
        conversations = ConversationReader(source, question_column, self._history)
        path_of_table = table.column("")
        columns = {
            field: path.removeprefix(path_of_table)
            for field, path in self.columns.items()
        }
        rows = _expand_all(conversations, table.rows)
        profile = profile_rows(source, rows, columns.values())
        count = self._count_to_read(source, profile.row_count)
        for field in list(self._missing_columns):
            if columns[field] in profile.existing_paths:
                del self._missing_columns[field]
        plan = plan_columns(source, profile, columns)
        if "question" not in columns:
            refuse_results(source, profile, plan.fields, plan.recorded)
        reader = SampleReader(source, plan)
        samples = _read_samples(conversations, reader, table.rows, count)
        refuse_document_names(source, plan.fields, columns, samples)
        for sample in samples:
            first = self.samples.setdefault(sample.id, sample)
            if first is not sample:
                raise _duplicate_error(first, sample, table)
        self.is_limited = len(samples) < profile.row_count
        mapping = _column_mapping(source, format_name, table, plan)
        self._mappings.append(mapping)

    def _count_to_read(self, source: SourceFile, count: int) -> int:
        """Return how many of the `count` samples of a file to read. Raises
        GoldenSetError if it has none, or the golden set would have too many."""
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
                hint="Split it and evaluate each part in a run of its own, or use --limit.",
            )
        return count


def _expand_all(
    conversations: ConversationReader, rows: Iterable[Row]
) -> Iterator[Row]:
    for row in rows:
        yield from conversations.expand(row).rows


def _read_samples(
    conversations: ConversationReader,
    reader: SampleReader,
    rows: Iterable[Row],
    count: int,
) -> list[Sample]:
    """Return the first `count` samples, and the other turns of the last conversation."""
    samples: list[Sample] = []
    for row in rows:
        if len(samples) >= count:
            break
        expanded = conversations.expand(row)
        row_samples = list(map(reader.read, expanded.rows))
        if expanded.history is None:
            samples += row_samples
        else:
            samples += join_turns(
                conversations.source, expanded.rows, row_samples, expanded.history
            )
    return samples


def _is_native(mapping: ColumnMapping) -> bool:
    """Whether the file is like those that Ragstone writes: every column has the name of a
    field."""
    names = {*mapping.columns.values(), *mapping.ignored}
    is_jsonl = mapping.format == "jsonl"
    return names <= MAPPABLE and is_jsonl and not mapping.recorded


# --- files


def find_files(
    paths: Sequence[str | Path] | str | Path, root: Path, within: Path | None
) -> list[SourceFile]:
    """Return the files that match `paths`, each once, those of a glob sorted. Raises
    GoldenSetError if a path matches none."""
    patterns = [paths] if isinstance(paths, str | Path) else list(paths)
    if not patterns:
        raise GoldenSetError(
            "no golden set.",
            hint='Set one in ragstone.toml:\n  [golden]\n  paths = ["golden.jsonl"]',
        )
    files: dict[str, SourceFile] = {}
    for pattern in map(str, patterns):
        escaped = pattern.encode("utf-8", "backslashreplace")
        shown_pattern = escaped.decode()[:_MAX_SHOWN_PATTERN_CHARACTERS]
        try:
            for path in _matching_files(pattern, root):
                name = path.as_posix()
                # A file on another drive of Windows has no relative path.
                with suppress(ValueError):
                    relative_path = os.path.relpath(path, root)
                    name = Path(relative_path).as_posix()
                # Raises UnicodeEncodeError, a ValueError, for a name that can't be
                # written into records and reports.
                name.encode()
                source = SourceFile(path, name, within)
                real_path = os.path.realpath(path)
                files.setdefault(real_path, source)
        except ValueError:
            raise GoldenSetError(
                "a file name must be UTF-8, and can't contain a null character.",
                where=shown_pattern,
                hint="Rename the file.",
            ) from None
        except OSError as error:
            raise GoldenSetError(
                f"can't be looked up: {error.strerror}.", where=shown_pattern
            ) from None
    return list(files.values())


def _matching_files(pattern: str, root: Path) -> list[Path]:
    """Return the file with this name, or the files that match this glob."""
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
    if not _GLOB_CHARACTERS & set(pattern):
        raise GoldenSetError("not found.", where=pattern, hint=hint)
    # Unlike Path.glob, this takes absolute patterns too.
    matches = sorted(glob.glob(pattern, root_dir=root, recursive=True))  # noqa: PTH207
    matching_paths = map(root.joinpath, matches)
    files = [match for match in matching_paths if match.is_file()]
    if not files:
        raise GoldenSetError("no file matches this pattern.", where=pattern, hint=hint)
    return files


def _read_table(source: SourceFile, file_format: Format, columns: ByField) -> Table:
    """Return the rows of a file. Raises GoldenSetError."""
    if file_format.is_document:
        document = file_format.read(source)
        if document is None:
            raise source.error("contains no samples.")
        return find_table(source, document, columns)
    rows = FileRows(partial(file_format.read, source))
    if file_format.name in _TABLE_FORMATS and has_expectations(rows):
        return read_promptfoo_cells(rows)
    return Table("", rows)


# --- messages about a file


def _column_mapping(
    source: SourceFile, format_name: str, table: Table, plan: ColumnPlan
) -> ColumnMapping:
    columns = {field: table.column(path) for field, path in plan.fields.items()}
    notes = [*table.notes, *plan.notes]
    inverted_column = columns.pop("unanswerable", None)
    if inverted_column:
        columns["answerable"] = inverted_column
        notes.append(f"answerable is read from '{inverted_column}', inverted")
    ignored = tuple(map(table.column, plan.ignored))
    recorded = {name: table.column(path) for name, path in plan.recorded.items()}
    return ColumnMapping(
        file=source.name,
        format=format_name,
        columns=columns,
        ignored=ignored,
        recorded=recorded,
        notes=tuple(notes),
    )


def _duplicate_error(first: Sample, second: Sample, table: Table) -> GoldenSetError:
    """Return the error for two samples with the same id."""
    places = f"at {first.origin} and {second.origin}"
    message = f"duplicate id '{second.id}' {places}."
    hint = "Give each sample a unique id."
    if second.id.startswith("q-") and first.content_hash() == second.content_hash():
        question = first.question[:80]
        message = f"duplicate question {places}: {question!r}."
        hint = "Remove one, or give each a unique id."
        # A column of short and different values may be the ids.
        rows = list(table.rows)
        for name in rows[0].values:
            texts = {str(row.values.get(name)) for row in rows}
            longest = max(map(len, texts))
            if len(texts) == len(rows) and longest <= _MAX_SUGGESTED_ID_CHARACTERS:
                column = table.column(name)
                hint += f' A column of ids can be mapped in ragstone.toml:\n  [golden.columns]\n  id = "{column}"'
                break
    return GoldenSetError(message, where=str(second.origin), hint=hint)
