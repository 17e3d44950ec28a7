"""Finds what answers questions in Python source or a notebook. Source is parsed, never
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

# The module that is written for a notebook, which can't be imported itself.
GLUE_FILE = "ragstone_entry.py"

NAMES = read_table("names.toml", __package__)
PATTERNS = {
    name: re.compile(pattern, re.MULTILINE)
    for name, pattern in NAMES["patterns"].items()
}

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef


# Ranks of proposals, the surest first: what can be called without a server comes before
# services. A proposal that the user named has the rank 0.
FUNCTION = 1
OBJECT = 2
CLASS = 3
SERVICE = 4
OTHER_SERVICE = 5  # its address doesn't say that it is for questions
NOTEBOOK = 6


class Proposal(Struct, frozen=True):
    """An entrypoint to propose."""

    entrypoint: str
    why: str
    """Where it was found, as a clause; empty if the user named it."""
    rank: int = 0
    settings: dict[str, str] = {}
    """More keys of [system]."""
    question_field: str = "question"
    glue: str | None = None
    """The source of the module GLUE_FILE, if the entrypoint needs it."""


class Module(NamedTuple):
    """A module, or the code of a notebook."""

    path: PurePosixPath
    text: str
    body: list[ast.stmt]
    """Its statements; none if it can't be parsed."""

    def fields(self) -> dict[str, list[str]]:
        """The annotated fields of each class, by its name."""
        fields = {}
        for node in self.body:
            if isinstance(node, ast.ClassDef):
                targets = [getattr(item, "target", None) for item in node.body]
                fields[node.name] = list(map(_last_name, targets))
        return fields


def parse_module(path: PurePosixPath, text: str) -> Module:
    """The module in `text`, which was read from `path`."""
    try:
        if path.suffix == ".ipynb":
            text = _code_of_cells(text)
        with warnings.catch_warnings():
            # Python warns about invalid escapes in the user's strings.
            warnings.simplefilter("ignore")
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
    """The port on which `source` serves: the one that it names, or its framework's
    default."""
    port = PATTERNS["source_port"].search(source)
    if port is not None:
        return int(port[1])
    return 5000 if "Flask(" in source else 8000


def source_proposals(module: Module) -> Iterator[Proposal]:
    """Propose what can be called with a question in `module`: a function, a method, or
    an object of a framework."""
    parts = [part for part in module.path.with_suffix("").parts if part != "__init__"]
    settings = {}
    if parts[:1] == ["src"]:
        parts = parts[1:]
        settings = {"working_directory": "src"}
    target = ".".join(parts)
    is_importable = all(map(str.isidentifier, parts))
    if not is_importable:
        target = str(module.path)
        settings = {}
    for rank, name in _answering_names(module):
        why = f"{name} in {module.path}"
        if module.path.suffix == ".ipynb":
            glue = render_text_template(
                "glue.py.j2", __package__, answering=name, path=module.path
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
    """The ranks and names of what answers questions in a module. The name of a method
    is ``Class.method``."""
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
                name = _last_name(node.targets[0])
                maker = PATTERNS["maker"].fullmatch(_last_name(node.value))
                is_pipe = isinstance(node.value, ast.BinOp)  # prompt | model
                is_system = is_pipe or maker is not None
                if is_system and PATTERNS["system"].fullmatch(name):
                    yield OBJECT, name


def _answering_methods(node: ast.ClassDef) -> Iterator[str]:
    """The methods that take a question, if the class needs no arguments."""
    methods = {item.name: item for item in node.body if isinstance(item, FunctionNode)}
    init = methods.get("__init__")
    if "Protocol" in map(_last_name, node.bases):
        return
    if init is not None and _count_required(init) != 1:  # self
        return
    for name in NAMES["answering"]:
        if name in methods and _takes_a_question(methods[name], bound_parameters=1):
            yield name


def _takes_a_question(function: FunctionNode, *, bound_parameters: int = 0) -> bool:
    """Whether `function` can be called with nothing but a text after its bound
    parameters, and returns its answer: one that streams it can't be asked."""
    arguments = function.args
    streams = any(
        isinstance(node, ast.Yield | ast.YieldFrom) for node in ast.walk(function)
    )
    if streams or _count_required(function) != bound_parameters + 1:
        return False
    annotation = [*arguments.posonlyargs, *arguments.args][bound_parameters].annotation
    return annotation is None or _last_name(annotation) == "str"


def _count_required(function: FunctionNode) -> int | None:
    """The number of parameters without a default; None if one of them is
    keyword-only."""
    arguments = function.args
    if None in arguments.kw_defaults:
        return None
    positional = len(arguments.posonlyargs) + len(arguments.args)
    return positional - len(arguments.defaults)


def route_proposals(
    module: Module, models: Mapping[str, list[str]], port: int
) -> Iterator[Proposal]:
    """Propose the POST routes of FastAPI, Flask or similar frameworks. `models` maps the
    classes of all modules to their fields."""
    lines = module.text.splitlines()

    def fields_in(annotations: str) -> Iterator[str]:
        for name in re.findall(r"\w+", annotations):
            yield from models.get(name, ())

    for function in module.body:
        if not isinstance(function, FunctionNode):
            continue
        body = "\n".join(lines[function.lineno - 1 : function.end_lineno])
        parameters = ast.unparse(function.args)
        return_annotation = ast.unparse(function.returns or ast.Constant(""))
        for decorator in function.decorator_list:
            route = PATTERNS["route"].fullmatch(ast.unparse(decorator))
            if route is None:
                continue
            if route["method"] != "post" and "'POST'" not in route["options"]:
                continue
            path = _prefix_of(route["router"], module.text) + route["path"]
            request_fields = [
                *PATTERNS["read_key"].findall(body),
                *fields_in(parameters),
            ]
            return_value = body.rpartition("return")[2]
            reply_fields = PATTERNS["key"].findall(return_value)
            reply_fields += fields_in(f"{route['options']} {return_annotation}")
            question_field = _first_of(NAMES["questions"], request_fields)
            # Not a path with parameters, such as /ask/{user}.
            is_constant = re.fullmatch(r"[\w/.~-]*", path, re.ASCII)
            if not question_field or not is_constant:
                continue
            settings = _reply_settings(reply_fields)
            url = f"http://127.0.0.1:{port}{path}"
            why = f"POST {path} in {module.path}, served on port {port}"
            is_for_questions = PATTERNS["asks"].search(url)
            rank = SERVICE if is_for_questions else OTHER_SERVICE
            yield Proposal(url, why, rank, settings, question_field)


def _prefix_of(router: str, source: str) -> str:
    """The path prefix with which `source` creates a router; empty without one."""
    pattern = rf"^{router}\s*=.*prefix=[\"']([^\"']*)"
    prefix = re.search(pattern, source, re.MULTILINE)
    return prefix[1] if prefix else ""


def _reply_settings(fields: list[str]) -> dict[str, str]:
    """The settings that name the answer and the contexts among the `fields` of a reply,
    where Ragstone doesn't know them by itself."""
    settings = {}
    for part in ("answer", "contexts"):
        name = _first_of(NAMES[part], fields)
        if name and not _first_of(SYSTEM_NAMES[part], fields):
            settings[f"{part}_field"] = name
    return settings


def _first_of(names: Sequence[str], fields: list[str]) -> str | None:
    """The first of `names` that is among `fields`; None if none is."""
    return next((name for name in names if name in fields), None)


def _last_name(node: ast.AST | None) -> str:
    """``c`` for the expressions ``c``, ``a.b.c`` and ``a.b.c(…)``; empty for others."""
    match node:
        case ast.Call():
            return _last_name(node.func)
        case ast.Attribute():
            return node.attr
        case ast.Name():
            return node.id
        case _:
            return ""
