"""Parses model replies into checked values: every requested field is either valid or
missing; and under which keys they are cached."""

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

READING = "7"
"""Changes with the parsing rules, so that nothing accepted by earlier rules is read
from the cache."""

Path = tuple[str, ...]
Values = dict[Path, object]
"""Checked values, by their positions in a reply."""
_MAX_REPLY = 2_000_000
_FENCED = re.compile(r"\A\s*```(?:json)?\s*\n(.*?)\n\s*```\s*\Z", re.DOTALL)
_THOUGHTS = re.compile(
    r"\s*(?:<(?:think|thinking|thought|reasoning|reflection)>|\[think\]|<\|(?:start\|>assistant<\|)?channel\|>)",
    re.IGNORECASE,
)
_THOUGHTS_END = re.compile(
    r"</(?:think|thinking|thought|reasoning|reflection)>|\[/think\]|<\|channel\|>final[^<]{0,99}<\|message\|>",
    re.IGNORECASE,
)
_NOTHING = object()
_INVALID = (ValueError, TypeError, KeyError, OverflowError, RecursionError)
"""What a check raises for a value that it refuses."""


class Field(Struct, frozen=True):
    """One value that a reply must contain.

    `path` is its position (a group and an id, or just a name); `check` returns the
    value in canonical form or raises ValueError. `tokens` is the usual upper limit of
    the value's length.
    """

    path: Path
    check: Callable[[object], object]
    tokens: int = 64


Fields = tuple[Field, ...]


def read_reply(text: str, stop: Stop, fields: Sequence[Field]) -> Values:
    """The valid ones of `fields` in a model's reply, by path; invalid values are left
    out.

    A reply that was cut off, refused or filtered has no values: half a list is never
    taken for a list.
    """
    if stop is not Stop.COMPLETE:
        return {}
    groups = {field.path[0] for field in fields if len(field.path) > 1}
    return read_document(_by_id(_whole(_without_thoughts(text)), groups), fields)


def read_document(document: object, fields: Iterable[Field]) -> Values:
    """The valid ones of `fields` in a reply by id, or in a cache entry, which follows
    the same rules."""
    values: Values = {}
    for field in fields:
        value = _at(document, field.path)
        if value is not _NOTHING:
            with contextlib.suppress(*_INVALID):
                values[field.path] = field.check(value)
    return values


def document_of(values: Values) -> dict[str, object]:
    """`values` by name and id, as stored in the cache."""
    document: dict[str, object] = {}
    groups: dict[str, dict[str, object]] = {}
    for path, value in values.items():
        if len(path) == 1:
            document[path[0]] = value
        else:
            groups.setdefault(path[0], {})[path[1]] = value
    return document | groups


def _without_thoughts(text: str) -> str:
    """What follows the thoughts in `text`, from a server that does not separate the
    two; nothing if they don't end."""
    if text.lstrip().startswith("{"):  # what a verdict quotes is no mark
        return text
    *_, after = _THOUGHTS_END.split(text)
    if after == text and _THOUGHTS.match(text):
        return ""
    return after


def _by_id(document: object, groups: Collection[str]) -> object:
    """A reply with its `groups`, arrays of objects with ids, as objects by id. Ids that
    occur twice are left out."""
    if not isinstance(document, dict):
        return None
    by_id = dict(document)
    for name in document.keys() & groups:
        named = []
        for item in list_or_empty(document[name]):
            item_id = dict_or_empty(item).get("id")
            if isinstance(item_id, str):
                named.append((item_id.strip().lower(), item))
        by_id[name] = _no_duplicates(named)
    return by_id


def _whole(text: str) -> object:
    """The one JSON object of a reply; prose around it is tolerated, a second object is
    not."""
    if len(text) > _MAX_REPLY:
        return None
    block = _FENCED.match(text)
    if block:
        text = block[1]
    try:
        document, end = _DECODER.raw_decode(text, text.index("{"))
    except (ValueError, RecursionError):
        return None
    return document if "{" not in text[end:] else None


def _at(document: object, path: Path) -> object:
    for name in path:
        if not isinstance(document, dict) or name not in document:
            return _NOTHING
        document = document[name]
    return document


def _no_duplicates(pairs: Sequence[tuple[str, object]]) -> dict[str, object]:
    """Drop ids that occur twice: neither value can be trusted."""
    unique: dict[str, object] = {}
    for name, value in pairs:
        unique[name] = _NOTHING if name in unique else value
    return unique


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is no JSON number")


_DECODER = json.JSONDecoder(
    object_pairs_hook=_no_duplicates, parse_constant=_refuse_constant
)


_FORMAT = f"ragstone-judgement-{READING}"


class CacheKeys:
    """Cache keys of one judge: its identity, the form, the content and the repeat."""

    def __init__(self, identity: JudgeIdentity) -> None:
        # Not the version, which hashes all prompts: editing one prompt leaves the
        # others' entries valid.
        who = [
            _FORMAT,
            identity.provider,
            identity.endpoint,
            identity.model,
            list(identity.parameters),
        ]
        self._start = hashlib.sha256(json.dumps(who).encode())

    def key(
        self, digest: str, content: Sequence[str], *, repeat: int | None = None
    ) -> bytes:
        """SHA-256 over the judge, the form's digest, all texts that the judgement
        reads, and the repeat number.

        Lengths are hashed with the texts, so that different contents never give the
        same bytes.
        """
        whole = self._start.copy()
        whole.update(
            f"\0{digest}\0{'-' if repeat is None else repeat}\0{len(content)}".encode()
        )
        for text in content:
            data = text.encode("utf-8", "surrogatepass")
            whole.update(f"\0{len(data)}:".encode())
            whole.update(data)
        return whole.digest()
