"""Bounds of metrics in Python source: assertions, comparisons and constants, found in the syntax tree."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from ragstone.app.survey.python_code import parsed
from ragstone.golden.aliases import normal
from ragstone.tools.migrate.evaluation import as_number

_BOUND = re.compile(
    r"(^|_)(min|max|minimum|maximum|thresholds?|floors?|limits?|targets?|required|cutoffs?|gates?|bar)(_|$)"
)
_LESS, _MORE = ast.Lt | ast.LtE, ast.Gt | ast.GtE
_FAILING = ("exit", "_exit", "fail")


class Bound(NamedTuple):
    """A bound of a metric, its line, and whether less is better, as far as the source says."""

    metric: str
    value: float
    line: int
    lower: bool | None


def module_of(source: bytes) -> ast.Module:
    """The syntax tree of a module; an empty one if it can't be parsed."""
    return ast.Module(parsed(source), [])


def variables_of(module: ast.Module) -> dict[str, ast.expr]:
    """What the variables of the module are."""
    return {name: value for node in module.body for name, value in _assigned(node)}


def number_of(node: ast.expr | None, variables: Mapping[str, ast.expr]) -> float | None:
    """The number that is written, or that a variable of the module has."""
    node = variables.get(node.id) if isinstance(node, ast.Name) else node
    if isinstance(node, ast.Call) and node.args:  # float(os.environ.get("FLOOR", "0.7"))
        last = node.args[-1]
        return as_number(last.value) if isinstance(last, ast.Constant) else number_of(last, {})
    written = node.value if isinstance(node, ast.Constant) else None
    return as_number(written) if type(written) in (int, float) else None


def bounds_in(source: bytes, metric_of: Callable[[str], str | None]) -> Iterator[Bound]:
    """The bounds of metrics. `metric_of` gives the metric that a word names, None if it is none."""
    module = module_of(source)
    variables = variables_of(module)
    for node in ast.walk(module):
        for words, bound, lower in (*_named(node), *_compared(node)):
            metric = next((metric for word in words if (metric := metric_of(word)) is not None), None)
            number = number_of(bound, variables)
            if metric is not None and number is not None:
                yield Bound(metric, number, bound.lineno, lower)


def _named(node: ast.AST) -> Iterator[tuple[Iterable[str], ast.expr, bool | None]]:
    """Bounds by the name of a variable: ``MIN_FAITHFULNESS = 0.8``, ``THRESHOLDS = {"faithfulness": 0.8}``."""
    for name, value in _assigned(node):
        words = normal(name)
        if _BOUND.search(words) is None:
            continue
        lower = True if words.startswith("max") else None
        if isinstance(value, ast.Dict):
            yield from (
                (words_of(key), bound, lower) for key, bound in zip(value.keys, value.values, strict=True) if key
            )
        else:
            yield [_BOUND.sub("_", words).strip("_")], value, lower


def _compared(node: ast.AST) -> Iterator[tuple[Iterable[str], ast.expr, bool | None]]:
    """Bounds in ``assert score >= 0.8``, and in ``if score < 0.8`` whose one branch fails."""
    if not isinstance(node, ast.Assert | ast.If):
        return
    fails = isinstance(node, ast.If) and _fails(node.body)
    known = isinstance(node, ast.Assert) or fails is not _fails(node.orelse)
    negated = fails is not (isinstance(node.test, ast.UnaryOp) and isinstance(node.test.op, ast.Not))
    for compared in (one for one in ast.walk(node.test) if isinstance(one, ast.Compare)):
        sides = [compared.left, *compared.comparators]
        for order, (left, right) in zip(compared.ops, pairwise(sides), strict=True):
            if isinstance(order, _LESS | _MORE):
                lower = isinstance(order, _LESS) is not negated
                yield words_of(left), right, lower if known else None
                yield words_of(right), left, not lower if known else None


def _assigned(node: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        yield from ((one.id, node.value) for one in targets if isinstance(one, ast.Name))


def _fails(body: Sequence[ast.stmt]) -> bool:
    """Whether statements raise, or end the program, without another condition."""
    inside = [node for one in body if not isinstance(one, ast.If) for node in ast.walk(one)]
    called = (word_of(node.func) for node in inside if isinstance(node, ast.Call))
    return any(isinstance(node, ast.Raise) for node in inside) or any(name in _FAILING for name in called)


def words_of(node: ast.AST) -> list[str]:
    """The texts, attributes and names in an expression."""
    return [word for one in ast.walk(node) if (word := word_of(one)) is not None]


def word_of(node: ast.AST) -> str | None:
    """The text, the attribute or the name that an expression is."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else None
