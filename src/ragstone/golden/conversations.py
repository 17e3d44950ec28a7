"""Reads conversations: a row with `turns` becomes a row for each turn, and the samples
of these rows get their place in the conversation."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any, Literal

from msgspec import Struct

from ragstone.golden import cells
from ragstone.golden.aliases import FIELDS, ROLES, normalise_name
from ragstone.golden.mtrag import read_mtrag
from ragstone.golden.nested_columns import nest_columns
from ragstone.golden.reader import derived_id
from ragstone.golden.rows import Row, SourceFile, line_of
from ragstone.golden.sample import ConversationTurn, Message, Sample, Texts, turn_id

MAX_CONVERSATION_TURNS = 100
"""Maximum number of turns of one conversation."""

EarlierAnswers = Literal["own", "reference"]
"""What a system is told that it has answered before: its own answers, or the
references."""

Values = Mapping[str, Any]

_ID_COLUMNS = FIELDS["id"].strong
_CONVERSATION_ID_COLUMNS = ("conversation_id", "session_id", "thread_id")
_HISTORY_COLUMNS = FIELDS["history"].strong
_REFERENCE_COLUMNS = FIELDS["reference"].strong
_TAGS_COLUMNS = FIELDS["tags"].strong
_SPEAKERS = {*ROLES, "tool"}
_MAX_SHOWN_ID_CHARACTERS = 80


class ExpandedRow(Struct, frozen=True):
    """The rows that one row of a file stands for, each of which becomes a sample."""

    rows: list[Row]
    """The turns of a conversation, or the row itself."""
    history: EarlierAnswers | None = None
    """What later turns are asked with; None if the row is not a conversation."""


class ConversationReader(Struct, frozen=True):
    """Expands the conversations of one file into turns."""

    source: SourceFile
    question_column: str = "question"
    """The column that a question is written into."""
    default_history: EarlierAnswers = "own"
    """What later turns are asked with, unless a conversation says otherwise."""

    def expand(self, row: Row) -> ExpandedRow:
        """Return a row for each turn in `row`, or the row itself if it has no `turns`.
        Raises GoldenSetError."""
        values = read_mtrag(row.values)
        turns = cells.parse_structure(values.get("turns"))
        if isinstance(turns, list):
            return self._expand_turns(values, turns, row.line)
        # Beside a question, `turns` may be another tool's column, such as a count.
        if turns and not _first_column(values, self._question_columns):
            raise self.source.error(
                f"column 'turns' contains {cells.short_repr(turns)}, expected a list of turns.",
                row.line,
            )
        return ExpandedRow([Row(nest_columns(values), row.line)])

    def _expand_turns(
        self, values: Values, turns: list[Any], row_line: int | None
    ) -> ExpandedRow:
        shared = {
            column: value for column, value in values.items() if column != "turns"
        }
        id_column = _first_column(shared, _ID_COLUMNS)
        id_column = id_column or _first_column(shared, _CONVERSATION_ID_COLUMNS)
        conversation_label = "the conversation"
        if id_column is not None:
            shared["id"] = shared[id_column]
            short_id = str(shared["id"])[:_MAX_SHOWN_ID_CHARACTERS]
            conversation_label = f"conversation {short_id!r}"
        turn_columns = (*self._question_columns, *_REFERENCE_COLUMNS)
        misplaced_column = _first_column(shared, turn_columns)
        if misplaced_column is not None:
            raise self.source.error(
                f"'{misplaced_column}' stands beside 'turns', so it is not clear which turn it belongs to.",
                row_line,
                hint='Write it into its turn: {"question": "…", "reference": "…"}',
            )
        history_column = _first_column(shared, _HISTORY_COLUMNS)
        history = self.default_history
        if history_column is not None:
            history = shared.pop(history_column)
        if history not in ("own", "reference"):
            raise self.source.error(
                f"column '{history_column}' contains {cells.short_repr(history)}, expected own or reference beside 'turns'.",
                row_line,
            )
        if all(map(_is_message, turns)):
            turns = _turns_of_messages(turns, self.question_column)
        if not 0 < len(turns) <= MAX_CONVERSATION_TURNS:
            raise self.source.error(
                f"{conversation_label} has {len(turns):,} turns; 1 to {MAX_CONVERSATION_TURNS} are allowed.",
                row_line,
            )
        rows = []
        for number, turn in enumerate(turns, 1):
            line = line_of(turn) or row_line
            turn_label = f"turn {number} of {conversation_label}"
            turn_values = self._values_of_turn(shared, turn, turn_label, line)
            rows.append(Row(nest_columns(turn_values), line, turn_label))
        return ExpandedRow(rows, history)

    @property
    def _question_columns(self) -> Texts:
        return (self.question_column, *FIELDS["question"].strong)

    def _values_of_turn(
        self, shared: Values, turn: object, turn_label: str, line: int | None
    ) -> dict[str, Any]:
        """Return the columns of a turn, with those that it lacks from its conversation
        (`shared`). Its tags are those of both."""
        if isinstance(turn, str):
            turn = {self.question_column: turn}
        if not isinstance(turn, dict):
            raise self.source.error(
                f"{turn_label} is {cells.short_repr(turn)}, expected a text or an object.",
                line,
            )
        # The id of a turn is made from that of its conversation.
        own_values = {
            column: value
            for column, value in turn.items()
            if normalise_name(str(column)) not in _ID_COLUMNS
        }
        history_column = _first_column(own_values, _HISTORY_COLUMNS)
        if history_column is not None:
            raise self.source.error(
                f"{turn_label} has '{history_column}' of its own.",
                line,
                hint="Write `history` beside `turns`: it holds for all of them.",
            )
        values = {**shared, **own_values}
        shared_column = _first_column(shared, _TAGS_COLUMNS)
        own_column = _first_column(own_values, _TAGS_COLUMNS)
        if shared_column is not None and own_column is not None:
            values.pop(own_column)
            try:
                shared_tags = cells.to_tags(shared[shared_column])
                own_tags = cells.to_tags(own_values[own_column])
            except cells.CellError as error:
                raise self.source.error(
                    f"'{own_column}' of {turn_label} {error}.", line
                ) from None
            values[shared_column] = [*shared_tags, *own_tags]
        return values


def _first_column(values: Values, names: Iterable[str]) -> str | None:
    """Return the first column that has one of `names` and a value, None if there is
    none."""
    for column, value in values.items():
        has_name = column in names or normalise_name(str(column)) in names
        if has_name and value not in (None, "", []):
            return column
    return None


def _is_message(turn: object) -> bool:
    return (
        isinstance(turn, Mapping)
        and "content" in turn
        and str(turn.get("role")).lower() in _SPEAKERS
    )


def _turns_of_messages(
    messages: Sequence[Values], question_column: str
) -> list[dict[str, Any]]:
    """Return a turn for each message of the user.

    The message of the assistant after it is the reference of the turn; of several, the
    last.
    """
    turns: list[dict[str, Any]] = []
    for message in messages:
        fields = dict(message)
        speaker = str(fields.pop("role"))
        role = ROLES.get(speaker.lower())
        content = fields.pop("content")
        if role == "user":
            turns.append({**fields, question_column: content})
        elif role == "assistant" and content and turns:
            turns[-1] |= {**fields, "reference": content}
    return turns


def join_turns(
    source: SourceFile,
    rows: Sequence[Row],
    samples: Sequence[Sample],
    history: EarlierAnswers,
) -> Iterator[Sample]:
    """Yield the samples of one conversation, each with its id, its place in the
    conversation and the messages before it.

    Raises GoldenSetError if the turns are asked with references, and one before the last
    has none.
    """
    conversation_id = samples[0].id or _derived_conversation_id(samples)
    messages: list[Message] = []
    for number, (row, sample) in enumerate(zip(rows, samples, strict=True), 1):
        yield replace(
            sample,
            id=turn_id(conversation_id, number),
            group=sample.group or conversation_id,
            history=tuple(messages),
            turn=ConversationTurn(
                conversation_id, number, len(samples), own_history=history == "own"
            ),
        )
        messages.append(Message("user", sample.question))
        if history == "reference":
            if sample.reference is None and number < len(samples):
                raise source.error(
                    f"{row.turn_label} has no reference, which the turns after it are asked with (history = reference).",
                    row.line,
                    hint='Add the reference, or ask with the system\'s own answers: "history": "own"',
                )
            messages.append(Message("assistant", sample.reference or ""))


def _derived_conversation_id(samples: Sequence[Sample]) -> str:
    """Return an id made from the content of the turns: ``c-`` and 12 hex digits."""
    ids = [
        derived_id(turn.question, turn.reference, turn.reference_contexts)
        for turn in samples
    ]
    joined_ids = " ".join(ids)
    digest = hashlib.sha256(joined_ids.encode()).hexdigest()
    return f"c-{digest[:12]}"


def group_by_conversation(samples: Iterable[Sample]) -> Iterator[tuple[Sample, ...]]:
    """Yield the turns of each conversation together, if they are adjacent, and every
    other sample alone."""

    def group_key(sample: Sample) -> str | int:
        if sample.turn is None:
            return id(sample)
        return sample.turn.id

    for _, turns in groupby(samples, key=group_key):
        yield tuple(turns)
