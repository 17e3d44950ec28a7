"""How functions, classes, factories and the objects of frameworks are asked a question.

Besides the question, they can take *extras*: the ``history`` and the ``session`` of a
conversation, and the ``contexts`` that replace their own retrieval.

Part of the worker (see `join.py`): standard library only, Python 3.8 or newer.
"""

from __future__ import annotations

import difflib
import importlib
import inspect
import os
import sys
from collections.abc import Callable, Collection
from typing import Any

from ragstone.golden.aliases import SYSTEM_NAMES
from ragstone.system.worker.fields import Json, field_value
from ragstone.system.worker.wording import shown

METHODS = ("answer", "ask", "query", "invoke", "chat")

HISTORY = "history"
"""The extra with the earlier turns of a conversation."""

SESSION = "session"
"""The extra with the id of a conversation, by which systems keep conversations
apart."""

CONTEXTS = "contexts"
"""The extra with the contexts that a system answers from in place of its own."""

# The names of parameters and fields that take each extra, the preferred one first.
_EXTRA_NAMES = {
    HISTORY: SYSTEM_NAMES["history"],
    SESSION: SYSTEM_NAMES["session"],
    CONTEXTS: (CONTEXTS,),
}


class EntrypointError(Exception):
    """The entrypoint can't be found or called. The message is for the user, and needs
    no traceback."""


class Parameters:
    """The parameters of `target`. A target whose signature can't be read counts as one
    with a single parameter, for the question."""

    def __init__(self, target: Any) -> None:
        self.target_name = str(getattr(target, "__name__", type(target).__name__))
        try:
            self.all = list(inspect.signature(target).parameters.values())
        except (TypeError, ValueError):
            kind = inspect.Parameter.POSITIONAL_ONLY
            self.all = [inspect.Parameter("question", kind, default=None)]

    @property
    def positional_count(self) -> int:
        """The number of parameters that can be passed by position; ``*args`` counts as
        one."""
        by_name = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.VAR_KEYWORD)
        return sum(parameter.kind not in by_name for parameter in self.all)

    @property
    def required(self) -> list[str]:
        """The names of the parameters without a default."""
        variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
        return [
            p.name for p in self.all if p.default is p.empty and p.kind not in variadic
        ]

    @property
    def keyword_names(self) -> list[str]:
        """The names of the parameters that can be passed by name."""
        by_name = (
            inspect.Parameter.POSITIONAL_OR_KEYWORD,
            inspect.Parameter.KEYWORD_ONLY,
        )
        return [p.name for p in self.all if p.kind in by_name]

    @property
    def names_after_question(self) -> list[str]:
        """The names of the parameters after the first one, which is for the question,
        that can be passed by name."""
        return [name for name in self.keyword_names if name != self.all[0].name]


def extra_names(available: Collection[str]) -> dict[str, str]:
    """The name that takes each extra, by extra. Extras that none of the `available`
    names of parameters or fields takes are left out."""
    names = {}
    for extra, usual_names in _EXTRA_NAMES.items():
        for name in reversed(usual_names):
            if name in available:
                names[extra] = name
    return names


class Asker:
    """Asks a function or a method: the question is the first argument, and extras are
    passed by name. Made by `adapt`."""

    def __init__(self, ask: Callable[..., Any]) -> None:
        parameters = Parameters(ask)
        self._ask = ask
        self._names = extra_names(parameters.names_after_question)
        self._required = parameters.required
        # The extras that it takes.
        self.accepts = set(self._names)

    def begin(self, question: str, **extras: Any) -> Any:
        """Ask the question. Returns the value that the function returned, which may be
        awaitable.

        `extras` can have the ``history``, a list of ``{"role", "content"}``; the id of
        the ``session``; and the ``contexts``, a list of texts. Extras that the function
        doesn't take are left out. If it requires a session and there is none, it gets a
        new id.
        """
        return self._ask(question, **self._arguments(question, extras))

    def _arguments(self, question: str, extras: Json) -> Json:
        """The arguments for `extras`, by the names that take them."""
        values: Json = {
            HISTORY: list(extras.get(HISTORY, ())),
            SESSION: _session_id(extras),
            CONTEXTS: extras.get(CONTEXTS),
        }
        if self._names.get(HISTORY) == "messages":
            # By this name, the question is expected as the last message.
            values[HISTORY] = _messages(question, extras)
        arguments: Json = {}
        for extra, name in self._names.items():
            if extra in extras or name in self._required:
                arguments[name] = values[extra]
        return arguments


class RunnableAsker(Asker):
    """Invokes a Runnable of LangChain, a graph of LangGraph, or an object with the same
    methods.

    The input is the question, or an object with the question and the extras. A graph
    with a checkpointer remembers earlier turns by itself, in a thread for each session.
    """

    def __init__(self, target: object) -> None:
        super().__init__(field_value(target, "invoke"))
        self._ask_async = field_value(target, "ainvoke")
        self._question_field, input_fields = _runnable_input(target)
        if self._question_field is not None:
            self._names = extra_names(input_fields)
            self._required = []
        self._has_threads = bool(field_value(target, "checkpointer"))
        self.accepts = set(self._names)
        if self._has_threads:
            self.accepts.add(SESSION)

    def begin(self, question: str, **extras: Any) -> Any:
        """Invoke the Runnable, by its async method if the sync one is not
        implemented."""
        keywords: Json = {}
        if self._has_threads:
            thread = {"thread_id": _session_id(extras)}
            keywords["config"] = {"configurable": thread}
            if SESSION in extras:
                extras.pop(HISTORY, None)  # the thread has it
        arguments = self._arguments(question, extras)
        graph_input: Any = question
        if self._question_field is None:
            keywords.update(arguments)
        else:
            graph_input = {**arguments, self._question_field: question}
        if self._question_field == "messages":
            graph_input["messages"] = _messages(question, extras)
        try:
            return self._ask(graph_input, **keywords)
        except (TypeError, NotImplementedError) as error:
            # A graph with an async node raises a TypeError that says "synchronous". Any
            # other TypeError comes from the user's code.
            is_from_user = isinstance(error, TypeError) and "synchronous" not in str(
                error
            )
            if is_from_user or not callable(self._ask_async):
                raise
        # From now on, for all questions.
        self._ask = self._ask_async
        self._ask_async = None
        return self._ask(graph_input, **keywords)


def _session_id(extras: Json) -> str:
    """The id of the session in `extras`, or else a new one."""
    return extras.get(SESSION) or os.urandom(16).hex()


def _messages(question: str, extras: Json) -> list[Json]:
    """The earlier turns, and the question as the last one."""
    return [*extras.get(HISTORY, ()), {"role": "user", "content": question}]


# --- shapes
# ------------------------------------------------------------------------------------------------------


def is_class_or_factory(target: object) -> bool:
    """Whether `target` has to be called to get the object that answers, which then can
    be done for each conversation. A factory is a function without parameters."""
    parameters = Parameters(target)
    parameter_count = parameters.positional_count + len(parameters.required)
    is_factory = inspect.isroutine(target) and parameter_count == 0
    return is_factory or inspect.isclass(target)


def create(target: Any) -> Any:
    """Call a class or a factory. Returns the object, or an awaitable of it. Raises
    EntrypointError, and whatever the call raises."""
    refuse_parameters(target)
    return target()


def adapt(target: object, part: str | None = None) -> Asker:
    """Make an Asker of a function, or of an object with a method for questions.

    `part` is the part of the system that is evaluated, "retrieval" or "generation";
    None for the whole system. Raises EntrypointError.
    """
    methods = ("retrieve", *METHODS) if part == "retrieval" else METHODS
    for name in methods:
        method = field_value(target, name)
        if callable(method) and not inspect.isclass(method):
            return RunnableAsker(target) if name == "invoke" else Asker(method)
    if callable(target):
        _check_one_question(target, part)
        return Asker(target)
    raise EntrypointError(
        f"{shown(target)} can't be asked. Expected a function answer(question), or an object with "
        "answer(question), ask(question), query(question), invoke(question), chat(question) or __call__(question)."
    )


def _check_one_question(target: Any, part: str | None) -> None:
    """Raise EntrypointError unless `target` can be called with a question and the
    extras."""
    parameters = Parameters(target)
    name = parameters.target_name
    available = parameters.names_after_question
    needs_contexts = CONTEXTS in available and CONTEXTS in parameters.required
    if needs_contexts and part != "generation":
        raise EntrypointError(
            f"{name} needs '{CONTEXTS}'. If it only generates, set part = \"generation\" under [system]; "
            "else give the parameter a default, such as None."
        )
    extras = extra_names(available).values()
    required = [
        parameter for parameter in parameters.required if parameter not in extras
    ]
    if len(required) > 1 or parameters.positional_count == 0:
        raise EntrypointError(
            f"{name}({', '.join(required)}) can't be called with one question. Expected {name}(question)."
        )


def _runnable_input(target: object) -> tuple[str | None, list[str]]:
    """The input that a LangChain Runnable expects: the field for the question, None if
    it takes the bare string; and all fields that it names."""
    names: list[str] = []
    describe = field_value(target, "get_input_jsonschema")
    if callable(describe):
        try:
            fields = field_value(describe(), "properties")
        except Exception:
            # Pydantic can't describe the state of this graph: read its class instead.
            state = field_value(field_value(target, "builder"), "state_schema")
            fields = getattr(state, "__annotations__", None)
        if isinstance(fields, dict):
            names = list(fields)
    if names == ["root"]:  # LangChain's name of an untyped input
        return None, names
    for name in (*SYSTEM_NAMES["question"], "messages"):
        if name in names:
            return name, names
    only_name = names[0] if len(names) == 1 else None
    return only_name, names


# --- importing
# ---------------------------------------------------------------------------------------------------


def load(spec: str) -> tuple[Any, bool]:
    """Import the object that ``package.module:attribute`` or
    ``path/to/file.py:attribute`` names. Raises EntrypointError.

    Also returns whether the object is a method of an object that was created for it,
    because the spec names a class and its method.
    """
    has_new_object = False
    target, _, path = spec.rpartition(":")
    is_file = target.endswith(".py")
    value = _load_file(target) if is_file else _load_module(target)
    for name in path.split("."):
        if not hasattr(value, name):
            raise _missing_attribute(target, value, name)
        if inspect.isclass(value):
            attribute = inspect.getattr_static(value, name)
            if inspect.isfunction(attribute):
                refuse_parameters(value)
                value = value()  # a method needs an object
                has_new_object = True
        value = getattr(value, name)
    return value, has_new_object


def _missing_attribute(target: str, value: object, name: str) -> EntrypointError:
    message = f"'{target}' has no attribute '{name}'."
    public = [attribute for attribute in dir(value) if not attribute.startswith("_")]
    for similar in difflib.get_close_matches(name, public, n=1):
        message += f" Did you mean '{similar}'?"
    return EntrypointError(message)


def refuse_parameters(target: Any) -> None:
    """Raise EntrypointError if the class `target` can't be called without
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
        is_named_module = f"{name}.".startswith(f"{error.name}.")
        if not is_named_module:
            raise  # a module that the named one imports
        raise EntrypointError(
            f"no module named '{error.name}', neither in {os.getcwd()} nor installed for {sys.executable}."  # noqa: PTH109
        ) from None


def _load_file(path: str) -> Any:
    """Import a file as Python runs a script: its folder comes first on sys.path."""
    absolute_path = os.path.abspath(path)  # noqa: PTH100
    if not os.path.isfile(absolute_path):  # noqa: PTH113
        raise EntrypointError(f"file not found: {absolute_path}")
    folder, file = os.path.split(absolute_path)
    name = os.path.splitext(file)[0]  # noqa: PTH122
    if sys.path[0] != folder:
        sys.path.insert(0, folder)
    module = importlib.import_module(name)
    if module.__file__ != absolute_path:
        raise EntrypointError(
            f"{absolute_path} can't be imported: another module is called '{name}'. Rename the file."
        )
    return module


def refuse_modules_from(folder: str) -> None:
    """Raise EntrypointError if a module was imported from `folder`, unless it is
    installed in this environment."""
    forbidden = _folder_prefix(folder)
    allowed = (
        _folder_prefix(os.getcwd()),  # noqa: PTH109
        _folder_prefix(sys.prefix),
        _folder_prefix(sys.base_prefix),
    )
    for name, module in sorted(sys.modules.items()):
        file = os.path.realpath(getattr(module, "__file__", None) or os.sep)
        if file.startswith(forbidden) and not file.startswith(allowed):
            raise EntrypointError(
                f"it imports '{name}' from the current checkout ({file}), so the base commit would be asked with the "
                "current code. Let PYTHONPATH name folders relative to that of the config, or evaluate the base commit "
                "in an environment of its own (`ragstone run`), and name that run with --baseline."
            )


def _folder_prefix(folder: str) -> str:
    """The beginning of the paths of all files in `folder`, without symbolic links."""
    return os.path.join(os.path.realpath(folder), "")  # noqa: PTH118
