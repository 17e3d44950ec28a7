"""Bounds of metrics in Python source: assertions, comparisons and constants, found in the syntax tree."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Callable, Iterator

from ragstone.golden.aliases import normal
from ragstone.tools.migrate.evaluation import as_number

_BOUND = re.compile(
    r"(^|_)(min|max|minimum|maximum|thresholds?|floors?|limits?|targets?|required|cutoffs?|gates?|bar)(_|$)"
)


def parsed(source: bytes) -> ast.Module | None:
    """The syntax tree of a module; None if it can't be parsed."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about the user's own string literals
            return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def number_of(node: ast.expr | None, constants: dict[str, float] | None = None) -> float | None:
    """The number that is written, or that a constant of the module has."""
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float) and not isinstance(node.value, bool):
        return float(node.value)
    if isinstance(node, ast.Call) and node.args:  # float(os.environ.get("FLOOR", "0.7"))
        last = node.args[-1]
        return as_number(last.value) if isinstance(last, ast.Constant) else number_of(last, constants)
    return (constants or {}).get(node.id) if isinstance(node, ast.Name) else None


def constants_of(module: ast.Module) -> dict[str, float]:
    """The numbers that variables of the module have."""
    return {
        name: value
        for node in module.body
        for name, assigned in _assigned(node)
        if (value := number_of(assigned)) is not None
    }


def bounds_in(source: bytes, metric_of: Callable[[str], str | None]) -> Iterator[tuple[str, float, int]]:
    """Each metric with its bound and the line. `metric_of` gives the metric that a word names, None if it is none."""
    module = parsed(source)
    if module is None:
        return
    constants = constants_of(module)
    for node in ast.walk(module):
        for name, value in _assigned(node):
            number = number_of(value)
            if _BOUND.search(normal(name)) is None:
                continue
            if isinstance(value, ast.Dict):
                for key, bound in zip(value.keys, value.values, strict=True):
                    metric = (
                        metric_of(key.value) if isinstance(key, ast.Constant) and isinstance(key.value, str) else None
                    )
                    found = number_of(bound, constants)
                    if metric is not None and found is not None:
                        yield metric, found, bound.lineno
            elif number is not None and (metric := metric_of(_BOUND.sub("_", normal(name)).strip("_"))) is not None:
                yield metric, number, value.lineno
        test = node.test if isinstance(node, ast.Assert | ast.If) else None
        for compared in ast.walk(test) if test is not None else ():
            if isinstance(compared, ast.Compare) and len(compared.ops) == 1:
                for one, other in (
                    (compared.left, compared.comparators[0]),
                    (compared.comparators[0], compared.left),
                ):
                    found, metric = number_of(one, constants), _metric_in(other, metric_of)
                    if found is not None and metric is not None and isinstance(compared.ops[0], _ORDERS):
                        yield metric, found, compared.lineno


_ORDERS = (ast.Gt, ast.GtE, ast.Lt, ast.LtE)


def _assigned(node: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    if isinstance(node, ast.Assign):
        yield from ((one.id, node.value) for one in node.targets if isinstance(one, ast.Name))
    elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
        yield node.target.id, node.value


def _metric_in(node: ast.expr, metric_of: Callable[[str], str | None]) -> str | None:
    for one in ast.walk(node):
        words = one.value if isinstance(one, ast.Constant) else one.attr if isinstance(one, ast.Attribute) else None
        words = one.id if isinstance(one, ast.Name) else words
        if isinstance(words, str) and (metric := metric_of(words)) is not None:
            return metric
    return None
