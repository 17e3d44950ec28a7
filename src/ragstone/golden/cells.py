"""Converts one cell, of any shape, to the text, list, boolean or grades that a field
needs."""

from __future__ import annotations

import ast
import difflib
import math
import re
import warnings
from collections.abc import Iterator, Mapping

from ragstone.golden.aliases import (
    ALIAS_KEYS,
    CALL_KEYS,
    GRADE_KEYS,
    ID_KEYS,
    ROLES,
    TEXT_KEYS,
    UNREAD_CALL_KEYS,
    normal,
)
from ragstone.golden.formats.json_text import NotJsonError, decode
from ragstone.golden.patterns import compiled
from ragstone.golden.rows import MAX_DEPTH
from ragstone.golden.sample import ExpectedCall, Message

MAX_TEXT = 2_000_000
"""Maximum length of one text field, in characters."""

MAX_REFERENCES = 1000
"""Maximum number of references of one sample."""

MAX_TURNS = 200
"""Maximum number of earlier messages of a conversation."""

MAX_CALLS = 100
"""Maximum number of tool calls that one sample expects."""

MAX_TOOL_NAME = 200

MAX_ID = 512
"""Maximum length of an id, in characters."""

CLARIFICATION = "clarification"
"""What `expects` can say of an answer."""

_MAX_WORDS = 10_000_000
STATUSES = ("draft", "reviewed")
"""What a review can say of a sample."""

_PYTHON_STRING = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\"""", re.DOTALL)
_PYTHON_LIST = re.compile(rf"\[\s*(?:(?:{_PYTHON_STRING.pattern})[\s,]*)*\]", re.DOTALL)
_ARRAY = re.compile(
    r"(?:\[\s*)?(?:np\.|numpy\.)?array\((?P<list>\[.*\])(?:,\s*dtype=[^][()]*)?\)(?:\s*\])?",
    re.DOTALL,
)
_BEGINS = re.compile(r"""\s*(?:[\[{]|\(['"]|(?:np\.|numpy\.)?array\()""")
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


def text(value: object) -> str | None:
    """`value` as stripped text, None if empty: a string, a number, a boolean, an object
    with a text, or a list of alternatives, of which the first is used.
    """
    content = _text(value, 0)
    if content is None:
        return None
    stripped = content.strip()
    return sound(stripped) or None


def earlier_turns(value: object) -> tuple[Message, ...]:
    """The messages before the last user message of a chat; none for anything else."""
    if not isinstance(value, list):
        return ()
    last = max(
        (
            at
            for at, item in enumerate(value)
            if isinstance(item, Mapping) and _speaks_for_user(item)
        ),
        default=0,
    )
    return turns(value[:last])


def turns(value: object) -> tuple[Message, ...]:
    """`value` as the turns of a conversation: messages with a role, pairs of question
    and answer, or texts in turn.

    Empty messages, and those of other roles (tools), are left out.
    """
    value = opened(value)
    if isinstance(value, str) and not value.strip():
        return ()
    if not isinstance(value, list):
        raise CellError(f"contains {shown(value)}, expected a list of messages")
    messages: list[Message] = []
    for at, item in enumerate(value):
        if isinstance(item, Mapping):
            role = ROLES.get(str(item.get("role", item.get("type", ""))).lower())
            spoken = (
                [(role, item.get("content", item.get("text")))]
                if role is not None
                else []
            )
        elif isinstance(item, list) and len(item) == 2:
            spoken = [("user", item[0]), ("assistant", item[1])]
        elif isinstance(item, str):
            # The last text before the question is the system's.
            spoken = [("assistant" if (len(value) - at) % 2 else "user", item)]
        else:
            raise CellError(
                f"contains {shown(item)}, expected a message with role and content"
            )
        messages += [
            Message(role, spoken_text)
            for role, content in spoken
            if (spoken_text := text(content)) is not None
        ]
    if len(messages) > MAX_TURNS:
        raise CellError(
            f"contains {len(messages):,} messages; at most {MAX_TURNS} are allowed"
        )
    return tuple(messages)


def texts(value: object, *, plural: bool = True) -> tuple[str, ...]:
    """`value` as distinct texts that are equally right: a list of texts, an object with
    a text, with a list of texts (SQuAD) or with aliases (TriviaQA), each also as JSON
    in a text; or one text. Empty texts are left out.

    Unless `plural`, a text that is a list of texts is one answer.
    """
    read = opened(value)
    is_answer = (
        isinstance(read, list)
        and not plural
        and all(isinstance(item, str) for item in read)
    )
    if read is not value and (is_answer or not _has_texts(read)):
        read = value  # an answer may be JSON itself
    return tuple(
        dict.fromkeys(
            answer
            for item in _alternatives(read, 0)
            if (answer := text(item)) is not None
        )
    )


def _has_texts(value: object) -> bool:
    """Whether `value` is a list of texts, or of objects with a text, or such an
    object."""
    if isinstance(value, list):
        return bool(value) and all(
            isinstance(item, str) or _has_texts(item) for item in value
        )
    return isinstance(value, Mapping) and _pick(value, TEXT_KEYS) is not None


def _alternatives(value: object, depth: int) -> Iterator[object]:
    if depth > MAX_DEPTH:
        raise CellError("is nested too deeply")
    if isinstance(value, list):
        for item in value:
            yield from _alternatives(item, depth + 1)
    elif isinstance(value, Mapping):
        yield from _alternatives(_only_text(value), depth + 1)
        for key, inner in value.items():
            if normal(str(key)) in ALIAS_KEYS:
                yield from _alternatives(inner, depth + 1)
    else:
        yield value


def question(value: object) -> str | None:
    """Like `text`, but for text only. For a chat (a list of messages), the last user
    message."""
    if isinstance(value, bool | int | float):
        raise CellError(f"contains {shown(value)}, expected the text of a question")
    if isinstance(value, list) and value:
        spoken = [
            item
            for item in value
            if isinstance(item, Mapping) and _speaks_for_user(item)
        ]
        if spoken:
            return text(spoken[-1])
        if len(value) == 1 and not isinstance(value[0], list):
            return question(value[0])
        raise CellError("contains a list, expected one question")
    return text(value)


def is_answerless(value: object) -> bool:
    """Whether `value` is the empty answer of an unanswerable question, as SQuAD v2
    writes it: no text, no position."""
    return (
        isinstance(value, Mapping)
        and value.get("text") == []
        and value.get("answer_start") == []
    )


def contexts(value: object) -> tuple[str, ...]:
    """`value` as passages: a list of texts or objects, an object of these by their ids,
    or one text; each also as JSON in a text."""
    passage_texts: list[str] = []
    for item in passages(value):
        passage = _text(item, 0)
        if passage is not None and passage.strip():
            passage_texts.append(sound(passage))
    return tuple(passage_texts)


def passages(value: object, *, split_bars: bool = True) -> list[object]:
    """`value` as a list of passages, each a text or an object, as `contexts` reads
    them.

    Raises CellError for a text that begins like a written list, and is none.
    """
    read = opened(value)
    if isinstance(read, str) and _LIKE_A_LIST.match(read.strip()):
        cut = (
            ""
            if read.rstrip().endswith(("]", ")"))
            else ", perhaps because it was cut off"
        )
        raise CellError(
            f"begins like a list, but can't be read as one{cut}: {shown(read)}"
        )
    if (
        isinstance(read, Mapping)
        and not _has_texts(read)
        and _has_texts(list(read.values()))
    ):
        return [
            {"id": name, **item}
            if isinstance(item, Mapping)
            else {"id": name, "text": item}
            for name, item in read.items()
        ]
    return [item for item in listed(read, split_bars=split_bars) if item is not None]


def hops(value: object) -> tuple[int, ...]:
    """The hop of each passage of `contexts`, 0 if it has none; empty if no passage has
    one."""
    is_plain = isinstance(value, list) and all(isinstance(item, str) for item in value)
    if is_plain or (isinstance(value, str) and "hop" not in value):
        return ()
    numbers = []
    for item in passages(value):
        hop = item.get("hop") if isinstance(item, Mapping) else None
        passage = _text(item, 0)
        if passage is not None and passage.strip():
            numbers.append(positive(hop) or 0)
    return tuple(numbers) if any(numbers) else ()


def expected_calls(value: object) -> tuple[ExpectedCall, ...]:
    """`value` as the tool calls that an answer needs: names of tools, or objects that
    say more of a call."""
    value = opened(value)
    items = (
        [value]
        if isinstance(value, Mapping)
        else listed(value, split_bars=True, split_commas=True)
    )
    calls = [_expected_call(item) for item in items if item not in (None, "")]
    if len(calls) > MAX_CALLS:
        raise CellError(
            f"contains {len(calls):,} tool calls; at most {MAX_CALLS} are allowed"
        )
    return tuple(calls)


def _expected_call(item: object) -> ExpectedCall:
    if not isinstance(item, Mapping):
        return ExpectedCall((_tool_name(item),))
    unknown = item.keys() - set(CALL_KEYS) - set(UNREAD_CALL_KEYS)
    if unknown:
        raise CellError(
            f"contains a tool call with {shown(min(unknown))}, expected {', '.join(CALL_KEYS)}"
        )
    named, alternatives = _pick(item, ("name", "tool")), item.get("any_of")
    if (named is None) is (alternatives is None):
        raise CellError(
            f"contains a tool call with the keys {_keys(item)}, expected either name or any_of"
        )
    names = [named] if alternatives is None else alternatives
    if not isinstance(names, list) or not names:
        raise CellError(
            f"contains any_of = {shown(alternatives)}, expected names of tools"
        )
    arguments = opened(_pick(item, ("arguments", "args", "input_parameters")))
    if arguments is not None and not isinstance(arguments, Mapping):
        raise CellError(
            f"contains the arguments {shown(arguments)}, expected an object"
        )
    match = item.get("match", "subset")
    if match not in ("subset", "exact"):
        raise CellError(f"contains match = {shown(match)}, expected subset or exact")
    tolerance = item.get("tolerance", 0.0)
    if isinstance(tolerance, bool) or not 0 <= _as_float(tolerance) < math.inf:
        raise CellError(
            f"contains tolerance = {shown(tolerance)}, expected a number of 0 or more"
        )
    return ExpectedCall(
        tuple(map(_tool_name, names)), arguments, match, _as_float(tolerance)
    )


def _tool_name(value: object) -> str:
    if not isinstance(value, str) or not value.strip() or len(value) > MAX_TOOL_NAME:
        raise CellError(f"contains {shown(value)}, expected the name of a tool")
    return sound(value.strip())


def phrases(value: object) -> tuple[str, ...]:
    """`value` as texts to look for: a list, a list written into one cell, or one
    text."""
    return tuple(
        dict.fromkeys(
            phrase for item in listed(value, split_bars=True) if (phrase := text(item))
        )
    )


def patterns(value: object) -> tuple[str, ...]:
    """`value` as RE2 patterns: a list, or one pattern. A pattern is never split:
    brackets and bars belong to it."""
    pattern_texts: list[str] = []
    for item in value if isinstance(value, list) else [value]:
        if item is None or item == "":
            continue
        if not isinstance(item, str):
            raise CellError(
                f"contains {shown(item)}, expected the text of a regular expression"
            )
        try:
            compiled(item)
        except ValueError as error:
            raise CellError(
                f"contains {shown(item)}, which is not an RE2 pattern ({error})"
            ) from None
        pattern_texts.append(item)
    return tuple(dict.fromkeys(pattern_texts))


def positive(value: object) -> int | None:
    """`value` as a whole number of at least 1, None if empty."""
    if value is None or (isinstance(value, str) and not value.strip()):
        return None
    number = math.nan if isinstance(value, bool) else _as_float(value)
    if not 1 <= number <= _MAX_WORDS or number != int(number):
        raise CellError(
            f"contains {shown(value)}, expected a whole number of at least 1"
        )
    return int(number)


def tags(value: object) -> tuple[str, ...]:
    """`value` as distinct tags, in order; a text is split at bars, semicolons and
    commas."""
    items: list[object] = []
    for item in listed(value, split_bars=False):
        if isinstance(item, str) and not isinstance(value, list):
            items.extend(re.split(r"[|;,]", item))
        else:
            items.append(item)
    return tuple(dict.fromkeys(name for item in items if (name := text(item))))


def grades(value: object) -> dict[str, float]:
    """`value` as document id to grade: a list of ids (grade 1), an object, or a list of
    objects with id and grade."""
    value = opened(value)
    if isinstance(value, bool) or (
        isinstance(value, str) and value.lstrip().startswith("{")
    ):
        raise CellError(f"contains {shown(value)}, expected document ids")
    if isinstance(value, list) and None in value:
        raise CellError("contains a list with an empty id (null)")
    if isinstance(value, Mapping):
        if not any(
            normal(str(key)) in ID_KEYS and isinstance(inner, str)
            for key, inner in value.items()
        ):
            return {
                identifier(key): _grade(grade)
                for key, grade in value.items()
                if grade is not None
            }
        value = [value]
    grade_by_id: dict[str, float] = {}
    for item in listed(value, split_bars=True, split_commas=True):
        if isinstance(item, Mapping):
            name = _pick(item, ID_KEYS)
            if name is None:
                raise CellError(
                    f"contains an object without an id (keys: {_keys(item)})"
                )
            grade = _pick(item, GRADE_KEYS)
            grade_by_id[identifier(name)] = 1.0 if grade is None else _grade(grade)
        elif item is not None and str(item).strip():
            grade_by_id[identifier(item)] = 1.0
    return grade_by_id


def bounds(value: object) -> dict[str, float]:
    """`value` as metric to floor or ceiling: an object, also as JSON in one cell."""
    table = opened(value) or {}
    if not isinstance(table, Mapping):
        raise CellError(
            f'contains {shown(value)}, expected scores by metric, such as {{"faithfulness": 0.8}}'
        )
    limits = {
        str(metric): bound for metric, bound in table.items() if bound is not None
    }
    for metric, bound in limits.items():
        if isinstance(bound, bool) or not 0 <= _as_float(bound) <= 1:
            raise CellError(
                f"contains {shown(bound)} for {metric}, expected a score from 0 to 1"
            )
    return {metric: _as_float(bound) for metric, bound in limits.items()}


def truth(value: object) -> bool | None:
    """`value` as a boolean, None if empty."""
    if value is None or isinstance(value, bool):
        return value
    word = value.strip().lower() if isinstance(value, str) else str(value)
    if isinstance(value, float) and value.is_integer():
        word = str(int(value))
    if word in _TRUE:
        return True
    if word in _FALSE:
        return False
    if not word:
        return None
    raise CellError(f"contains {shown(value)}, expected true or false")


def is_clarification(value: object) -> bool:
    """Whether `value` says that the right answer asks back."""
    if value is None or value == "":
        return False
    if value != CLARIFICATION:
        raise CellError(f"contains {shown(value)}, expected {CLARIFICATION}")
    return True


def status(value: object) -> str | None:
    """`value` as ``draft`` or ``reviewed``; None for the status of another tool, such
    as "active"."""
    if not isinstance(value, str):
        return None
    word = value.strip().casefold()
    if word in STATUSES:
        return word
    if difflib.get_close_matches(word, STATUSES, n=1, cutoff=0.7):
        raise CellError(f"contains {shown(value)}, expected draft or reviewed")
    return None


def identifier(value: object) -> str:
    """`value` as an id: one line of text, or a whole number."""
    if isinstance(value, bool) or not isinstance(value, str | int):
        if isinstance(value, float) and value.is_integer():
            return str(int(value))
        raise CellError(f"contains {shown(value)}, expected an id")
    name = sound(str(value).strip())
    if not name:
        raise CellError("contains an empty id")
    if len(name) > MAX_ID:
        raise CellError(
            f"contains an id of {len(name):,} characters; at most {MAX_ID} are allowed"
        )
    if not name.isprintable():
        raise CellError(
            f"contains an id with line breaks or control characters: {shown(name)}"
        )
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
    if not value.isascii():
        try:
            value.encode("utf-8")
        except UnicodeEncodeError as error:
            code = ord(value[error.start])
            raise CellError(f"contains a lone surrogate (\\u{code:04x})") from None
    return value


def shown(value: object) -> str:
    rendered = repr(value)
    return rendered if len(rendered) <= 60 else rendered[:57] + "..."


def _text(value: object, depth: int) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return _number(value)
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) else None
    if depth > MAX_DEPTH:
        raise CellError("is nested too deeply")
    if isinstance(value, list):
        return next(
            (
                inner
                for item in value
                if (inner := _text(item, depth + 1)) and inner.strip()
            ),
            None,
        )
    if isinstance(value, Mapping):
        return _text(_only_text(value), depth + 1)
    if hasattr(value, "isoformat"):
        return str(value)
    raise CellError(f"contains {shown(value)}, expected text")


def _number(value: int) -> str:
    try:
        return str(value)
    except ValueError:
        raise CellError("contains a number with too many digits") from None


def _only_text(value: Mapping[str, object]) -> object:
    content = _pick(value, TEXT_KEYS)
    if content is None:
        raise CellError(
            f"contains an object, expected text; use a dotted path for one of its keys ({_keys(value)})"
        )
    return content


def listed(
    value: object, *, split_bars: bool, split_commas: bool = False
) -> Iterator[object]:
    """The items of a list in any notation: JSON, Python's, numpy's, or text between
    bars."""
    read = opened(value)
    if isinstance(read, list):
        value = read
    if value is None:
        return
    if not isinstance(value, str):
        yield from value if isinstance(value, list) else [value]
        return
    stripped = value.strip()
    if split_bars and "|" in stripped and not _is_table(stripped):
        parts = [part.strip() for part in stripped.split("|")]
        if all(parts):
            yield from parts
            return
    if split_commas:
        yield from (part.strip() for part in re.split(r"[|,;]", stripped))
        return
    yield value


def opened(value: object) -> object:
    """The list or object that a text is as JSON, or as Python or numpy print it; else
    `value` itself."""
    if not isinstance(value, str) or not _BEGINS.match(value):
        return value
    text = value.strip()
    try:
        read = decode(text)
    except NotJsonError:
        read = _python_value(text)
    return read if isinstance(read, list | dict) else value


def _python_value(value: str) -> object:
    if whole := _ARRAY.fullmatch(value):
        value = whole["list"]
    if len(value) > _MAX_PYTHON_LIST:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if _PYTHON_LIST.fullmatch(
                value
            ):  # numpy omits the commas, so Python would read one long string
                return [
                    ast.literal_eval(m.group().replace("\n", "\\n"))
                    for m in _PYTHON_STRING.finditer(value)
                ]
            if len(value) > _MAX_LITERAL:
                return None
            parsed = _value_of(ast.parse(value, mode="eval").body)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return None
    return list(parsed) if isinstance(parsed, tuple) else parsed


def _value_of(node: ast.expr) -> object:
    """The value of a literal, or of an object written as `Document(page_content="…")`.
    Raises ValueError."""
    if isinstance(node, ast.List | ast.Tuple):
        return [_value_of(item) for item in node.elts]
    if isinstance(node, ast.Dict) and all(node.keys):
        pairs = zip(node.keys, node.values, strict=True)
        return {
            str(ast.literal_eval(key)): _value_of(item)
            for key, item in pairs
            if key is not None
        }
    if isinstance(node, ast.Call) and node.keywords and not node.args:
        return {str(keyword.arg): _value_of(keyword.value) for keyword in node.keywords}
    if isinstance(node, ast.Name) and node.id == "nan":
        return None
    return ast.literal_eval(node)


def _is_table(value: str) -> bool:
    lines = [line.strip() for line in value.splitlines()]
    return any(
        line.startswith("|") and line.endswith("|") and len(line) > 1 for line in lines
    )


def _grade(value: object) -> float:
    grade = _as_float(value)
    if not (math.isfinite(grade) and grade >= 0):
        raise CellError(
            f"contains the grade {shown(value)}, expected a number of 0 or more"
        )
    return grade


def _as_float(value: object) -> float:
    """`value` as a number, NaN if it is none."""
    try:
        return float(value) if isinstance(value, str | int | float) else math.nan
    except (ValueError, OverflowError):
        return math.nan


def _pick(value: Mapping[str, object], names: tuple[str, ...]) -> object | None:
    for name in names:
        for key, inner in value.items():
            if (normal(str(key)) or str(key)) == name.strip("_") and inner is not None:
                return inner
    return None


def _speaks_for_user(message: Mapping[str, object]) -> bool:
    return (
        str(message.get("role", message.get("type", ""))).lower() in {"user", "human"}
        and "content" in message
    )


def _keys(value: Mapping[str, object]) -> str:
    return ", ".join(shown(key) for key in list(value)[:12])
