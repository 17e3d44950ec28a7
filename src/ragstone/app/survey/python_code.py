"""Entrypoints in Python source: functions and classes that answer, chains and engines, web routes, programs."""

from __future__ import annotations

import ast
import re
import shlex
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import TypeVar

from ragstone.app.survey.proposal import QUESTION_NAMES, Proposal

ANSWERING = frozenset(
    [
        "answer",
        "answer_question",
        "ask",
        "ask_question",
        "ask_rag",
        "chat",
        "generate_answer",
        "get_answer",
        "qa",
        "query",
        "query_rag",
        "rag",
        "rag_answer",
        "rag_query",
        "respond",
        "run_rag",
    ]
)
"""Names of functions that take a question."""

_METHODS = ("answer", "aanswer", "query", "aquery", "invoke", "ainvoke", "__call__")
_CHAINS = frozenset(["create_retrieval_chain", "from_chain_type", "from_llm"])
_ENGINES = frozenset(["as_query_engine", "as_chat_engine", "from_args"])
_SYSTEM = re.compile(r"chain|rag|qa\b|_qa|qa_|engine|retriev|assistant|pipeline|bot", re.IGNORECASE)
_MAKES = re.compile(r"(build|make|create|get|load|setup|init)_")
_FRAMEWORKS = {"langchain": "LangChain", "llama_index": "LlamaIndex", "haystack": "Haystack"}
_LOCAL = "http://127.0.0.1"
_PORTS = {"flask": 5000}
_DEFAULT_PORT = 8000
_PROGRAMS = frozenset(["__main__", "app", "ask", "bot", "chat", "cli", "main", "query", "rag"])
"""Names of programs whose only argument is taken for a question."""

Known = TypeVar("Known")
Function = ast.FunctionDef | ast.AsyncFunctionDef


def proposals_in(source: bytes, path: PurePosixPath) -> Iterator[Proposal]:
    """What the module at `path` (relative to the folder) offers. Source that can't be parsed offers nothing."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about the user's own string literals
            body = ast.parse(source).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    module, settings = _module(path)
    framework = _imported(body, _FRAMEWORKS)
    classes = {node.name: node for node in body if isinstance(node, ast.ClassDef)}
    yield from _program(body, path)
    for node in body:
        if isinstance(node, Function):
            found = _route(node, classes) or _function(node, framework)
        elif isinstance(node, ast.ClassDef):
            found = _handler(node) or _class(node)
        else:
            found = _assigned(node, framework) or _instance(node, classes)
        if found is None:
            continue
        if found.entrypoint.startswith("/"):
            port = _port(body)
            why = f"{found.why} in {path}, once it is served on port {port}"
            yield Proposal(f"{_LOCAL}:{port}{found.entrypoint}", why, found.rank, {}, found.question_field)
        else:
            yield Proposal(f"python:{module}:{found.entrypoint}", f"{found.why} in {path}", found.rank, settings)


def _module(path: PurePosixPath) -> tuple[str, dict[str, str]]:
    """The name that an entrypoint gives the module, and the settings that make it importable."""
    parts = path.with_suffix("").parts
    if parts[-1] == "__init__" and len(parts) > 1:
        parts = parts[:-1]
    if not all(part.isidentifier() for part in parts):
        return str(path), {}
    if parts[0] == "src" and len(parts) > 1:
        return ".".join(parts[1:]), {"working_directory": "src"}
    return ".".join(parts), {}


def _imported(body: Sequence[ast.stmt], packages: Mapping[str, Known]) -> Known | None:
    """What is known of the first of `packages` that the module imports."""
    for statement in body:
        for node in ast.walk(statement):
            names = (
                [alias.name for alias in node.names]
                if isinstance(node, ast.Import)
                else [node.module or ""]
                if isinstance(node, ast.ImportFrom)
                else []
            )
            for name in names:
                for start, known in packages.items():
                    if name == start or name.startswith((f"{start}.", f"{start}_")):
                        return known
    return None


def _required(function: Function, *, method: bool = False) -> list[ast.arg] | None:
    """The parameters without a default; None if one of them can only be given by keyword."""
    arguments = function.args
    if any(default is None for default in arguments.kw_defaults):
        return None
    positional = [*arguments.posonlyargs, *arguments.args]
    positional = positional[: len(positional) - len(arguments.defaults)]
    return positional[1:] if method else positional


def _takes_question(function: Function, *, method: bool = False) -> bool:
    """Whether it can be called with a string alone."""
    required = _required(function, method=method)
    if required is None or len(required) != 1:
        return False
    annotation = required[0].annotation
    return annotation is None or (isinstance(annotation, ast.Name) and annotation.id in ("str", "object", "Any"))


def _function(function: Function, framework: str | None) -> Proposal | None:
    if function.name.startswith(("_", "test")):
        return None
    required = _required(function)
    with_framework = f" that uses {framework}" if framework else ""
    if _takes_question(function) and required:
        name = f"{function.name}({required[0].arg})"
        if function.name in ANSWERING:
            return Proposal(function.name, f"the function {name}{with_framework}", 0 if framework else 1)
        if framework and required[0].arg in QUESTION_NAMES:
            return Proposal(function.name, f"the function {name}{with_framework}", 3)
    if framework and required == [] and not any(isinstance(node, ast.Yield) for node in ast.walk(function)):
        makes = any(_is_system(node.value, framework) for node in ast.walk(function) if isinstance(node, ast.Return))
        if makes or (_MAKES.match(function.name) and _SYSTEM.search(function.name)):
            return Proposal(function.name, f"{function.name}(), which makes a {framework} object", 2 if makes else 4)
    return None


def _class(node: ast.ClassDef) -> Proposal | None:
    """A class that can be created without arguments and answers questions."""
    methods = {item.name: item for item in node.body if isinstance(item, Function)}
    init = methods.get("__init__")
    named = _answers(node)
    if named is None or node.name.startswith(("_", "Test")):
        return None
    if init is not None and _required(init, method=True) != []:
        return None
    rank = 3 if _SYSTEM.search(node.name) else 4
    likely = rank == 3 or named in ANSWERING
    return Proposal(node.name, f"the class {node.name} with {named}()", rank) if likely else None


def _answers(node: ast.ClassDef) -> str | None:
    """The method of a class that takes a question."""
    methods = {item.name: item for item in node.body if isinstance(item, Function)}
    return next((name for name in _METHODS if name in methods and _takes_question(methods[name], method=True)), None)


def _instance(statement: ast.stmt, classes: Mapping[str, ast.ClassDef]) -> Proposal | None:
    """A variable of the module that holds an object of one of its classes, if that answers questions."""
    if not isinstance(statement, ast.Assign) or not isinstance(statement.value, ast.Call):
        return None
    target, called = statement.targets[0], statement.value.func
    if not isinstance(target, ast.Name) or not isinstance(called, ast.Name) or called.id not in classes:
        return None
    named = _answers(classes[called.id])
    if named is None or target.id.startswith("_"):
        return None
    if target.id in ANSWERING:
        rank = 1
    elif _SYSTEM.search(target.id) or _SYSTEM.search(called.id):
        rank = 2
    else:
        return None
    return Proposal(target.id, f"'{target.id}', an object of the class {called.id} with {named}()", rank)


def _assigned(statement: ast.stmt, framework: str | None) -> Proposal | None:
    """A chain or an engine in a variable of the module."""
    if framework is None:
        return None
    value = statement.value if isinstance(statement, ast.Assign | ast.AnnAssign) else None
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    targets = [statement.target] if isinstance(statement, ast.AnnAssign) else targets
    for target in targets:
        if isinstance(target, ast.Name) and not target.id.startswith("_") and _is_system(value, framework, target.id):
            what = "chain" if framework == "LangChain" else "query engine" if framework == "LlamaIndex" else "pipeline"
            return Proposal(target.id, f"the {framework} {what} '{target.id}'", 2)
    return None


def _is_system(value: ast.expr | None, framework: str, name: str = "") -> bool:
    """Whether an expression makes something that answers questions."""
    if isinstance(value, ast.Call):
        called = value.func.attr if isinstance(value.func, ast.Attribute) else getattr(value.func, "id", "")
        if framework == "LlamaIndex":
            return called in _ENGINES or called.endswith("QueryEngine")
        return called in _CHAINS or (framework == "Haystack" and called == "Pipeline")
    piped = isinstance(value, ast.BinOp) and isinstance(value.op, ast.BitOr)
    return piped and framework == "LangChain" and (not name or _SYSTEM.search(name) is not None)


def _route(function: Function, classes: dict[str, ast.ClassDef]) -> Proposal | None:
    """A POST route of FastAPI, Starlette's likes or Flask, with the field that takes the question."""
    for decorator in function.decorator_list:
        if not isinstance(decorator, ast.Call) or not isinstance(decorator.func, ast.Attribute):
            continue
        if decorator.func.attr not in ("post", "route") or not decorator.args:
            continue
        path = decorator.args[0]
        if not isinstance(path, ast.Constant) or not isinstance(path.value, str) or not path.value.startswith("/"):
            continue
        if "{" in path.value or "<" in path.value:
            continue
        fields = [name for arg in function.args.args for name in _fields_of(arg, classes)]
        posts = decorator.func.attr == "post" or "POST" in _texts(decorator)
        known = _question_in(fields) or (_question_in(_texts(function)) if posts else None)
        if known is not None:
            return Proposal(path.value, f"the route POST {path.value}", 5, question_field=known)
    return None


def _handler(node: ast.ClassDef) -> Proposal | None:
    """A handler of the standard library's server that reads a question."""
    method = next((item for item in node.body if isinstance(item, Function) and item.name == "do_POST"), None)
    texts = [] if method is None else _texts(method)
    known = _question_in(texts)
    if known is None:
        return None
    path = next((text for text in texts if re.fullmatch(r"/[\w/-]*", text)), "/")
    return Proposal(path, f"the handler {node.name} of POST {path}", 6, question_field=known)


def _port(body: Sequence[ast.stmt]) -> int:
    """The port that the module names, else the usual one."""
    calls = [node for statement in body for node in ast.walk(statement) if isinstance(node, ast.Call)]
    named = [keyword.value for call in calls for keyword in call.keywords if keyword.arg == "port"]
    named += [arg.elts[1] for call in calls for arg in call.args if isinstance(arg, ast.Tuple) and len(arg.elts) == 2]
    ports = (node.value for node in named if isinstance(node, ast.Constant) and type(node.value) is int)
    return next((port for port in ports if 0 < port < 65_536), _imported(body, _PORTS) or _DEFAULT_PORT)


def _program(body: Sequence[ast.stmt], path: PurePosixPath) -> Iterator[Proposal]:
    """A program that takes a question as an argument, or questions on its standard input."""
    if not any(isinstance(node, ast.If) and "__main__" in _texts(node.test) for node in body):
        return
    nodes = [node for statement in body for node in ast.walk(statement)]
    attributes = {ast.unparse(node) for node in nodes if isinstance(node, ast.Attribute)}
    declared = [_argument(node) for node in nodes if isinstance(node, ast.Call)]
    names = next((names for names in declared if _question_in([name.lstrip("-") for name in names])), [])
    named, words = " or ".join(names) or None, " -- {question}"
    if options := [name for name in names if name.startswith("-")]:
        words = f" {max(options, key=len)} {{question}}"
    elif named is None and "sys.stdin" in attributes and _imported(body, {"json": True}):
        named, words = "a line of JSON", ""
    elif named is None and "sys.argv" in attributes and path.stem in _PROGRAMS:
        named, words = "an argument", " {question}"
    if named is not None:
        yield Proposal(f"command:python3 {shlex.quote(str(path))}{words}", f"{path} takes {named}", 6)


def _argument(call: ast.Call) -> list[str]:
    """The names of the argument of a command line that the call declares, with argparse or click; else none."""
    if not isinstance(call.func, ast.Attribute) or call.func.attr not in ("add_argument", "argument", "option"):
        return []
    return [arg.value for arg in call.args if isinstance(arg, ast.Constant) and isinstance(arg.value, str)]


def _texts(node: ast.AST) -> list[str]:
    return [one.value for one in ast.walk(node) if isinstance(one, ast.Constant) and isinstance(one.value, str)]


def _question_in(names: Sequence[str]) -> str | None:
    return next((name for name in QUESTION_NAMES if name in names), None)


def _fields_of(argument: ast.arg, classes: dict[str, ast.ClassDef]) -> list[str]:
    """The fields of the model that a route's parameter is annotated with."""
    model = classes.get(argument.annotation.id) if isinstance(argument.annotation, ast.Name) else None
    if model is None:
        return []
    return [
        item.target.id for item in model.body if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name)
    ]
