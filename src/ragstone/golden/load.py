"""Loads a golden set: from paths and globs to samples with unique ids."""

from __future__ import annotations

import errno
import glob
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from ragstone.errors import ConfigError, GoldenSetError, suggestion
from ragstone.golden import in_memory
from ragstone.golden.columns import (
    MAPPABLE,
    ColumnPlan,
    plan_columns,
    refuse_names,
    refuse_results,
)
from ragstone.golden.conversations import (
    EarlierAnswers,
    TurnReading,
    first_rows,
    join_turns,
)
from ragstone.golden.formats import delimited
from ragstone.golden.formats.registry import Format, format_of
from ragstone.golden.opened import open_row
from ragstone.golden.profile import Profile, profile_rows
from ragstone.golden.promptfoo import read_promptfoo_cells
from ragstone.golden.reader import SampleReader
from ragstone.golden.rows import Row, SourceFile
from ragstone.golden.sample import MAX_SAMPLES, ColumnMapping, GoldenSet, Sample
from ragstone.golden.tables import find_table
from ragstone.printable import shown_name

_GLOB_SIGNS = frozenset("*?[")
_TABLES = frozenset({"csv", "tsv", "xlsx"})


@dataclass(frozen=True, slots=True)
class _Table:
    """An open file. `rows()` reads it from the start on every call."""

    format: str
    rows: Callable[[], Iterable[Row]]
    prefix: str = ""
    notes: tuple[str, ...] = ()


def load_golden_set(
    paths: Sequence[str | Path] | str | Path,
    *,
    root: Path = Path(),
    columns: Mapping[str, str] | None = None,
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
    wanted = _checked(columns)
    if limit is not None and limit < 1:
        raise ConfigError(f"limit must be at least 1, found {limit}.")
    sources = (
        (source, partial(_open, source, wanted))
        for source in find_files(paths, root, within)
    )
    return _read(sources, wanted, limit, history)


def table_rows(source: SourceFile) -> Iterable[Row]:
    """The rows of `source`, in any format and layout that a golden set may have, as
    they are written.

    Raises GoldenSetError.
    """
    return _open(source, {}).rows()


def golden_set_of(
    data: object, *, columns: Mapping[str, str] | None = None
) -> GoldenSet:
    """The samples in `data`: a data frame (pandas, Polars), an Arrow table, mappings,
    or a mapping of columns.

    The rest is as in `load_golden_set`. The origin of a sample is its row, from 1.
    """
    wanted = _checked(columns)
    source = in_memory.source_of(data)
    if isinstance(data, Mapping):
        table = _document(
            source, source.name, in_memory.read_document(source, data), wanted
        )
    else:
        rows = in_memory.read_rows(source, data)
        table = _Table(source.name, lambda: rows)
    return _read([(source, lambda: table)], wanted, None, "own")


def _checked(columns: Mapping[str, str] | None) -> dict[str, str]:
    wanted = dict(columns or {})
    for name in wanted:
        if name not in MAPPABLE:
            raise ConfigError(
                f"unknown field '{name}'.",
                where="[golden.columns]",
                hint=suggestion(name, MAPPABLE),
            )
    return wanted


def _read(
    sources: Iterable[tuple[SourceFile, Callable[[], _Table]]],
    wanted: Mapping[str, str],
    limit: int | None,
    history: EarlierAnswers,
) -> GoldenSet:
    by_id: dict[str, Sample] = {}
    mappings: list[ColumnMapping] = []
    missing = {name: path for name, path in wanted.items() if path}
    limited = False
    for source, open_table in sources:
        remaining = None if limit is None else max(0, limit - len(by_id))
        if remaining == 0:  # every other file has samples too
            missing, limited = {}, True
            break
        table = open_table()
        reading = TurnReading(source, wanted.get("question") or "question", history)
        table = replace(table, rows=partial(_with_turns, reading, table))
        samples, mapping, rows = _load_table(
            source, table, wanted, missing, remaining, MAX_SAMPLES - len(by_id)
        )
        for sample in samples:
            first = by_id.setdefault(sample.id, sample)
            if first is not sample:
                raise _duplicate(
                    first, sample, mapping, _telling_apart(table, first, sample)
                )
        limited = len(samples) < rows
        mappings.append(mapping)
        if limited:
            missing = {}
            break
    if missing and not all(map(_is_native, mappings)):
        raise _column_not_found(missing, mappings)
    return GoldenSet(tuple(by_id.values()), tuple(mappings), limited)


def _with_turns(reading: TurnReading, table: _Table) -> Iterator[Row]:
    return reading.rows(table.rows())


def _is_native(mapping: ColumnMapping) -> bool:
    """Whether every column of the file has the name of a field, as in those that
    Ragstone writes."""
    named = {*mapping.columns.values(), *mapping.ignored} <= MAPPABLE
    return named and mapping.format == "jsonl" and not mapping.recorded


def find_files(
    paths: Sequence[str | Path] | str | Path, root: Path, within: Path | None = None
) -> tuple[SourceFile, ...]:
    """The files that match `paths`, each once, globs in sorted order. Raises
    GoldenSetError if a path has no match."""
    patterns = [paths] if isinstance(paths, str | Path) else list(paths)
    if not patterns:
        raise GoldenSetError(
            "no golden set.",
            hint='Set one in ragstone.toml:\n  [golden]\n  paths = ["golden.jsonl"]',
        )
    files: dict[str, SourceFile] = {}
    for pattern in patterns:
        try:
            for path in _expand(str(pattern), root):
                files.setdefault(
                    os.path.realpath(path),
                    SourceFile(path, _relative(path, root), within),
                )
        except UnicodeEncodeError:
            shown = str(pattern).encode("utf-8", "backslashreplace").decode()[:200]
            raise GoldenSetError(
                "the file name is not UTF-8.", where=shown, hint="Rename the file."
            ) from None
        except OSError as error:
            raise GoldenSetError(
                f"can't be looked up: {error.strerror}.", where=str(pattern)[:200]
            ) from None
    return tuple(files.values())


def _mode(path: Path) -> int | None:
    """The mode of what is at `path`, None if nothing is. From Python 3.14 on,
    Path.is_file() hides all other errors."""
    try:
        return path.stat().st_mode
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
            return None
        raise


def _expand(pattern: str, root: Path) -> list[Path]:
    if "\0" in pattern:
        raise GoldenSetError(
            "a file name can't contain a null character.", where="golden paths"
        )
    pattern.encode()  # file names are written into records and reports
    path = root / pattern
    mode = _mode(path)
    if mode is not None:
        if stat.S_ISREG(mode):
            return [path]
        if stat.S_ISDIR(mode):
            raise GoldenSetError(
                "is a folder.",
                where=pattern,
                hint=f'Name its files: "{shown_name(pattern).rstrip("/")}/*.jsonl"',
            )
        raise GoldenSetError("is not a regular file.", where=pattern)
    looked_in = f"Looked in {shown_name(str(root.resolve()))}"
    if not _GLOB_SIGNS & set(pattern):
        raise GoldenSetError(
            "not found.",
            where=pattern,
            hint=f"{looked_in}: check the path, or [golden] paths.",
        )
    matches = sorted(glob.glob(pattern, root_dir=root, recursive=True))  # noqa: PTH207 (absolute patterns work)
    for match in matches:
        match.encode()
    files = [root / match for match in matches if (root / match).is_file()]
    if not files:
        raise GoldenSetError(
            "no file matches this pattern.",
            where=pattern,
            hint=f"Looked in {shown_name(str(root.resolve()))}.",
        )
    return files


def _relative(path: Path, root: Path) -> str:
    try:
        return Path(os.path.relpath(path, root)).as_posix()
    except ValueError:  # on another drive
        return path.as_posix()


def _load_table(
    source: SourceFile,
    table: _Table,
    wanted: Mapping[str, str],
    missing: dict[str, str],
    limit: int | None,
    room: int,
) -> tuple[list[Sample], ColumnMapping, int]:
    """The samples of one table, at most `limit`; its mapping; and the number of its
    rows.

    Removes from `missing` what the table has. Raises GoldenSetError if there is no
    `room` for so many samples.
    """
    inside = f"{table.prefix}." if table.prefix else ""
    columns = {name: path.removeprefix(inside) for name, path in wanted.items()}
    profile = profile_rows(source, map(open_row, table.rows()), columns.values())
    if not profile.rows:
        raise source.error(
            "contains no samples.", hint='Add at least one, such as {"question": "…"}.'
        )
    count = profile.rows if limit is None else min(profile.rows, limit)
    if count > room:
        total = MAX_SAMPLES - room + count
        raise source.error(
            f"with this file, the golden set has {total:,} samples, more than {MAX_SAMPLES:,}.",
            hint="Split it, and evaluate each part in a run of its own, or use --limit.",
        )
    for name in list(missing):
        if columns[name] in profile.found:
            del missing[name]
    plan = _plan(source, profile, columns)
    if "question" not in columns:
        refuse_results(source, profile, plan)
    reader = SampleReader(source, plan)
    rows = first_rows(map(open_row, table.rows()), count)
    samples = list(join_turns(source, ((row, reader.sample(row)) for row in rows)))
    refuse_names(source, plan, samples, columns)
    return samples, _mapping(source, table, plan, reader), profile.rows


def _plan(
    source: SourceFile, profile: Profile, columns: Mapping[str, str]
) -> ColumnPlan:
    path = columns.get("question")
    if path is not None and path not in profile.found:
        names = ", ".join(repr(".".join(column)) for column in profile.columns)
        message = f"no column '{path}', which [golden.columns] maps to the question. Columns found: {names or 'none'}."
        try:
            return plan_columns(source, profile, columns)
        except GoldenSetError as error:
            raise source.error(message, hint=error.hint) from None
    return plan_columns(source, profile, columns)


def _open(source: SourceFile, wanted: Mapping[str, str]) -> _Table:
    file_format = format_of(source)
    if file_format.is_document:
        return _document(source, file_format.name, file_format.read(source), wanted)
    if (
        file_format.name in ("csv", "tsv")
        and (encoding := delimited.encoding_of(source)) == delimited.WINDOWS
    ):
        source = replace(source, encoding=encoding)
    notes = (
        ()
        if source.encoding is None
        else ("the text is not UTF-8, and was read as Windows-1252",)
    )
    if (
        file_format.name in _TABLES
        and (tests := _promptfoo_tests(source, file_format)) is not None
    ):
        return replace(tests, notes=(*notes, *tests.notes))
    return _Table(file_format.name, partial(file_format.read, source), notes=notes)


def _promptfoo_tests(source: SourceFile, kind: Format) -> _Table | None:
    """The tests of promptfoo in a table, None for any other."""
    if (
        read_promptfoo_cells([row.values for row in islice(kind.read(source), 1)])
        is None
    ):
        return None
    rows: list[Row] = list(kind.read(source))
    tests = read_promptfoo_cells([row.values for row in rows])
    if tests is None:
        return None
    read = [Row(values, rows[position].line) for values, position in tests.rows]
    return _Table(kind.name, lambda: read, notes=tests.notes)


def _document(
    source: SourceFile, kind: str, document: Any, wanted: Mapping[str, str]
) -> _Table:
    if document is None:
        raise source.error("contains no samples.")
    table = find_table(source, document, wanted)
    return _Table(kind, lambda: table.rows, table.path, table.notes)


def _mapping(
    source: SourceFile, table: _Table, plan: ColumnPlan, reader: SampleReader
) -> ColumnMapping:
    def shown(path: str) -> str:
        return f"{table.prefix}.{path}" if table.prefix else path

    fields = dict(plan.fields)
    inverse = fields.pop("unanswerable", None)
    columns = {name: shown(paths[0]) for name, paths in fields.items()}
    if "tags" in fields:
        columns["tags"] = ", ".join(map(shown, fields["tags"]))
    notes = [*table.notes, *plan.notes]
    if inverse:
        columns["answerable"] = shown(inverse[0])
        notes.append(f"answerable is read from '{inverse[0]}', inverted")
    if reader.several_references:
        notes.append(
            f"of several references, the best counts (samples with several: {reader.several_references})"
        )
    if reader.with_history:
        notes.append(
            f"earlier turns of conversations are read (samples with a history: {reader.with_history})"
        )
    if reader.conversations:
        notes.append(
            f"each turn of a conversation is a sample (conversations: {reader.conversations})"
        )
    if reader.answerless:
        reference = columns["reference"]
        notes.append(
            f"an empty '{reference}' is read as unanswerable (samples without an answer: {reader.answerless})"
        )
    return ColumnMapping(
        file=source.name,
        format=table.format,
        columns=columns,
        ignored=tuple(shown(name) for name in plan.ignored),
        recorded={name: shown(path) for name, path in plan.recorded.items()},
        notes=tuple(notes),
    )


def _telling_apart(table: _Table, first: Sample, second: Sample) -> str | None:
    """A column with a distinct short text in every row, if both samples come from
    `table` and it has one."""
    if (
        first.origin is None
        or second.origin is None
        or first.origin.file != second.origin.file
    ):
        return None
    rows = list(table.rows())
    for name in rows[0].values:
        texts = {
            str(row.values.get(name))
            for row in rows
            if isinstance(row.values.get(name), str | int)
        }
        if len(texts) == len(rows) and max(map(len, texts)) < 100:
            return f"{table.prefix}.{name}" if table.prefix else name
    return None


def _duplicate(
    first: Sample, second: Sample, mapping: ColumnMapping, apart: str | None
) -> GoldenSetError:
    if "id" not in mapping.columns and first.content_hash() == second.content_hash():
        again = (
            f" and {second.origin}"
            if first.origin != second.origin
            else f", twice: {first.question[:80]!r}"
        )
        message = f"duplicate question at {first.origin}{again}."
        hint = "Remove one, or give each a unique id."
        if apart:
            hint = f'Remove one, or map a column of ids in ragstone.toml:\n  [golden.columns]\n  id = "{apart}"'
    else:
        message = f"duplicate id '{second.id}' at {first.origin} and {second.origin}."
        hint = "Give each sample a unique id."
    return GoldenSetError(message, where=str(second.origin), hint=hint)


def _column_not_found(
    missing: Mapping[str, str], mappings: Sequence[ColumnMapping]
) -> GoldenSetError:
    name, path = next(iter(missing.items()))
    columns = {
        column
        for mapping in mappings
        for column in (*mapping.columns.values(), *mapping.ignored)
    }
    return GoldenSetError(
        f"there is no column '{path}', which is mapped to the {name}. "
        f"Columns found: {', '.join(sorted(map(repr, columns)))}.",
        where="[golden.columns]",
        hint=suggestion(path, columns),
    )
