"""Entrypoints in Python source: functions and classes that answer, chains and engines, web routes, programs."""

from __future__ import annotations

import ast
import re
import shlex
import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import TypeVar

from ragstone.app.survey.proposal import ASKING, QUESTION_NAMES, Proposal
from ragstone.system.worker import METHODS

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

_METHODS = (*(before + name for name in METHODS for before in ("", "a")), "__call__")
_MAKERS = {
    "LangChain": frozenset(["create_retrieval_chain", "from_chain_type", "from_llm", "create_agent"]),
    "LangGraph": frozenset(["compile", "create_react_agent", "create_agent"]),
    "LlamaIndex": frozenset(["as_query_engine", "as_chat_engine", "from_args"]),
    "DSPy": frozenset(["ChainOfThought", "Predict", "ReAct"]),
    "Haystack": frozenset(["Pipeline", "AsyncPipeline"]),
}
"""By framework, the calls that make something that answers."""
_ALSO = {"LangChain": ("LangGraph",), "LangGraph": ("LangChain",)}
_WHAT = {"LangChain": "chain", "LangGraph": "graph", "LlamaIndex": "query engine", "DSPy": "module"}
_REPLIES = re.compile(r"Generator\b|AnswerBuilder|Reader\b|Agent\b|\bllm\b", re.IGNORECASE)
"""What a component of a pipeline that answers is called, or its class."""
_NO_QUESTIONS = frozenset(["payload", "request", "req", "data", "state", "inputs", "body", "event", "params", "path"])
"""Parameters that take something else than a question."""

_BROAD_NAMES = frozenset(["prompt", "input", "message", "text"])
"""Parameters that take whatever a model is asked, also of a function that retrieves nothing."""
_SYSTEM = re.compile(r"chain|rag|qa\b|_qa|qa_|engine|retriev|assistant|pipeline|bot", re.IGNORECASE)
_MAKES = re.compile(r"(build|make|create|get|load|setup|init)_")
_FRAMEWORKS = {
    "langgraph": "LangGraph",
    "langchain": "LangChain",
    "llama_index": "LlamaIndex",
    "haystack": "Haystack",
    "dspy": "DSPy",
}
_LOCAL = "http://127.0.0.1"
_PORTS = {"flask": 5000}
_DEFAULT_PORT = 8000
_PROGRAMS = frozenset(["__main__", "app", "ask", "bot", "chat", "cli", "main", "query", "rag"])
"""Names of programs whose only argument is taken for a question."""

_SDKS = {
    "(Async|Chat)?OpenAI(Embeddings?|(Chat)?Generator|(Text|Document)Embedder)?": "OPENAI_API_KEY",
    "(Async)?AzureOpenAI|AzureChatOpenAI|AzureOpenAIEmbeddings": "AZURE_OPENAI_API_KEY",
    "(Async)?Anthropic|ChatAnthropic|Anthropic(Chat)?Generator": "ANTHROPIC_API_KEY",
    "(Chat)?Cohere(Embeddings|Rerank|Ranker)?|ClientV2": "COHERE_API_KEY",
    "(Async)?Groq|ChatGroq": "GROQ_API_KEY",
    "Mistral|ChatMistralAI|MistralAIEmbeddings": "MISTRAL_API_KEY",
    "(Chat)?GoogleGenerativeAI(Embeddings)?": "GOOGLE_API_KEY",
    "Pinecone(VectorStore)?": "PINECONE_API_KEY",
    "Tavily(Client|Search|SearchResults)?|TavilySearchResults": "TAVILY_API_KEY",
}
"""Constructors of SDKs (as expressions), and the variable that each reads if it is given no key."""

GLUE_FILE = "ragstone_entry.py"
GLUE = """\
import sys

sys.path.insert(0, {folder!r})
names = {{"__name__": "{name}", "__file__": {path!r}}}
try:
    exec({source}, names)
except EOFError:  # it asks for input
    pass
answer = names["{found}"]
"""

Known = TypeVar("Known")
Function = ast.FunctionDef | ast.AsyncFunctionDef


def parsed(source: bytes | str) -> list[ast.stmt]:
    """The statements of a module; none if it can't be parsed."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about the user's own string literals
            return ast.parse(source).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []


def proposals_in(
    source: bytes, path: PurePosixPath, beside: Collection[str] = (), *, is_package: bool = False
) -> Iterator[Proposal]:
    """What the module at `path` (relative to the folder) offers, with the modules `beside` it.

    `is_package`: the folder ``src`` is a package, rather than the root of packages.
    """
    body = parsed(source)
    module, settings = _module(path)
    if settings and (is_package or any(name.split(".")[0] == "src" for name in _imports(body))):
        module, settings = f"src.{module}", {}
    if len(path.parts) > 1 and _imports(body) & set(beside):  # found only if its own folder is on the path
        module, settings = str(path), {}
    framework = _imported(body, _FRAMEWORKS)
    classes = {node.name: node for node in body if isinstance(node, ast.ClassDef)}
    prefixes = dict(_prefixes(body))
    yield from _program(body, path)
    if glue := glue_of(body, path):
        yield glue
    for node in [] if _asks_for_input(body) else body:
        if isinstance(node, Function):
            found = _route(node, classes, prefixes) or _function(node, framework)
        elif isinstance(node, ast.ClassDef):
            found = _handler(node) or _class(node)
        else:
            found = _assigned(node, framework, body) or _instance(node, classes)
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


def _imports(body: Sequence[ast.stmt]) -> set[str]:
    """The modules that are imported by a name without dots."""
    nodes = [node for statement in body for node in ast.walk(statement)]
    names = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    return names | {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom) and not node.level}


def _asks_for_input(body: Sequence[ast.stmt]) -> bool:
    """Whether importing the module asks for input."""
    run = [node for node in body if not isinstance(node, Function | ast.ClassDef) and not _is_main(node)]
    return any(isinstance(node, ast.Call) and _called(node) == "input" for one in run for node in ast.walk(one))


def _is_main(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and "__main__" in _texts(node.test)


def _called(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def glue_of(body: Sequence[ast.stmt], path: PurePosixPath, reads: str = "open({!r}).read()") -> Proposal | None:
    """Glue for what can't be imported: made under ``if __name__``, beside a loop that asks for input, or in a notebook.

    `reads` is an expression of the source, with a place for the path.
    """
    framework, classes = (
        _imported(body, _FRAMEWORKS),
        {node.name: node for node in body if isinstance(node, ast.ClassDef)},
    )
    whole = _asks_for_input(body) or path.suffix != ".py"
    hidden = [one for node in body if _is_main(node) for one in node.body]  # type: ignore[attr-defined]
    for node in [*(body if whole else ()), *hidden]:
        found = (
            _function(node, framework) if isinstance(node, Function) else _assigned(node, framework, [*body, *hidden])
        )
        found = found or (None if isinstance(node, Function) else _instance(node, classes))
        if found is not None:
            name = "__main__" if hidden else path.stem
            source, folder = reads.format(str(path)), str(path.parent)
            glue = GLUE.format(path=str(path), source=source, folder=folder, name=name, found=found.entrypoint)
            return Proposal(f"python:{GLUE_FILE.removesuffix('.py')}:answer", f"{found.why} in {path}", 7, glue=glue)
    return None


def variables_in(body: Sequence[ast.stmt]) -> Iterator[str]:
    """Names of the environment variables that a module reads, also through the SDKs that it uses."""
    for node in (node for statement in body for node in ast.walk(statement)):
        if isinstance(node, ast.Subscript) and ast.unparse(node.value).endswith("environ"):
            named: ast.expr | None = node.slice
        elif isinstance(node, ast.Call):
            reads = ast.unparse(node.func).endswith(("getenv", "environ.get"))
            named = node.args[0] if reads and node.args else None
            name = _called(node)
            given = any(keyword.arg in ("api_key", "openai_api_key", "azure_ad_token") for keyword in node.keywords)
            yield from (variable for sdk, variable in _SDKS.items() if not given and re.fullmatch(sdk, name))
        else:
            continue
        if isinstance(named, ast.Constant) and isinstance(named.value, str):
            yield named.value


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
    if required is None or len(required) != 1 or required[0].arg in _NO_QUESTIONS:
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
            broad = required[0].arg in _BROAD_NAMES and not _SYSTEM.search(function.name)
            return Proposal(function.name, f"the function {name}{with_framework}", 5 if broad else 3)
    if framework and required == [] and not any(isinstance(node, ast.Yield) for node in ast.walk(function)):
        returned = [node.value for node in ast.walk(function) if isinstance(node, ast.Return)]
        made = [_made(value, function.body) for value in returned]
        makes = any(_is_system(*one, framework, function.body, named=False) for one in made)
        named = _MAKES.match(function.name) and _SYSTEM.search(function.name)
        if makes or (named and framework != "Haystack"):
            return Proposal(function.name, f"{function.name}(), which makes a {framework} object", 2 if makes else 4)
    return None


def _class(node: ast.ClassDef) -> Proposal | None:
    """A class that can be created without arguments and answers questions."""
    methods = {item.name: item for item in node.body if isinstance(item, Function)}
    init = methods.get("__init__")
    asked = (name for name in methods if name in ANSWERING and _takes_question(methods[name], method=True))
    method = _answers(node) or next(asked, None)
    if method is None or node.name.startswith(("_", "Test")) or _called_bases(node) & {"Protocol", "ABC", "BaseModel"}:
        return None
    if init is not None and _required(init, method=True) != []:
        return None
    rank = 3 if _SYSTEM.search(node.name) or "Module" in _called_bases(node) else 4
    likely = rank == 3 or method in ANSWERING
    place = node.name if _answers(node) else f"{node.name}.{method}"
    return Proposal(place, f"the class {node.name} with {method}()", rank) if likely else None


def _called_bases(node: ast.ClassDef) -> set[str]:
    return {ast.unparse(base).rpartition(".")[2] for base in node.bases}


def _answers(node: ast.ClassDef) -> str | None:
    """The method of a class that takes a question."""
    methods = {item.name: item for item in node.body if isinstance(item, Function)}
    names = (*_METHODS, "forward") if "Module" in _called_bases(node) else _METHODS
    return next((name for name in names if name in methods and _takes_question(methods[name], method=True)), None)


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


def _assigned(statement: ast.stmt, framework: str | None, body: Sequence[ast.stmt]) -> Proposal | None:
    """A chain, a graph, an engine or a pipeline in a variable of the module."""
    if framework is None or not isinstance(statement, ast.Assign | ast.AnnAssign):
        return None
    for target in statement.targets if isinstance(statement, ast.Assign) else [statement.target]:
        name = target.id if isinstance(target, ast.Name) else "_"
        if not name.startswith("_") and _is_system(statement.value, name, framework, body):
            return Proposal(name, f"the {framework} {_WHAT.get(framework, 'pipeline')} '{name}'", 2)
    return None


def _made(value: ast.expr | None, body: Sequence[ast.stmt]) -> tuple[ast.expr | None, str]:
    """What a returned variable was given, and its name; else the expression itself."""
    name = value.id if isinstance(value, ast.Name) else ""
    nodes = [node for statement in body for node in ast.walk(statement) if isinstance(node, ast.Assign)]
    given = [node.value for node in nodes if name and ast.unparse(node.targets[0]) == name]
    return (given[-1], name) if given else (value, "")


def _is_system(
    value: ast.expr | None, name: str, framework: str, body: Sequence[ast.stmt], *, named: bool = True
) -> bool:
    """Whether an expression makes something that answers questions; of a pipeline in `name`, whether it replies.

    Of what a variable of the module holds (`named`), the name must tell if the expression doesn't.
    """
    if not isinstance(value, ast.Call):
        piped = isinstance(value, ast.BinOp) and isinstance(value.op, ast.BitOr)
        return piped and framework in ("LangChain", "LangGraph") and (not named or _SYSTEM.search(name) is not None)
    called = _called(value)
    if called == "compile":  # of a graph, not of a pattern
        built, _ = _made(getattr(value.func, "value", None), body)
        return built is not None and "Graph(" in ast.unparse(built)
    if framework == "DSPy" and any("context" in text for text in _texts(value)):
        return False  # it is given the passages that another part retrieves
    if framework != "Haystack" or called not in _MAKERS[framework]:
        engine = framework == "LlamaIndex" and called.endswith("QueryEngine")
        return engine or any(called in _MAKERS[one] for one in {framework, *_ALSO.get(framework, ())})
    nodes = [node for statement in body for node in ast.walk(statement) if isinstance(node, ast.Call)]
    added = [call for call in nodes if name and ast.unparse(call.func) == f"{name}.add_component"]
    return any(_REPLIES.search(ast.unparse(call)) for call in added)


def _prefixes(body: Sequence[ast.stmt]) -> Iterator[tuple[str, str]]:
    """The variables of the module that hold routers with a prefix, and the prefixes."""
    for node in body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            for keyword in node.value.keywords:
                if keyword.arg in ("prefix", "url_prefix") and (texts := _texts(keyword.value)):
                    yield ast.unparse(node.targets[0]), texts[0]


def _route(function: Function, classes: dict[str, ast.ClassDef], prefixes: Mapping[str, str]) -> Proposal | None:
    """A POST route of FastAPI, Starlette's likes or Flask, with the field that takes the question."""
    for decorator in function.decorator_list:
        if not isinstance(decorator, ast.Call) or not isinstance(decorator.func, ast.Attribute):
            continue
        if decorator.func.attr not in ("post", "route") or not decorator.args:
            continue
        path = prefixes.get(ast.unparse(decorator.func.value), "") + "".join(_texts(decorator.args[0])[:1])
        if not path.startswith("/") or "{" in path or "<" in path:
            continue
        fields = [name for arg in function.args.args for name in _fields_of(arg, classes)]
        posts = decorator.func.attr == "post" or "POST" in _texts(decorator)
        known = _question_in(fields) or (_question_in(_texts(function)) if posts else None)
        if known is not None:
            rank = 5 if ASKING.search(path) else 6
            return Proposal(path, f"the route POST {path}", rank, question_field=known)
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
    if not any(map(_is_main, body)):
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
