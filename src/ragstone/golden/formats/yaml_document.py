"""Reads YAML, built from the parser's events, so that every scalar stays the text that
was written.

``answer: no`` is the answer "no", not False; ``version: 1.10`` keeps its zero. Only null
is None. Aliases are followed, but their copies count as values, of which a document may
have MAX_NODES. Tags that build objects are refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import yaml
from msgspec import Struct

from ragstone.golden.rows import MAX_DEPTH, LocatedDict, SourceFile, first_line_of

MAX_NODES = 20_000_000
"""Maximum number of scalars, lists and mappings in a document, with each alias counted as
what it stands for."""

_NULL_WORDS = frozenset({"", "~", "null", "Null", "NULL"})
_NULL_TAG = "tag:yaml.org,2002:null"
_ALLOWED_TAGS = {
    None,
    "!",
    _NULL_TAG,
    "tag:yaml.org,2002:str",
    "tag:yaml.org,2002:int",
    "tag:yaml.org,2002:float",
    "tag:yaml.org,2002:bool",
    "tag:yaml.org,2002:map",
    "tag:yaml.org,2002:seq",
    "tag:yaml.org,2002:timestamp",
}
# The loader in C is faster, but not in every build of PyYAML.
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def read_document(source: SourceFile) -> Any:
    """Return the document in `source`, None if it is empty. Raises GoldenSetError."""
    text = source.decode(source.read_bytes())
    documents = []
    try:
        events = iter(yaml.parse(text, Loader=_LOADER))
        builder = _Builder(source, events)
        for event in builder.events:
            if isinstance(event, yaml.DocumentStartEvent):
                builder.anchors.clear()
                root = next(builder.events)
                documents.append(builder.build(root, depth=0))
    except yaml.YAMLError as error:
        problem = getattr(error, "problem", None) or first_line_of(error)
        mark = getattr(error, "problem_mark", None)
        line = None if mark is None else mark.line + 1
        raise source.error(f"not valid YAML: {problem}.", line) from None
    if len(documents) > 1:
        raise source.error(
            "contains several documents.",
            hint="Write all samples into one list, without lines of ---.",
        )
    return documents[0] if documents else None


class _Anchored(Struct, frozen=True):
    """A value that aliases can stand for."""

    value: Any
    node_count: int


class _Builder:
    """Builds values from the events of the parser."""

    def __init__(self, source: SourceFile, events: Iterator[yaml.Event]) -> None:
        self.source = source
        self.events = events
        self.anchors: dict[str, _Anchored] = {}
        self._node_count = 0

    def build(self, event: yaml.Event, *, depth: int) -> Any:
        """Return the value that begins with `event`, and take its other events."""
        line = _line(event)
        anchor: Any = getattr(event, "anchor", None)
        if isinstance(event, yaml.AliasEvent):
            return self._value_of_alias(anchor, line)
        if depth > MAX_DEPTH:
            raise self.source.error(f"nested more than {MAX_DEPTH} levels deep.", line)
        tag = getattr(event, "tag", None)
        if tag not in _ALLOWED_TAGS:
            raise self.source.error(
                f"tag {tag} is not allowed.",
                line,
                hint="Write plain text, lists and mappings.",
            )
        count_before = self._node_count
        self._count_nodes(1, line)
        value: Any
        match event:
            case yaml.ScalarEvent():
                # A quoted "null" is text.
                is_unquoted = event.implicit[0]
                is_null = is_unquoted and event.value in _NULL_WORDS
                value = None if is_null or tag == _NULL_TAG else event.value
            case yaml.SequenceStartEvent():
                value = self._build_list(depth)
            case _:
                value = self._build_mapping(depth, line)
        if anchor is not None:
            node_count = self._node_count - count_before
            self.anchors[anchor] = _Anchored(value, node_count)
        return value

    def _value_of_alias(self, anchor: str, line: int) -> Any:
        if anchor not in self.anchors:
            raise self.source.error(
                f"alias *{anchor} names nothing that ends before it.", line
            )
        anchored = self.anchors[anchor]
        self._count_nodes(anchored.node_count, line)
        return anchored.value

    def _build_list(self, depth: int) -> list[Any]:
        items: list[Any] = []
        while not isinstance(event := next(self.events), yaml.SequenceEndEvent):
            items.append(self.build(event, depth=depth + 1))
        return items

    def _build_mapping(self, depth: int, first_line: int) -> LocatedDict:
        items = LocatedDict({}, first_line)
        while not isinstance(event := next(self.events), yaml.MappingEndEvent):
            line = _line(event)
            key = self.build(event, depth=depth + 1)
            if not isinstance(key, str):
                raise self.source.error("a key must be plain text.", line)
            if key == "<<":
                raise self.source.error(
                    "'<<' is not supported: write the keys out.", line
                )
            value_event = next(self.events)
            value = self.build(value_event, depth=depth + 1)
            if key in items:
                raise self.source.error(f"duplicate key '{key}' in one mapping.", line)
            items[key] = value
        return items

    def _count_nodes(self, count: int, line: int) -> None:
        self._node_count += count
        if self._node_count > MAX_NODES:
            raise self.source.error(
                f"has more than {MAX_NODES:,} values, with those that aliases repeat.",
                line,
            )


def _line(event: yaml.Event) -> int:
    mark: Any = event.start_mark
    return int(mark.line) + 1
