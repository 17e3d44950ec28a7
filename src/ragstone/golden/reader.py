"""Builds samples from rows, following a column plan."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from functools import partial
from typing import TypeVar

from ragstone.errors import GoldenSetError
from ragstone.golden import asserted, cells
from ragstone.golden.aliases import normal
from ragstone.golden.columns import ColumnPlan
from ragstone.golden.profile import MISSING, follow
from ragstone.golden.rows import Row, SourceFile
from ragstone.golden.sample import Assertions, Message, Origin, Review, Sample

Value = TypeVar("Value")
_NEGATIVE_WORDS = frozenset({"no", "false", "incorrect", "wrong", "bad"})
_NO_GRADES: Mapping[str, float] = Sample(id="", question="").relevant_ids


class SampleReader:
    """Reads the rows of one file.

    `several_references` counts rows with several references, `answerless` those that
    are unanswerable because their answer is SQuAD's empty one, `with_history` those
    with earlier messages, `conversations` those that are the first of several turns.
    """

    def __init__(self, source: SourceFile, plan: ColumnPlan) -> None:
        self.source = source
        self.plan = plan
        self.several_references = 0
        self.answerless = 0
        self.with_history = 0
        self.conversations = 0
        self._shared: dict[object, object] = {}

    def sample(self, row: Row) -> Sample:
        """The sample in `row`; its id comes from the row, or else from the content
        (`derived_id`).

        The id of a turn is that of its conversation, empty if it has none
        (`conversations.join_turns`).

        Raises GoldenSetError with line and column.
        """
        question = self._read(row, "question", cells.question)
        if question is None:
            name = self.plan.fields["question"][0]
            if row.turn is not None:
                raise self.source.error(
                    f"turn {row.turn.number} of {row.turn.conversation} has no question.",
                    row.line,
                )
            raise self.source.error(
                f"no question: column '{name}' is missing or empty.", row.line
            )
        for label, judged in self.plan.labels:
            if judged in self.plan.fields:
                self._check_label(row, label, judged)
        reference, other_references = self._references(row)
        passages = self._read(row, "reference_contexts", cells.contexts) or ()
        named = self._read(row, "id", _optional_id)
        history = self._history(row)
        if row.turn is None:
            named = named or derived_id(question, reference, passages, history)
        return Sample(
            id=named or "",
            question=question,
            reference=reference,
            reference_contexts=passages,
            relevant_ids=self._read(row, "relevant_ids", cells.grades) or _NO_GRADES,
            answerable=self._answerable(row),
            tags=self._share(self._tags(row)),
            group=self._share(self._read(row, "group", cells.text)),
            origin=Origin(self.source.name, row.line),
            assertions=self._assertions(row),
            other_references=other_references,
            review=self._review(row),
            provenance=self._share(self._read(row, "provenance", cells.text)),
            history=history,
            min=self._read(row, "min", cells.bounds) or _NO_GRADES,
            max=self._read(row, "max", cells.bounds) or _NO_GRADES,
            expects_clarification=self._read(row, "expects", cells.is_clarification)
            or False,
            hops=self._read(row, "reference_contexts", cells.hops) or (),
            tools=self._read(row, "tools", cells.expected_calls) or (),
            tools_in_order=bool(self._read(row, "tool_order", cells.truth)),
        )

    def _tags(self, row: Row) -> tuple[str, ...]:
        """The tags of all columns that have some: a kind of question and a difficulty
        are both tags."""
        paths = self.plan.fields.get("tags", ())
        tags = [
            tag
            for path in paths
            for tag in self._convert(row, path, "tags", cells.tags) or ()
        ]
        return tuple(dict.fromkeys(tags))

    def _review(self, row: Row) -> Review | None:
        status = self._read(row, "status", cells.status)
        if status is None:
            return None
        reviewer, day = (
            self._read(row, "reviewer", cells.text),
            self._read(row, "reviewed_on", cells.text),
        )
        return self._share(
            Review("draft" if status == "draft" else "reviewed", reviewer, day)
        )

    def _assertions(self, row: Row) -> Assertions | None:
        assertions = Assertions(
            must_contain=self._read(row, "must_contain", cells.phrases) or (),
            must_not_contain=self._read(row, "must_not_contain", cells.phrases) or (),
            regex=self._read(row, "regex", cells.patterns) or (),
            max_words=self._read(row, "max_words", cells.positive),
            typed=self._read(row, "assert", asserted.assertions) or (),
        )
        return assertions if assertions != Assertions() else None

    def _history(self, row: Row) -> tuple[Message, ...]:
        """The turns before the question: in a column of their own, or in the chat that
        the question ends."""
        if row.turn is not None:
            self.conversations += row.turn.number == 1
            return ()
        messages = self._read(row, "history", cells.turns)
        if messages is None:
            messages = self._read(row, "question", cells.earlier_turns) or ()
        self.with_history += bool(messages)
        return messages

    def _references(self, row: Row) -> tuple[str | None, tuple[str, ...]]:
        paths = self.plan.fields.get("reference", ())
        columns = [
            self._convert(row, path, "reference", _reader_of(path)) or ()
            for path in paths
        ]
        filled = [texts for texts in columns if texts]
        for path, texts in zip(paths[1:], columns[1:], strict=True):
            # One answer, and the list of all right ones, agree.
            if (
                texts
                and columns[0]
                and not ({*texts} <= {*columns[0]} or {*columns[0]} <= {*texts})
            ):
                raise self._ambiguous(row, "reference", paths[0], path)
        listed = self._read(row, "other_references", cells.texts) or ()
        every = tuple(
            dict.fromkeys(
                text for texts in (*sorted(filled, key=len), listed) for text in texts
            )
        )
        if len(every) > cells.MAX_REFERENCES:
            raise self.source.error(
                f"{len(every):,} references; at most {cells.MAX_REFERENCES:,} are allowed.",
                row.line,
            )
        self.several_references += len(every) > 1
        return (every[0] if every else None), every[1:]

    def _answerable(self, row: Row) -> bool:
        if "answerable" in self.plan.fields:
            answerable = self._read(row, "answerable", cells.truth)
            return True if answerable is None else answerable
        if "unanswerable" in self.plan.fields:
            return not self._read(row, "unanswerable", cells.truth)
        if "reference" in self.plan.fields and cells.is_answerless(
            self._value(row, self.plan.fields["reference"][0])
        ):
            self.answerless += 1
            return False
        return True

    def _read(
        self, row: Row, field: str, convert: Callable[[object], Value]
    ) -> Value | None:
        paths = self.plan.fields.get(field)
        if paths is None:
            return None
        first_value = self._convert(row, paths[0], field, convert)
        for path in paths[1:]:
            next_value = self._convert(row, path, field, convert)
            if not first_value:
                first_value = next_value
            elif next_value and next_value != first_value:
                raise self._ambiguous(row, field, paths[0], path)
        return first_value

    def _convert(
        self, row: Row, path: str, field: str, convert: Callable[[object], Value]
    ) -> Value | None:
        value = self._value(row, path)
        if value is None:
            return None
        try:
            return convert(value)
        except cells.CellError as error:
            raise self.source.error(
                f"column '{path}' ({field}) {error}.",
                row.line,
                hint=_other_column(field, path),
            ) from None

    def _value(self, row: Row, path: str) -> object | None:
        value = row.values.get(path)
        if value is None and "." in path:
            value = follow(row.values, path)
        return None if value is MISSING else value

    def _ambiguous(
        self, row: Row, field: str, first: str, second: str
    ) -> GoldenSetError:
        return self.source.error(
            f"columns '{first}' and '{second}' could both be the {field}, but differ.",
            row.line,
            hint=f'Choose one in ragstone.toml:\n  [golden.columns]\n  {field} = "{first}"',
        )

    def _check_label(self, row: Row, label: str, judged: str) -> None:
        value = self._value(row, label)
        if not _is_negative(value):
            return
        column = self.plan.fields[judged][0]
        question = self.plan.fields["question"][0]
        left_out = dict.fromkeys(f'{field} = ""' for _, field in self.plan.labels)
        raise self.source.error(
            f"column '{label}' is {cells.shown(value)}, so '{column}' is labelled wrong here and can't be used as "
            f"{judged}: this file was made for testing judges.",
            row.line,
            hint="Keep only the rows that are labelled right, or map the columns in ragstone.toml "
            f'("" leaves a field out):\n  [golden.columns]\n  question = "{question}"\n  '
            + "\n  ".join(left_out),
        )

    def _share(self, value: Value) -> Value:
        """One shared object for equal values: tags and groups repeat from sample to
        sample."""
        return self._shared.setdefault(value, value)  # type: ignore[return-value]


def _reader_of(path: str) -> Callable[[object], tuple[str, ...]]:
    """Reads a column of references."""
    name = normal(path.rpartition(".")[2])
    if name == "expected_facts":  # MLflow's: an answer must state them all
        return lambda value: tuple(filter(None, ["\n".join(cells.texts(value))]))
    return partial(cells.texts, plural=name.endswith("s"))


def derived_id(
    question: str,
    reference: str | None,
    passages: tuple[str, ...],
    history: tuple[Message, ...] = (),
) -> str:
    """An id from the content: ``q-`` and 12 hex digits, independent of the sample's
    position in its file."""
    earlier = [[[turn.role, turn.text] for turn in history]] if history else []
    body = json.dumps(
        [question, reference, passages, *earlier],
        ensure_ascii=False,
        separators=(",", ":"),
    )
    return "q-" + hashlib.sha256(body.encode()).hexdigest()[:12]


def _other_column(field: str, path: str) -> str:
    leave_out = "" if field == "question" else ', or leave it out with ""'
    return (
        f"Fix the value. If '{path}' is not the {field}, map the right column{leave_out}, in ragstone.toml:\n"
        f'  [golden.columns]\n  {"answerable" if field == "unanswerable" else field} = "…"'
    )


def _optional_id(value: object) -> str | None:
    if isinstance(value, str) and not value.strip():
        return None
    return cells.identifier(value)


def _is_negative(value: object) -> bool:
    if isinstance(value, str):
        word = value.strip().strip("[]").lower()
        if word in _NEGATIVE_WORDS:
            return True
        try:
            return float(word) < 1
        except ValueError:
            return False
    return isinstance(value, bool | int | float) and value < 1
