"""Chooses the column for each field."""

from __future__ import annotations

import difflib
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import accumulate, product

from ragstone.formatting import listed
from ragstone.golden.aliases import CONTAINERS, FIELDS, LABELS, RECORDED, SCORES, normal
from ragstone.golden.names import are_names
from ragstone.golden.profile import Kinds, Profile
from ragstone.golden.rows import SourceFile
from ragstone.golden.sample import Sample
from ragstone.golden.suggest import mapping_block

MAPPABLE = frozenset(FIELDS) - {"unanswerable"}
"""The fields that can be mapped in `[golden.columns]`."""

_LABELS_OF_ROWS = frozenset({"group", "tags"})
"""Fields that a column may be beside another one: the id of a conversation, the name of
a topic."""

_ANY = ~Kinds.NOTHING
_SPOKEN = Kinds.TEXT | Kinds.UNIT | Kinds.NUMBER
_LISTED = Kinds.LIST | Kinds.OBJECTS
_GRADED_NAMES = frozenset({"expected", "target"})
_GOLD_OBJECTS = frozenset({"output", "outputs"})
"""Plain text under these names is a system's output; objects are annotators'
answers."""
_CHATS = frozenset(
    {"messages", "input", "inputs", "user_input", "prompt", "question", "query"}
)

_KNOWN = CONTAINERS | {
    name
    for table in (FIELDS, RECORDED)
    for aliases in table.values()
    for name in (*aliases.strong, *aliases.weak)
}
_MISSPELLABLE = frozenset(
    {
        "reference",
        "reference_contexts",
        "relevant_ids",
        "answerable",
        "unanswerable",
        "tags",
    }
    | {"must_contain", "must_not_contain", "max_words", "tools"}
)
"""Fields whose loss would go unnoticed. Without a question nothing loads; a missing id
or group changes no score."""

Path = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ColumnPlan:
    """The paths that each field is read from. Several paths must agree on every row.

    `labels` pairs a column of labels with the field whose values it rates.
    """

    fields: Mapping[str, tuple[str, ...]]
    recorded: Mapping[str, str] = field(default_factory=dict)
    ignored: tuple[str, ...] = ()
    labels: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()


def plan_columns(
    source: SourceFile, profile: Profile, wanted: Mapping[str, str]
) -> ColumnPlan:
    """Choose columns by `wanted` (field to dotted path, "" to leave a field out), then
    by the table of aliases.

    Raises GoldenSetError if no column, or more than one, could be the question.
    """
    chooser = _Chooser(profile, wanted)
    fields: dict[str, tuple[str, ...]] = {}
    for name in FIELDS:
        paths = chooser.choose(name)
        if paths:
            fields[name] = paths
    if "question" not in fields:
        raise _no_question(source, profile)
    if "answerable" in fields or wanted.get("answerable") == "":
        fields.pop("unanswerable", None)
    notes = _settle_answers(chooser, fields)
    if (
        "assert" in fields
        and fields["question"][0].startswith("vars.")
        and "assert" not in wanted
    ):
        del fields["assert"]
        notes = (
            *notes,
            "'assert' has promptfoo's assertions, which are read from JSON and YAML only",
        )
    recorded = {
        name: path for name in RECORDED if (path := chooser.recorded(name, fields))
    }
    used = {path for paths in fields.values() for path in paths} | set(
        recorded.values()
    )
    _refuse_misspelt(source, profile, wanted)
    return ColumnPlan(
        fields=fields,
        recorded=recorded,
        ignored=_ignored(profile, used),
        labels=chooser.labels(fields),
        notes=notes,
    )


def refuse_names(
    source: SourceFile,
    plan: ColumnPlan,
    samples: Iterable[Sample],
    wanted: Mapping[str, str],
) -> None:
    """Raise GoldenSetError if each reference context in `samples` is plainly the name
    of a document.

    A file with a column of relevant ids, and a user who maps either in `wanted`, says
    which is which.
    """
    paths = plan.fields.get("reference_contexts")
    if (
        paths is None
        or "relevant_ids" in {**plan.fields, **wanted}
        or "reference_contexts" in wanted
    ):
        return
    texts = [text for sample in samples for text in sample.reference_contexts]
    if are_names(texts):
        raise source.error(
            f"column '{paths[0]}' has names of documents ({texts[0]!r}), where passages are expected.",
            hint="Map it in ragstone.toml to the field that it is:\n  [golden.columns]\n"
            f'  relevant_ids = "{paths[0]}"\n'
            f'  Or, if these are passages: reference_contexts = "{paths[0]}".',
        )


def refuse_results(source: SourceFile, profile: Profile, plan: ColumnPlan) -> None:
    """Raise GoldenSetError for the results of an evaluation without right answers: its
    answers are a system's."""
    names = {path[0]: normal(path[0]) for path in profile.columns if len(path) == 1}
    observed = any(
        name.startswith(("actual_", "retrieved_")) for name in names.values()
    )
    scores = [
        path
        for path, name in names.items()
        if name in SCORES or (observed and name.endswith("_score"))
    ]
    reference = plan.fields.get("reference", ("",))[0]
    answer = plan.recorded.get("answer") or reference
    if (
        not scores
        or not answer
        or (reference and normal(_last(reference)) not in FIELDS["reference"].weak)
    ):
        return
    name = shlex.quote(source.name)
    raise source.error(
        f"these are results of an evaluation: questions, a system's answers ('{answer}') and scores "
        f"({listed(list(map(repr, scores[:3])))}), without a column of right answers, so no golden set.",
        hint=f"Compare the scores with floors: ragstone compare {name}\n"
        f"  Score the answers again: ragstone rescore {name} --out DIR\n"
        f"  Use them as recorded answers: --entrypoint file:{name}, with a golden set of your own.\n"
        "  To read the questions anyway, map their column in ragstone.toml:\n"
        f'  [golden.columns]\n  question = "{plan.fields["question"][0]}"',
    )


class _Chooser:
    def __init__(self, profile: Profile, wanted: Mapping[str, str]) -> None:
        self.profile = profile
        self.wanted = wanted
        self.by_name: dict[str, list[Path]] = {}
        self.nested: dict[str, list[Path]] = {}
        for path in profile.columns:
            index = self.by_name if len(path) == 1 else self.nested
            if len(path) == 1 or normal(path[0]) in CONTAINERS:
                index.setdefault(normal(path[-1]), []).append(path)

    def explicit(self, name: str) -> bool:
        path = self.wanted.get(name)
        return path is not None and (path == "" or path in self.profile.found)

    def choose(self, name: str) -> tuple[str, ...]:
        if self.explicit(name):
            path = self.wanted[name]
            return (path,) if path else ()
        mapped = {
            path for field, path in self.wanted.items() if field not in _LABELS_OF_ROWS
        }  # to other fields
        aliases = FIELDS[name]
        for names, index in product(
            (aliases.strong, aliases.weak), (self.by_name, self.nested)
        ):
            candidates = (
                path
                for alias in names
                for path in index.get(alias, ())
                if ".".join(path) not in mapped
            )
            paths = [path for path in candidates if self._fits(name, path)]
            if paths:
                return tuple(".".join(path) for path in paths)
        return ()

    def _fits(self, name: str, path: Path) -> bool:
        kinds = self.profile.columns[path]
        alias = normal(path[-1])
        if name == "question":
            chat = bool(kinds & _LISTED) and alias in _CHATS
            return bool(kinds & _SPOKEN) or chat
        if name == "reference":
            return self._could_be_reference(path, alias, kinds)
        if name in {"relevant_ids", "tags"}:
            # Under Ragstone's own name, values that can't be ids are an error, not a
            # different column.
            return path[-1] == name or bool(kinds & (_SPOKEN | _LISTED | Kinds.OBJECT))
        return bool(kinds & _ANY)

    def _could_be_reference(self, path: Path, alias: str, kinds: Kinds) -> bool:
        if alias in _GOLD_OBJECTS:
            return kinds == Kinds.OBJECTS or (
                kinds == Kinds.OBJECT and alias == "outputs"
            )
        if kinds == Kinds.OBJECT and alias in CONTAINERS:
            return False
        return bool(kinds) and not self.is_label(path)

    def is_label(self, path: Path) -> bool:
        """Whether the column contains only numbers in [0, 1], under a name that other
        tools use for scores."""
        return (
            normal(path[-1]) in _GRADED_NAMES
            and self.profile.columns[path] == Kinds.UNIT
        )

    def first(self, names: tuple[str, ...], kinds: Kinds = _ANY) -> str | None:
        for index in (self.by_name, self.nested):
            for name in names:
                for path in index.get(name, ()):
                    if self.profile.columns[path] & kinds:
                        return ".".join(path)
        return None

    def recorded(self, name: str, fields: Mapping[str, tuple[str, ...]]) -> str | None:
        used = {path for paths in fields.values() for path in paths}
        aliases = RECORDED[name]
        extra = ("answer",) if name == "answer" else FIELDS["reference_contexts"].weak
        for names in (aliases.strong, extra, aliases.weak):
            path = self.first(names)
            if path is not None and not any(
                name == path or name.startswith(f"{path}.") for name in used
            ):
                return path
        return None

    def labels(
        self, fields: Mapping[str, tuple[str, ...]]
    ) -> tuple[tuple[str, str], ...]:
        columns = [
            path
            for path in self.profile.columns
            if len(path) == 1 or normal(path[0]) in CONTAINERS
        ]
        judged_columns = [
            (".".join(p), judged)
            for p in columns
            if (judged := LABELS.get(normal(p[-1]))) is not None
        ]
        if "reference" not in fields:
            judged_columns += [
                (".".join(path), "reference_contexts")
                for path in columns
                if self.is_label(path)
            ]
        return tuple(
            (path, judged)
            for path, judged in judged_columns
            if judged in fields and not self.explicit(judged)
        )


def _settle_answers(
    chooser: _Chooser, fields: dict[str, tuple[str, ...]]
) -> tuple[str, ...]:
    """Distinguish recorded answers from references if one name is used for both.

    ``answer`` is the reference, unless the file has retrieved contexts and so records a
    system's answers. ``contexts`` are the reference's, unless the file records an
    answer (DeepEval's ``actual_output`` comes with contexts of both kinds under two
    names).
    """
    notes: list[str] = []
    reference = fields.get("reference", ("",))[0]
    weak_reference = normal(_last(reference)) in FIELDS["reference"].weak
    answer = chooser.first(RECORDED["answer"].strong)
    retrieved = chooser.first(RECORDED["contexts"].strong)
    beside = retrieved or chooser.first(("contexts",))
    if (
        weak_reference
        and beside
        and not chooser.explicit("reference")
        and beside not in chooser.wanted.values()
    ):
        del fields["reference"]
        answer = answer or reference
        notes.append(
            f"'{reference}' is read as a recorded answer, because there is also '{beside}'; "
            f'if it is the right answer, write reference = "{reference}" under [golden.columns]'
        )
    elif reference and not weak_reference:
        answer = answer or chooser.first(("answer",))
    contexts = fields.get("reference_contexts", ("",))[0]
    neutral = normal(_last(contexts)) in FIELDS["reference_contexts"].weak
    own_names = chooser.explicit("reference_contexts") or retrieved
    if (
        neutral
        and answer
        and not own_names
        and normal(_last(answer)) != "actual_output"
    ):
        del fields["reference_contexts"]
    return tuple(notes)


def _refuse_misspelt(
    source: SourceFile, profile: Profile, wanted: Mapping[str, str]
) -> None:
    """Raise GoldenSetError for a column that is almost named like a field: ignoring it
    would silently lose scores."""
    for path in profile.columns:
        name = normal(path[0])
        if name in _KNOWN or path[0] in wanted.values():
            continue
        for field_name in _MISSPELLABLE - wanted.keys():
            if _almost(name, field_name):
                raise source.error(
                    f"column '{path[0]}' looks like a misspelt '{field_name}', and would be ignored.",
                    hint="Rename it, or map the field in ragstone.toml "
                    f'("" leaves the field out):\n  [golden.columns]\n  {field_name} = "{path[0]}"',
                )


def _almost(name: str, field_name: str) -> bool:
    if name[:1] != field_name[:1] or abs(len(name) - len(field_name)) > 1:
        return False
    if name.rstrip("s0123456789_") == field_name.rstrip(
        "s"
    ):  # groups, reference2: a separate column
        return False
    return (
        difflib.SequenceMatcher(None, name, field_name, autojunk=False).ratio() >= 0.85
    )


def _last(path: str) -> str:
    return path.rpartition(".")[2]


def _ignored(profile: Profile, used: set[str]) -> tuple[str, ...]:
    """Unused columns, and the unused parts of partly used objects."""
    opened = {path.partition(".")[0] for path in used if "." in path}
    read = {
        path for name in used for path in accumulate(name.split("."), "{}.{}".format)
    }
    unused: list[str] = []
    for path in profile.columns:
        name = ".".join(path)
        inside = len(path) == 2 and path[0] in opened and path[0] not in used
        if (len(path) == 1 or inside) and name not in read:
            unused.append(name)
    return tuple(unused)


def _no_question(source: SourceFile, profile: Profile) -> Exception:
    empty = next(
        (
            path[0]
            for path in profile.columns
            if len(path) == 1 and normal(path[0]) in FIELDS["question"].strong
        ),
        None,
    )
    if empty is not None:
        rows = "its only row" if profile.rows == 1 else f"all {profile.rows:,} rows"
        return source.error(
            f"the column '{empty}' has no text in {rows}, so there is no question to ask.",
            hint="Add the questions, or map another column under [golden.columns] in ragstone.toml.",
        )
    names = [".".join(path) for path in profile.columns]
    shown = ", ".join(repr(name) for name in names[:40]) + (
        ", …" if len(names) > 40 else ""
    )
    remark = ""
    if any(normal(path[-1]) == "metric_output" for path in profile.columns):
        remark = (
            " These look like annotations for training a judge, not like a golden set."
        )
    elif "" in names and len(names) == 2:
        remark = " If the first lines are a title, delete them."
    return source.error(
        f"no column for the question. Columns found: {shown or 'none'}.{remark}",
        hint=f"Map the columns in ragstone.toml:\n  {mapping_block(profile.first_rows)}",
    )
