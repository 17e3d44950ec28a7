"""Refuses files that would be misread as golden sets, and says what to write instead."""

from __future__ import annotations

import difflib
import shlex
from collections.abc import Iterable
from itertools import chain

from ragstone.formatting import join_first, listed
from ragstone.golden.aliases import (
    CONTAINERS,
    FIELD_NAMES,
    SCORES,
    has_weak_name,
    normalise_name,
)
from ragstone.golden.document_names import are_document_names
from ragstone.golden.profile import Profile
from ragstone.golden.rows import ByField, SourceFile, Table
from ragstone.golden.sample import Sample
from ragstone.golden.suggest import suggest_mapping

_KNOWN_NAMES = CONTAINERS | FIELD_NAMES
_MISSPELLABLE = (
    "reference",
    "reference_contexts",
    "relevant_ids",
    "answerable",
    "unanswerable",
    "tags",
    "must_contain",
    "must_not_contain",
    "max_words",
    "tools",
)
"""Fields whose loss would go unnoticed. Without a question nothing loads; a missing id
or group changes no score."""

_MIN_SIMILARITY = 0.9
"""The similarity to a field's name, as difflib measures it, from which a column's name is
taken for a misspelling."""

_MAX_SHOWN_COLUMNS = 40


def no_question_error(source: SourceFile, profile: Profile) -> Exception:
    """Return the error for a file without a column for the question."""
    names = [repr(".".join(path)) for path in profile.columns]
    columns = join_first(names, _MAX_SHOWN_COLUMNS) or "none"
    block = suggest_mapping(Table("", profile.first_rows))
    return source.error(
        f"no column for the question, or none with text in it. Columns found: {columns}.",
        hint=f"Map the columns in ragstone.toml:\n  {block}",
    )


def rated_fields_error(
    source: SourceFile, label_columns: ByField, fields: ByField
) -> Exception:
    """Return the error for a file with columns that rate the values of some fields."""
    field, label_column = next(iter(label_columns.items()))
    lines = [
        f'question = "{fields["question"]}"',
        *(f'{rated_field} = ""' for rated_field in label_columns),
    ]
    mapping = "\n  ".join(lines)
    return source.error(
        f"column '{label_column}' rates the values of '{fields[field]}', so some may be wrong: "
        "this file seems to be made for testing judges.",
        hint='Map the columns in ragstone.toml: "" leaves a field out; name its column if all values are right:\n'
        f"  [golden.columns]\n  {mapping}",
    )


def refuse_misspelt(
    source: SourceFile, profile: Profile, user_columns: ByField
) -> None:
    """Raise GoldenSetError for a column whose name is almost that of a field: ignoring
    it would silently lose scores."""
    for path in profile.columns:
        column = path[0]
        name = normalise_name(column)
        if name in _KNOWN_NAMES or column in user_columns.values():
            continue
        similar_fields = difflib.get_close_matches(
            name, _MISSPELLABLE, n=1, cutoff=_MIN_SIMILARITY
        )
        for field in similar_fields:
            # A number or plural, as in reference2, makes a column of another meaning.
            is_variant = name.rstrip("s0123456789_") == field.rstrip("s")
            is_misspelt = name[0] == field[0] and not is_variant
            if is_misspelt and field not in user_columns:
                raise source.error(
                    f"column '{column}' looks like a misspelt '{field}', and would be ignored.",
                    hint="Rename it, or map the field in ragstone.toml "
                    f'("" leaves the field out):\n  [golden.columns]\n  {field} = "{column}"',
                )


def refuse_document_names(
    source: SourceFile,
    fields: ByField,
    user_columns: ByField,
    samples: Iterable[Sample],
) -> None:
    """Raise GoldenSetError if each reference context in `samples` is plainly the name of
    a document, unless the user maps the column of the contexts or of the ids."""
    is_mapped = not user_columns.keys().isdisjoint(
        {"relevant_ids", "reference_contexts"}
    )
    # A file that has ids too distinguishes them from contexts.
    if is_mapped or "relevant_ids" in fields:
        return
    column = fields.get("reference_contexts", "")
    texts = list(chain.from_iterable(sample.reference_contexts for sample in samples))
    if are_document_names(texts):
        raise source.error(
            f"column '{column}' has names of documents ({texts[0]!r}), where passages are expected.",
            hint="Map it in ragstone.toml to the field that it is:\n  [golden.columns]\n"
            f'  relevant_ids = "{column}"\n'
            f'  Or, if these are passages: reference_contexts = "{column}".',
        )


def refuse_results(
    source: SourceFile, profile: Profile, fields: ByField, recorded: ByField
) -> None:
    """Raise GoldenSetError if the file is the result of an evaluation: it has answers of
    a system and scores, but no right answers."""
    reference = fields.get("reference", "")
    answer = recorded.get("answer") or reference
    if not answer or (reference and not has_weak_name(reference, "reference")):
        return
    name_by_column = {path[0]: normalise_name(path[0]) for path in profile.columns}
    has_system_output = any(
        name.startswith(("actual_", "retrieved_")) for name in name_by_column.values()
    )
    score_columns = [
        repr(column)
        for column, name in name_by_column.items()
        if name in SCORES or (has_system_output and name.endswith("_score"))
    ]
    if not score_columns:
        return
    file = shlex.quote(source.name)
    first_score_columns = listed(score_columns[:3])
    raise source.error(
        f"these are results of an evaluation: questions, a system's answers ('{answer}') and scores "
        f"({first_score_columns}), but no column of right answers, so this is no golden set.",
        hint=f"Compare the scores with floors: ragstone compare {file}\n"
        f"  Score the answers again: ragstone rescore {file} --out DIR\n"
        "  To read the questions anyway, map their column in ragstone.toml:\n"
        f'  [golden.columns]\n  question = "{fields["question"]}"',
    )
