"""Renders a project's report templates in Jinja's sandbox, with escaping for Markdown and
a limit on work and output.

A template is reviewed like code, but the values that it prints are foreign text, and
Jinja's autoescape is made for HTML. Here, all that a template prints is escaped for
Markdown, except its own text and what the filters of the report return.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import wraps
from typing import Any, NoReturn

from jinja2 import BaseLoader, TemplateAssertionError, nodes
from jinja2.exceptions import SecurityError
from jinja2.runtime import BlockReference, Macro, StrictUndefined, Undefined
from jinja2.sandbox import ImmutableSandboxedEnvironment

MAX_STEPS = 2_000_000
"""Maximum number of loop rounds, calls and written characters, all together."""

MAX_SECONDS = 10.0

_FILTERS = (
    "abs",
    "count",
    "d",
    "default",
    "first",
    "float",
    "int",
    "last",
    "length",
    "list",
    "lower",
    "map",
    "max",
    "min",
    "reject",
    "rejectattr",
    "reverse",
    "select",
    "selectattr",
    "sort",
    "title",
    "trim",
    "unique",
    "upper",
)
"""Jinja's filters whose result is not much larger than their input."""

_FORBIDDEN = {
    nodes.Concat: "the operator ~ is not allowed: print the parts one after another",
    nodes.Dict: "a dict is not allowed",
    nodes.List: "a list can have only constants",
    nodes.Tuple: "a tuple can have only constants",
    nodes.ScopedEvalContextModifier: "{% autoescape %} is not allowed: all values are escaped for Markdown",
}
"""The error for each kind of syntax that templates can't use. Texts and lists that are
made from each other could double with every line."""


class SafeText(str):
    """Text that is printed without escaping. Any text that is derived from it is a plain
    string again."""

    __slots__ = ()


def to_text(value: object) -> str:
    """Return `value` as text. Raises TypeError for a list or another value without a
    short text form."""
    match value:
        case str() | int() | float():
            return str(value)
        case None:
            return "–"
    raise TypeError(f"a {type(value).__name__} can't be printed; print its parts")


class ReportEnvironment(ImmutableSandboxedEnvironment):
    """The environment of one rendering. `escape` makes foreign text harmless."""

    intercepted_binops = frozenset(("+", "-", "*", "/", "//", "%", "**"))

    def __init__(
        self,
        loader: BaseLoader,
        escape: Callable[[str], str],
        filters: Mapping[str, Callable[..., SafeText | str]],
    ) -> None:
        super().__init__(
            loader=loader,
            undefined=StrictUndefined,
            autoescape=False,
            trim_blocks=True,
            lstrip_blocks=True,
            keep_trailing_newline=True,
            finalize=self._print,
        )
        self._escape = escape
        self._steps = 0
        self._deadline = time.monotonic() + MAX_SECONDS
        self.globals = {}
        allowed = {name: self.filters[name] for name in _FILTERS}
        allowed |= {"join": self._join, **filters}
        self.filters = {
            name: self._count_result(function) for name, function in allowed.items()
        }
        self.filters["_count_rounds"] = self._count_rounds
        self.concat = self._concat  # type: ignore[method-assign]

    def is_safe_callable(self, obj: Any) -> bool:
        """Whether `obj` is a macro or a block: methods of strings can write gigabytes."""
        return isinstance(obj, Macro | BlockReference)

    def call(self, context: Any, obj: Any, /, *args: Any, **kwargs: Any) -> Any:
        self._spend(1)
        return super().call(context, obj, *args, **kwargs)

    def call_binop(
        self,
        context: Any,  # noqa: ARG002 - Jinja's
        operator: str,
        left: Any,  # noqa: ARG002
        right: Any,  # noqa: ARG002
    ) -> NoReturn:
        raise SecurityError(
            f"the operator {operator} is not allowed: print the values one after another, or use a filter"
        )

    def _spend(self, steps: int) -> None:
        """Count `steps`. Raises SecurityError if they or the time are used up."""
        self._steps += steps
        if self._steps > MAX_STEPS:
            raise SecurityError("the template loops too often, or writes too much")
        if time.monotonic() > self._deadline:
            raise SecurityError(f"the template takes more than {MAX_SECONDS:g} seconds")

    def _print(self, value: object) -> str:
        """Return the text that is printed for `value`."""
        match value:
            case SafeText():
                return value
            case Undefined():
                return str(value)  # raises UndefinedError
        text = to_text(value)
        self._spend(1 + len(text))
        return SafeText(self._escape(text))

    def _concat(self, parts: Iterable[str]) -> SafeText:
        pieces = []
        for part in parts:
            self._spend(len(part))
            pieces.append(part)
        return SafeText("".join(pieces))

    def _join(self, items: Iterable[object], glue: str = ", ") -> str:
        pieces = []
        for item in items:
            text = to_text(item)
            self._spend(len(text) + len(glue))
            pieces.append(text)
        return glue.join(pieces)

    def _count_result(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return `function`, which then also spends steps on the size of its result."""

        @wraps(function)
        def call_and_count(*args: Any, **kwargs: Any) -> Any:
            result = function(*args, **kwargs)
            self._spend(1 + len(result) if isinstance(result, str | list) else 1)
            return result

        return call_and_count

    def _count_rounds(self, iterable: Iterable[object]) -> Iterator[object]:
        for item in iterable:
            self._spend(1)
            yield item

    def _parse(
        self, source: str, name: str | None, filename: str | None
    ) -> nodes.Template:
        self._spend(len(source))
        tree = super()._parse(source, name, filename)
        for node in tree.find_all(tuple(_FORBIDDEN)):
            # The variables of a loop or an assignment are a tuple too.
            is_target = getattr(node, "ctx", "load") == "store"
            items = node.items if isinstance(node, nodes.List | nodes.Tuple) else [node]
            if is_target or all(isinstance(item, nodes.Const) for item in items):
                continue
            raise TemplateAssertionError(
                _FORBIDDEN[type(node)], node.lineno, name, filename
            )
        # Every loop iterates through this filter, which counts its rounds.
        for loop in tree.find_all(nodes.For):
            counted = nodes.Filter(
                loop.iter, "_count_rounds", [], [], None, None, lineno=loop.lineno
            )
            loop.iter = counted.set_environment(self)
        return tree
