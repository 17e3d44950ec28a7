"""A template environment that a hostile template can't leave, exhaust, or use to write live foreign text.

Three walls. The syntax tree is held against a list of allowed nodes before it is compiled. Attributes and calls reach
plain data, loops, macros and blocks only, nothing of ours. Loops, calls and output draw on one budget. What a template
prints is escaped unless the template itself wrote it, so no filter or operator can switch that off.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from jinja2 import BaseLoader, TemplateAssertionError, nodes
from jinja2.exceptions import SecurityError
from jinja2.runtime import BlockReference, LoopContext, Macro, StrictUndefined, TemplateReference, Undefined
from jinja2.sandbox import ImmutableSandboxedEnvironment

_BUDGET = 2_000_000
_MAX_NODES = 20_000
_MAX_DEPTH = 60

_NODES = frozenset(
    {
        *("Template", "TemplateData", "Output", "Extends", "Block", "If", "For", "Macro", "Assign", "AssignBlock"),
        *("Const", "Name", "Getattr", "Getitem", "Slice", "List", "Tuple", "Filter", "Test", "Call", "Keyword"),
        *("Compare", "Operand", "And", "Or", "Not", "CondExpr"),
    }
)
_FILTERS = frozenset(
    {
        *("abs", "count", "d", "default", "first", "float", "int", "last", "length", "list", "lower", "map", "max"),
        *("min", "reject", "rejectattr", "reverse", "select", "selectattr", "sort", "title", "trim", "unique", "upper"),
    }
)
_LOOP = frozenset(
    {"index", "index0", "revindex", "revindex0", "first", "last", "length", "previtem", "nextitem", "depth", "depth0"}
)


class SafeText(str):
    """Text that may be printed as it is: written by a template, or made by a filter of ours."""

    __slots__ = ()


class ExhaustedError(SecurityError):
    """The template did more work, or wrote more, than a report can need."""


class TemplateSandbox(ImmutableSandboxedEnvironment):
    """One environment for one rendering. `escape` turns foreign text into text that does nothing."""

    def __init__(
        self, loader: BaseLoader, escape: Callable[[str], str], filters: Mapping[str, Callable[..., SafeText | str]]
    ) -> None:
        super().__init__(
            loader=loader,
            undefined=StrictUndefined,
            autoescape=False,
            trim_blocks=True,
            lstrip_blocks=True,
            keep_trailing_newline=True,
            finalize=self._finalize,
        )
        self._escape = escape
        self._left = _BUDGET
        self._call_cost = 1
        self.globals = {}
        self.filters = {name: self.filters[name] for name in _FILTERS} | dict(filters)
        self._user_filters = frozenset(self.filters)
        self.filters["_counted"] = self._counted
        self.concat = self._concat  # type: ignore[method-assign]

    def spend(self, units: int) -> None:
        """Draw on the budget. Raises ExhaustedError when there is nothing left."""
        self._left -= units
        if self._left < 0:
            raise ExhaustedError("the template does too much: it loops too often, or writes too much")

    def getattr(self, obj: Any, attribute: str) -> Any:
        """Keys of mappings, facts about a loop, blocks of the template: no attribute of any object."""
        if isinstance(obj, Undefined):
            return obj.__getattr__(attribute)
        if isinstance(obj, Mapping | TemplateReference):
            try:
                return obj[attribute]
            except KeyError:
                return self.undefined(obj=obj, name=attribute)
        if isinstance(obj, LoopContext) and attribute in _LOOP:
            return getattr(obj, attribute)
        return self.unsafe_undefined(obj, attribute)

    def getitem(self, obj: Any, argument: Any) -> Any:
        if isinstance(argument, str):
            return self.getattr(obj, argument)
        if isinstance(obj, list | tuple | str) and isinstance(argument, int | slice):
            try:
                return obj[argument]
            except (IndexError, TypeError, ValueError):
                return self.undefined(obj=obj, name=str(argument))
        return self.unsafe_undefined(obj, str(argument))

    def is_safe_callable(self, obj: Any) -> bool:
        return isinstance(obj, Macro | BlockReference)

    def call(self, context: Any, obj: Any, /, *args: Any, **kwargs: Any) -> Any:
        self.spend(self._call_cost)
        return super().call(context, obj, *args, **kwargs)

    def _finalize(self, value: object) -> object:
        if isinstance(value, SafeText):
            return value
        if isinstance(value, Undefined):
            return str(value)  # raises
        text = "–" if value is None else str(value)
        self.spend(1 + len(text))
        return SafeText(self._escape(text))

    def _concat(self, parts: Iterable[str]) -> SafeText:
        pieces = []
        for part in parts:
            self.spend(len(part))
            pieces.append(part)
        return SafeText("".join(pieces))

    def _counted(self, iterable: Iterable[object], cost: int) -> Iterator[object]:
        for item in iterable:
            self.spend(cost)
            yield item

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        tree = super()._parse(source, name, filename)
        self._check(tree, 0, name, filename)
        size = sum(1 for _ in tree.find_all(nodes.Node))
        if size > _MAX_NODES:
            raise TemplateAssertionError("the template is too large", 1, name, filename)
        self._call_cost = max(self._call_cost, size)
        for loop in tree.find_all(nodes.For):
            cost = 1 + sum(1 for _ in loop.find_all(nodes.Node))
            counted = nodes.Filter(loop.iter, "_counted", [nodes.Const(cost)], [], None, None, lineno=loop.lineno)
            loop.iter = counted.set_environment(self)
        return tree

    def _check(self, node: nodes.Node, depth: int, name: str | None, filename: str | None) -> None:
        kind = type(node).__name__
        line = getattr(node, "lineno", 1)
        refused = kind not in _NODES or (isinstance(node, nodes.For) and node.recursive)
        if refused:
            raise TemplateAssertionError(f"'{kind.lower()}' is not allowed in a report template", line, name, filename)
        if isinstance(node, nodes.Filter) and node.name not in self._user_filters:
            known = ", ".join(sorted(self._user_filters))
            raise TemplateAssertionError(f"unknown filter '{node.name}'. Known: {known}", line, name, filename)
        if depth > _MAX_DEPTH:
            raise TemplateAssertionError("the template is nested too deeply", line, name, filename)
        for child in node.iter_child_nodes():
            self._check(child, depth + 1, name, filename)
