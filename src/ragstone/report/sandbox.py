"""A template environment that a hostile template can't escape, exhaust, or use to write unescaped foreign text.

There are three barriers. The syntax tree is checked against a list of allowed nodes before it is compiled. Attributes
and calls reach only plain data, loops, macros and blocks. Loops, calls and output share one budget. All output is
escaped except the template's own text, so no filter or operator can turn that off.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from dataclasses import dataclass
from functools import wraps
from types import CodeType
from typing import Any

from jinja2 import BaseLoader, Template, TemplateAssertionError, nodes
from jinja2.exceptions import SecurityError
from jinja2.runtime import BlockReference, LoopContext, Macro, StrictUndefined, TemplateReference, Undefined
from jinja2.sandbox import ImmutableSandboxedEnvironment

_BUDGET = 2_000_000
_MAX_NODES = 20_000
_MAX_DEPTH = 60

_NODES = frozenset(
    {
        *("Template", "TemplateData", "Output", "Extends", "Block", "If", "For", "Macro", "Assign", "AssignBlock"),
        *("Const", "Name", "Getattr", "Getitem", "List", "Tuple", "Filter", "Test", "Call", "Keyword"),
        *("Compare", "Operand", "And", "Or", "Not", "CondExpr"),
    }
)
_OF_LISTS = frozenset(
    {
        *("first", "join", "last", "list", "map", "max", "min", "reject", "rejectattr", "reverse", "select"),
        *("selectattr", "sort", "unique"),
    }
)
_FILTERS = _OF_LISTS - {"join"} | {
    *("abs", "count", "d", "default", "float", "int", "length", "lower", "title", "trim", "upper"),
}
_LOOP = frozenset(
    {"index", "index0", "revindex", "revindex0", "first", "last", "length", "previtem", "nextitem", "depth", "depth0"}
)


_WHOLE = "a text must be printed as a whole"
"""Escaping depends on neighbouring characters; single characters of a text would slip through."""


class SafeText(str):
    """Text that can be printed without escaping: written by a template, or returned by a built-in filter."""

    __slots__ = ()


class ExhaustedError(SecurityError):
    """The template exceeded its budget of work or output."""


def plain(value: object) -> str:
    """`value` as text. Raises TypeError for a value without a short text form, such as a list."""
    if isinstance(value, str | int | float):
        return str(value)
    if value is None:
        return "–"
    raise TypeError(f"a {type(value).__name__} can't be printed; print its parts")


@dataclass(frozen=True, slots=True)
class Compiled:
    """A template that was found harmless, for any environment with the same filters; `size` is its number of nodes."""

    code: CodeType
    size: int


class TemplateSandbox(ImmutableSandboxedEnvironment):
    """One environment for one rendering. `escape` makes foreign text inert."""

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
        self._sizes: dict[str | None, int] = {}
        self.globals = {}
        known = {name: self.filters[name] for name in _FILTERS} | dict(filters) | {"join": self._join}
        self.filters = {name: self._charged(name, found) for name, found in known.items()}
        self._user_filters = frozenset(known)
        self.filters["_counted"] = self._counted
        self.concat = self._concat  # type: ignore[method-assign]

    def compiled(self, source: str, name: str) -> Compiled:
        """Check and compile a template. Raises TemplateSyntaxError."""
        code = self.compile(source, name, name)
        return Compiled(code, self._sizes[name])

    def template_of(self, compiled: Compiled, variables: MutableMapping[str, Any]) -> Template:
        self._call_cost = max(self._call_cost, compiled.size)
        return self.template_class.from_code(self, compiled.code, variables)

    def spend(self, units: int) -> None:
        """Draw on the budget. Raises ExhaustedError if it is used up."""
        self._left -= units
        if self._left < 0:
            raise ExhaustedError("the template loops too often, or writes too much")

    def getattr(self, obj: Any, attribute: str) -> Any:
        """Keys of mappings, loop variables and blocks of the template, but no attributes of objects."""
        if isinstance(obj, Undefined):
            obj._fail_with_undefined_error()
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
        if isinstance(obj, list | tuple) and isinstance(argument, int):
            try:
                return obj[argument]
            except IndexError:
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
        text = plain(value)
        self.spend(1 + len(text))
        return SafeText(self._escape(text))

    def _charged(self, name: str, found: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(found)
        def charged(*args: Any, **kwargs: Any) -> Any:
            subject = args[1] if hasattr(found, "jinja_pass_arg") else args[0]
            if name in _OF_LISTS and isinstance(subject, str):
                raise TypeError(_WHOLE)
            self.spend(1 + sum(len(arg) for arg in args if isinstance(arg, str | list | tuple)))
            result = found(*args, **kwargs)
            if isinstance(result, str):
                self.spend(len(result))
            return result

        return charged

    def _join(self, items: Iterable[object], glue: str = ", ") -> str:
        pieces = []
        for item in items:
            pieces.append(plain(item))
            self.spend(len(pieces[-1]) + len(glue))
        return glue.join(pieces)

    def _concat(self, parts: Iterable[str]) -> SafeText:
        pieces = []
        for part in parts:
            self.spend(len(part))
            pieces.append(part)
        return SafeText("".join(pieces))

    def _counted(self, iterable: Iterable[object], cost: int) -> Iterator[object]:
        if isinstance(iterable, str):
            raise TypeError(_WHOLE)
        for item in iterable:
            self.spend(cost)
            yield item

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        tree = super()._parse(source, name, filename)
        self._check(tree, 0, name, filename)
        size = sum(1 for _ in tree.find_all(nodes.Node))
        if size > _MAX_NODES:
            raise TemplateAssertionError("the template is too large", 1, name, filename)
        self._sizes[name] = size
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
        if isinstance(node, nodes.List | nodes.Tuple) and getattr(node, "ctx", "load") == "load":
            # Lists of lists would double with every line, and comparing them would take forever.
            refused = not all(isinstance(item, nodes.Const) for item in node.items)
        if refused:
            raise TemplateAssertionError(f"'{kind.lower()}' is not allowed in a report template", line, name, filename)
        if isinstance(node, nodes.Filter) and node.name not in self._user_filters:
            known = ", ".join(sorted(self._user_filters))
            raise TemplateAssertionError(f"unknown filter '{node.name}'. Known: {known}", line, name, filename)
        if depth > _MAX_DEPTH:
            raise TemplateAssertionError("the template is nested too deeply", line, name, filename)
        for child in node.iter_child_nodes():
            self._check(child, depth + 1, name, filename)
