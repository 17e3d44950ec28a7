"""What can be asked, and how: functions, classes, factories, and the objects of the
usual frameworks.

Part of the worker (see `join.py`): standard library only, Python 3.8 or newer.
"""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import inspect
import os
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ragstone.golden.aliases import SYSTEM_NAMES
from ragstone.system.worker.fields import get
from ragstone.system.worker.wording import shown

METHODS = ("answer", "ask", "query", "invoke", "chat")
RETRIEVING = ("retrieve", *METHODS)
"""Methods of a system that only retrieves."""

CONTEXTS = "contexts"
"""The parameter or field that takes the contexts that a system is given."""

SESSION = "session"
"""What an entrypoint accepts that keeps the turns of a conversation apart."""


class EntrypointError(Exception):
    """The entrypoint can't be found or called; the message is for the user, without a
    traceback."""


class Part(NamedTuple):
    """Which half of the system is evaluated: ``retrieval``, ``generation``, or None for
    the whole.

    `takes_contexts` is what the user says of it, None for nothing: then the signature
    decides.
    """

    name: str | None = None
    takes_contexts: bool | None = None

    @property
    def methods(self) -> tuple[str, ...]:
        """The methods to look for in an object."""
        return RETRIEVING if self.name == "retrieval" else METHODS


class Parameters:
    """The parameters of `target`; of one whose signature can't be read, a single one,
    for the question."""

    def __init__(self, target: Any) -> None:
        self.name = str(getattr(target, "__name__", type(target).__name__))
        self.are_known = True
        try:
            self.all = list(inspect.signature(target).parameters.values())
        except (TypeError, ValueError):
            self.are_known = False
            self.all = [
                inspect.Parameter(
                    "question", inspect.Parameter.POSITIONAL_ONLY, default=None
                )
            ]

    @property
    def positional(self) -> int:
        """How many can be passed by position; one that takes any number counts once."""
        by_name = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.VAR_KEYWORD)
        return sum(parameter.kind not in by_name for parameter in self.all)

    @property
    def required(self) -> list[str]:
        """The names of those without a default."""
        variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
        return [
            p.name for p in self.all if p.default is p.empty and p.kind not in variadic
        ]

    @property
    def beside_question(self) -> list[str]:
        """The names of those that can be passed by name, beside the question, which is
        the first."""
        by_name = (
            inspect.Parameter.POSITIONAL_OR_KEYWORD,
            inspect.Parameter.KEYWORD_ONLY,
        )
        first_by_name = [p.name for p in self.all[:1] if p.kind is p.KEYWORD_ONLY]
        return first_by_name + [p.name for p in self.all[1:] if p.kind in by_name]


class Asker:
    """Calls one object, whatever its shape, and gives the returned value. Created by
    `adapt`.

    The question is the argument, or the field `key` of the argument, whose fields are
    `inputs`. What goes with it is passed by name, or in these fields. `declared`: the
    user says that it takes contexts. `remembers`: it keeps what was said in threads, as
    a graph of LangGraph with a checkpointer does.
    """

    def __init__(
        self,
        ask: Callable[..., Any],
        ask_async: Callable[..., Any] | None = None,
        *,
        key: str | None = None,
        inputs: Sequence[str] = (),
        declared: bool = False,
        remembers: bool = False,
    ) -> None:
        self._ask = ask
        self._ask_async = ask_async
        self._key = key
        parameters = Parameters(ask)
        names = parameters.beside_question if key is None else inputs
        self._history = first_named(SYSTEM_NAMES["history"], names)
        self._needs_history = key is None and self._history in parameters.required
        self._session = first_named(SYSTEM_NAMES["session"], names)
        self._needs_session = key is None and self._session in parameters.required
        self._takes_contexts = declared or CONTEXTS in names
        self._remembers = remembers

    @property
    def accepts(self) -> list[str]:
        """What it takes besides the question: ``history``, ``session`` and
        ``contexts``, or less."""
        names = []
        if self._history is not None:
            names.append("history")
        if self._session is not None or self._remembers:
            names.append(SESSION)
        if self._takes_contexts:
            names.append(CONTEXTS)
        return names

    @property
    def is_async(self) -> bool:
        """Whether `begin` certainly returns an awaitable (a coroutine function)."""
        return is_coroutine_function(self._ask)

    def begin(
        self,
        question: str,
        history: Sequence[Mapping[str, str]] = (),
        contexts: Sequence[str] | None = None,
        session: str | None = None,
    ) -> Any:
        """Call it; the result may be awaitable. Falls back to the async method if the
        sync one is not implemented.

        `history` are the earlier turns, as ``{"role", "content"}``; they are left out
        if it takes none. `contexts` are the texts that it is given in place of its own
        retrieval; None: it retrieves by itself. `session` is the id of the
        conversation; a question that stands alone has none, and gets a new one if it is
        required.
        """
        keywords: dict[str, Any] = {}
        if self._remembers:
            keywords["config"] = {
                "configurable": {"thread_id": session or new_session()}
            }
        turns = [] if self._remembers and session else [dict(turn) for turn in history]
        messages = [*turns, {"role": "user", "content": question}]
        beside: dict[str, Any] = {}
        if self._history is not None and (turns or self._needs_history):
            beside[self._history] = messages if self._history == "messages" else turns
        if self._session is not None and (session is not None or self._needs_session):
            beside[self._session] = session or new_session()
        if contexts is not None and self._takes_contexts:
            beside[CONTEXTS] = list(contexts)
        if self._key is None:
            return self._call(question, {**beside, **keywords})
        return self._call(
            {**beside, self._key: messages if self._key == "messages" else question},
            keywords,
        )

    def _call(self, argument: Any, keywords: dict[str, Any]) -> Any:
        try:
            return self._ask(argument, **keywords)
        except (TypeError, NotImplementedError) as error:
            only_async = isinstance(
                error, NotImplementedError
            ) or "synchronously" in str(error)
            if self._ask_async is None or not only_async:
                raise
        self._ask, self._ask_async = self._ask_async, None
        return self._ask(argument, **keywords)


def new_session() -> str:
    """The id of a conversation that nobody continues."""
    return os.urandom(16).hex()


def first_named(names: Iterable[str], available: Collection[str]) -> str | None:
    """The first of `names` that is `available`, None if none is."""
    for name in names:
        if name in available:
            return name
    return None


def is_coroutine_function(target: Any) -> bool:
    """Whether calling `target` gives a coroutine; an object may have an async
    ``__call__``."""
    method = getattr(target, "__call__", None)  # noqa: B004
    return inspect.iscoroutinefunction(target) or inspect.iscoroutinefunction(method)


# --- shapes
# ------------------------------------------------------------------------------------------------------


def adapt(
    target: object, build: Callable[[Any], Any], part: Part | None = None
) -> Asker:
    """An Asker for a function, class, zero-argument factory, or object with
    answer/query/invoke/__call__.

    `build` receives the value returned by a class or factory and resolves it if
    awaitable. `part` is the half that is evaluated; None for the whole system. Raises
    EntrypointError.
    """
    part = part or Part()
    if inspect.isclass(target):
        refuse_parameters(target)
        return _adapt_object(build(target()), part)
    if not inspect.isroutine(target) and type(target).__name__ != "partial":
        return _adapt_object(target, part)
    parameters = Parameters(target)
    if parameters.positional or parameters.required:
        return _adapt_callable(target, part)
    product = build(target())  # type: ignore[operator]
    return (
        adapt(product, build, part)
        if inspect.isroutine(product)
        else _adapt_object(product, part)
    )


def is_built(target: object) -> bool:
    """Whether `target` is a class or a factory: then each conversation gets an object
    of its own."""
    parameters = Parameters(target)
    is_factory = (
        inspect.isroutine(target)
        and not parameters.positional
        and not parameters.required
    )
    return is_factory or inspect.isclass(target)


def _adapt_callable(target: Any, part: Part) -> Asker:
    _check_one_question(target, part)
    key = _dspy_input(target)
    ask = target if key is None else lambda question: target(**{key: question})
    return Asker(ask, declared=_declared(target, part))


def _adapt_object(target: object, part: Part) -> Asker:
    for prefix in ("", "a"):
        for name in part.methods:
            method = get(target, prefix + name)
            if callable(method) and not inspect.isclass(method):
                twin = get(target, "a" + name) if prefix == "" else None
                return _adapt_method(
                    target, name, method, twin if callable(twin) else None, part
                )
    run, inputs = get(target, "run"), get(target, "inputs")
    if callable(run) and callable(inputs):
        return Asker(_haystack_pipeline(target, inputs()))
    if callable(target):
        return _adapt_callable(target, part)
    raise EntrypointError(
        f"{shown(target)} can't be asked. Expected a function answer(question), or an object with "
        "answer(question), ask(question), query(question), invoke(question), chat(question) or __call__(question)."
    )


def _adapt_method(
    target: object, name: str, method: Any, twin: Any, part: Part
) -> Asker:
    if name != "invoke":
        return Asker(method, twin, declared=_declared(method, part))
    inputs = _runnable_inputs(target)
    key = _runnable_key(target, inputs)
    declared = bool(part.takes_contexts) if key is not None else _declared(method, part)
    remembers = bool(get(target, "checkpointer"))
    return Asker(
        method,
        twin,
        key=key,
        inputs=inputs or (),
        declared=declared,
        remembers=remembers,
    )


def _check_one_question(target: Any, part: Part) -> None:
    """Raise EntrypointError unless `target` can be called with a question, and what
    goes with it."""
    parameters = Parameters(target)
    beside = parameters.beside_question
    if (
        CONTEXTS in beside
        and CONTEXTS in parameters.required
        and part.name != "generation"
    ):
        raise EntrypointError(
            f"{parameters.name} needs '{CONTEXTS}'. Give the parameter a default, such as None, for questions without "
            'contexts. If it only generates, set part = "generation" under [system]: then it is given the reference '
            "contexts."
        )
    passed = [
        first_named(names, beside)
        for names in (SYSTEM_NAMES["history"], SYSTEM_NAMES["session"], [CONTEXTS])
    ]
    required = [name for name in parameters.required if name not in passed]
    if len(required) > 1 or parameters.positional == 0:
        raise EntrypointError(
            f"{parameters.name}({', '.join(required)}) can't be called with one question. "
            f"Expected {parameters.name}(question)."
        )


def _declared(target: Any, part: Part) -> bool:
    """Whether the user says that `target` takes contexts. Raises EntrypointError if its
    signature says otherwise."""
    if not part.takes_contexts:
        return False
    parameters = Parameters(target)
    takes_any_name = any(
        parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.all
    )
    if (
        parameters.are_known
        and not takes_any_name
        and CONTEXTS not in parameters.beside_question
    ):
        raise EntrypointError(
            f"takes_contexts = true, but {parameters.name} has no parameter '{CONTEXTS}'."
        )
    return True


def _runnable_inputs(target: object) -> list[str] | None:
    """The fields of a LangChain Runnable's input; None if it names none."""
    method = get(target, "get_input_jsonschema")
    if not callable(method):
        return None
    try:
        schema = method()
    except (
        Exception
    ):  # of a state that pydantic can't describe: a graph's own class has its fields
        graph = get(target, "builder")
        state = (
            get(graph, "input_schema")
            or get(graph, "state_schema")
            or get(graph, "schema")
        )
        return list(getattr(state, "__annotations__", ())) or None
    fields = (
        schema.get("properties")
        if isinstance(schema, dict) and schema.get("type") == "object"
        else None
    )
    return list(fields) if isinstance(fields, dict) else None


def _runnable_key(target: object, inputs: Sequence[str] | None) -> str | None:
    """The field in which a LangChain Runnable expects the question, None if it takes
    the bare string."""
    keys = get(target, "input_keys")
    if isinstance(keys, list) and len(keys) == 1 and isinstance(keys[0], str):
        return keys[0]
    if inputs is None or inputs == ["root"]:  # LangChain's name of an untyped input
        return None
    only = inputs[0] if len(inputs) == 1 else None
    return first_named((*SYSTEM_NAMES["question"], "messages"), inputs) or only


def _dspy_input(target: object) -> str | None:
    """The name by which a DSPy module takes the question, if it takes none by
    position."""
    forward = getattr(
        type(target), "forward", None
    )  # an instance's own warns when it is looked up
    if not callable(forward) or Parameters(forward).positional > 1:
        return None
    for holder in (target, get(target, "predict")):
        names = list(get(get(holder, "signature"), "input_fields") or ())
        if names:
            return first_named(SYSTEM_NAMES["question"], names) or str(names[0])
    return None


def _haystack_pipeline(
    target: Any, inputs: Mapping[str, Mapping[str, Any]]
) -> Callable[[str], Any]:
    """Asks a Haystack pipeline: the question goes to each open input for one, and
    documents come back with the reply.

    Raises EntrypointError if it has no such input, or nothing in it replies.
    """
    open_inputs = {}
    for component, sockets in inputs.items():
        names = [
            name for name, socket in sockets.items() if _takes_question(name, socket)
        ]
        if names:
            open_inputs[component] = names
    graph = get(target, "graph")
    outputs = {
        name: set(get(node, "output_sockets") or ())
        for name, node in get(graph, "nodes").items()
    }
    replies = any(
        "replies" in names or "answers" in names for names in outputs.values()
    )
    if not open_inputs or not replies:
        missing = "replies to a question" if open_inputs else "takes a question"
        raise EntrypointError(
            f"nothing in this pipeline of {', '.join(outputs) or 'no components'} {missing}."
        )
    last_retriever = None
    for sender, receiver in get(graph, "edges")():
        if "documents" in outputs[sender] and "documents" not in outputs[receiver]:
            last_retriever = sender
    options = (
        {} if last_retriever is None else {"include_outputs_from": {last_retriever}}
    )

    def ask(question: str) -> Any:
        data = {
            component: dict.fromkeys(names, question)
            for component, names in open_inputs.items()
        }
        return target.run(data, **options)

    return ask


def _takes_question(name: str, socket: Mapping[str, Any]) -> bool:
    takes_text = socket.get("type") in (str, Any)
    return takes_text and (
        name in SYSTEM_NAMES["question"] or bool(socket.get("is_mandatory"))
    )


# --- importing
# ---------------------------------------------------------------------------------------------------


def load(spec: str) -> tuple[Any, bool]:
    """The object that ``package.module:attribute`` or ``path/to/file.py:attribute``
    names, and whether it was created: it is a method of a class. Raises
    EntrypointError.
    """
    is_created = False
    target, _, path = spec.rpartition(":")
    try:
        value = _load_file(target) if target.endswith(".py") else _load_module(target)
    except EOFError:
        raise EntrypointError(
            f"'{target}' asks for input when it is imported: put what asks under `if __name__ == \"__main__\":`."
        ) from None
    for name in path.split("."):
        if not hasattr(value, name):
            public = [
                attribute for attribute in dir(value) if not attribute.startswith("_")
            ]
            raise EntrypointError(
                f"'{target}' has no attribute '{name}'.{did_you_mean(name, public)}"
            )
        if inspect.isclass(value) and inspect.isfunction(
            inspect.getattr_static(value, name)
        ):
            refuse_parameters(value)
            value = value()  # a method needs an object
            is_created = True
        value = getattr(value, name)
    return value, is_created


def did_you_mean(name: str, names: Sequence[str]) -> str:
    """A question that names the one of `names` that is close to `name`; "" if none
    is."""
    close = difflib.get_close_matches(name, names, n=1)
    return f" Did you mean '{close[0]}'?" if close else ""


def refuse_parameters(target: Any) -> None:
    """Raise EntrypointError if the class `target` can't be created without
    arguments."""
    required = Parameters(target).required
    if required:
        raise EntrypointError(
            f"the class {target.__name__} can't be created without arguments ({', '.join(required)}). "
            "Point the entrypoint at a function without parameters that returns an instance."
        )


def _load_module(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        folder = os.path.join(*name.split(".")[:-1], "")  # noqa: PTH118
        if folder and os.path.isfile(f"{folder}{error.name}.py"):  # noqa: PTH113
            file = name.replace(".", os.sep) + ".py"
            raise EntrypointError(
                f"'{name}' imports '{error.name}', which is beside it: name the file, {file}."
            ) from None
        if error.name is None or not (
            name == error.name or name.startswith(error.name + ".")
        ):
            raise
        raise EntrypointError(
            f"no module named '{error.name}', neither in {os.getcwd()} nor installed for {sys.executable}."  # noqa: PTH109
        ) from None


def _load_file(path: str) -> Any:
    full = os.path.abspath(path)  # noqa: PTH100
    if not os.path.isfile(full):  # noqa: PTH113
        raise EntrypointError(f"file not found: {full}")
    folder, file = os.path.split(full)
    name = os.path.splitext(file)[0]  # noqa: PTH122
    loaded = sys.modules.get(name)
    if getattr(loaded, "__file__", None) == full:
        return loaded
    sys.path.insert(0, folder)
    specification = importlib.util.spec_from_file_location(name, full)
    if specification is None or specification.loader is None:
        raise EntrypointError(f"not a Python file: {full}")
    module = importlib.util.module_from_spec(specification)
    sys.modules[name] = module
    specification.loader.exec_module(module)
    return module


def refuse_modules_from(folder: str) -> None:
    """Raise EntrypointError if a module was imported from `folder`, unless it is
    installed in this environment."""
    forbidden = _real_folder(folder)
    allowed = (
        _real_folder(os.getcwd()),  # noqa: PTH109
        _real_folder(sys.prefix),
        _real_folder(sys.base_prefix),
    )
    for name, module in sorted(sys.modules.items()):
        file = os.path.realpath(getattr(module, "__file__", None) or os.sep)
        if file.startswith(forbidden) and not file.startswith(allowed):
            raise EntrypointError(
                f"it imports '{name}' from the current checkout ({file}), so the base commit would be asked with the "
                "current code. Evaluate the base commit in an environment of its own (`ragstone run`), and "
                "name that run with --baseline."
            )


def _real_folder(path: str) -> str:
    return os.path.join(os.path.realpath(path), "")  # noqa: PTH118
