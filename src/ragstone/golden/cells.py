"""Converts one cell, of any shape, to the text, list, boolean or grades that a field
needs."""

from __future__ import annotations

import ast
import difflib
import math
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import date, time
from typing import Any

from ragstone.golden.aliases import GRADE_KEYS, ID_KEYS, ROLES, TEXT_KEYS, normal
from ragstone.golden.formats.json_text import NotJsonError, decode
from ragstone.golden.patterns import compiled
from ragstone.golden.rows import MAX_DEPTH
from ragstone.golden.sample import Message, ReviewStatus, Role, Texts

MAX_TEXT = 2_000_000
"""Maximum length of one text field, in characters."""

MAX_REFERENCES = 1000
"""Maximum number of references of one sample."""

MAX_TURNS = 200
"""Maximum number of earlier messages of a conversation."""

MAX_ID = 512
"""Maximum length of an id, in characters."""

CLARIFICATION = "clarification"
"""What `expects` can say of an answer."""

STATUSES: Mapping[str, ReviewStatus] = {"draft": "draft", "reviewed": "reviewed"}
"""What a review can say of a sample."""

_MAX_WORDS = 10_000_000
_PYTHON_STRING = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\"""", re.DOTALL)
_PYTHON_LIST = re.compile(rf"\[\s*(?:(?:{_PYTHON_STRING.pattern})[\s,]*)*\]", re.DOTALL)
_LIKE_A_LIST = re.compile(
    r"""\[\s*["']|\[?(?:np\.|numpy\.)?array\(|\[\s*\w{0,40}(?:Document|Node\w{0,40})\("""
)
_MAX_PYTHON_LIST = 1_000_000
_MAX_LITERAL = 100_000
"""A list of other things than strings costs Python's parser about 1.2 kB of memory per
character."""
_TRUE = frozenset({"true", "t", "yes", "y", "1"})
_FALSE = frozenset({"false", "f", "no", "n", "0"})


class CellError(ValueError):
    """A cell can't be converted; the message continues after "column 'x'"."""


def unexpected(value: object, expected: str) -> CellError:
    """The error for a cell that contains `value`."""
    return CellError(f"contains {shown(value)}, expected {expected}")


# --- texts


def text(value: object) -> str | None:
    """`value` as stripped text, None if empty: a string, a number, a boolean, an object
    with a text, or a list of alternatives, of which the first is used.
    """
    content = _text(value, 0).strip()
    return sound(content) or None


def _text(value: object, depth: int) -> str:
    """`value` as text as it is written; it is blank if there is none."""
    if depth > MAX_DEPTH:
        raise CellError("is nested too deeply")
    match value:
        case None:
            return ""
        case str():
            return value
        case bool():
            return str(value).lower()
        case int():
            return _digits(value)
        case float():
            return repr(value) if math.isfinite(value) else ""
        case date() | time():
            return str(value)
        case Mapping():
            return _text(_only_text(value), depth + 1)
        case list():
            return _first_text(value, depth + 1)
        case _:
            raise unexpected(value, "text")


def _digits(value: int) -> str:
    try:
        return str(value)
    except ValueError:
        raise CellError("contains a number with too many digits") from None


def _first_text(items: Iterable[object], depth: int) -> str:
    for item in items:
        content = _text(item, depth)
        if content.strip():
            return content
    return ""


def _only_text(value: Mapping[str, object]) -> object:
    content = pick(value, TEXT_KEYS)
    if content is None:
        first_keys = list(value)[:12]
        keys = ", ".join(map(shown, first_keys))
        raise CellError(
            f"contains an object, expected text; use a dotted path for one of its keys ({keys})"
        )
    return content


def texts(value: object, *, plural: bool = True) -> Texts:
    """`value` as distinct texts that are equally right: a list of texts, an object with
    a text or with a list of texts (SQuAD), each also as JSON in a text; or one text.
    Empty texts are left out.

    Unless `plural`, a text that is a list of texts is one answer.
    """
    read = opened(value)
    is_text_list = isinstance(read, list) and all(
        isinstance(item, str) for item in read
    )
    is_one_answer = is_text_list and not plural
    if is_one_answer or not _has_texts(read):
        read = value  # an answer may be JSON itself
    if isinstance(read, Mapping):
        read = _only_text(read)
    return _distinct(as_list(read))


def _distinct(items: Iterable[object]) -> Texts:
    """The texts of `items`, each once, without empty ones."""
    contents = map(text, items)
    return tuple(dict.fromkeys(filter(None, contents)))


def _has_texts(value: object) -> bool:
    """Whether `value` is a list of texts, or of objects with a text, or one of
    these."""
    items = as_list(value)
    return bool(items) and all(map(_is_passage, items))


def _is_passage(item: object) -> bool:
    """Whether `item` is a text, or an object with one."""
    if isinstance(item, Mapping):
        return pick(item, TEXT_KEYS) is not None
    return isinstance(item, str)


def is_answerless(value: object) -> bool:
    """Whether `value` is the empty answer of an unanswerable question, as SQuAD v2
    writes it: no text, no position."""
    return (
        isinstance(value, Mapping)
        and value.get("text") == []
        and value.get("answer_start") == []
    )


def phrases(value: object) -> Texts:
    """`value` as texts to look for: a list, a list written into one cell, or one
    text."""
    return _distinct(listed(value, split_bars=True))


def patterns(value: object) -> Texts:
    """`value` as RE2 patterns: a list, or one pattern. A pattern is never split:
    brackets and bars belong to it."""
    items = as_list(value)
    wanted = [str(item) for item in items if item not in (None, "")]
    for pattern in wanted:
        try:
            compiled(pattern)
        except ValueError as error:
            raise CellError(
                f"contains {shown(pattern)}, which is not an RE2 pattern ({error})"
            ) from None
    return tuple(dict.fromkeys(wanted))


def tags(value: object) -> Texts:
    """`value` as distinct tags, in order; a text is split at bars, semicolons and
    commas."""
    return _distinct(listed(opened(value), split_bars=False, split_commas=True))


# --- questions and conversations


def question(value: object) -> str | None:
    """Like `text`, but for text only. For a chat (a list of messages), the last user
    message."""
    if isinstance(value, list):
        value = _question_of(value)
    if isinstance(value, bool | int | float):
        raise unexpected(value, "the text of a question")
    return text(value)


def _question_of(items: list[object]) -> object:
    """The last user message of a chat, or the only item of a list."""
    last = _last_question(items)
    if last is not None:
        return items[last]
    match items:
        case []:
            return None
        case [item] if not isinstance(item, list):
            return item
        case _:
            raise CellError("contains a list, expected one question")


def earlier_turns(value: object) -> tuple[Message, ...]:
    """The messages before the last user message of a chat; none for anything else."""
    if not isinstance(value, list):
        return ()
    last = _last_question(value) or 0
    return turns(value[:last])


def _last_question(messages: Sequence[object]) -> int | None:
    """The place of the last message of the user."""
    last = None
    for place, message in enumerate(messages):
        if (
            isinstance(message, Mapping)
            and "content" in message
            and _role_of(message) == "user"
        ):
            last = place
    return last


def _role_of(message: Mapping[str, object]) -> Role | None:
    """Who speaks; None for tools."""
    message_type = message.get("type", "")
    role = message.get("role", message_type)
    return ROLES.get(str(role).lower())


def turns(value: object) -> tuple[Message, ...]:
    """`value` as the turns of a conversation: messages with a role, or pairs of
    question and answer.

    Empty messages, and those of other roles (tools), are left out.
    """
    value = opened(value)
    if not isinstance(value, list):
        raise unexpected(value, "a list of messages")
    messages: list[Message] = []
    for item in value:
        messages += _messages_in(item)
    if len(messages) > MAX_TURNS:
        raise CellError(
            f"contains {len(messages):,} messages; at most {MAX_TURNS} are allowed"
        )
    return tuple(messages)


def _messages_in(item: object) -> Iterator[Message]:
    """The message that an item of a conversation is, or its question and answer."""
    spoken: list[tuple[Role | None, object]]
    match item:
        case Mapping():
            written_text = item.get("text")
            content = item.get("content", written_text)
            spoken = [(_role_of(item), content)]
        case [question, answer]:
            spoken = [("user", question), ("assistant", answer)]
        case _:
            raise unexpected(item, "a message with role and content")
    for role, content in spoken:
        if role is not None:
            message = text(content)
            if message is not None:
                yield Message(role, message)


# --- passages and documents


def contexts(value: object) -> Texts:
    """`value` as passages: a list of texts or objects, an object of these by their ids,
    or one text; each also as JSON in a text."""
    return tuple(passage for passage, _ in _contexts_with_hops(value))


def hops(value: object) -> tuple[int, ...]:
    """The hop of each passage of `contexts`, 0 if it has none; empty if no passage has
    one."""
    numbers = tuple(hop for _, hop in _contexts_with_hops(value))
    return numbers if any(numbers) else ()


def _contexts_with_hops(value: object) -> Iterator[tuple[str, int]]:
    for item in passages(value):
        passage = sound(_text(item, 0))
        if is_blank(passage):
            continue
        hop = item.get("hop") if isinstance(item, Mapping) else None
        yield passage, 0 if is_blank(hop) else positive(hop)


def passages(value: object, *, split_bars: bool = True) -> list[object]:
    """`value` as a list of passages, each a text or an object, as `contexts` reads
    them.

    Raises CellError for a text that begins like a written list, and is none.
    """
    read = opened(value)
    if isinstance(read, str) and _LIKE_A_LIST.match(read.strip()):
        raise CellError(
            f"begins like a list, but can't be read as one (cut off?): {shown(read)}"
        )
    if isinstance(read, Mapping) and _are_passages_by_id(read):
        read = [_named_passage(name, item) for name, item in read.items()]
    return listed(read, split_bars=split_bars)


def _are_passages_by_id(value: Mapping[object, object]) -> bool:
    return not _has_texts(value) and _has_texts([*value.values()])


def _named_passage(name: object, passage: object) -> dict[object, object]:
    if isinstance(passage, Mapping):
        return {"id": name, **passage}
    return {"id": name, "text": passage}


def grades(value: object) -> dict[str, float]:
    """`value` as document id to grade: a list of ids (grade 1), an object, or a list of
    objects with id and grade."""
    value = opened(value)
    if isinstance(value, str) and value.lstrip().startswith("{"):
        raise unexpected(value, "document ids")
    if isinstance(value, Mapping) and not isinstance(pick(value, ID_KEYS), str):
        return {
            identifier(name): _grade(grade)
            for name, grade in value.items()
            if grade is not None
        }
    grade_by_id: dict[str, float] = {}
    for item in listed(value, split_bars=True, split_commas=True):
        name, grade = item, None
        if isinstance(item, Mapping):
            name = pick(item, ID_KEYS)
            grade = pick(item, GRADE_KEYS)
        grade_by_id[identifier(name)] = 1.0 if grade is None else _grade(grade)
    return grade_by_id


def _grade(value: object) -> float:
    grade = number(value)
    if not 0 <= grade < math.inf:
        raise CellError(
            f"contains the grade {shown(value)}, expected a number of 0 or more"
        )
    return grade


# --- numbers, booleans and words


def number(value: Any) -> float:
    """`value` as a number, NaN if it is none."""
    if isinstance(value, bool):
        return math.nan
    try:
        return float(value)
    except (ValueError, TypeError, OverflowError):
        return math.nan


def positive(value: object) -> int:
    """`value` as a whole number of at least 1."""
    whole = number(value)
    if not 1 <= whole <= _MAX_WORDS or not whole.is_integer():
        raise unexpected(value, "a whole number of at least 1")
    return int(whole)


def bounds(value: object) -> dict[str, float]:
    """`value` as metric to floor or ceiling: an object, also as JSON in one cell."""
    table = opened(value)
    if not isinstance(table, Mapping):
        raise unexpected(value, 'scores by metric, such as {"faithfulness": 0.8}')
    limits = {
        str(metric): bound for metric, bound in table.items() if bound is not None
    }
    scores: dict[str, float] = {}
    for metric, bound in limits.items():
        score = number(bound)
        if not 0 <= score <= 1:
            raise CellError(
                f"contains {shown(bound)} for {metric}, expected a score from 0 to 1"
            )
        scores[metric] = score
    return scores


def truth(value: object) -> bool:
    """`value` as a boolean."""
    word = str(value).strip().lower().removesuffix(".0")
    if word not in _TRUE | _FALSE:
        raise unexpected(value, "true or false")
    return word in _TRUE


def is_clarification(value: object) -> bool:
    """True, as `value` can say nothing else than that the right answer asks back."""
    if value != CLARIFICATION:
        raise unexpected(value, CLARIFICATION)
    return True


def status(value: object) -> ReviewStatus | None:
    """`value` as ``draft`` or ``reviewed``; None for the status of another tool, such
    as "active"."""
    word = str(value).strip().casefold()
    is_near = difflib.get_close_matches(word, STATUSES, n=1, cutoff=0.7)
    if is_near and word not in STATUSES:
        raise unexpected(value, "draft or reviewed")
    return STATUSES.get(word)


def identifier(value: object) -> str:
    """`value` as an id: one line of text, or a whole number."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise unexpected(value, "an id")
    name = sound(str(value).strip())
    if not 0 < len(name) <= MAX_ID or not name.isprintable():
        raise unexpected(value, f"an id: 1 to {MAX_ID} characters on one line")
    return name


def sound(value: str) -> str:
    """`value` itself. Raises CellError if it is too long or contains characters that
    are not allowed in text."""
    if len(value) > MAX_TEXT:
        raise CellError(
            f"contains a text of {len(value):,} characters; at most {MAX_TEXT:,} are allowed"
        )
    if "\0" in value:
        raise CellError("contains a null character")
    try:
        value.encode("utf-8")
    except UnicodeEncodeError as error:
        code = ord(value[error.start])
        raise CellError(f"contains a lone surrogate (\\u{code:04x})") from None
    return value


def shown(value: object) -> str:
    rendered = repr(value)
    if len(rendered) <= 60:
        return rendered
    return f"{rendered[:57]}..."


# --- lists and objects that are written into a cell


def listed(value: object, *, split_bars: bool, split_commas: bool = False) -> list[Any]:
    """The items of a list, without empty ones: as JSON, as Python prints it, or in text
    between bars."""
    read = opened(value)
    items: list[Any] = [value]
    if isinstance(read, list):
        items = read
    elif isinstance(value, str):
        items = _split(value, split_bars, split_commas)
    return [item for item in items if not is_blank(item)]


def _split(written: str, split_bars: bool, split_commas: bool) -> list[str]:
    stripped = written.strip()
    # A row of a table in Markdown is no list.
    is_table = re.search(r"^\s*\|.*\|\s*$", stripped, re.MULTILINE) is not None
    parts = [part.strip() for part in stripped.split("|")]
    if split_bars and len(parts) > 1 and all(parts) and not is_table:
        return parts
    if split_commas:
        return [part.strip() for part in re.split(r"[|,;]", stripped)]
    return [written]


def is_blank(value: object) -> bool:
    """Whether `value` is None, or an empty text."""
    return value is None or (isinstance(value, str) and not value.strip())


def as_list(value: object) -> list[Any]:
    """`value` if it is a list, else a list of it alone."""
    if isinstance(value, list):
        return value
    return [value]


def opened(value: object) -> object:
    """The list or object that a text is as JSON or as Python prints it; else `value`
    itself."""
    if not isinstance(value, str) or not value.lstrip().startswith(("[", "{")):
        return value
    written = value.strip()
    read: object = None
    try:
        read = decode(written)
    except NotJsonError:
        with suppress(ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
            read = _python_value(written)
    return read if isinstance(read, list | dict) else value


def _python_value(value: str) -> object:
    """The value that Python prints as `value`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # numpy prints no commas: Python would read one long string.
        if len(value) <= _MAX_PYTHON_LIST and _PYTHON_LIST.fullmatch(value):
            strings = _PYTHON_STRING.findall(value)
            escaped = [string.replace("\n", "\\n") for string in strings]
            return list(map(ast.literal_eval, escaped))
        return ast.literal_eval(value) if len(value) <= _MAX_LITERAL else None


def pick(value: Mapping[str, object], names: Texts) -> object | None:
    """What `value` has under the first of `names`; None if it has none of them."""
    by_name = {normal(str(key)): inner for key, inner in value.items()}
    for name in names:
        inner = by_name.get(name.strip("_"))
        if inner is not None:
            return inner
    return None
