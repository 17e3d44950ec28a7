"""What answers questions in Python source. Source is parsed, never run."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import NamedTuple

from ragstone.files import read_table

NAMES = read_table("names.toml", __package__)
PATTERNS = {
    name: re.compile(pattern, re.MULTILINE)
    for name, pattern in NAMES["patterns"].items()
}
FUNCTION, OBJECT, CLASS, SERVICE = range(1, 5)
"""Ranks of proposals: what can be called without a server comes first."""

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class Proposal:
    """An entrypoint to propose."""

    entrypoint: str
    why: str
    """A clause; empty for one that the user named."""
    rank: int = 0
    """The lowest is the surest."""
    settings: dict[str, str] = field(default_factory=dict)
    """More keys of [system]."""
    question_field: str = "question"


class Module(NamedTuple):
    """A module of Python source; its `body` is empty if it can't be parsed."""

    path: PurePosixPath
    text: str
    body: list[ast.stmt]


def parse_module(path: PurePosixPath, text: str) -> Module:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about the user's own string literals
            return Module(path, text, ast.parse(text).body)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return Module(path, text, [])


def source_proposals(module: Module) -> Iterator[Proposal]:
    """What can be called with a question in `module`: a function, a method, or an
    object of a framework."""
    parts = [part for part in module.path.with_suffix("").parts if part != "__init__"]
    settings = {}
    if parts[:1] == ["src"] and len(parts) > 1:
        parts, settings = parts[1:], {"working_directory": "src"}
    named = ".".join(parts)
    if not all(map(str.isidentifier, parts)):
        named, settings = str(module.path), {}
    for rank, name in _answering_names(module):
        why = f"{name} in {module.path}"
        yield Proposal(f"python:{named}:{name}", why, rank, settings)


def _answering_names(module: Module) -> Iterator[tuple[int, str]]:
    """What answers questions in a module, by rank; with a dot for a method of a
    class."""
    uses_framework = PATTERNS["framework"].search(module.text) is not None
    for node in module.body:
        if isinstance(node, ast.ClassDef):
            for method in _answering_methods(node):
                yield CLASS, f"{node.name}.{method}"
        elif isinstance(node, Function):
            if node.name in NAMES["answering"] and _takes_a_question(node):
                yield FUNCTION, node.name
        elif isinstance(node, ast.Assign) and uses_framework:
            name, maker = _name(node.targets[0]), _name(node.value)
            is_piped = isinstance(node.value, ast.BinOp)
            is_made = is_piped or PATTERNS["maker"].fullmatch(maker) is not None
            if is_made and PATTERNS["system"].fullmatch(name):
                yield OBJECT, name


def _answering_methods(node: ast.ClassDef) -> Iterator[str]:
    """The methods that take a question, of a class that is made without arguments."""
    methods = {item.name: item for item in node.body if isinstance(item, Function)}
    init = methods.get("__init__")
    if "Protocol" in map(_name, node.bases):
        return
    if init is not None and _required(init) != 1:
        return
    for name in NAMES["answering"]:
        if name in methods and _takes_a_question(methods[name], bound=1):
            yield name


def _takes_a_question(function: Function, *, bound: int = 0) -> bool:
    """Whether a text is all that `function` must be called with, beside the parameters
    that are `bound`."""
    arguments = function.args
    if _required(function) != bound + 1:
        return False
    annotation = [*arguments.posonlyargs, *arguments.args][bound].annotation
    return annotation is None or _name(annotation) == "str"


def _required(function: Function) -> int | None:
    """The number of parameters without a default; None if one must be named."""
    arguments = function.args
    if None in arguments.kw_defaults:
        return None
    positional = len(arguments.posonlyargs) + len(arguments.args)
    return positional - len(arguments.defaults)


def route_proposals(module: Module) -> Iterator[Proposal]:
    """The routes of FastAPI, Flask or the like that take a question by POST."""
    if "prefix=" in module.text:
        return  # the address can't be known from the route alone
    port = 5000 if "Flask(" in module.text else 8000
    questions = PATTERNS["question_field"].findall(module.text)
    for route in PATTERNS["route"].finditer(module.text):
        path = route["path"]
        if PATTERNS["asks"].search(path):
            yield Proposal(
                f"http://127.0.0.1:{port}{path}",
                f"POST {path} in {module.path}, served on port {port}",
                SERVICE,
                question_field=questions[0] if questions else "question",
            )


def _name(node: ast.AST | None) -> str:
    """``c`` of the expressions ``c``, ``a.b.c`` and ``a.b.c(…)``; "" for others."""
    node = node.func if isinstance(node, ast.Call) else node
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
