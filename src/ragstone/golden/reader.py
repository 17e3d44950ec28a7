"""Builds samples from rows, following a column plan."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from functools import partial
from typing import TypeVar

from ragstone.golden import cells
from ragstone.golden.aliases import last_name
from ragstone.golden.asserted import assertions
from ragstone.golden.columns import ColumnPlan
from ragstone.golden.expected_calls import expected_calls
from ragstone.golden.profile import MISSING, follow
from ragstone.golden.rows import Row, SourceFile
from ragstone.golden.sample import Assertions, Message, Origin, Review, Sample

Value = TypeVar("Value")
Default = TypeVar("Default")
_NO_GRADES: Mapping[str, float] = Sample(id="", question="").relevant_ids


class SampleReader:
    """Reads the rows of one file."""

    def __init__(self, source: SourceFile, plan: ColumnPlan) -> None:
        self.source = source
        self.plan = plan

    def sample(self, row: Row) -> Sample:
        """The sample in `row`; its id comes from the row, or else from the content
        (`derived_id`).

        The id of a turn is that of its conversation, empty if it has none
        (`conversations.conversation`).

        Raises GoldenSetError with line and column.
        """
        question = self._read(row, "question", cells.question, None)
        if question is None:
            column = f"column '{self.plan.fields['question']}'"
            raise self.source.error(
                f"no question: {row.turn or column} is missing or empty.", row.line
            )
        references = self._references(row)
        reference = next(iter(references), None)
        passages = self._read(row, "reference_contexts", cells.contexts, ())
        own_id = self._read(row, "id", cells.identifier, "")
        chat = self._read(row, "question", cells.earlier_turns, ())
        history = self._read(row, "history", cells.turns, chat)
        if not own_id and not row.turn:
            own_id = derived_id(question, reference, passages, history)
        asserted = Assertions(
            must_contain=self._read(row, "must_contain", cells.phrases, ()),
            must_not_contain=self._read(row, "must_not_contain", cells.phrases, ()),
            regex=self._read(row, "regex", cells.patterns, ()),
            max_words=self._read(row, "max_words", cells.positive, None),
            typed=self._read(row, "assert", assertions, ()),
        )
        review = None
        status = self._read(row, "status", cells.status, None)
        if status is not None:
            reviewer = self._read(row, "reviewer", cells.text, None)
            day = self._read(row, "reviewed_on", cells.text, None)
            review = Review(status, reviewer, day)
        return Sample(
            id=own_id,
            question=question,
            reference=reference,
            reference_contexts=passages,
            relevant_ids=self._read(row, "relevant_ids", cells.grades, _NO_GRADES),
            answerable=self._answerable(row),
            tags=self._read(row, "tags", cells.tags, ()),
            group=self._read(row, "group", cells.text, None),
            origin=Origin(self.source.name, row.line),
            assertions=None if asserted == Assertions() else asserted,
            other_references=references[1:],
            review=review,
            provenance=self._read(row, "provenance", cells.text, None),
            history=history,
            min=self._read(row, "min", cells.bounds, _NO_GRADES),
            max=self._read(row, "max", cells.bounds, _NO_GRADES),
            expects_clarification=self._read(
                row, "expects", cells.is_clarification, False
            ),
            hops=self._read(row, "reference_contexts", cells.hops, ()),
            tools=self._read(row, "tools", expected_calls, ()),
            tools_in_order=self._read(row, "tool_order", cells.truth, False),
        )

    def _references(self, row: Row) -> tuple[str, ...]:
        name = last_name(self.plan.fields.get("reference", ""))
        read = partial(cells.texts, plural=name.endswith("s"))
        texts = self._read(row, "reference", read, ())
        if texts and name == "expected_facts":
            texts = ("\n".join(texts),)  # MLflow's: an answer must state them all
        more = self._read(row, "other_references", cells.texts, ())
        equal_texts = (*texts, *more)
        references = tuple(dict.fromkeys(equal_texts))
        count = len(references)
        if count > cells.MAX_REFERENCES:
            raise self.source.error(
                f"{count:,} references; at most {cells.MAX_REFERENCES:,} are allowed.",
                row.line,
            )
        return references

    def _answerable(self, row: Row) -> bool:
        if "answerable" in self.plan.fields:
            return self._read(row, "answerable", cells.truth, True)
        if "unanswerable" in self.plan.fields:
            return not self._read(row, "unanswerable", cells.truth, False)
        return not self._read(row, "reference", cells.is_answerless, False)

    def _read(
        self,
        row: Row,
        field: str,
        convert: Callable[[object], Value],
        without: Default,
    ) -> Value | Default:
        """The value of `field`; `without` if the file has no such column, or the row
        nothing in it."""
        path = self.plan.fields.get(field)
        if path is None:
            return without
        value = follow(row.values, path)
        if value is MISSING or cells.is_blank(value):
            return without
        try:
            return convert(value)
        except cells.CellError as error:
            mappable = "answerable" if field == "unanswerable" else field
            raise self.source.error(
                f"column '{path}' ({field}) {error}.",
                row.line,
                hint=f"Fix the value. If '{path}' is not the {field}, map the right column in ragstone.toml "
                f'("" leaves a field out):\n  [golden.columns]\n  {mappable} = "…"',
            ) from None


def derived_id(
    question: str,
    reference: str | None,
    passages: tuple[str, ...],
    history: tuple[Message, ...] = (),
) -> str:
    """An id from the content: ``q-`` and 12 hex digits, independent of the sample's
    position in its file."""
    content: list[object] = [question, reference, passages]
    if history:
        messages = [[turn.role, turn.text] for turn in history]
        content.append(messages)
    body = json.dumps(content, ensure_ascii=False, separators=(",", ":"))
    digest = hashlib.sha256(body.encode()).hexdigest()
    return f"q-{digest[:12]}"
