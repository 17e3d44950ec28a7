"""What answers questions in Python source, a notebook or an OpenAPI description. Source is parsed, never run."""

from __future__ import annotations

import ast
import json
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

from ragstone.golden.aliases import SYSTEM_NAMES
from ragstone.report.templates import render_text_template

QUESTION_NAMES = ("question", "query", "user_query", "user_question", "user_input", "q", "message", "prompt", "text")
"""Fields of a request that take the question, the surest first."""

GLUE_FILE = "ragstone_entry.py"
_ANSWERING = frozenset(
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
"""Names of functions, methods and objects that answer a question."""
_SYSTEM = re.compile(r"(?!.*(index|ingest))(.*_)?(rag|qa|chain|query_engine|graph|app|agent|pipeline|assistant|bot)")
"""Names of what a framework's call in _MAKER, or a pipe, makes."""
_MAKER = re.compile(
    r"create_(retrieval_chain|agent|react_agent)|from_(chain_type|llm)|compile|as_(query|chat)_engine|"
    r".*(Chain|Pipeline|QueryEngine|ChatEngine)|ChainOfThought"
)
_FRAMEWORK = re.compile(r"^\s*(?:from|import)\s+(langchain|langgraph|llama_index|haystack|dspy)", re.MULTILINE)
_IMPORT = re.compile(r"^\s*(?:from|import)\s+(\w+)", re.MULTILINE)
_VARIABLE = re.compile(r"""(?:environ(?:\.get)?|getenv)[\[(]\s*["']([A-Z][A-Z0-9_]+)["']""")
_SDK = re.compile(r"\b(?:Async|Chat)?(OpenAI|Anthropic|Cohere|Groq|Pinecone|Tavily)(?:Embeddings|Client)?\(([^)]*)\)")
"""Constructors of SDKs, which read the variable of their vendor unless they are given a key."""
_ASKS = re.compile(r"ask|answer|quer|question|chat|rag|complet|qa", re.IGNORECASE)
_SERVER = re.compile(r"https?://[\w.-]+(:\d+)?(/[\w/.~-]*)?", re.ASCII)
_ANSWERS = ("reply", "message", "completion", "content", "generated_text")
_CONTEXTS = ("passages", "chunks", "hits", "references", "citations", "docs", "evidence")
"""Fields of a reply with the answer and with its contexts, beside those that are read without being named."""

FUNCTION, OBJECT, CLASS, SERVICE, OTHER_SERVICE, NOTEBOOK = range(1, 7)
"""Ranks of proposals: what can be called without a server comes first."""

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class Proposal:
    """An entrypoint to propose: `why` is a clause, and the surest has the lowest `rank`."""

    entrypoint: str
    why: str
    rank: int = 0
    settings: dict[str, str] = field(default_factory=dict)
    """Further keys of [system]."""
    question_field: str = "question"
    glue: str | None = None
    """The source of the module that the entrypoint names, if it is yet to be written."""
    unknown: str | None = None
    """What the user has to fill in, as a clause."""


@dataclass(frozen=True, slots=True)
class Module:
    """A module, or the code of a notebook; its `body` is empty if it can't be parsed."""

    path: PurePosixPath
    text: str
    body: list[ast.stmt]


def parse_module(path: PurePosixPath, text: str) -> Module:
    try:
        code = _notebook_code(text) if path.suffix == ".ipynb" else text
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about the user's own string literals
            return Module(path, code, ast.parse(code).body)
    except (SyntaxError, ValueError, LookupError, TypeError, RecursionError, MemoryError):
        return Module(path, text, [])


def _notebook_code(text: str) -> str:
    """The code of all cells, without magics and shell commands."""
    cells = json.loads(text)["cells"]
    code = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
    return "\n".join(line for line in code.splitlines() if line.lstrip()[:1] not in ("%", "!"))


def variables_in(text: str) -> set[str]:
    """Names of the environment variables that source reads, also through the SDKs that it uses."""
    variables = set(_VARIABLE.findall(text))
    for vendor, arguments in _SDK.findall(text):
        if "api_key" not in arguments:
            variables.add(f"{vendor.upper()}_API_KEY")
    return variables


def source_proposals(module: Module, neighbours: set[str]) -> Iterator[Proposal]:
    """What can be called with a question in `module`: a function, a method, or an object of a framework.

    `neighbours` are the modules beside it: one that imports them as they are is run from its own folder.
    """
    for rank, name in _answering_names(module):
        why = f"{name} in {module.path}"
        if module.path.suffix == ".ipynb":
            place = {"path": repr(str(module.path)), "folder": repr(str(module.path.parent))}
            glue = render_text_template("glue.py.j2", __package__, made=name, **place)
            yield Proposal(f"python:{GLUE_FILE.removesuffix('.py')}:answer", why, NOTEBOOK, glue=f"{glue}\n")
        else:
            imported, settings = _import_name(module, neighbours)
            yield Proposal(f"python:{imported}:{name}", why, rank, settings)


def _import_name(module: Module, neighbours: set[str]) -> tuple[str, dict[str, str]]:
    """The name that an entrypoint gives the module, and the settings with which it can be imported."""
    parts = [part for part in module.path.with_suffix("").parts if part != "__init__"]
    imports = set(_IMPORT.findall(module.text))
    if (len(parts) > 1 and imports & neighbours) or not all(part.isidentifier() for part in parts):
        return str(module.path), {}
    if parts[0] == "src" and len(parts) > 1 and "src" not in imports:
        return ".".join(parts[1:]), {"working_directory": "src"}
    return ".".join(parts), {}


def _answering_names(module: Module) -> Iterator[tuple[int, str]]:
    """What answers questions in a module, the surest with the lowest rank; with a dot for a method of a class."""
    uses_framework = _FRAMEWORK.search(module.text) is not None
    answering_classes: set[str] = set()
    classes = [node.name for node in module.body if isinstance(node, ast.ClassDef)]
    for node in module.body:
        if isinstance(node, Function):
            if _answers(node, 0):
                yield FUNCTION, node.name
            elif uses_framework and not _required(node) and _SYSTEM.fullmatch(node.name.partition("_")[2]):
                yield OBJECT, node.name
        elif isinstance(node, ast.ClassDef):
            methods = [item for item in node.body if isinstance(item, Function)]
            answering = [f"{node.name}.{method.name}" for method in methods if _answers(method, 1)]
            if not answering or "Protocol" in map(last_name, node.bases):
                continue
            answering_classes.add(node.name)
            if not any(item.name == "__init__" and len(_required(item)) > 1 for item in methods):
                yield CLASS, answering[0]
        elif isinstance(node, ast.Assign):
            name, maker = last_name(node.targets[0]), last_name(node.value)
            is_made = isinstance(node.value, ast.BinOp) or _MAKER.fullmatch(maker) is not None
            is_telling = _SYSTEM.fullmatch(name) is not None
            is_own = maker in answering_classes or (maker in classes and name in _ANSWERING)
            if is_own or (uses_framework and is_telling and is_made):
                yield OBJECT, name


def _answers(function: Function, before: int) -> bool:
    """Whether a function is named for answering, and takes nothing but a text after `before` other parameters."""
    required = _required(function)
    if function.name not in _ANSWERING or len(required) != before + 1:
        return False
    annotation = required[-1].annotation
    return annotation is None or last_name(annotation) == "str"


def _required(function: Function) -> list[ast.arg]:
    """The parameters without a default."""
    arguments = function.args
    positional = [*arguments.posonlyargs, *arguments.args]
    required = positional[: len(positional) - len(arguments.defaults)]
    for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        if default is None:
            required.append(argument)
    return required


def model_fields(module: Module) -> dict[str, list[str]]:
    """The annotated fields of each class in `module`."""
    classes = [node for node in module.body if isinstance(node, ast.ClassDef)]
    return {
        node.name: [last_name(item.target) for item in node.body if isinstance(item, ast.AnnAssign)] for node in classes
    }


def route_proposals(module: Module, models: Mapping[str, list[str]], port: int) -> Iterator[Proposal]:
    """The POST routes of FastAPI, Flask or the like; `models` are the fields of the classes of all modules."""
    for function in (node for node in module.body if isinstance(node, Function)):
        for decorator in function.decorator_list:
            texts = texts_in(decorator)
            is_post = last_name(decorator) == "post" or "POST" in texts
            if not isinstance(decorator, ast.Call) or not texts or not is_post:
                continue
            request, reply = _keys(function)
            annotations = [keyword.value for keyword in decorator.keywords if keyword.arg == "response_model"]
            for annotation in (*annotations, function.returns):
                reply += models.get(last_name(annotation), [])
            for argument in function.args.args:
                request += models.get(last_name(argument.annotation), [])
            router = last_name(getattr(decorator.func, "value", None))
            prefix = re.search(rf"^{router}\s*=.*prefix=[\"']([^\"']*)", module.text, re.MULTILINE)
            path = (prefix[1] if prefix else "") + texts[0]
            why = f"POST {path} in {module.path}, served on port {port}"
            yield from service_proposal(f"http://127.0.0.1:{port}{path}", why, request, reply)


def _keys(function: Function) -> tuple[list[str], list[str]]:
    """The keys that a function reads, as in ``request.json["question"]``, and those of what it returns."""
    read: list[str] = []
    returned: list[str] = []
    for node in ast.walk(function):
        if isinstance(node, ast.Subscript):
            read += texts_in(node.slice)
        elif isinstance(node, ast.Call) and last_name(node) == "get":
            read += texts_in(node)[:1]
        elif isinstance(node, ast.Return) and isinstance(node.value, ast.Dict):
            for key in node.value.keys:
                returned += [] if key is None else texts_in(key)
    return read, returned


def described_proposals(document: object, source: str) -> Iterator[Proposal]:
    """The POST operations of the OpenAPI description in the file `source`."""
    servers = _object_at(document).get("servers")
    url = str(_object_at(servers[0]).get("url")) if isinstance(servers, list) and servers else ""
    server = url.rstrip("/") if _SERVER.fullmatch(url) else "http://127.0.0.1:8000"
    for path, operations in _object_at(document, "paths").items():
        request = _schema(document, _object_at(operations, "post", "requestBody"))
        reply = _schema(document, _object_at(operations, "post", "responses", "200"))
        needed = request.get("required")
        yield from service_proposal(
            f"{server}{path}",
            f"POST {path}, says {source}",
            [str(name) for name in _object_at(request, "properties")],
            [str(name) for name in _object_at(reply, "properties")],
            needed if isinstance(needed, list) else (),
        )


def _schema(document: object, body: object) -> Mapping[str, Any]:
    """The schema of a request or a reply in JSON."""
    schema = _object_at(body, "content", "application/json", "schema")
    return _object_at(document, *str(schema["$ref"]).split("/")[1:]) if "$ref" in schema else schema


def _object_at(value: Any, *keys: str) -> Mapping[str, Any]:
    """The object at `keys` in `value`; an empty one if there is none."""
    for key in keys:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value if isinstance(value, Mapping) else {}


def service_proposal(
    url: str, why: str, request: list[str], reply: list[str], needed: Sequence[object] = ()
) -> Iterator[Proposal]:
    """The service at `url`, if a field of its request takes a question. `needed` are the fields that it requires."""
    question = _first_of(QUESTION_NAMES, request)
    if question is None or not _SERVER.fullmatch(url):
        return
    settings, unknown = {}, None
    answer, contexts = _first_of(_ANSWERS, reply), _first_of(_CONTEXTS, reply)
    is_read = _first_of(SYSTEM_NAMES["answer"], reply) is not None
    if answer is not None and not is_read:
        settings["answer_field"] = answer
    if contexts is not None and _first_of(SYSTEM_NAMES["contexts"], reply) is None:
        settings["contexts_field"] = contexts
    others = [str(name) for name in needed if name not in (question, "id")]
    if others:
        unknown = f'it also requires {", ".join(others)}: set body = {{ {others[0]} = "…" }} under [system.http]'
    elif reply and answer is None and not is_read:
        unknown = f'which field of its reply is the answer: set answer_field = "{reply[0]}", or another, under [system]'
    rank = SERVICE if _ASKS.search(url) else OTHER_SERVICE
    yield Proposal(url, why, rank, settings, question_field=question, unknown=unknown)


def _first_of(names: Sequence[str], fields: list[str]) -> str | None:
    return next((name for name in names if name in fields), None)


def texts_in(node: ast.AST) -> list[str]:
    """The string literals in `node`."""
    return [part.value for part in ast.walk(node) if isinstance(part, ast.Constant) and isinstance(part.value, str)]


def last_name(node: ast.AST | None) -> str:
    """``c`` of the expressions ``c``, ``a.b.c`` and ``a.b.c(…)``; "" for others."""
    node = node.func if isinstance(node, ast.Call) else node
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
