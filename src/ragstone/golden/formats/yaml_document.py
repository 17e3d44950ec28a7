"""YAML, built from the parser's events: every scalar stays the text that was written.

``answer: no`` is the answer "no", not False; ``version: 1.10`` keeps its zero. Only
null is null. Aliases are followed, but a document may not unfold into more than it
could say in plain words, and tags that build objects are refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import yaml

from ragstone.golden.rows import MAX_DEPTH, LocatedDict, SourceFile, first_line

MAX_NODES = 20_000_000
_NULLS = frozenset({"", "~", "null", "Null", "NULL"})
_NULL = "tag:yaml.org,2002:null"
_PLAIN_TAGS = {
    None,
    "!",
    _NULL,
    "tag:yaml.org,2002:str",
    "tag:yaml.org,2002:int",
    "tag:yaml.org,2002:float",
    "tag:yaml.org,2002:bool",
    "tag:yaml.org,2002:map",
    "tag:yaml.org,2002:seq",
    "tag:yaml.org,2002:timestamp",
}
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def read_document(source: SourceFile) -> Any:
    """The document in `source`, None if it is empty. Raises GoldenSetError."""
    text = source.decode(source.read_bytes())
    documents = []
    try:
        events = iter(yaml.parse(text, Loader=_LOADER))
        builder = _Builder(source, events)
        for event in builder.events:
            if isinstance(event, yaml.DocumentStartEvent):
                builder.anchors.clear()
                root = next(builder.events)
                documents.append(builder.node(root, 0))
    except yaml.YAMLError as error:
        problem = getattr(error, "problem", None) or first_line(error)
        mark = getattr(error, "problem_mark", None)
        line = None if mark is None else mark.line + 1
        raise source.error(f"not valid YAML: {problem}.", line) from None
    if len(documents) > 1:
        raise source.error(
            "holds several documents.", hint="Write one list of samples."
        )
    return documents[0] if documents else None


class _Builder:
    def __init__(self, source: SourceFile, events: Iterator[yaml.Event]) -> None:
        self.source = source
        self.events = events
        self.anchors: dict[str, tuple[Any, int]] = {}
        self.nodes = 0

    def node(self, event: yaml.Event, depth: int) -> Any:
        line = _line(event)
        anchor: Any = getattr(event, "anchor", None)
        if isinstance(event, yaml.AliasEvent):
            return self._aliased(anchor, line)
        if depth > MAX_DEPTH:
            raise self.source.error(f"nested more than {MAX_DEPTH} levels deep.", line)
        tag = getattr(event, "tag", None)
        if tag not in _PLAIN_TAGS:
            raise self.source.error(
                f"tag {tag} is not allowed.",
                line,
                hint="Write plain text, lists and mappings.",
            )
        before = self.nodes
        self._count(1, line)
        value: Any
        match event:
            case yaml.ScalarEvent():
                is_plain_null = event.implicit[0] and event.value in _NULLS
                value = None if is_plain_null or tag == _NULL else event.value
            case yaml.SequenceStartEvent():
                value = self._sequence(depth)
            case _:
                value = self._mapping(depth, line)
        if anchor is not None:
            size = self.nodes - before
            self.anchors[anchor] = (value, size)
        return value

    def _aliased(self, anchor: str, line: int) -> Any:
        """The value that an alias stands for."""
        if anchor not in self.anchors:
            raise self.source.error(
                f"alias *{anchor} names nothing that ends before it.", line
            )
        value, size = self.anchors[anchor]
        self._count(size, line)
        return value

    def _sequence(self, depth: int) -> list[Any]:
        items: list[Any] = []
        while not isinstance(event := next(self.events), yaml.SequenceEndEvent):
            items.append(self.node(event, depth + 1))
        return items

    def _mapping(self, depth: int, first_line: int) -> LocatedDict:
        items = LocatedDict({}, first_line)
        while not isinstance(event := next(self.events), yaml.MappingEndEvent):
            line = _line(event)
            key = self.node(event, depth + 1)
            if not isinstance(key, str):
                raise self.source.error("a key must be plain text.", line)
            if key == "<<":
                raise self.source.error(
                    "'<<' is not supported: write the keys out.", line
                )
            value_event = next(self.events)
            value = self.node(value_event, depth + 1)
            if key in items:
                raise self.source.error(f"duplicate key '{key}' in one mapping.", line)
            items[key] = value
        return items

    def _count(self, nodes: int, line: int) -> None:
        self.nodes += nodes
        if self.nodes > MAX_NODES:
            raise self.source.error(
                f"unfolds into more than {MAX_NODES:,} values.", line
            )


def _line(event: yaml.Event) -> int:
    mark: Any = event.start_mark  # all that the parser gives have one
    return int(mark.line) + 1
