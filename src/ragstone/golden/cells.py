"""Converts a cell, whatever a tool wrote into it, to the text, list, boolean or grades
that a field needs.

Each function ``to_…`` is the converter of one or more fields, and raises CellError.
"""

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

from ragstone.golden.aliases import (
    GRADE_KEYS,
    ID_KEYS,
    ROLES,
    TEXT_KEYS,
    normalise_name,
)
from ragstone.golden.formats.json_text import NotJsonError, decode
from ragstone.golden.patterns import compile_pattern
from ragstone.golden.rows import MAX_DEPTH
from ragstone.golden.sample import Message, ReviewStatus, Role, Texts

MAX_TEXT_CHARACTERS = 2_000_000
"""Maximum length of one text."""

MAX_REFERENCES = 1000
"""Maximum number of references of one sample."""

MAX_HISTORY_MESSAGES = 200
"""Maximum number of messages before a question."""

MAX_ID_CHARACTERS = 512

CLARIFICATION = "clarification"
"""The only value of the field `expects`: the right answer asks back."""

_REVIEW_STATUSES: Mapping[str, ReviewStatus] = {
    "draft": "draft",
    "reviewed": "reviewed",
}

_MAX_COUNT = 10_000_000
"""Maximum of a count, such as `max_words`."""

_MAX_SHOWN_CHARACTERS = 60
"""Length to which error messages shorten a value."""

_PYTHON_STRING = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\"""", re.DOTALL)
_PYTHON_LIST = re.compile(rf"\[\s*(?:(?:{_PYTHON_STRING.pattern})[\s,]*)*\]", re.DOTALL)
_LIST_START = re.compile(
    r"""\[\s*["']|\[?(?:np\.|numpy\.)?array\(|\[\s*\w{0,40}(?:Document|Node\w{0,40})\("""
)
"""The start of a printed list of strings, of NumPy arrays, or of the passages of
LangChain (``Document(``) and LlamaIndex (``NodeWithScore(``)."""

_MAX_STRING_LIST_CHARACTERS = 1_000_000
_MAX_LITERAL_CHARACTERS = 100_000
"""Less than for lists of strings: any other literal costs Python's parser about 1.2 kB
of memory per character."""

_TRUE_WORDS = frozenset({"true", "t", "yes", "y", "1"})
_FALSE_WORDS = frozenset({"false", "f", "no", "n", "0"})


class CellError(ValueError):
    """A cell can't be converted. The message is a predicate, which the caller puts after
    the name of the column: "contains 3, expected text"."""


def unexpected(value: object, expected: str) -> CellError:
    """Return the error for a cell that contains `value` instead of what is expected."""
    return CellError(f"contains {short_repr(value)}, expected {expected}")


# --- texts


def to_text(value: object) -> str | None:
    """Return `value` as stripped text, None if it is empty.

    It may be a string, a number, a boolean, an object with a text, or a list of these,
    of which the first that is not empty is used.
    """
    content = _text_of(value, depth=0).strip()
    return validate_text(content) or None


def _text_of(value: object, *, depth: int) -> str:
    """Return the text of `value`, not stripped; blank if it has none."""
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
            return _integer_text(value)
        case float():
            return repr(value) if math.isfinite(value) else ""
        case date() | time():
            return str(value)
        case Mapping():
            return _text_of(_text_in_object(value), depth=depth + 1)
        case list():
            return _first_text(value, depth + 1)
        case _:
            raise unexpected(value, "text")


def _integer_text(value: int) -> str:
    try:
        return str(value)
    except ValueError:  # Python converts no more than 4,300 digits
        raise CellError("contains a number with too many digits") from None


def _first_text(items: Iterable[object], depth: int) -> str:
    for item in items:
        content = _text_of(item, depth=depth)
        if content.strip():
            return content
    return ""


def _text_in_object(value: Mapping[str, object]) -> object:
    """Return what an object has under a key for texts. Raises CellError if it has none."""
    content = find_by_key(value, TEXT_KEYS)
    if content is None:
        first_keys = list(value)[:12]
        keys = ", ".join(map(short_repr, first_keys))
        raise CellError(
            f"contains an object, expected text; use a dotted path for one of its keys ({keys})"
        )
    return content


def to_texts(value: object, *, can_split_string: bool = True) -> Texts:
    """Return the distinct texts of `value`, such as answers that are equally right.

    It may be one text, a list of texts, or an object with a text or with a list of
    texts (SQuAD). Lists and objects may also be written into a string, as JSON or as
    Python prints them; but unless `can_split_string`, a string that looks like a list of
    strings is one text. Empty texts are left out.
    """
    parsed = parse_structure(value)
    is_list_of_strings = isinstance(parsed, list) and all(
        isinstance(item, str) for item in parsed
    )
    is_one_text = is_list_of_strings and not can_split_string
    if is_one_text or not _has_only_texts(parsed):
        parsed = value  # the JSON is the text itself
    if isinstance(parsed, Mapping):
        parsed = _text_in_object(parsed)
    return _distinct_texts(as_list(parsed))


def _distinct_texts(items: Iterable[object]) -> Texts:
    """Return the texts of `items`, each once, without empty ones."""
    contents = map(to_text, items)
    return tuple(dict.fromkeys(filter(None, contents)))


def _has_only_texts(value: object) -> bool:
    """Whether `value` is a text or an object with one, or a list of these that is not
    empty."""
    items = as_list(value)
    return bool(items) and all(map(_has_text, items))


def _has_text(item: object) -> bool:
    """Whether `item` is a text, or an object with one."""
    if isinstance(item, Mapping):
        return find_by_key(item, TEXT_KEYS) is not None
    return isinstance(item, str)


def is_empty_squad_answer(value: object) -> bool:
    """Whether `value` is what SQuAD v2 writes as the answer to an unanswerable question:
    no text, no position."""
    return (
        isinstance(value, Mapping)
        and value.get("text") == []
        and value.get("answer_start") == []
    )


def to_phrases(value: object) -> Texts:
    """Return the phrases to look for in an answer: `value` is a list, a list written
    into one cell, or one phrase."""
    return _distinct_texts(to_items(value, split_bars=True))


def to_patterns(value: object) -> Texts:
    """Return the RE2 patterns in `value`, a list or one pattern.

    A string is never split: brackets and bars belong to the pattern.
    """
    items = as_list(value)
    patterns = [str(item) for item in items if item not in (None, "")]
    for pattern in patterns:
        try:
            compile_pattern(pattern)
        except ValueError as error:
            raise CellError(
                f"contains {short_repr(pattern)}, which is not an RE2 pattern ({error})"
            ) from None
    return tuple(dict.fromkeys(patterns))


def to_tags(value: object) -> Texts:
    """Return the distinct tags in `value`, in order; a string is split at bars,
    semicolons and commas."""
    items = to_items(parse_structure(value), split_bars=False, split_commas=True)
    return _distinct_texts(items)


# --- questions and conversations


def to_question(value: object) -> str | None:
    """Return the question in `value`, which must be text: of a chat (a list of messages)
    the last message of the user. None if it is empty."""
    if isinstance(value, list):
        value = _question_in_list(value)
    if isinstance(value, bool | int | float):
        raise unexpected(value, "the text of a question")
    return to_text(value)


def _question_in_list(items: list[object]) -> object:
    """Return the last user message of a chat, or the only item of another list; None if
    the list is empty."""
    last_position = _position_of_last_question(items)
    if last_position is not None:
        return items[last_position]
    match items:
        case []:
            return None
        case [item] if not isinstance(item, list):
            return item
        case _:
            raise CellError("contains a list, expected one question")


def to_earlier_messages(value: object) -> tuple[Message, ...]:
    """Return the messages before the last user message of a chat; none if `value` is
    not a list."""
    if not isinstance(value, list):
        return ()
    last_position = _position_of_last_question(value) or 0
    return to_messages(value[:last_position])


def _position_of_last_question(messages: Sequence[object]) -> int | None:
    """Return the position of the last message of the user, None if there is none."""
    last_position = None
    for position, message in enumerate(messages):
        if (
            isinstance(message, Mapping)
            and "content" in message
            and _role_of(message) == "user"
        ):
            last_position = position
    return last_position


def _role_of(message: Mapping[str, object]) -> Role | None:
    """Return the role of a message's author, None for a tool or an unknown role."""
    message_type = message.get("type", "")
    role = message.get("role", message_type)
    return ROLES.get(str(role).lower())


def to_messages(value: object) -> tuple[Message, ...]:
    """Return the messages in `value`: a list of objects with a role, or of pairs of
    question and answer.

    Empty messages, and those of tools or unknown roles, are left out.
    """
    items = parse_structure(value)
    if not isinstance(items, list):
        raise unexpected(items, "a list of messages")
    messages: list[Message] = []
    for item in items:
        messages += _messages_in(item)
    if len(messages) > MAX_HISTORY_MESSAGES:
        raise CellError(
            f"contains {len(messages):,} messages; at most {MAX_HISTORY_MESSAGES} are allowed"
        )
    return tuple(messages)


def _messages_in(item: object) -> Iterator[Message]:
    """Yield the message that `item` is, or the two of a pair of question and answer."""
    contents: list[tuple[Role | None, object]]
    match item:
        case Mapping():
            text = item.get("text")
            content = item.get("content", text)
            contents = [(_role_of(item), content)]
        case [question, answer]:
            contents = [("user", question), ("assistant", answer)]
        case _:
            raise unexpected(item, "a message with role and content")
    for role, content in contents:
        if role is not None:
            message = to_text(content)
            if message is not None:
                yield Message(role, message)


# --- passages and documents


def to_contexts(value: object) -> Texts:
    """Return the texts of the passages in `value` (see `to_passages`)."""
    return tuple(passage for passage, _ in _contexts_with_hops(value))


def to_hops(value: object) -> tuple[int, ...]:
    """Return the hop of each passage in `value` (see `Sample.hops`), 0 where it has
    none; nothing if no passage has one."""
    hops = tuple(hop for _, hop in _contexts_with_hops(value))
    return hops if any(hops) else ()


def _contexts_with_hops(value: object) -> Iterator[tuple[str, int]]:
    """Yield the text of each passage with its hop, 0 if it has none."""
    for passage in to_passages(value):
        context = validate_text(_text_of(passage, depth=0))
        if is_blank(context):
            continue
        hop = passage.get("hop") if isinstance(passage, Mapping) else None
        yield context, 0 if is_blank(hop) else to_positive_integer(hop)


def to_passages(value: object, *, split_bars: bool = True) -> list[object]:
    """Return the passages in `value`, each a text or an object.

    `value` is a list of them, an object of them by document id, or one text; each may
    also be written into a string. Raises CellError for a string that starts like a list
    but can't be read as one.
    """
    parsed = parse_structure(value)
    if isinstance(parsed, str) and _LIST_START.match(parsed.strip()):
        raise CellError(
            f"begins like a list, but can't be read as one (cut off?): {short_repr(parsed)}"
        )
    if isinstance(parsed, Mapping) and _are_passages_by_id(parsed):
        parsed = [_passage_with_id(key, item) for key, item in parsed.items()]
    return to_items(parsed, split_bars=split_bars)


def _are_passages_by_id(value: Mapping[object, object]) -> bool:
    return not _has_only_texts(value) and _has_only_texts([*value.values()])


def _passage_with_id(document_id: object, passage: object) -> dict[object, object]:
    if isinstance(passage, Mapping):
        return {"id": document_id, **passage}
    return {"id": document_id, "text": passage}


def to_grades(value: object) -> dict[str, float]:
    """Return the grade of each document id in `value`: a list of ids (grade 1), an object
    of grades by id, or a list of objects with id and grade."""
    value = parse_structure(value)
    if isinstance(value, str) and value.lstrip().startswith("{"):
        raise unexpected(value, "document ids")
    if isinstance(value, Mapping) and not isinstance(find_by_key(value, ID_KEYS), str):
        return {
            to_id(document_id): _to_grade(grade)
            for document_id, grade in value.items()
            if grade is not None
        }
    grade_by_id: dict[str, float] = {}
    for item in to_items(value, split_bars=True, split_commas=True):
        document_id = item
        grade = None
        if isinstance(item, Mapping):
            document_id = find_by_key(item, ID_KEYS)
            grade = find_by_key(item, GRADE_KEYS)
        grade_by_id[to_id(document_id)] = 1.0 if grade is None else _to_grade(grade)
    return grade_by_id


def _to_grade(value: object) -> float:
    grade = to_number(value)
    if not 0 <= grade < math.inf:
        raise CellError(
            f"contains the grade {short_repr(value)}, expected a number of 0 or more"
        )
    return grade


# --- numbers, booleans and words


def to_number(value: Any) -> float:
    """Return `value` as a number, NaN if it is not one. Never raises."""
    if isinstance(value, bool):
        return math.nan
    try:
        return float(value)
    except (ValueError, TypeError, OverflowError):
        return math.nan


def to_positive_integer(value: object) -> int:
    number = to_number(value)
    if not 1 <= number <= _MAX_COUNT or not number.is_integer():
        raise unexpected(value, f"a whole number from 1 to {_MAX_COUNT:,}")
    return int(number)


def to_bounds(value: object) -> dict[str, float]:
    """Return the floor or ceiling of each metric in `value`: an object, also as JSON in
    one cell."""
    parsed = parse_structure(value)
    if not isinstance(parsed, Mapping):
        raise unexpected(value, 'scores by metric, such as {"faithfulness": 0.8}')
    bounds = {
        str(metric): bound for metric, bound in parsed.items() if bound is not None
    }
    scores: dict[str, float] = {}
    for metric, bound in bounds.items():
        score = to_number(bound)
        if not 0 <= score <= 1:
            raise CellError(
                f"contains {short_repr(bound)} for {metric}, expected a score from 0 to 1"
            )
        scores[metric] = score
    return scores


def to_boolean(value: object) -> bool:
    # Spreadsheets and data frames write 1.0 for true, and 0.0 for false.
    word = str(value).strip().lower().removesuffix(".0")
    if word not in _TRUE_WORDS | _FALSE_WORDS:
        raise unexpected(value, "true or false")
    return word in _TRUE_WORDS


def to_expects_clarification(value: object) -> bool:
    """Return True for CLARIFICATION; every other value raises CellError."""
    if value != CLARIFICATION:
        raise unexpected(value, CLARIFICATION)
    return True


def to_review_status(value: object) -> ReviewStatus | None:
    """Return ``draft`` or ``reviewed``; None for the status of another tool, such as
    "active". Raises CellError for a misspelt status."""
    word = str(value).strip().casefold()
    similar_words = difflib.get_close_matches(word, _REVIEW_STATUSES, n=1, cutoff=0.7)
    if similar_words and word not in _REVIEW_STATUSES:
        raise unexpected(value, "draft or reviewed")
    return _REVIEW_STATUSES.get(word)


def to_id(value: object) -> str:
    """Return `value`, one line of text or a whole number, as an id."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise unexpected(value, "an id")
    identifier = validate_text(str(value).strip())
    if not 0 < len(identifier) <= MAX_ID_CHARACTERS or not identifier.isprintable():
        raise unexpected(
            value, f"an id: 1 to {MAX_ID_CHARACTERS} characters on one line"
        )
    return identifier


def validate_text(value: str) -> str:
    """Return `value`. Raises CellError if it is too long, or contains characters that
    can't be written to a file."""
    if len(value) > MAX_TEXT_CHARACTERS:
        raise CellError(
            f"contains a text of {len(value):,} characters; at most {MAX_TEXT_CHARACTERS:,} are allowed"
        )
    if "\0" in value:
        raise CellError("contains a null character")
    try:
        value.encode("utf-8")
    except UnicodeEncodeError as error:
        code = ord(value[error.start])
        raise CellError(f"contains a lone surrogate (\\u{code:04x})") from None
    return value


def short_repr(value: object) -> str:
    """Return `value` as Python prints it, shortened for a message."""
    text = repr(value)
    if len(text) <= _MAX_SHOWN_CHARACTERS:
        return text
    beginning = text[: _MAX_SHOWN_CHARACTERS - 3]
    return f"{beginning}..."


# --- lists and objects that are written into a cell


def to_items(
    value: object, *, split_bars: bool, split_commas: bool = False
) -> list[Any]:
    """Return the items of `value` that are not blank.

    It may be a list, also one written into a string as JSON or as Python prints it.
    Another string is split at bars with `split_bars`, and at bars, commas and semicolons
    with `split_commas`; else it is the only item.
    """
    parsed = parse_structure(value)
    items: list[Any] = [value]
    if isinstance(parsed, list):
        items = parsed
    elif isinstance(value, str):
        items = _split(value, split_bars=split_bars, split_commas=split_commas)
    return [item for item in items if not is_blank(item)]


def _split(text: str, *, split_bars: bool, split_commas: bool) -> list[str]:
    stripped = text.strip()
    # The bars of a Markdown table don't separate items.
    is_table = re.search(r"^\s*\|.*\|\s*$", stripped, re.MULTILINE) is not None
    parts = [part.strip() for part in stripped.split("|")]
    if split_bars and len(parts) > 1 and all(parts) and not is_table:
        return parts
    if split_commas:
        return [part.strip() for part in re.split(r"[|,;]", stripped)]
    return [text]


def is_blank(value: object) -> bool:
    """Whether `value` is None, or a string without anything but white space."""
    return value is None or (isinstance(value, str) and not value.strip())


def as_list(value: object) -> list[Any]:
    """Return `value` if it is a list, else a list with `value` as its only item."""
    if isinstance(value, list):
        return value
    return [value]


def parse_structure(value: object) -> object:
    """Return the list or object that is written in a string, as JSON or as Python prints
    it; any other value as it is."""
    if not isinstance(value, str) or not value.lstrip().startswith(("[", "{")):
        return value
    text = value.strip()
    parsed: object = None
    try:
        parsed = decode(text)
    except NotJsonError:
        with suppress(ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
            parsed = _python_value(text)
    return parsed if isinstance(parsed, list | dict) else value


def _python_value(text: str) -> object:
    """Return the value that Python prints as `text`, None if it is too long to parse.

    Raises what Python's parser raises.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about invalid escapes, such as "\d"
        # NumPy prints no commas between strings, which Python would join.
        is_string_list = len(
            text
        ) <= _MAX_STRING_LIST_CHARACTERS and _PYTHON_LIST.fullmatch(text)
        if is_string_list:
            strings = _PYTHON_STRING.findall(text)
            escaped = [string.replace("\n", "\\n") for string in strings]
            return list(map(ast.literal_eval, escaped))
        if len(text) > _MAX_LITERAL_CHARACTERS:
            return None
        return ast.literal_eval(text)


def find_by_key(mapping: Mapping[str, object], names: Texts) -> object | None:
    """Return the value under the first of `names` that has one, however the key is
    spelt; None if there is none."""
    value_by_name = {normalise_name(str(key)): value for key, value in mapping.items()}
    for name in names:
        # Normal form has no underscore at the ends, as ``_id`` has.
        value = value_by_name.get(name.strip("_"))
        if value is not None:
            return value
    return None
