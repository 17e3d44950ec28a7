"""What answers questions in Python source or a notebook. Source is parsed, never
run."""

from __future__ import annotations

import ast
import json
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import NamedTuple

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


@dataclass(frozen=True, slots=True)
class Proposal:
    """An entrypoint to propose, the surest with the lowest `rank`. `why` is a clause,
    `settings` more keys of [system], `glue` the source of a module that is yet to be
    written, and `unknown` what the user has to fill in."""

    entrypoint: str
    why: str
    rank: int = 0
    settings: dict[str, str] = field(default_factory=dict)
    question_field: str = "question"
    glue: str | None = None
    unknown: str | None = None


class Module(NamedTuple):
    """A module, or the code of a notebook; its `body` is empty if it can't be
    parsed."""

    path: PurePosixPath
    text: str
    body: list[ast.stmt]

    def fields(self) -> dict[str, list[str]]:
        """The annotated fields of each class."""
        classes = [node for node in self.body if isinstance(node, ast.ClassDef)]
        return {
            node.name: [_name(getattr(item, "target", None)) for item in node.body]
            for node in classes
        }


def parse_module(path: PurePosixPath, text: str) -> Module:
    try:
        if (
            path.suffix == ".ipynb"
        ):  # the code of all cells, without magics and shell commands
            cells = [
                "".join(cell["source"])
                for cell in json.loads(text)["cells"]
                if cell["cell_type"] == "code"
            ]
            text = PATTERNS["magic"].sub("", "\n".join(cells))
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


def source_proposals(module: Module, neighbours: set[str]) -> Iterator[Proposal]:
    """What can be called with a question in `module`: a function, a method, or an
    object of a framework.

    `neighbours` are the modules beside it: one that imports them as they are is run
    from its own folder.
    """
    parts = [part for part in module.path.with_suffix("").parts if part != "__init__"]
    imports = set(PATTERNS["import"].findall(module.text))
    named, settings = ".".join(parts), {}
    if (len(parts) > 1 and imports & neighbours) or not all(
        map(str.isidentifier, parts)
    ):
        named = str(module.path)
    elif parts[:1] == ["src"] and len(parts) > 1 and "src" not in imports:
        named, settings = ".".join(parts[1:]), {"working_directory": "src"}
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
            yield Proposal(f"python:{named}:{name}", why, rank, settings)


def _answering_names(module: Module) -> Iterator[tuple[int, str]]:
    """What answers questions in a module, by rank; with a dot for a method of a
    class."""
    uses_framework = PATTERNS["framework"].search(module.text) is not None
    answering: dict[str, list[str]] = {}
    for node in module.body:
        if isinstance(node, ast.ClassDef):
            signatures = {
                item.name: ast.unparse(item.args)
                for item in node.body
                if isinstance(item, Function)
            }
            signatures = {} if "Protocol" in map(_name, node.bases) else signatures
            methods = [
                name
                for name in NAMES["answering"]
                if PATTERNS["method"].fullmatch(signatures.get(name, ""))
            ]
            answering[node.name] = methods
            if methods and PATTERNS["only_self"].fullmatch(
                signatures.get("__init__", "self")
            ):
                yield CLASS, f"{node.name}.{methods[0]}"
        elif isinstance(node, Function):
            is_factory = uses_framework and PATTERNS["system"].fullmatch(
                node.name.partition("_")[2]
            )
            if node.name in NAMES["answering"] and PATTERNS["question"].fullmatch(
                ast.unparse(node.args)
            ):
                yield FUNCTION, node.name
            elif is_factory and PATTERNS["nothing"].fullmatch(ast.unparse(node.args)):
                yield OBJECT, node.name
        elif isinstance(node, ast.Assign):
            name, maker = _name(node.targets[0]), _name(node.value)
            is_made = uses_framework and (
                isinstance(node.value, ast.BinOp) or PATTERNS["maker"].fullmatch(maker)
            )
            is_own = answering.get(maker) or (
                maker in answering and name in NAMES["answering"]
            )
            if is_own or (is_made and PATTERNS["system"].fullmatch(name)):
                yield OBJECT, name


def route_proposals(
    module: Module, models: Mapping[str, list[str]], port: int
) -> Iterator[Proposal]:
    """The POST routes of FastAPI, Flask or the like; `models` are the fields of the
    classes of all modules."""
    lines = module.text.splitlines()
    for function in (node for node in module.body if isinstance(node, Function)):
        body = "\n".join(lines[function.lineno - 1 : function.end_lineno])
        for decorator in function.decorator_list:
            route = PATTERNS["route"].fullmatch(ast.unparse(decorator))
            if route is None or (
                route["method"] != "post" and "'POST'" not in route["options"]
            ):
                continue
            prefix = re.search(
                rf"^{route['router']}\s*=.*prefix=[\"']([^\"']*)",
                module.text,
                re.MULTILINE,
            )
            path = (prefix[1] if prefix else "") + route["path"]
            returned = f"{route['options']} {ast.unparse(function.returns or ast.Constant(''))}"
            request = PATTERNS["read_key"].findall(body) + _fields_in(
                ast.unparse(function.args), models
            )
            reply = PATTERNS["key"].findall(body.rpartition("return")[2]) + _fields_in(
                returned, models
            )
            question = _first_of(NAMES["questions"], request)
            if question and re.fullmatch(r"[\w/.~-]*", path, re.ASCII):
                why = f"POST {path} in {module.path}, served on port {port}"
                yield _service(f"http://127.0.0.1:{port}{path}", why, question, reply)


def _fields_in(annotations: str, models: Mapping[str, list[str]]) -> list[str]:
    return [
        field
        for name in re.findall(r"\w+", annotations)
        for field in models.get(name, [])
    ]


def _service(url: str, why: str, question: str, reply: list[str]) -> Proposal:
    """The service at `url`, whose requests take the `question` and whose replies have
    these fields."""
    settings, unknown = {}, None
    for part in ("answer", "contexts"):
        name = _first_of(NAMES[part], reply)
        if name and not _first_of(SYSTEM_NAMES[part], reply):
            settings[f"{part}_field"] = name
    if (
        reply
        and "answer_field" not in settings
        and not _first_of(SYSTEM_NAMES["answer"], reply)
    ):
        unknown = f'which field of its reply is the answer: set answer_field = "{reply[0]}", or another, under [system]'
    rank = SERVICE if PATTERNS["asks"].search(url) else OTHER_SERVICE
    return Proposal(url, why, rank, settings, question, unknown=unknown)


def _first_of(names: Sequence[str], fields: list[str]) -> str | None:
    return next((name for name in names if name in fields), None)


def _name(node: ast.AST | None) -> str:
    """``c`` of the expressions ``c``, ``a.b.c`` and ``a.b.c(…)``; "" for others."""
    node = node.func if isinstance(node, ast.Call) else node
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
