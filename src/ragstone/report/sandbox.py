"""The environment of report templates: Jinja's sandbox, escaping for Markdown, and a
bound on work and output.

A template is reviewed like code, but what it prints comes from anywhere. Jinja's
autoescape is made for HTML. Here, all that a template prints is escaped for Markdown,
except its own text and what the filters of the report return.
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
"""Rounds of loops, calls, and characters that are written, all together."""

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
"""Jinja's filters whose result is not much larger than what they are given."""


class SafeText(str):
    """Text that is printed without escaping. Whatever is made of it is a plain string
    again."""

    __slots__ = ()


def plain(value: object) -> str:
    """`value` as text. Raises TypeError for a value without a short text form, such as
    a list."""
    match value:
        case str() | int() | float():
            return str(value)
        case None:
            return "–"
    raise TypeError(f"a {type(value).__name__} can't be printed; print its parts")


class ReportEnvironment(ImmutableSandboxedEnvironment):
    """One environment for one rendering. `escape` makes foreign text harmless."""

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
            finalize=self._escaped,
        )
        self._escape = escape
        self._steps = 0
        self._deadline = time.monotonic() + MAX_SECONDS
        self.globals = {}
        allowed = {name: self.filters[name] for name in _FILTERS}
        allowed |= {"join": self._join, **filters}
        self.filters = {
            name: self._counting(function) for name, function in allowed.items()
        }
        self.filters["_counted"] = self._counted
        self.concat = self._concat  # type: ignore[method-assign]

    def is_safe_callable(self, obj: Any) -> bool:
        """Macros and blocks only: methods of strings can write gigabytes."""
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
        raise SecurityError(f"'{operator}' is not allowed in a report template")

    def _spend(self, steps: int) -> None:
        """Count `steps`. Raises SecurityError."""
        self._steps += steps
        if self._steps > MAX_STEPS or time.monotonic() > self._deadline:
            raise SecurityError("the template loops too often, or writes too much")

    def _escaped(self, value: object) -> str:
        """What is printed for `value`."""
        match value:
            case SafeText():
                return value
            case Undefined():
                return str(value)  # raises
        text = plain(value)
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
            pieces.append(plain(item))
            self._spend(len(pieces[-1]) + len(glue))
        return glue.join(pieces)

    def _counting(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def counting(*args: Any, **kwargs: Any) -> Any:
            result = function(*args, **kwargs)
            self._spend(1 + len(result) if isinstance(result, str | list) else 1)
            return result

        return counting

    def _counted(self, iterable: Iterable[object]) -> Iterator[object]:
        for item in iterable:
            self._spend(1)
            yield item

    def _parse(
        self, source: str, name: str | None, filename: str | None
    ) -> nodes.Template:
        self._spend(len(source))
        tree = super()._parse(source, name, filename)
        # Texts and lists that are made of each other could double with every line. The
        # tag autoescape is HTML's.
        refused = (
            nodes.Concat,
            nodes.Dict,
            nodes.List,
            nodes.Tuple,
            nodes.ScopedEvalContextModifier,
        )
        for node in tree.find_all(refused):
            # Lists of constants, and what a loop or an assignment writes to.
            is_target = getattr(node, "ctx", "load") == "store"
            items = node.items if isinstance(node, nodes.List | nodes.Tuple) else [node]
            if is_target or all(isinstance(item, nodes.Const) for item in items):
                continue
            kind = type(node).__name__.lower()
            raise TemplateAssertionError(
                f"'{kind}' is not allowed in a report template",
                node.lineno,
                name,
                filename,
            )
        for loop in tree.find_all(nodes.For):
            counted = nodes.Filter(
                loop.iter, "_counted", [], [], None, None, lineno=loop.lineno
            )
            loop.iter = counted.set_environment(self)
        return tree
