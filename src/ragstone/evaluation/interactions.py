"""Reads recorded interactions: questions and answers that an application has logged."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from ragstone.errors import ConfigError, disk_errors
from ragstone.golden.aliases import RECORDED, SYSTEM_NAMES, normalise_name
from ragstone.golden.columns import ColumnPlan, plan_columns
from ragstone.golden.profile import profile_rows
from ragstone.golden.reader import SampleReader, derived_id
from ragstone.golden.rows import Row, SourceFile
from ragstone.golden.sample import MAX_SAMPLES, ColumnMapping, Sample
from ragstone.system.json_records import read_records
from ragstone.system.recorded import recorded_response
from ragstone.system.response import Response
from ragstone.system.span_file import steps_beside
from ragstone.system.worker.fields import Fields
from ragstone.system.worker.spans import trace_key

_ANSWER_COLUMNS = frozenset(
    {*SYSTEM_NAMES["answer"], *RECORDED["answer"].strong, *RECORDED["answer"].weak}
)
_CONTEXT_COLUMNS = frozenset({*SYSTEM_NAMES["contexts"], *RECORDED["contexts"].strong})
_RESPONSE_COLUMNS = frozenset(
    {
        *SYSTEM_NAMES["answer"],
        *SYSTEM_NAMES["contexts"],
        *SYSTEM_NAMES["steps"],
        "latency_s",
        "error",
        "usage",
    }
)


class Interactions(Struct, frozen=True):
    """Answers that were recorded outside of a run."""

    mapping: ColumnMapping
    """The file, and the columns that it was read by."""
    answers: Iterable[tuple[Sample, Response]]
    """Each sample, with an id of its own, and its response."""


def read_interactions(
    path: Path, columns: Mapping[str, str], fields: Fields
) -> Interactions:
    """The recorded interactions in the file `path`.

    `columns` maps the fields of samples to columns, `fields` those of responses. Raises
    ConfigError if the file can't be read, and GoldenSetError or SystemUnderTestError
    with the line of an invalid interaction.
    """
    source = SourceFile(path, str(path))
    profile = profile_rows(source, _rows(source), columns.values())
    if not profile.row_count:
        raise source.error(
            "contains no interactions.",
            hint='Expected {"question": "…", "answer": "…"} per line.',
        )
    plan = plan_columns(source, profile, columns)
    # A column with the answer to judge must not be read as its reference, too.
    answer_columns = {
        "reference": _ANSWER_COLUMNS,
        "reference_contexts": _CONTEXT_COLUMNS,
    }
    sample_fields = {
        name: path
        for name, path in plan.fields.items()
        if normalise_name(path) not in answer_columns.get(name, ())
    }
    mapping = ColumnMapping(source.name, "interactions", sample_fields)
    plan = replace(plan, fields=sample_fields)
    return Interactions(mapping, _answers(source, plan, fields))


def _answers(
    source: SourceFile, plan: ColumnPlan, fields: Fields
) -> Iterator[tuple[Sample, Response]]:
    """Each sample with its response, whose `extra` has the columns of neither. A
    repeated row without an id is left out."""
    reader, steps = SampleReader(source, plan), steps_beside(source)
    paths = (*plan.fields.values(), *fields.paths())
    known_columns = _RESPONSE_COLUMNS.union(path.partition(".")[0] for path in paths)
    ids: set[str] = set()
    for row in _rows(source):
        sample, where = reader.read(row), source.location(row.line)
        content_id = derived_id(
            sample.question, sample.reference, sample.reference_contexts, sample.history
        )
        has_id = sample.id != content_id
        if not has_id:
            # The same question may be asked often: the id is made of the whole row.
            body = json.dumps(row.values, sort_keys=True, default=str)
            digest = hashlib.sha256(body.encode("utf-8", "surrogatepass")).hexdigest()
            sample = dataclasses.replace(sample, id=f"i-{digest[:16]}")
        if sample.id in ids:
            if not has_id:
                continue
            raise ConfigError(
                f"the id '{sample.id}' is already used by another answer.",
                where=where,
                hint="Give each interaction its own id, or none.",
            )
        ids.add(sample.id)
        if len(ids) > MAX_SAMPLES:
            raise ConfigError(
                f"there are more than {MAX_SAMPLES:,} stored answers to score.",
                where=where,
                hint="Split the file, and score each part with its own --out.",
            )
        response = recorded_response(
            sample.id,
            row.values,
            where,
            fields=fields,
            steps=steps.get(trace_key(row.values.get("trace_id"))),
        )
        extra = {
            name: value
            for name, value in row.values.items()
            if name not in known_columns
        }
        yield sample, dataclasses.replace(response, extra=extra)


def _rows(source: SourceFile) -> Iterator[Row]:
    with disk_errors(
        source.path,
        hint="Expected a run directory, or a file of recorded interactions.",
    ):
        for record, line in read_records(source):
            yield Row(record, line)
