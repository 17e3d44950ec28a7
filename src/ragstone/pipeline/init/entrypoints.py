"""What answers questions in Python source or a notebook. Source is parsed, never
run."""

from __future__ import annotations

import ast
import json
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import NamedTuple

from msgspec import Struct

from ragstone.files import read_table
from ragstone.golden.aliases import SYSTEM_NAMES
from ragstone.report.templates import render_text_template

GLUE_FILE = "ragstone_entry.py"
NAMES = read_table("names.toml", __package__)
PATTERNS = {
    name: re.compile(pattern, re.MULTILINE)
    for name, pattern in NAMES["patterns"].items()
}
FUNCTION, OBJECT, CLASS, SERVICE, OTHER_SERVICE, NOTEBOOK = range(1, 7)
"""Ranks of proposals: what can be called without a server comes first."""

Function = ast.FunctionDef | ast.AsyncFunctionDef


class Proposal(Struct, frozen=True):
    """An entrypoint to propose, the surest with the lowest `rank`. `why` is a clause,
    `settings` more keys of [system], and `glue` the source of a module that is yet to be
    written."""

    entrypoint: str
    why: str
    rank: int = 0
    settings: dict[str, str] = {}
    question_field: str = "question"
    glue: str | None = None


class Module(NamedTuple):
    """A module, or the code of a notebook; its `body` is empty if it can't be
    parsed."""

    path: PurePosixPath
    text: str
    body: list[ast.stmt]

    def fields(self) -> dict[str, list[str]]:
        """The annotated fields of each class."""
        fields = {}
        for node in self.body:
            if isinstance(node, ast.ClassDef):
                targets = [getattr(item, "target", None) for item in node.body]
                fields[node.name] = list(map(_name, targets))
        return fields


def parse_module(path: PurePosixPath, text: str) -> Module:
    try:
        if path.suffix == ".ipynb":
            text = _code_of_cells(text)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about the user's own string literals
            return Module(path, text, ast.parse(text).body)
    except (
        SyntaxError,
        ValueError,
        LookupError,
        TypeError,
        RecursionError,
        MemoryError,
    ):
        return Module(path, text, [])


def _code_of_cells(notebook: str) -> str:
    """The code of all cells, without magics and shell commands."""
    cells = json.loads(notebook)["cells"]
    sources = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    return PATTERNS["magic"].sub("", "\n".join(sources))


def port_of(source: str) -> int:
    """The port on which `source` serves: named, or its framework's."""
    port = PATTERNS["source_port"].search(source)
    if port is not None:
        return int(port[1])
    return 5000 if "Flask(" in source else 8000


def source_proposals(module: Module) -> Iterator[Proposal]:
    """What can be called with a question in `module`: a function, a method, or an
    object of a framework."""
    parts = [part for part in module.path.with_suffix("").parts if part != "__init__"]
    settings = {}
    if parts[:1] == ["src"]:
        parts = parts[1:]
        settings = {"working_directory": "src"}
    target = ".".join(parts)
    if not all(map(str.isidentifier, parts)):
        target = str(module.path)
        settings = {}
    for rank, name in _answering_names(module):
        why = f"{name} in {module.path}"
        if module.path.suffix == ".ipynb":
            glue = render_text_template(
                "glue.py.j2", __package__, made=name, path=module.path
            )
            yield Proposal(
                f"python:{GLUE_FILE.removesuffix('.py')}:answer",
                why,
                NOTEBOOK,
                glue=f"{glue}\n",
            )
        else:
            yield Proposal(f"python:{target}:{name}", why, rank, settings)


def _answering_names(module: Module) -> Iterator[tuple[int, str]]:
    """What answers questions in a module, by rank; with a dot for a method of a
    class."""
    uses_framework = PATTERNS["framework"].search(module.text) is not None
    for node in module.body:
        match node:
            case ast.ClassDef():
                for method in _answering_methods(node):
                    yield CLASS, f"{node.name}.{method}"
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                if node.name in NAMES["answering"] and _takes_a_question(node):
                    yield FUNCTION, node.name
            case ast.Assign() if uses_framework:
                name = _name(node.targets[0])
                maker = PATTERNS["maker"].fullmatch(_name(node.value))
                is_system = maker is not None or isinstance(node.value, ast.BinOp)
                if is_system and PATTERNS["system"].fullmatch(name):
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
    that are `bound`. One that streams its answer can't be asked."""
    arguments = function.args
    streams = any(
        isinstance(node, ast.Yield | ast.YieldFrom) for node in ast.walk(function)
    )
    if streams or _required(function) != bound + 1:
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


def route_proposals(
    module: Module, models: Mapping[str, list[str]], port: int
) -> Iterator[Proposal]:
    """The POST routes of FastAPI, Flask or the like; `models` are the fields of the
    classes of all modules."""
    lines = module.text.splitlines()

    def fields_in(annotations: str) -> Iterator[str]:
        for name in re.findall(r"\w+", annotations):
            yield from models.get(name, ())

    for function in module.body:
        if not isinstance(function, Function):
            continue
        body = "\n".join(lines[function.lineno - 1 : function.end_lineno])
        takes = ast.unparse(function.args)
        returns = ast.unparse(function.returns or ast.Constant(""))
        for decorator in function.decorator_list:
            route = PATTERNS["route"].fullmatch(ast.unparse(decorator))
            if route is None:
                continue
            if route["method"] != "post" and "'POST'" not in route["options"]:
                continue
            path = _prefix_of(route["router"], module.text) + route["path"]
            request = [*PATTERNS["read_key"].findall(body), *fields_in(takes)]
            returned = body.rpartition("return")[2]
            reply = PATTERNS["key"].findall(returned)
            reply += fields_in(f"{route['options']} {returns}")
            question = _first_of(NAMES["questions"], request)
            if not question or not re.fullmatch(r"[\w/.~-]*", path, re.ASCII):
                continue
            settings = _reply_settings(reply)
            url = f"http://127.0.0.1:{port}{path}"
            why = f"POST {path} in {module.path}, served on port {port}"
            rank = SERVICE if PATTERNS["asks"].search(url) else OTHER_SERVICE
            yield Proposal(url, why, rank, settings, question)


def _prefix_of(router: str, source: str) -> str:
    """The prefix of the paths of a router, which it is made with in `source`."""
    pattern = rf"^{router}\s*=.*prefix=[\"']([^\"']*)"
    prefix = re.search(pattern, source, re.MULTILINE)
    return prefix[1] if prefix else ""


def _reply_settings(reply: list[str]) -> dict[str, str]:
    """The settings for the fields of a reply that Ragstone doesn't look under by
    itself."""
    settings = {}
    for part in ("answer", "contexts"):
        name = _first_of(NAMES[part], reply)
        if name and not _first_of(SYSTEM_NAMES[part], reply):
            settings[f"{part}_field"] = name
    return settings


def _first_of(names: Sequence[str], fields: list[str]) -> str | None:
    return next((name for name in names if name in fields), None)


def _name(node: ast.AST | None) -> str:
    """``c`` of the expressions ``c``, ``a.b.c`` and ``a.b.c(…)``; "" for others."""
    match node:
        case ast.Call():
            return _name(node.func)
        case ast.Attribute():
            return node.attr
        case ast.Name():
            return node.id
        case _:
            return ""
