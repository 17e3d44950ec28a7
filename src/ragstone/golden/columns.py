"""Chooses the column that each field is read from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct

from ragstone.golden.aliases import (
    CONTAINERS,
    FIELDS,
    LABELS,
    RECORDED,
    has_weak_name,
    last_name,
    normalise_name,
)
from ragstone.golden.profile import ColumnPath, Kind, Profile
from ragstone.golden.refusals import (
    no_question_error,
    rated_fields_error,
    refuse_misspelt,
)
from ragstone.golden.rows import ByField, SourceFile
from ragstone.golden.sample import Texts

MAPPABLE = frozenset(FIELDS) - {"unanswerable"}
"""The fields that can be mapped in `[golden.columns]`."""

_TEXT_KINDS: set[Kind] = {"text", "fraction", "number"}
_CHAT_KINDS: set[Kind] = {"list", "objects"}

_CHAT_NAMES = frozenset(
    {"messages", "input", "inputs", "user_input", "prompt", "question", "query"}
)
"""Columns that may have a chat, whose last message is the question."""

_ANNOTATION_KINDS: Mapping[str, tuple[set[Kind], ...]] = {
    "output": ({"objects"},),
    "outputs": ({"object"}, {"objects"}),
}
"""The kinds of a person's answers in these columns; text is a system's answer."""

_AMBIGUOUS_NAMES: Mapping[str, Texts] = {
    "answer": ("answer",),
    "contexts": FIELDS["reference_contexts"].weak,
}
"""Names of columns that may have a system's output, or what is right."""

_LABEL_NAMES = frozenset({"expected", "target"})
"""Columns that may have a right answer, or a person's label from 0 to 1."""


class ColumnPlan(Struct, frozen=True):
    """The columns that a file is read from."""

    fields: ByField
    recorded: ByField = {}
    """The columns of a system's ``answer`` and ``contexts``."""
    ignored: Texts = ()
    """The columns that are not used."""
    notes: Texts = ()
    """Sentences about a choice that may be wrong."""


def plan_columns(
    source: SourceFile, profile: Profile, user_columns: ByField
) -> ColumnPlan:
    """Choose columns by `user_columns` (field to dotted path, "" to leave a field out),
    then by the table of aliases.

    Raises GoldenSetError if no column could be the question, or if a column is likely to
    be misread.
    """
    columns = _Columns(profile, user_columns)
    fields: dict[str, str] = {}
    for field in FIELDS:
        path = columns.find_by_alias(field)
        if columns.is_mapped(field):
            path = user_columns[field]
        if path:
            fields[field] = path
    if "question" not in fields:
        raise no_question_error(source, profile)
    # `answerable` decides if a file has both.
    if "answerable" in fields or user_columns.get("answerable") == "":
        fields.pop("unanswerable", None)
    notes = _drop_recorded_output(columns, fields)
    recorded = {}
    for part in RECORDED:
        path = columns.find_recorded(part, fields)
        if path:
            recorded[part] = path
    columns.refuse_labels(source, fields)
    refuse_misspelt(source, profile, user_columns)
    used_paths = {*fields.values(), *recorded.values()}
    ignored = _unused_columns(profile, used_paths)
    return ColumnPlan(fields, recorded, ignored, notes)


def _unused_columns(profile: Profile, used_paths: set[str]) -> Texts:
    """Return the columns that are not used; of an object that is used in part, the other
    parts."""
    unused = []
    for path in profile.columns:
        outer_column = path[0]
        is_partly_used = outer_column not in used_paths and _is_used(
            outer_column, used_paths
        )
        column = ".".join(path)
        is_shown = len(path) == 1 or is_partly_used
        if is_shown and not _is_used(column, used_paths):
            unused.append(column)
    return tuple(unused)


class _Columns:
    """The columns of a file, looked up by the names of fields."""

    def __init__(self, profile: Profile, user_columns: ByField) -> None:
        self._profile = profile
        self._user_columns = user_columns
        self._paths = [
            path
            for path in profile.columns
            if len(path) == 1 or normalise_name(path[0]) in CONTAINERS
        ]
        """The paths of columns, and of those inside objects that hold columns."""

    def is_mapped(self, field: str) -> bool:
        """Whether the user maps the field to a column of this file, or leaves it out."""
        return self._user_columns.get(field) in self._profile.existing_paths

    def is_mapped_column(self, path: str) -> bool:
        """Whether the user maps a field to this column."""
        return path in self._user_columns.values()

    def _paths_named(self, names: Texts) -> list[ColumnPath]:
        """Return the columns with one of `names`: outer ones first, then by the order of
        `names`."""

        def rank(path: ColumnPath) -> tuple[int, int]:
            return len(path), names.index(normalise_name(path[-1]))

        paths = [path for path in self._paths if normalise_name(path[-1]) in names]
        return sorted(paths, key=rank)

    def find(self, names: Texts) -> str:
        """Return the best column with one of `names` that isn't empty, "" if there is
        none."""
        for path in self._paths_named(names):
            if self._profile.columns[path]:
                return ".".join(path)
        return ""

    def find_by_alias(self, field: str) -> str:
        """Return the best column with a known name of `field` and fitting values, "" if
        there is none."""
        aliases = FIELDS[field]
        strong_paths = self._paths_named(aliases.strong)
        weak_paths = self._paths_named(aliases.weak)
        for path in [*strong_paths, *weak_paths]:
            column = ".".join(path)
            # A column of ids may be mapped to another field too.
            is_available = field == "id" or not self.is_mapped_column(column)
            if is_available and self._can_hold(field, path):
                return column
        return ""

    def _can_hold(self, field: str, path: ColumnPath) -> bool:
        """Whether the kinds of values in a column fit the field."""
        kinds = self._profile.columns[path]
        name = normalise_name(path[-1])
        if field == "question":
            fitting_kinds = _TEXT_KINDS
            if name in _CHAT_NAMES:
                fitting_kinds = _TEXT_KINDS | _CHAT_KINDS
            return bool(kinds & fitting_kinds)
        if field != "reference":
            return bool(kinds)
        if name in _ANNOTATION_KINDS:
            return kinds in _ANNOTATION_KINDS[name]
        is_container = name in CONTAINERS and kinds == {"object"}
        return bool(kinds) and not is_container and not self._is_label(path)

    def _is_label(self, path: ColumnPath) -> bool:
        """Whether the column contains only numbers from 0 to 1, under a name that other
        tools use for labels."""
        has_label_name = normalise_name(path[-1]) in _LABEL_NAMES
        return has_label_name and self._profile.columns[path] == {"fraction"}

    def find_recorded(self, part: str, fields: ByField) -> str:
        """Return the column with a system's ``answer`` or ``contexts``, "" if there is
        none that no field is read from."""
        aliases = RECORDED[part]
        for names in (aliases.strong, _AMBIGUOUS_NAMES[part], aliases.weak):
            column = self.find(names)
            if column and not _is_used(column, fields.values()):
                return column
        return ""

    def refuse_labels(self, source: SourceFile, fields: ByField) -> None:
        """Raise GoldenSetError if a column rates the values of a field that the user has
        not mapped: some of these values are wrong."""
        label_columns: dict[str, str] = {}
        for path in self._paths:
            field = LABELS.get(normalise_name(path[-1]), "")
            if "reference" not in fields and self._is_label(path):
                field = "reference_contexts"
            if field in fields and not self.is_mapped(field):
                label_columns[field] = ".".join(path)
        if label_columns:
            raise rated_fields_error(source, label_columns, fields)


def _drop_recorded_output(columns: _Columns, fields: dict[str, str]) -> Texts:
    """Remove from `fields` what is a system's output, not right answers or contexts, and
    return notes about it.

    ``answer`` is the reference, unless the file has retrieved contexts, and so records a
    system's answers. ``contexts`` are reference contexts, unless the file records an
    answer; but beside DeepEval's ``actual_output``, retrieved contexts have another name.
    """
    notes: Texts = ()
    reference = fields.get("reference", "")
    answer = columns.find(RECORDED["answer"].strong)
    retrieved = columns.find(RECORDED["contexts"].strong)
    retrieved_or_ambiguous = retrieved or columns.find(("contexts",))
    has_weak_reference = has_weak_name(reference, "reference")
    if not has_weak_reference and reference and not answer:
        answer = columns.find(("answer",))
    is_chosen_by_user = columns.is_mapped("reference") or columns.is_mapped_column(
        retrieved_or_ambiguous
    )
    if has_weak_reference and retrieved_or_ambiguous and not is_chosen_by_user:
        del fields["reference"]
        answer = answer or reference
        notes = (
            f"'{reference}' is read as a recorded answer, because there is also '{retrieved_or_ambiguous}'; "
            f'if it is the right answer, write reference = "{reference}" under [golden.columns]',
        )
    contexts = fields.get("reference_contexts", "")
    has_weak_contexts = has_weak_name(contexts, "reference_contexts")
    has_other_contexts = retrieved != "" or last_name(answer) == "actual_output"
    is_mapped = columns.is_mapped("reference_contexts")
    if answer and has_weak_contexts and not is_mapped and not has_other_contexts:
        del fields["reference_contexts"]
    return notes


def _is_used(column: str, paths: Iterable[str]) -> bool:
    """Whether one of `paths` is the column, or leads into it."""
    return any(f"{path}.".startswith(f"{column}.") for path in paths)
