"""Entrypoints in Python source: functions and classes that answer, chains and engines, web routes, programs."""

from __future__ import annotations

import ast
import re
import shlex
import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePosixPath

from ragstone.pipeline.survey.proposal import ASKING, QUESTION_NAMES, Proposal
from ragstone.report.templates import render_text_template
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
_FLASK_PORT, _DEFAULT_PORT = 5000, 8000
_PROGRAMS = frozenset(["__main__", "app", "ask", "bot", "chat", "cli", "main", "query", "rag"])
"""Names of programs whose only argument is taken for a question."""

_SDK = re.compile(
    r"(?:Async|Chat)?(?P<vendor>(?:Azure)?OpenAI|Anthropic|Cohere|Groq|Mistral|Google(?=GenerativeAI)|Pinecone|Tavily)"
    r"(?:AI|GenerativeAI)?(?:Chat|Text|Document|Vector)?"
    r"(?:Client|Embeddings?|Embedder|Generator|Rerank|Ranker|Search|SearchResults|Store)?"
)
"""A constructor of an SDK, which reads the variable of its vendor if it is given no key."""
_GIVEN_KEYS = ("api_key", "openai_api_key", "azure_ad_token")

GLUE_FILE = "ragstone_entry.py"
Function = ast.FunctionDef | ast.AsyncFunctionDef


def parsed(source: bytes | str) -> list[ast.stmt]:
    """The statements of a module; none if it can't be parsed."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about the user's own string literals
            return ast.parse(source).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []


@dataclass(frozen=True)
class Source:
    """A parsed module, or the code of a notebook, at `path`, relative to the folder."""

    path: PurePosixPath
    body: Sequence[ast.stmt]

    @cached_property
    def nodes(self) -> list[ast.AST]:
        return _nodes(self.body)

    @cached_property
    def calls(self) -> list[ast.Call]:
        return [node for node in self.nodes if isinstance(node, ast.Call)]

    @cached_property
    def classes(self) -> dict[str, ast.ClassDef]:
        return {node.name: node for node in self.body if isinstance(node, ast.ClassDef)}

    @cached_property
    def imported(self) -> list[str]:
        """The modules that it imports by their full names."""
        found = []
        for node in self.nodes:
            if isinstance(node, ast.Import):
                found += [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and not node.level:
                found.append(node.module or "")
        return found

    @cached_property
    def framework(self) -> str | None:
        """The framework that is imported first."""
        found = (re.match(rf"({'|'.join(_FRAMEWORKS)})([._]|$)", name) for name in self.imported)
        return next((_FRAMEWORKS[one[1]] for one in found if one is not None), None)

    @cached_property
    def hidden(self) -> list[ast.stmt]:
        """What stands under ``if __name__ == "__main__"``."""
        return [one for node in self.body if _is_main(node) for one in node.body]  # type: ignore[attr-defined]

    @cached_property
    def asks_for_input(self) -> bool:
        """Whether importing it asks for input."""
        run = [node for node in self.body if not isinstance(node, Function | ast.ClassDef) and not _is_main(node)]
        return any(isinstance(node, ast.Call) and _called(node) == "input" for node in _nodes(run))

    def variables(self) -> Iterator[str]:
        """Names of the environment variables that it reads, also through the SDKs that it uses."""
        for node in self.nodes:
            named: ast.expr | None = None
            if isinstance(node, ast.Subscript) and _dotted(node.value).endswith("environ"):
                named = node.slice
            elif isinstance(node, ast.Call):
                if node.args and _dotted(node.func).endswith(("getenv", "environ.get")):
                    named = node.args[0]
                name, given = _called(node), [keyword.arg for keyword in node.keywords]
                sdk = _SDK.fullmatch("Cohere" if name == "ClientV2" else name)
                if sdk is not None and not set(given) & set(_GIVEN_KEYS):
                    yield f"{sdk['vendor'].upper().replace('AZURE', 'AZURE_')}_API_KEY"
            if isinstance(named, ast.Constant) and isinstance(named.value, str):
                yield named.value


def proposals_of(source: Source, beside: Collection[str] = (), *, is_package: bool = False) -> Iterator[Proposal]:
    """What `source` offers, with the modules `beside` it.

    `is_package`: the folder ``src`` is a package, rather than the root of packages.
    """
    path = source.path
    module, settings = _module(path)
    if settings and (is_package or any(name.split(".")[0] == "src" for name in source.imported)):
        module, settings = f"src.{module}", {}
    if len(path.parts) > 1 and set(source.imported) & set(beside) - {path.stem}:
        module, settings = str(path), {}  # they are found only if its own folder is on the path
    yield from _program(source)
    if glue := glue_of(source):
        yield glue
    for node in [] if source.asks_for_input else source.body:
        if isinstance(node, Function):
            found = _route(node, source) or _function(node, source.framework)
        elif isinstance(node, ast.ClassDef):
            found = _handler(node) or _class(node)
        else:
            found = _assigned(node, source) or _instance(node, source.classes)
        if found is None:
            continue
        if found.entrypoint.startswith("/"):
            port = _port(source)
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


def _is_main(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and "__main__" in _texts(node.test)


def _called(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def _dotted(node: ast.AST | None) -> str:
    """A name with its attributes, such as ``os.environ``; of another expression, only its last attributes."""
    names: list[str] = []
    while isinstance(node, ast.Attribute):
        names.insert(0, node.attr)
        node = node.value
    return ".".join([getattr(node, "id", ""), *names])


def _nodes(statements: Iterable[ast.stmt]) -> list[ast.AST]:
    return [node for statement in statements for node in ast.walk(statement)]


def glue_of(source: Source) -> Proposal | None:
    """Glue for what can't be imported: made under ``if __name__``, beside a loop that asks, or in a notebook."""
    path, notebook = source.path, source.path.suffix != ".py"
    for node in [*(source.body if notebook or source.asks_for_input else ()), *source.hidden]:
        if isinstance(node, Function):
            found = _function(node, source.framework)
        else:
            found = _assigned(node, source) or _instance(node, source.classes)
        if found is not None:
            glue = render_text_template(
                "glue.py.j2",
                __package__,
                notebook=notebook,
                folder=repr(str(path.parent)),
                path=repr(str(path)),
                module="__main__" if source.hidden else path.stem,
                found=found.entrypoint,
            )
            return Proposal(f"python:{GLUE_FILE.removesuffix('.py')}:answer", f"{found.why} in {path}", 7, glue=glue)
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
        nodes = _nodes(function.body)
        made = [_made(value, nodes) for value in returned]
        makes = any(_is_system(*one, framework, nodes, named=False) for one in made)
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
    return {_dotted(base).rpartition(".")[2] for base in node.bases}


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


def _assigned(statement: ast.stmt, source: Source) -> Proposal | None:
    """A chain, a graph, an engine or a pipeline in a variable of the module."""
    framework = source.framework
    if framework is None or not isinstance(statement, ast.Assign | ast.AnnAssign):
        return None
    for target in statement.targets if isinstance(statement, ast.Assign) else [statement.target]:
        name = target.id if isinstance(target, ast.Name) else "_"
        if not name.startswith("_") and _is_system(statement.value, name, framework, source.nodes):
            return Proposal(name, f"the {framework} {_WHAT.get(framework, 'pipeline')} '{name}'", 2)
    return None


def _made(value: ast.expr | None, nodes: Iterable[ast.AST]) -> tuple[ast.expr | None, str]:
    """What a returned variable was given, and its name; else the expression itself."""
    name = value.id if isinstance(value, ast.Name) else ""
    assigned = (node for node in nodes if name and isinstance(node, ast.Assign))
    given = [node.value for node in assigned if _dotted(node.targets[0]) == name]
    return (given[-1], name) if given else (value, "")


def _is_system(
    value: ast.expr | None, name: str, framework: str, nodes: Iterable[ast.AST], *, named: bool = True
) -> bool:
    """Whether an expression makes something that answers questions; of a pipeline in `name`, whether it replies.

    Of what a variable of the module holds (`named`), the name must tell if the expression doesn't.
    """
    if not isinstance(value, ast.Call):
        piped = isinstance(value, ast.BinOp) and isinstance(value.op, ast.BitOr)
        return piped and framework in ("LangChain", "LangGraph") and (not named or _SYSTEM.search(name) is not None)
    called = _called(value)
    if called == "compile":  # of a graph, not of a pattern
        built, _ = _made(getattr(value.func, "value", None), nodes)
        made = [] if built is None else ast.walk(built)
        return any(isinstance(node, ast.Call) and _called(node).endswith("Graph") for node in made)
    if framework == "DSPy" and any("context" in text for text in _texts(value)):
        return False  # it is given the passages that another part retrieves
    if framework != "Haystack" or called not in _MAKERS[framework]:
        engine = framework == "LlamaIndex" and called.endswith("QueryEngine")
        return engine or any(called in _MAKERS[one] for one in {framework, *_ALSO.get(framework, ())})
    calls = [node for node in nodes if isinstance(node, ast.Call)]
    added = [call for call in calls if name and _dotted(call.func) == f"{name}.add_component"]
    said = (word for call in added for node in ast.walk(call) for word in (*_texts(node), _dotted(node)))
    return any(map(_REPLIES.search, said))


def _prefix(router: str, source: Source) -> str:
    """The prefix of the routes of a router in a variable of the module."""
    made, _ = _made(ast.Name(router), source.body)
    given = made.keywords if isinstance(made, ast.Call) else []
    return next((text for one in given if one.arg in ("prefix", "url_prefix") for text in _texts(one.value)), "")


def _route(function: Function, source: Source) -> Proposal | None:
    """A POST route of FastAPI, Starlette's likes or Flask, with the field that takes the question."""
    for decorator in function.decorator_list:
        if not isinstance(decorator, ast.Call) or not isinstance(decorator.func, ast.Attribute):
            continue
        if decorator.func.attr not in ("post", "route") or not decorator.args:
            continue
        path = _prefix(_dotted(decorator.func.value), source) + "".join(_texts(decorator.args[0])[:1])
        if not path.startswith("/") or "{" in path or "<" in path:
            continue
        fields = [name for arg in function.args.args for name in _fields_of(arg, source.classes)]
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


def _port(source: Source) -> int:
    """The port that the module names, else the usual one."""
    named = [keyword.value for call in source.calls for keyword in call.keywords if keyword.arg == "port"]
    pairs = [arg.elts for call in source.calls for arg in call.args if isinstance(arg, ast.Tuple)]
    named += [pair[1] for pair in pairs if len(pair) == 2]
    ports = (node.value for node in named if isinstance(node, ast.Constant) and type(node.value) is int)
    usual = _FLASK_PORT if "flask" in source.imported else _DEFAULT_PORT
    return next((port for port in ports if 0 < port < 65_536), usual)


def _program(source: Source) -> Iterator[Proposal]:
    """A program that takes a question as an argument, or questions on its standard input."""
    if not source.hidden:
        return
    path, attributes = source.path, {_dotted(node) for node in source.nodes if isinstance(node, ast.Attribute)}
    declared = map(_argument, source.calls)
    names = next((names for names in declared if _question_in([name.lstrip("-") for name in names])), [])
    named, words = " or ".join(names) or None, " -- {question}"
    if options := [name for name in names if name.startswith("-")]:
        words = f" {max(options, key=len)} {{question}}"
    elif named is None and "sys.stdin" in attributes and "json" in source.imported:
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
