"""Builds samples from rows, following a column plan."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from functools import partial
from typing import TypeVar

from ragstone.golden import cells
from ragstone.golden.aliases import last_name
from ragstone.golden.columns import ColumnPlan
from ragstone.golden.expected_calls import to_expected_calls
from ragstone.golden.profile import MISSING, value_at
from ragstone.golden.promptfoo_assertions import to_assertions
from ragstone.golden.rows import Row, SourceFile
from ragstone.golden.sample import Assertions, Message, Origin, Review, Sample

Value = TypeVar("Value")
Default = TypeVar("Default")
_EMPTY_MAPPING: Mapping[str, float] = {}
"""Shared by all samples without grades or bounds, to save memory."""


class SampleReader:
    """Reads the rows of one file."""

    def __init__(self, source: SourceFile, plan: ColumnPlan) -> None:
        self.source = source
        self.plan = plan

    def read(self, row: Row) -> Sample:
        """Return the sample in `row`. Its id comes from the row, or else from its content
        (`derived_id`).

        A turn of a conversation gets the id of the conversation, "" if it has none, until
        `conversations.join_turns` replaces it.

        Raises GoldenSetError with line and column.
        """
        question = self._read(row, "question", cells.to_question, None)
        if question is None:
            column = f"column '{self.plan.fields['question']}'"
            raise self.source.error(
                f"no question: {row.turn_label or column} is missing or empty.",
                row.line,
            )
        references = self._references(row)
        reference = next(iter(references), None)
        contexts = self._read(row, "reference_contexts", cells.to_contexts, ())
        # The question may be a chat, whose last message is asked.
        chat = self._read(row, "question", cells.to_earlier_messages, ())
        history = self._read(row, "history", cells.to_messages, chat)
        sample_id = self._read(row, "id", cells.to_id, "")
        if not sample_id and not row.turn_label:
            sample_id = derived_id(question, reference, contexts, history)
        assertions = Assertions(
            must_contain=self._read(row, "must_contain", cells.to_phrases, ()),
            must_not_contain=self._read(row, "must_not_contain", cells.to_phrases, ()),
            regex=self._read(row, "regex", cells.to_patterns, ()),
            max_words=self._read(row, "max_words", cells.to_positive_integer, None),
            typed=self._read(row, "assert", to_assertions, ()),
        )
        review = None
        status = self._read(row, "status", cells.to_review_status, None)
        if status is not None:
            reviewer = self._read(row, "reviewer", cells.to_text, None)
            date = self._read(row, "reviewed_on", cells.to_text, None)
            review = Review(status, reviewer, date)
        return Sample(
            id=sample_id,
            question=question,
            reference=reference,
            reference_contexts=contexts,
            relevant_ids=self._read(
                row, "relevant_ids", cells.to_grades, _EMPTY_MAPPING
            ),
            answerable=self._answerable(row),
            tags=self._read(row, "tags", cells.to_tags, ()),
            group=self._read(row, "group", cells.to_text, None),
            origin=Origin(self.source.name, row.line),
            assertions=None if assertions == Assertions() else assertions,
            other_references=references[1:],
            review=review,
            provenance=self._read(row, "provenance", cells.to_text, None),
            history=history,
            min=self._read(row, "min", cells.to_bounds, _EMPTY_MAPPING),
            max=self._read(row, "max", cells.to_bounds, _EMPTY_MAPPING),
            expects_clarification=self._read(
                row, "expects", cells.to_expects_clarification, False
            ),
            hops=self._read(row, "reference_contexts", cells.to_hops, ()),
            tools=self._read(row, "tools", to_expected_calls, ()),
            tools_in_order=self._read(row, "tool_order", cells.to_boolean, False),
        )

    def _references(self, row: Row) -> tuple[str, ...]:
        """Return the reference answers, each once."""
        column = last_name(self.plan.fields.get("reference", ""))
        # A list written into a column with a singular name is one answer.
        is_plural = column.endswith("s")
        convert = partial(cells.to_texts, can_split_string=is_plural)
        texts = self._read(row, "reference", convert, ())
        if texts and column == "expected_facts":
            # MLflow's facts are one answer: all of them must be stated.
            texts = ("\n".join(texts),)
        other_texts = self._read(row, "other_references", cells.to_texts, ())
        references = tuple(dict.fromkeys((*texts, *other_texts)))
        count = len(references)
        if count > cells.MAX_REFERENCES:
            raise self.source.error(
                f"{count:,} references; at most {cells.MAX_REFERENCES:,} are allowed.",
                row.line,
            )
        return references

    def _answerable(self, row: Row) -> bool:
        if "answerable" in self.plan.fields:
            return self._read(row, "answerable", cells.to_boolean, True)
        if "unanswerable" in self.plan.fields:
            return not self._read(row, "unanswerable", cells.to_boolean, False)
        return not self._read(row, "reference", cells.is_empty_squad_answer, False)

    def _read(
        self,
        row: Row,
        field: str,
        convert: Callable[[object], Value],
        default: Default,
    ) -> Value | Default:
        """Return the value of `field`; `default` if the file has no column for it, or
        the cell is blank."""
        path = self.plan.fields.get(field)
        if path is None:
            return default
        value = value_at(row.values, path)
        if value is MISSING or cells.is_blank(value):
            return default
        try:
            return convert(value)
        except cells.CellError as error:
            # `unanswerable` itself can't be mapped.
            mappable_field = "answerable" if field == "unanswerable" else field
            raise self.source.error(
                f"column '{path}' ({field}) {error}.",
                row.line,
                hint=f"Fix the value. If '{path}' is not the {field}, map the right column in ragstone.toml "
                f'("" leaves a field out):\n  [golden.columns]\n  {mappable_field} = "…"',
            ) from None


def derived_id(
    question: str,
    reference: str | None,
    contexts: tuple[str, ...],
    history: tuple[Message, ...] = (),
) -> str:
    """Return an id made from the content, ``q-`` and 12 hex digits, so that it doesn't
    depend on the sample's position in its file."""
    content: list[object] = [question, reference, contexts]
    if history:
        messages = [[message.role, message.text] for message in history]
        content.append(messages)
    body = json.dumps(content, ensure_ascii=False, separators=(",", ":"))
    digest = hashlib.sha256(body.encode()).hexdigest()
    return f"q-{digest[:12]}"
