"""Parses a model's replies into checked values, and makes the keys that they are cached
under.

Every field that was requested is either valid in a reply, or missing.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
from collections.abc import Callable, Collection, Iterable, Sequence

from msgspec import Struct

from ragstone.judge.llm.any_json import dict_or_empty, list_or_empty
from ragstone.judge.llm.provider import Stop
from ragstone.judge.protocol import JudgeIdentity

PARSING_VERSION = "7"
"""The version of the parsing rules. A new one makes sure that no value accepted by
older rules is read from the cache."""

FieldPath = tuple[str, ...]
"""The position of a value in a reply: a group and an id, or just a name."""
Values = dict[FieldPath, object]
"""Checked values, by position."""
_MAX_REPLY_CHARACTERS = 2_000_000
_CODE_BLOCK = re.compile(r"\A\s*```(?:json)?\s*\n(.*?)\n\s*```\s*\Z", re.DOTALL)
"""A reply that is a block of code in Markdown."""
_THOUGHTS_BEGIN = re.compile(
    r"\s*(?:<(?:think|thinking|thought|reasoning|reflection)>|\[think\]|<\|(?:start\|>assistant<\|)?channel\|>)",
    re.IGNORECASE,
)
_THOUGHTS_END = re.compile(
    r"</(?:think|thinking|thought|reasoning|reflection)>|\[/think\]|<\|channel\|>final[^<]{0,99}<\|message\|>",
    re.IGNORECASE,
)
"""The marks around a model's thoughts: XML tags as those of DeepSeek and Qwen,
``[THINK]`` of Mistral, and the channels of gpt-oss."""
_MISSING = object()
"""Stands for a value that a document does not have, because None may be a value."""
_INVALID = (ValueError, TypeError, KeyError, OverflowError, RecursionError)
"""The exceptions of a check for a value that is not valid."""


class Field(Struct, frozen=True):
    """A value that a reply must contain."""

    path: FieldPath
    check: Callable[[object], object]
    """Returns the value in canonical form, or raises one of _INVALID."""
    max_tokens: int = 64
    """The usual upper limit of the value's length."""


Fields = tuple[Field, ...]


def read_reply(text: str, stop: Stop, fields: Sequence[Field]) -> Values:
    """The valid values of `fields` in a model's reply; invalid ones are left out.

    A reply that was cut off, refused or filtered has no values: half a list is never
    taken for a list.
    """
    if stop is not Stop.COMPLETE:
        return {}
    groups = {field.path[0] for field in fields if len(field.path) > 1}
    document = _parse_object(_without_thoughts(text))
    return read_document(_by_id(document, groups), fields)


def read_document(document: object, fields: Iterable[Field]) -> Values:
    """The valid values of `fields` in `document`: a reply with its groups by id, or a
    cache entry."""
    values: Values = {}
    for field in fields:
        value = _value_at(document, field.path)
        if value is not _MISSING:
            with contextlib.suppress(*_INVALID):
                values[field.path] = field.check(value)
    return values


def document_of(values: Values) -> dict[str, object]:
    """`values` as a document that `read_document` reads, for the cache."""
    document: dict[str, object] = {}
    groups: dict[str, dict[str, object]] = {}
    for path, value in values.items():
        if len(path) == 1:
            document[path[0]] = value
        else:
            groups.setdefault(path[0], {})[path[1]] = value
    return document | groups


def _without_thoughts(text: str) -> str:
    """What follows the thoughts in `text`, which some servers don't remove; empty if
    the thoughts don't end."""
    # A mark inside the JSON, such as in a quote, is none.
    if text.lstrip().startswith("{"):
        return text
    *_, last_part = _THOUGHTS_END.split(text)
    has_end = last_part != text
    if not has_end and _THOUGHTS_BEGIN.match(text):
        return ""
    return last_part


def _by_id(document: object, groups: Collection[str]) -> object:
    """A reply whose `groups`, arrays of objects with ids, are turned into objects by
    id; None if it is not an object."""
    if not isinstance(document, dict):
        return None
    by_id = dict(document)
    for name in document.keys() & groups:
        items_with_ids = []
        for item in list_or_empty(document[name]):
            item_id = dict_or_empty(item).get("id")
            if isinstance(item_id, str):
                items_with_ids.append((item_id.strip().lower(), item))
        by_id[name] = _without_duplicates(items_with_ids)
    return by_id


def _parse_object(text: str) -> object:
    """The JSON object in a reply, which may have prose around it; None if there is
    none, or more than one."""
    if len(text) > _MAX_REPLY_CHARACTERS:
        return None
    code_block = _CODE_BLOCK.match(text)
    if code_block:
        text = code_block[1]
    try:
        document, end = _DECODER.raw_decode(text, text.index("{"))
    except (ValueError, RecursionError):
        return None
    return document if "{" not in text[end:] else None


def _value_at(document: object, path: FieldPath) -> object:
    """The value at `path`; _MISSING if there is none."""
    for name in path:
        if not isinstance(document, dict) or name not in document:
            return _MISSING
        document = document[name]
    return document


def _without_duplicates(pairs: Sequence[tuple[str, object]]) -> dict[str, object]:
    """The values by name. If a name occurs more than once, its value is _MISSING:
    neither can be trusted."""
    values: dict[str, object] = {}
    for name, value in pairs:
        values[name] = _MISSING if name in values else value
    return values


def _refuse_constant(name: str) -> object:
    """Refuse ``NaN`` and ``Infinity``, which Python's decoder accepts."""
    raise ValueError(f"{name} is not a number in JSON")


_DECODER = json.JSONDecoder(
    object_pairs_hook=_without_duplicates, parse_constant=_refuse_constant
)


_CACHE_FORMAT = f"ragstone-judgement-{PARSING_VERSION}"


class CacheKeys:
    """The keys under which the judgements of one judge are cached."""

    def __init__(self, identity: JudgeIdentity) -> None:
        # The version, a hash of all prompts, is left out: a changed prompt leaves the
        # entries of the others valid.
        judge = [
            _CACHE_FORMAT,
            identity.provider,
            identity.endpoint,
            identity.model,
            list(identity.parameters),
        ]
        self._judge_hash = hashlib.sha256(json.dumps(judge).encode())

    def key(
        self, digest: str, content: Sequence[str], *, repeat: int | None = None
    ) -> bytes:
        """The SHA-256 of the judge, the `digest` of what is asked, all texts that the
        judgement reads, and the number of the repeat.

        The length of each text is hashed with it, so that different texts never give
        the same bytes.
        """
        key_hash = self._judge_hash.copy()
        repeat_text = "-" if repeat is None else str(repeat)
        key_hash.update(f"\0{digest}\0{repeat_text}\0{len(content)}".encode())
        for text in content:
            encoded_text = text.encode("utf-8", "surrogatepass")
            key_hash.update(f"\0{len(encoded_text)}:".encode())
            key_hash.update(encoded_text)
        return key_hash.digest()
