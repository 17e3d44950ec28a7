"""Chooses the column for each field."""

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
    normal,
)
from ragstone.golden.profile import Kind, Path, Profile
from ragstone.golden.refusals import no_question, rated, refuse_misspelt
from ragstone.golden.rows import ByField, SourceFile
from ragstone.golden.sample import Texts

MAPPABLE = frozenset(FIELDS) - {"unanswerable"}
"""The fields that can be mapped in `[golden.columns]`."""

_SPOKEN: set[Kind] = {"text", "unit", "number"}
_LISTED: set[Kind] = {"list", "objects"}
_ANNOTATED: Mapping[str, tuple[set[Kind], ...]] = {
    "output": ({"objects"},),
    "outputs": ({"object"}, {"objects"}),
}
"""What annotators' answers are under these names; text is a system's."""

_NEUTRAL: Mapping[str, Texts] = {
    "answer": ("answer",),
    "contexts": FIELDS["reference_contexts"].weak,
}
"""Names under which either the system's output or what is right may stand."""

_GRADED_NAMES = frozenset({"expected", "target"})
_CHATS = frozenset(
    {"messages", "input", "inputs", "user_input", "prompt", "question", "query"}
)


class ColumnPlan(Struct, frozen=True):
    """The path that each field is read from."""

    fields: ByField
    recorded: ByField = {}
    """Where the file has a system's answer and contexts."""
    ignored: Texts = ()
    notes: Texts = ()


def plan_columns(source: SourceFile, profile: Profile, wanted: ByField) -> ColumnPlan:
    """Choose columns by `wanted` (field to dotted path, "" to leave a field out), then
    by the table of aliases.

    Raises GoldenSetError if no column could be the question.
    """
    columns = _Columns(profile, wanted)
    fields: dict[str, str] = {}
    for name in FIELDS:
        path = wanted[name] if columns.is_mapped(name) else columns.by_alias(name)
        if path:
            fields[name] = path
    if "question" not in fields:
        raise no_question(source, profile)
    if "answerable" in fields or wanted.get("answerable") == "":
        fields.pop("unanswerable", None)
    notes = _settle_answers(columns, fields)
    recorded = {}
    for name in RECORDED:
        path = columns.recorded(name, fields)
        if path:
            recorded[name] = path
    columns.refuse_labels(source, fields)
    refuse_misspelt(source, profile, wanted)
    used = {*fields.values(), *recorded.values()}
    ignored = []
    for column in profile.columns:
        # Unused columns, and the unused parts of partly used objects.
        dotted = ".".join(column)
        top = column[0]
        is_partly_used = top not in used and _is_read(top, used)
        is_open = len(column) == 1 or is_partly_used
        if is_open and not _is_read(dotted, used):
            ignored.append(dotted)
    return ColumnPlan(fields, recorded, tuple(ignored), notes)


class _Columns:
    def __init__(self, profile: Profile, wanted: ByField) -> None:
        self._profile = profile
        self._wanted = wanted
        self.paths = [
            path
            for path in profile.columns
            if len(path) == 1 or normal(path[0]) in CONTAINERS
        ]
        """Columns, and those inside of objects that hold columns."""

    def is_mapped(self, name: str) -> bool:
        """Whether the user says where the field is, or that it is left out."""
        return self._wanted.get(name) in self._profile.found

    def is_mapped_column(self, path: str) -> bool:
        return path in self._wanted.values()

    def named(self, names: Texts) -> list[Path]:
        """The columns with one of `names`: outer ones first, best name first."""

        def rank(path: Path) -> tuple[int, int]:
            return len(path), names.index(normal(path[-1]))

        paths = [path for path in self.paths if normal(path[-1]) in names]
        return sorted(paths, key=rank)

    def first(self, names: Texts) -> str:
        """The best column of `names` that has values."""
        for path in self.named(names):
            if self._profile.columns[path]:
                return ".".join(path)
        return ""

    def by_alias(self, name: str) -> str:
        strong, weak = FIELDS[name].strong, FIELDS[name].weak
        for path in [*self.named(strong), *self.named(weak)]:
            column = ".".join(path)
            # Ids stay ids, whatever else the user reads from their column.
            is_free = name == "id" or not self.is_mapped_column(column)
            if is_free and self._fits(name, path):
                return column
        return ""

    def _fits(self, name: str, path: Path) -> bool:
        kinds = self._profile.columns[path]
        alias = normal(path[-1])
        if name == "question":
            wanted = _SPOKEN
            if alias in _CHATS:
                wanted = _SPOKEN | _LISTED
            return bool(kinds & wanted)
        if name != "reference":
            return bool(kinds)
        if alias in _ANNOTATED:
            return kinds in _ANNOTATED[alias]
        is_container = alias in CONTAINERS and kinds == {"object"}
        return bool(kinds) and not is_container and not self._is_label(path)

    def _is_label(self, path: Path) -> bool:
        """Whether the column contains only numbers in [0, 1], under a name that other
        tools use for scores."""
        is_graded = normal(path[-1]) in _GRADED_NAMES
        return is_graded and self._profile.columns[path] == {"unit"}

    def recorded(self, name: str, fields: ByField) -> str:
        """The column with a system's answer or contexts that no field is read from."""
        recorded = RECORDED[name]
        for names in (recorded.strong, _NEUTRAL[name], recorded.weak):
            column = self.first(names)
            if column and not _is_read(column, fields.values()):
                return column
        return ""

    def refuse_labels(self, source: SourceFile, fields: ByField) -> None:
        """Raise GoldenSetError if a column rates the values of a field that the user
        has not mapped: some of these are wrong."""
        labels: dict[str, str] = {}
        for path in self.paths:
            field_name = LABELS.get(normal(path[-1]), "")
            if "reference" not in fields and self._is_label(path):
                field_name = "reference_contexts"
            if field_name in fields and not self.is_mapped(field_name):
                labels[field_name] = ".".join(path)
        if labels:
            raise rated(source, labels, fields)


def _settle_answers(columns: _Columns, fields: dict[str, str]) -> Texts:
    """Distinguish recorded answers from references if one name is used for both.

    ``answer`` is the reference, unless the file has retrieved contexts and so records a
    system's answers. ``contexts`` are the reference's, unless the file records an
    answer (DeepEval's ``actual_output`` comes with contexts of both kinds under two
    names).
    """
    notes: Texts = ()
    reference = fields.get("reference", "")
    answer = columns.first(RECORDED["answer"].strong)
    retrieved = columns.first(RECORDED["contexts"].strong)
    beside = retrieved or columns.first(("contexts",))
    is_weak = has_weak_name(reference, "reference")
    if not is_weak and reference and not answer:
        answer = columns.first(("answer",))
    is_chosen = columns.is_mapped("reference") or columns.is_mapped_column(beside)
    if is_weak and beside and not is_chosen:
        del fields["reference"]
        answer = answer or reference
        notes = (
            f"'{reference}' is read as a recorded answer, because there is also '{beside}'; "
            f'if it is the right answer, write reference = "{reference}" under [golden.columns]',
        )
    contexts = fields.get("reference_contexts", "")
    is_weak = has_weak_name(contexts, "reference_contexts")
    is_chosen = columns.is_mapped("reference_contexts")
    is_answer_alone = not retrieved and last_name(answer) != "actual_output"
    if answer and is_weak and not is_chosen and is_answer_alone:
        del fields["reference_contexts"]
    return notes


def _is_read(column: str, paths: Iterable[str]) -> bool:
    """Whether one of `paths` is the column, or leads into it."""
    return any(f"{path}.".startswith(f"{column}.") for path in paths)
