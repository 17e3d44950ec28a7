"""Data sets exported from other tools: their files, and the pages of their documented APIs saved as JSON.

Each tool wraps its items in its own way; inside, the questions and answers are whatever the team made of them. So an
export is unwrapped here into plain rows with `id`, `input`, `expected` and `metadata`, and read like any other file.

Sources of the shapes, as of November 2026: the data set viewer of Hugging Face (/rows), Langfuse's public API
(/api/public/dataset-items), LangSmith's API (/api/v1/examples), Phoenix's REST API (/v1/datasets/ID/examples and /csv),
and Opik's REST API (/v1/private/datasets/ID/items) and `Dataset.to_json()`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Any

from ragstone.errors import GoldenSetError
from ragstone.files import read_table
from ragstone.formatting import counted
from ragstone.golden.formats.registry import BY_ENDING
from ragstone.golden.load import find_files, golden_set_of_rows
from ragstone.golden.rows import Row, SourceFile, line_of
from ragstone.golden.sample import GoldenSet, Review
from ragstone.system.worker import at_path

_ENDINGS = (".json", ".jsonl", ".ndjson", ".csv", ".tsv", ".parquet")
"""Of the formats in which the tools export."""


class Tool(StrEnum):
    HUGGING_FACE = "huggingface"
    LANGFUSE = "langfuse"
    LANGSMITH = "langsmith"
    PHOENIX = "phoenix"
    OPIK = "opik"


@dataclass(frozen=True, slots=True)
class Export:
    """The rows of one export, of one or more files.

    `dataset` and `version` name what was exported, if the files say so; `digest` is the SHA-256 (hex) of the files.
    `archived` counts the items that the tool had retired, which are left out.
    """

    tool: Tool
    rows: tuple[tuple[SourceFile, Row], ...]
    dataset: str | None
    version: str | None
    digest: str
    archived: int = 0

    def provenance(self, item: str | None) -> str:
        """Where a sample comes from: tool, data set, version and item."""
        version = self.version or f"sha256 {self.digest[:12]}"
        return f"{self.tool.value}: {self.dataset or 'data set'}, {version}" + (f", item {item}" if item else "")


@dataclass(slots=True)
class _Page:
    """The items of one file, and what it says of the whole: how many there are, its name and its version."""

    items: list[tuple[Any, int | None]]
    total: int | None = None
    dataset: str | None = None
    version: str | None = None


def read_export(sources: Sequence[SourceFile], tool: Tool, *, partial: bool = False) -> Export:
    """The rows of `sources`, the files of one data set exported from `tool`.

    Raises GoldenSetError if a file does not have the tool's shape, if pages are missing (unless `partial`), if a page
    is given twice, or if the files are of different data sets or versions.
    """
    digest = hashlib.sha256()
    rows: list[tuple[SourceFile, Row]] = []
    pages: list[tuple[SourceFile, _Page]] = []
    seen: dict[str, str] = {}
    archived = 0
    for source in sources:
        digest.update(hashlib.sha256(source.read_bytes()).digest())
        page = _page(source, _content(source), tool)
        pages.append((source, page))
        for item, line in page.items:
            if not isinstance(item, Mapping):
                raise _unlike(source, tool, line)
            found = _row(tool, source, item, line)
            if found is None:
                archived += 1
                continue
            name = str(found.get("id") or "")
            if name and seen.setdefault(name, source.at(line)) != source.at(line):
                raise source.error(f"item '{name}' is also at {seen[name]}.", line, hint="Give each page once.")
            rows.append((source, Row(found, line)))
    _check_whole(pages, len(rows) + archived, partial=partial)
    last, _ = pages[-1]
    dataset = _one(last, "data sets", (page.dataset for _, page in pages))
    stated = _one(last, "versions", (page.version for _, page in pages))
    return Export(tool, tuple(rows), dataset, stated or _newest(pages), digest.hexdigest(), archived)


def _content(source: SourceFile) -> Any:
    """A JSON document, or the rows of another format as objects that know their lines."""
    ending = source.path.suffix.lower()
    if ending not in _ENDINGS:
        raise source.error(
            f"unsupported file extension '{ending}'.", hint=f"Supported extensions: {', '.join(_ENDINGS)}."
        )
    form = BY_ENDING[ending]
    return form.read(source) if form.is_document else list(form.read(source))


def _page(source: SourceFile, content: Any, tool: Tool) -> _Page:
    """The items of a list, or of an object that holds one, and what the object says of the whole."""
    shape, whole = _SHAPES[tool], content if isinstance(content, Mapping) else {}
    if tool is Tool.PHOENIX and "data" in whole:
        content = whole["data"]
        whole = content if isinstance(content, Mapping) else {}
    if tool is Tool.HUGGING_FACE and "features" not in whole:  # a data file, with its rows at "data" or in a list
        content, whole = whole.get("data", content), {}
    listed = whole.get(shape.items) if whole else content
    if not isinstance(listed, list):
        raise _unlike(source, tool, 1)
    items: list[tuple[Any, int | None]]
    if listed and isinstance(listed[0], Row):
        items = [(dict(row.values), row.line) for row in listed]
    else:
        items = [(item, line_of(listed, number)) for number, item in enumerate(listed)]
    total = at_path(whole, shape.total)
    own = {_text(item.get(shape.item_dataset)) for item, _ in items if isinstance(item, Mapping)}
    return _Page(
        items,
        total if isinstance(total, int) and not isinstance(total, bool) else None,
        _one(source, "data sets", {_text(at_path(whole, shape.dataset)), *own}),
        _text(at_path(whole, shape.version)),
    )


def _unlike(source: SourceFile, tool: Tool, line: int | None) -> Exception:
    return source.error(
        f"this is not an export of {_SHAPES[tool].name}.",
        line,
        hint="Expected "
        + _SHAPES[tool].expected
        + "\n  Any other file of questions is read without import: ragstone convert.",
    )


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value.strip() else None


def _hugging_face_row(source: SourceFile, item: Mapping[str, Any], line: int | None) -> dict[str, object]:
    row = item.get("row")
    if not isinstance(row, Mapping) or "row_idx" not in item:
        return dict(item)
    cut = item.get("truncated_cells")
    if cut:
        raise source.error(
            f"the viewer has cut the cells {', '.join(map(str, cut))} of row {item['row_idx']}.",
            line,
            hint="Export the data set's Parquet files instead.",
        )
    return dict(row)


def _opik_row(source: SourceFile, item: Mapping[str, Any], line: int | None) -> dict[str, object]:
    data = item.get("data", item)
    if not isinstance(data, Mapping):
        raise _unlike(source, Tool.OPIK, line)
    own = {key: value for key, value in data.items() if key not in {"source", "trace_id", "span_id"}}
    named = {"id": item["id"]} if item.get("id") is not None else {}
    tags = {"tags": item["tags"]} if item.get("tags") and "tags" not in own else {}
    return {**own, **named, **tags}


def _row(tool: Tool, source: SourceFile, item: Mapping[str, Any], line: int | None) -> dict[str, object] | None:
    """`item` as a plain row; None if the tool had retired it."""
    if tool is Tool.HUGGING_FACE:
        return _hugging_face_row(source, item, line)
    if tool is Tool.OPIK:
        return _opik_row(source, item, line)
    shape = _SHAPES[tool]
    if tool is Tool.PHOENIX and "example_id" in item:
        item = _phoenix_cells(item)
    if not any(item.keys() >= set(names) for names in shape.needs):
        if tool is Tool.LANGSMITH and source.path.suffix.lower() in {".csv", ".tsv"}:  # one column per input and output
            return dict(item)
        raise _unlike(source, tool, line)
    if str(item.get("status", "")).upper() == "ARCHIVED":
        return None
    found = {
        field: _only(next((item[name] for name in names if name in item), None))
        for field, names in shape.fields.items()
    }
    return found | {name: item[name] for name in ("id", "metadata") if item.get(name) not in (None, {}, "")}


def _phoenix_cells(item: Mapping[str, Any]) -> Mapping[str, Any]:
    """A row of CSV: a column per key, with the part that it belongs to before it."""
    parts: dict[str, dict[str, object]] = {"input": {}, "output": {}, "metadata": {}}
    for column, value in item.items():
        part, sign, key = str(column).partition("_")
        if sign and part in parts:
            parts[part][key] = value
    return {"id": item["example_id"], **parts}


def _only(value: object) -> object:
    if isinstance(value, Mapping) and len(value) == 1:
        inner = next(iter(value.values()))
        return inner if isinstance(inner, str) else value
    return value


def _check_whole(pages: Sequence[tuple[SourceFile, _Page]], found: int, *, partial: bool) -> None:
    source = pages[-1][0]
    total = max((page.total for _, page in pages if page.total is not None), default=None)
    if total is not None and found < total and not partial:
        raise source.error(
            f"the data set has {counted(total, 'item')}, but the files have {found:,}.",
            hint="Give all pages, or add --partial if a part is meant.",
        )


def _one(source: SourceFile, what: str, names: Iterable[str | None]) -> str | None:
    distinct = sorted({name for name in names if name is not None})
    if len(distinct) > 1:
        raise source.error(f"the files are of {len(distinct)} {what}: {', '.join(distinct[:5])}.", hint="Import one.")
    return distinct[0] if distinct else None


_CHANGED = ("updatedAt", "updated_at", "modified_at", "last_updated_at", "createdAt", "created_at")


def _newest(pages: Sequence[tuple[SourceFile, _Page]]) -> str | None:
    """The time of the last change to an item, with which the tools name a version that has no other name."""
    times: list[tuple[datetime, str]] = []
    for _, page in pages:
        for item, _ in page.items:
            stamp = next((item[key] for key in _CHANGED if isinstance(item.get(key), str)), None)
            if stamp is None:
                continue
            try:
                times.append((datetime.fromisoformat(stamp), stamp))
            except ValueError:
                continue
    try:
        return max(times)[1] if times else None
    except TypeError:  # some with a time zone, and some without
        return None


@dataclass(frozen=True, slots=True)
class _Shape:
    """How a tool writes an export (exports.toml).

    `items` is where a page has its list of items, `total` how many the whole has, `dataset` and `version` what it is
    of; `item_dataset` is the field of an item with its data set. Dotted paths. An item has all of one of `needs`, and
    what we call `input` and `expected` under the first of the names in `fields` that it has.
    """

    name: str
    expected: str
    items: str
    total: str = ""
    dataset: str = ""
    version: str = ""
    item_dataset: str = ""
    needs: Sequence[Sequence[str]] = ()
    fields: Mapping[str, Sequence[str]] = field(default_factory=dict)


_TABLES = read_table("exports.toml", __package__)
_SHAPES = {tool: _Shape(**_TABLES[tool]) for tool in Tool}


def import_files(
    paths: Sequence[str],
    tool: Tool,
    *,
    root: Path,
    columns: Mapping[str, str],
    dataset: str | None = None,
    version: str | None = None,
    partial: bool = False,
    drafts: bool = False,
) -> tuple[GoldenSet, Export]:
    """The golden set in an export of `tool`, each sample with its provenance, and the export.

    `dataset` and `version` override those in the files. Raises GoldenSetError if it can't be read.
    """
    export = read_export(find_files(paths, root), tool, partial=partial)
    if not export.rows:
        raise GoldenSetError("the export contains no items.", where=str(paths[0]))
    export = replace(export, dataset=dataset or export.dataset, version=version or export.version)
    golden = golden_set_of_rows(export.rows, tool.value, columns=columns)
    named = "id" in golden.mappings[0].columns
    samples = tuple(
        replace(
            sample,
            provenance=export.provenance(sample.id if named else None),
            review=Review("draft") if drafts else sample.review,
        )
        for sample in golden
    )
    return GoldenSet(samples, golden.mappings), export
