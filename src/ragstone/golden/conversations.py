"""Conversations in golden sets: a row with `turns` becomes a row for each turn, and
their samples a conversation."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any, Literal

from msgspec import Struct

from ragstone.golden import cells
from ragstone.golden.aliases import FIELDS, ROLES, normal
from ragstone.golden.mtrag import read_mtrag
from ragstone.golden.opened import open_cells
from ragstone.golden.reader import derived_id
from ragstone.golden.rows import Row, SourceFile, line_of
from ragstone.golden.sample import ConversationTurn, Message, Sample, Texts, turn_id

MAX_CONVERSATION_TURNS = 100
"""Maximum number of turns of one conversation."""

EarlierAnswers = Literal["own", "reference"]
"""What a system is told that it has answered before: its own answers, or the
references."""

Values = Mapping[str, Any]

_HISTORY = FIELDS["history"].strong
_IDS = FIELDS["id"].strong
_CONVERSATION_IDS = ("conversation_id", "session_id", "thread_id")
_TAGS = FIELDS["tags"].strong
_SPEAKERS = {*ROLES, "tool"}


class TurnReading(Struct, frozen=True):
    """How the conversations of one file are read."""

    source: SourceFile
    question: str = "question"
    """The column that a question goes into."""
    history: EarlierAnswers = "own"
    """For conversations that don't say it."""

    def rows_of(self, row: Row) -> tuple[list[Row], EarlierAnswers | None]:
        """The row itself; of a row with `turns` one for each of them, and what later
        turns are asked with. Raises GoldenSetError."""
        values = read_mtrag(row.values)
        turns = cells.opened(values.get("turns"))
        if isinstance(turns, list):
            whole = Row(values, row.line)
            return self._turns(whole, turns)
        if turns and not _named(values, self._questions):
            raise self.source.error(
                f"column 'turns' contains {cells.shown(turns)}, expected a list of turns.",
                row.line,
            )
        single = Row(open_cells(values), row.line)
        return [single], None

    def _turns(self, row: Row, turns: list[Any]) -> tuple[list[Row], EarlierAnswers]:
        shared = {key: value for key, value in row.values.items() if key != "turns"}
        id_column = _named(shared, _IDS) or _named(shared, _CONVERSATION_IDS)
        label = "the conversation"
        if id_column is not None:
            shared["id"] = shared[id_column]
            shown_id = str(shared["id"])[:80]
            label = f"conversation {shown_id!r}"
        beside = _named(shared, (*self._questions, *FIELDS["reference"].strong))
        if beside is not None:
            raise self.source.error(
                f"'{beside}' stands beside 'turns', so it is not clear which turn it belongs to.",
                row.line,
                hint='Write it into its turn: {"question": "…", "reference": "…"}',
            )
        column = _named(shared, _HISTORY)
        history = self.history if column is None else shared.pop(column)
        if history not in ("own", "reference"):
            raise self.source.error(
                f"column '{column}' contains {cells.shown(history)}, expected own or reference beside 'turns'.",
                row.line,
            )
        if all(map(_is_message, turns)):
            turns = _from_messages(turns, self.question)
        if not 0 < len(turns) <= MAX_CONVERSATION_TURNS:
            raise self.source.error(
                f"{label} has {len(turns):,} turns; 1 to {MAX_CONVERSATION_TURNS} are allowed.",
                row.line,
            )
        rows = []
        for number, turn in enumerate(turns, 1):
            line = line_of(turn) or row.line
            name = f"turn {number} of {label}"
            values = open_cells(self._values(shared, turn, name, line))
            rows.append(Row(values, line, name))
        return rows, history

    @property
    def _questions(self) -> Texts:
        """The names of columns with a question."""
        return (self.question, *FIELDS["question"].strong)

    def _values(
        self, shared: Values, turn: object, label: str, line: int | None
    ) -> dict[str, Any]:
        """The columns of a turn: its own, and of the others those of the conversation;
        tags add up."""
        if isinstance(turn, str):
            turn = {self.question: turn}
        if not isinstance(turn, dict):
            raise self.source.error(
                f"{label} is {cells.shown(turn)}, expected a text or an object.", line
            )
        own = {
            key: value for key, value in turn.items() if normal(str(key)) not in _IDS
        }
        column = _named(own, _HISTORY)
        if column is not None:
            raise self.source.error(
                f"{label} has '{column}' of its own.",
                line,
                hint="Write `history` beside `turns`: it holds for all of them.",
            )
        values = {**shared, **own}
        tags = _named(shared, _TAGS)
        own_tags = _named(own, _TAGS)
        if tags is not None and own_tags is not None:
            values.pop(own_tags)
            try:
                shared_tags = cells.tags(shared[tags])
                turn_tags = cells.tags(own[own_tags])
                values[tags] = [*shared_tags, *turn_tags]
            except cells.CellError as error:
                raise self.source.error(
                    f"'{own_tags}' of {label} {error}.", line
                ) from None
        return values


def _named(values: Values, names: Iterable[str]) -> str | None:
    """The first key of `values` that has one of `names` and a value."""
    for key, value in values.items():
        is_named = key in names or normal(str(key)) in names
        if is_named and value not in (None, "", []):
            return key
    return None


def _is_message(turn: object) -> bool:
    return (
        isinstance(turn, Mapping)
        and "content" in turn
        and str(turn.get("role")).lower() in _SPEAKERS
    )


def _from_messages(turns: Sequence[Values], question: str) -> list[dict[str, Any]]:
    """The turns that begin with a message of the user.

    The answer of the assistant is the reference of its turn: of several, the last.
    """
    questions: list[dict[str, Any]] = []
    for message in turns:
        fields = dict(message)
        speaker = str(fields.pop("role"))
        role = ROLES.get(speaker.lower())
        content = fields.pop("content")
        if role == "user":
            questions.append({**fields, question: content})
        elif role == "assistant" and content and questions:
            questions[-1] |= {**fields, "reference": content}
    return questions


def conversation(
    source: SourceFile,
    rows: Sequence[Row],
    samples: Sequence[Sample],
    history: EarlierAnswers,
) -> Iterator[Sample]:
    """The samples of the turns in `rows`, each with its place in the conversation.

    Raises GoldenSetError for a conversation that is asked with references, if a turn
    before the last has none.
    """
    ids = [
        derived_id(turn.question, turn.reference, turn.reference_contexts)
        for turn in samples
    ]
    # Without an id: one from the content.
    joined_ids = " ".join(ids)
    digest = hashlib.sha256(joined_ids.encode()).hexdigest()
    name = samples[0].id or f"c-{digest[:12]}"
    own_history = history == "own"
    messages: list[Message] = []
    turns = zip(rows, samples, strict=True)
    for number, (row, sample) in enumerate(turns, 1):
        yield replace(
            sample,
            id=turn_id(name, number),
            group=sample.group or name,
            history=tuple(messages),
            turn=ConversationTurn(name, number, len(samples), own_history),
        )
        question = Message("user", sample.question)
        messages.append(question)
        if history == "reference":
            if sample.reference is None and number < len(samples):
                raise source.error(
                    f"{row.turn} has no reference, which the turns after it are asked with (history = reference).",
                    row.line,
                    hint='Add it, or have the system\'s own answers: "history": "own"',
                )
            messages.append(Message("assistant", sample.reference or ""))


def by_conversation(samples: Iterable[Sample]) -> Iterator[tuple[Sample, ...]]:
    """The turns of each conversation together, if they stand beside each other; any
    other sample alone."""

    def conversation(sample: Sample) -> str | int:
        if sample.turn is None:
            return id(sample)
        return sample.turn.id

    for _, turns in groupby(samples, key=conversation):
        yield tuple(turns)
