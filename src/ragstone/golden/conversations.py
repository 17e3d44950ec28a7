"""Conversations in golden sets: a row with `turns` becomes a row for each turn, and
their samples a conversation."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any, Literal

from ragstone.golden import cells
from ragstone.golden.aliases import FIELDS, ROLES, normal
from ragstone.golden.mtrag import read_mtrag
from ragstone.golden.reader import derived_id
from ragstone.golden.rows import Row, SourceFile, TurnPlace, line_of
from ragstone.golden.sample import ConversationTurn, Message, Sample, turn_id

MAX_CONVERSATION_TURNS = 100
"""Maximum number of turns of one conversation."""

EarlierAnswers = Literal["own", "reference"]
"""What a system is told that it has answered before: its own answers, or the
references."""

_HISTORY = frozenset(FIELDS["history"].strong)
_IDS = frozenset(FIELDS["id"].strong)
_OF_CONVERSATION = ("conversation_id", "session_id", "thread_id")


@dataclass(frozen=True, slots=True)
class TurnReading:
    """How the conversations of one file are read: the column that a question goes into,
    and the default `history`."""

    source: SourceFile
    question: str = "question"
    history: EarlierAnswers = "own"

    def rows(self, rows: Iterable[Row]) -> Iterator[Row]:
        """`rows`, with one for each turn in place of a row with `turns`. Raises
        GoldenSetError."""
        for row in rows:
            values = read_mtrag(row.values)
            turns = cells.opened(values.get("turns"))
            if isinstance(turns, list):
                yield from self._turns(Row(values, row.line), turns)
            elif (
                isinstance(turns, str | dict)
                and turns
                and not self._question_of(values)
            ):
                raise self.source.error(
                    f"column 'turns' contains {cells.shown(turns)}, expected a list of turns.",
                    row.line,
                )
            else:
                yield row if values is row.values else Row(values, row.line)

    def _turns(self, row: Row, turns: list[Any]) -> Iterator[Row]:
        shared = {key: value for key, value in row.values.items() if key != "turns"}
        name = _conversation_id(shared)
        label = "the conversation" if name is None else f"conversation {name!r}"
        self._refuse(row, shared)
        own_history, messages = self._history(row, shared)
        places = list(range(len(turns)))
        if all(_is_message(turn) for turn in turns):
            earlier, turns, places = _from_messages(turns, self.question)
            messages += earlier
        if not 0 < len(turns) <= MAX_CONVERSATION_TURNS:
            raise self.source.error(
                f"{label} has {len(turns):,} turns; 1 to {MAX_CONVERSATION_TURNS} are allowed.",
                row.line,
            )
        for number, (turn, place) in enumerate(zip(turns, places, strict=True), 1):
            line = line_of(row.values["turns"], place) or row.line
            values = self._values(shared, turn, f"turn {number} of {label}", line)
            yield Row(
                values,
                line,
                TurnPlace(label, number, len(turns), own_history, messages),
            )

    def _refuse(self, row: Row, shared: Mapping[str, Any]) -> None:
        """Raise GoldenSetError for what can't stand beside turns."""
        if question := self._question_of(shared):
            message = f"a row has either 'turns' or a question, found both: 'turns' and '{question}'."
            hint = "Write the question as a turn, or the turns before it as `history`."
        elif reference := _named(shared, FIELDS["reference"].strong):
            message = f"'{reference}' stands beside 'turns', so it is not clear which turn it is the answer of."
            hint = f'Write it into its turn: {{"question": "…", "{reference}": "…"}}'
        else:
            return
        raise self.source.error(message, row.line, hint=hint)

    def _question_of(self, values: Mapping[str, Any]) -> str | None:
        return _named(values, (self.question, *FIELDS["question"].strong))

    def _history(
        self, row: Row, shared: dict[str, Any]
    ) -> tuple[bool, tuple[Message, ...]]:
        """Whether the system gets its own answers, and the messages before the first
        turn; taken out of `shared`."""
        columns = [key for key in shared if normal(str(key)) in _HISTORY]
        history: object = None
        for column in columns:
            history = cells.opened(shared.pop(column)) or history
        answers: object = self.history
        if isinstance(history, Mapping):
            answers, history = history.get("answers", answers), history.get("messages")
        elif isinstance(history, str) and history.strip():
            answers, history = history.strip(), None
        try:
            if answers not in ("own", "reference"):
                raise cells.CellError(
                    f"contains {cells.shown(answers)}, expected own, reference or a list of messages"
                )
            return answers == "own", cells.turns(history or [])
        except cells.CellError as error:
            raise self.source.error(
                f"column '{columns[0]}' {error}.", row.line
            ) from None

    def _values(
        self, shared: Mapping[str, Any], turn: object, label: str, line: int | None
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
        if column := _named(own, _HISTORY):
            raise self.source.error(
                f"{label} has '{column}' of its own.",
                line,
                hint="Write `history` beside `turns`: it holds for all of them.",
            )
        tags, own_tags = (
            _named(shared, FIELDS["tags"].strong),
            _named(own, FIELDS["tags"].strong),
        )
        values = {**shared, **own}
        if tags and own_tags:
            values.pop(own_tags)
            try:
                values[tags] = [*cells.tags(shared[tags]), *cells.tags(own[own_tags])]
            except cells.CellError as error:
                raise self.source.error(
                    f"'{own_tags}' of {label} {error}.", line
                ) from None
        return values


def _named(values: Mapping[str, Any], names: Iterable[str]) -> str | None:
    """The first key of `values` that has one of `names` and a value."""
    for key, value in values.items():
        if (key in names or normal(str(key)) in names) and value not in (None, "", []):
            return str(key)
    return None


def _conversation_id(shared: dict[str, Any]) -> str | None:
    """The id that a row gives its conversation; that under a name for conversations is
    put into `shared` as its id."""
    column = _named(shared, _IDS)
    if column is None and (column := _named(shared, _OF_CONVERSATION)):
        shared["id"] = shared[column]
    return None if column is None else str(shared[column])[:80]


def _is_message(turn: object) -> bool:
    return (
        isinstance(turn, Mapping)
        and "content" in turn
        and str(turn.get("role", "")).lower() in {*ROLES, "tool"}
    )


def _from_messages(
    turns: Sequence[Mapping[str, Any]], question: str
) -> tuple[tuple[Message, ...], list[dict[str, Any]], list[int]]:
    """The messages before the first of the user, the turns that begin with one of the
    user, and where each begins.

    The answer of the assistant is the reference of its turn: of several, the last.
    """
    questions: list[dict[str, Any]] = []
    places: list[int] = []
    earlier: list[Mapping[str, Any]] = []
    for place, message in enumerate(turns):
        fields = {
            key: value
            for key, value in message.items()
            if key not in ("role", "content")
        }
        role = ROLES.get(str(message["role"]).lower())
        if role == "user":
            questions.append({**fields, question: message["content"]})
            places.append(place)
        elif not questions:
            earlier.append(message)
        elif role == "assistant" and message["content"]:
            questions[-1] |= {**fields, "reference": message["content"]}
    return cells.turns(earlier), questions, places


def first_rows(rows: Iterable[Row], count: int) -> Iterator[Row]:
    """The first `count` rows, and the other turns of the conversation that the last of
    them belongs to."""
    for position, row in enumerate(rows):
        if position >= count and (row.turn is None or row.turn.number == 1):
            return
        yield row


def join_turns(
    source: SourceFile, read: Iterable[tuple[Row, Sample]]
) -> Iterator[Sample]:
    """The samples of rows that `TurnReading` gave, with the place of each in its
    conversation.

    Raises GoldenSetError for a conversation that is asked with references, if a turn
    before the last has none.
    """
    turns: list[Sample] = []
    for row, sample in read:
        if row.turn is None:
            yield sample
            continue
        if row.turn.needs_reference and sample.reference is None:
            raise source.error(
                f"turn {row.turn.number} of {row.turn.conversation} has no reference, which the turns after it are "
                "asked with (history = reference).",
                row.line,
                hint='Add it, or have the system\'s own answers: "history": "own"',
            )
        turns.append(sample)
        if row.turn.number == row.turn.turns:
            yield from _conversation(row.turn, turns)
            turns = []


def _conversation(place: TurnPlace, samples: Sequence[Sample]) -> Iterator[Sample]:
    name = samples[0].id or _derived_id(place, samples)
    messages = list(place.messages)
    for number, sample in enumerate(samples, 1):
        yield replace(
            sample,
            id=turn_id(name, number),
            group=sample.group or name,
            history=tuple(messages),
            turn=ConversationTurn(name, number, len(samples), place.own_history),
        )
        messages.append(Message("user", sample.question))
        if not place.own_history:
            messages.append(Message("assistant", sample.reference or ""))


def _derived_id(place: TurnPlace, samples: Sequence[Sample]) -> str:
    """An id from the content of a conversation: ``c-`` and 12 hex digits."""
    ids = [
        derived_id(
            turn.question, turn.reference, turn.reference_contexts, place.messages
        )
        for turn in samples
    ]
    return "c-" + hashlib.sha256(" ".join(ids).encode()).hexdigest()[:12]


def by_conversation(samples: Iterable[Sample]) -> Iterator[tuple[Sample, ...]]:
    """The turns of each conversation together, if they stand beside each other; any
    other sample alone."""
    for _, turns in groupby(
        samples,
        key=lambda sample: sample.turn.id if sample.turn is not None else id(sample),
    ):
        yield tuple(turns)
