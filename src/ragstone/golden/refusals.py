"""Refuses files that would be misread as golden sets, with what to write instead."""

from __future__ import annotations

import difflib
import shlex
from collections.abc import Iterable
from itertools import chain

from ragstone.formatting import listed, some
from ragstone.golden.aliases import (
    CONTAINERS,
    FIELD_NAMES,
    SCORES,
    has_weak_name,
    normal,
)
from ragstone.golden.names import are_names
from ragstone.golden.profile import Profile
from ragstone.golden.rows import ByField, SourceFile, Table
from ragstone.golden.sample import Sample
from ragstone.golden.suggest import mapping_block

_KNOWN = CONTAINERS | FIELD_NAMES
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


def no_question(source: SourceFile, profile: Profile) -> Exception:
    """The error for a file without a column for the question."""
    names = [repr(".".join(path)) for path in profile.columns]
    block = mapping_block(Table("", profile.first_rows))
    return source.error(
        f"no column for the question, or none with text in it. Columns found: {some(names, 40) or 'none'}.",
        hint=f"Map the columns in ragstone.toml:\n  {block}",
    )


def rated(source: SourceFile, labels: ByField, fields: ByField) -> Exception:
    """The error for a file with labels of the values of some fields."""
    field, label = next(iter(labels.items()))
    columns = [
        f'question = "{fields["question"]}"',
        *(f'{name} = ""' for name in labels),
    ]
    mapping = "\n  ".join(columns)
    return source.error(
        f"column '{label}' rates '{fields[field]}', of which some may be wrong: this file was made for testing judges.",
        hint='Map the columns in ragstone.toml: "" leaves a field out; name its column if all values are right:\n'
        f"  [golden.columns]\n  {mapping}",
    )


def refuse_misspelt(source: SourceFile, profile: Profile, wanted: ByField) -> None:
    """Raise GoldenSetError for a column that is almost named like a field: ignoring it
    would silently lose scores."""
    for path in profile.columns:
        column = path[0]
        name = normal(column)
        if name in _KNOWN or column in wanted.values():
            continue
        for field_name in difflib.get_close_matches(name, _MISSPELLABLE, 1, cutoff=0.9):
            # groups, reference2: a separate column
            is_separate = name.rstrip("s0123456789_") == field_name.rstrip("s")
            is_near = name[0] == field_name[0] and not is_separate
            if is_near and field_name not in wanted:
                raise source.error(
                    f"column '{column}' looks like a misspelt '{field_name}', and would be ignored.",
                    hint="Rename it, or map the field in ragstone.toml "
                    f'("" leaves the field out):\n  [golden.columns]\n  {field_name} = "{column}"',
                )


def refuse_names(
    source: SourceFile, fields: ByField, wanted: ByField, samples: Iterable[Sample]
) -> None:
    """Raise GoldenSetError if each reference context in `samples` is plainly the name
    of a document, unless the user maps this column, or that of the ids."""
    # Who has both says which is which.
    is_mapped = not wanted.keys().isdisjoint({"relevant_ids", "reference_contexts"})
    if is_mapped or "relevant_ids" in fields:
        return
    column = fields.get("reference_contexts", "")
    texts = list(chain.from_iterable(sample.reference_contexts for sample in samples))
    if are_names(texts):
        raise source.error(
            f"column '{column}' has names of documents ({texts[0]!r}), where passages are expected.",
            hint="Map it in ragstone.toml to the field that it is:\n  [golden.columns]\n"
            f'  relevant_ids = "{column}"\n'
            f'  Or, if these are passages: reference_contexts = "{column}".',
        )


def refuse_results(
    source: SourceFile, profile: Profile, fields: ByField, recorded: ByField
) -> None:
    """Raise GoldenSetError if the file has answers, no right ones, and scores: then it
    is the result of an evaluation."""
    reference = fields.get("reference", "")
    answer = recorded.get("answer") or reference
    if not answer or (reference and not has_weak_name(reference, "reference")):
        return
    names = {path[0]: normal(path[0]) for path in profile.columns}
    observed = any(
        name.startswith(("actual_", "retrieved_")) for name in names.values()
    )
    scores = [
        repr(column)
        for column, name in names.items()
        if name in SCORES or (observed and name.endswith("_score"))
    ]
    if not scores:
        return
    name = shlex.quote(source.name)
    score_columns = listed(scores[:3])
    raise source.error(
        f"these are results of an evaluation: questions, a system's answers ('{answer}') and scores "
        f"({score_columns}), without a column of right answers, so no golden set.",
        hint=f"Compare the scores with floors: ragstone compare {name}\n"
        f"  Score the answers again: ragstone rescore {name} --out DIR\n"
        "  To read the questions anyway, map their column in ragstone.toml:\n"
        f'  [golden.columns]\n  question = "{fields["question"]}"',
    )
