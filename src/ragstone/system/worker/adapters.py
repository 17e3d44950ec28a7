"""What can be asked, and how: functions, classes, factories, and the objects of the
usual frameworks.

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
from ragstone.system.worker.fields import Json, get
from ragstone.system.worker.wording import shown

METHODS = ("answer", "ask", "query", "invoke", "chat")

CONTEXTS = "contexts"
"""The parameter or field that takes the contexts that a system is given."""

SESSION = "session"
"""What an entrypoint accepts that keeps the turns of a conversation apart."""


_BESIDE_QUESTION = {
    "history": SYSTEM_NAMES["history"],
    SESSION: SYSTEM_NAMES["session"],
    CONTEXTS: (CONTEXTS,),
}
"""The names of what goes with a question, the best first."""


class EntrypointError(Exception):
    """The entrypoint can't be found or called; the message is for the user, without a
    traceback."""


class Parameters:
    """The parameters of `target`; of one whose signature can't be read, a single one,
    for the question."""

    def __init__(self, target: Any) -> None:
        self.name = str(getattr(target, "__name__", type(target).__name__))
        try:
            self.all = list(inspect.signature(target).parameters.values())
        except (TypeError, ValueError):
            only = inspect.Parameter.POSITIONAL_ONLY
            self.all = [inspect.Parameter("question", only, default=None)]

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
    def extra_names(self) -> list[str]:
        """The names of those that can be passed by name, beside the question, which is
        the first."""
        by_name = (
            inspect.Parameter.POSITIONAL_OR_KEYWORD,
            inspect.Parameter.KEYWORD_ONLY,
        )
        return [p.name for p in self.all[1:] if p.kind in by_name]


def extra_parameters(available: Collection[str]) -> dict[str, str]:
    """The names, of those `available`, that take the ``history``, the ``session`` and
    the ``contexts``."""
    names = {}
    for part, usual_names in _BESIDE_QUESTION.items():
        for name in reversed(usual_names):
            if name in available:
                names[part] = name
    return names


class Asker:
    """Calls a function or a method, and gives the returned value. Made by `adapt`.

    The question is its argument, and what goes with it is passed by name.
    """

    def __init__(self, ask: Callable[..., Any]) -> None:
        parameters = Parameters(ask)
        self._ask = ask
        self._names = extra_parameters(parameters.extra_names)
        self._required = parameters.required
        self.accepts = set(self._names)
        """What it takes besides the question: ``history``, ``session`` and
        ``contexts``, or less."""

    def begin(self, question: str, **beside: Any) -> Any:
        """Call it; the result may be awaitable.

        `beside` has what there is of ``history``: the earlier turns, as ``{"role",
        "content"}``, which are left out if it takes none; ``contexts``: the texts that
        it is given in place of its own retrieval; and ``session``: the id of the
        conversation. A question that stands alone has none, and gets a new one if it is
        required.
        """
        return self._ask(question, **self._values(question, beside))

    def _values(self, question: str, beside: Json) -> Json:
        """What goes with the question, by the names that take it."""
        values: Json = {
            "history": list(beside.get("history", ())),
            SESSION: _session_of(beside),
            CONTEXTS: beside.get(CONTEXTS),
        }
        if self._names.get("history") == "messages":
            values["history"] = _messages(question, beside)
        taken: Json = {}
        for part, name in self._names.items():
            if part in beside or name in self._required:
                taken[name] = values[part]
        return taken


class RunnableAsker(Asker):
    """Invokes a Runnable of LangChain, a graph of LangGraph, or what looks like one.

    The question is the argument, or a field of it, beside what goes with it. A graph
    with a checkpointer keeps what was said in threads.
    """

    def __init__(self, target: object) -> None:
        super().__init__(get(target, "invoke"))
        self._ask_async = get(target, "ainvoke")
        self._key, inputs = _runnable_input(target)
        if self._key is not None:
            self._names = extra_parameters(inputs)
            self._required = []
        self._remembers = bool(get(target, "checkpointer"))
        remembered = (SESSION,) if self._remembers else ()
        self.accepts = {*self._names, *remembered}

    def begin(self, question: str, **beside: Any) -> Any:
        """Invoke it. Falls back to the async method if the sync one is not
        implemented."""
        keywords: Json = {}
        if self._remembers:
            thread = {"thread_id": _session_of(beside)}
            keywords["config"] = {"configurable": thread}
            if SESSION in beside:
                beside.pop("history", None)
        values = self._values(question, beside)
        argument: Any = question
        if self._key is None:
            keywords.update(values)
        else:
            argument = {**values, self._key: question}
        if self._key == "messages":
            argument["messages"] = _messages(question, beside)
        try:
            return self._ask(argument, **keywords)
        except (TypeError, NotImplementedError) as error:
            # Of a graph with a node that is async, for one.
            is_own = isinstance(error, TypeError) and "synchronous" not in str(error)
            if is_own or not callable(self._ask_async):
                raise
        self._ask, self._ask_async = self._ask_async, None
        return self._ask(argument, **keywords)


def _session_of(beside: Json) -> str:
    """The id of the conversation; that of one that nobody continues is new."""
    return beside.get(SESSION) or os.urandom(16).hex()


def _messages(question: str, beside: Json) -> list[Json]:
    """The earlier turns, and the question as the last one."""
    return [*beside.get("history", ()), {"role": "user", "content": question}]


# --- shapes
# ------------------------------------------------------------------------------------------------------


def is_class_or_factory(target: object) -> bool:
    """Whether `target` is a class or a factory: then each conversation gets an object
    of its own."""
    parameters = Parameters(target)
    is_routine = inspect.isroutine(target)
    is_factory = is_routine and not parameters.positional and not parameters.required
    return is_factory or inspect.isclass(target)


def create(target: Any) -> Any:
    """What a class or a factory returns, which may be awaitable. Raises
    EntrypointError, and whatever it raises."""
    refuse_parameters(target)
    return target()


def adapt(target: object, part: str | None = None) -> Asker:
    """An Asker for a function, or an object with answer/query/invoke/__call__.

    `part` is the half that is evaluated; None for the whole system. Raises
    EntrypointError.
    """
    methods = ("retrieve", *METHODS) if part == "retrieval" else METHODS
    for name in methods:
        method = get(target, name)
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
    """Raise EntrypointError unless `target` can be called with a question, and what
    goes with it."""
    parameters = Parameters(target)
    beside = parameters.extra_names
    needs_contexts = CONTEXTS in beside and CONTEXTS in parameters.required
    if needs_contexts and part != "generation":
        raise EntrypointError(
            f"{parameters.name} needs '{CONTEXTS}'. If it only generates, set part = \"generation\" under [system]; "
            "else give the parameter a default, such as None."
        )
    passed = extra_parameters(beside).values()
    required = [name for name in parameters.required if name not in passed]
    if len(required) > 1 or parameters.positional == 0:
        raise EntrypointError(
            f"{parameters.name}({', '.join(required)}) can't be called with one question. "
            f"Expected {parameters.name}(question)."
        )


def _runnable_input(target: object) -> tuple[str | None, list[str]]:
    """The field in which a LangChain Runnable expects the question, None if it takes
    the bare string, and all fields of its input that it names."""
    inputs: list[str] = []
    describe = get(target, "get_input_jsonschema")
    if callable(describe):
        try:
            fields = get(describe(), "properties")
        except Exception:
            # Of a state that pydantic can't describe: a graph's own class has its fields.
            state = get(get(target, "builder"), "state_schema")
            fields = getattr(state, "__annotations__", None)
        if isinstance(fields, dict):
            inputs = list(fields)
    if inputs == ["root"]:  # LangChain's name of an untyped input
        return None, inputs
    for name in (*SYSTEM_NAMES["question"], "messages"):
        if name in inputs:
            return name, inputs
    only = inputs[0] if len(inputs) == 1 else None
    return only, inputs


# --- importing
# ---------------------------------------------------------------------------------------------------


def load(spec: str) -> tuple[Any, bool]:
    """The object that ``package.module:attribute`` or ``path/to/file.py:attribute``
    names, and whether it was created: it is a method of a class. Raises
    EntrypointError.
    """
    is_created = False
    target, _, path = spec.rpartition(":")
    is_file = target.endswith(".py")
    value = _load_file(target) if is_file else _load_module(target)
    for name in path.split("."):
        if not hasattr(value, name):
            raise _no_attribute(target, value, name)
        if inspect.isclass(value):
            attribute = inspect.getattr_static(value, name)
            if inspect.isfunction(attribute):
                refuse_parameters(value)
                value = value()  # a method needs an object
                is_created = True
        value = getattr(value, name)
    return value, is_created


def _no_attribute(target: str, value: object, name: str) -> EntrypointError:
    message = f"'{target}' has no attribute '{name}'."
    public = [attribute for attribute in dir(value) if not attribute.startswith("_")]
    for close in difflib.get_close_matches(name, public, n=1):
        message += f" Did you mean '{close}'?"
    return EntrypointError(message)


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
        if not f"{name}.".startswith(f"{error.name}."):
            raise  # it is imported by the module that was named
        raise EntrypointError(
            f"no module named '{error.name}', neither in {os.getcwd()} nor installed for {sys.executable}."  # noqa: PTH109
        ) from None


def _load_file(path: str) -> Any:
    full = os.path.abspath(path)  # noqa: PTH100
    if not os.path.isfile(full):  # noqa: PTH113
        raise EntrypointError(f"file not found: {full}")
    folder, file = os.path.split(full)
    name = os.path.splitext(file)[0]  # noqa: PTH122
    if sys.path[0] != folder:
        sys.path.insert(0, folder)
    module = importlib.import_module(name)
    if module.__file__ != full:
        raise EntrypointError(
            f"{full} can't be imported: another module is called '{name}'. Rename it."
        )
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
                "current code. Let PYTHONPATH name folders relative to that of the config, or evaluate the base commit "
                "in an environment of its own (`ragstone run`), and name that run with --baseline."
            )


def _real_folder(path: str) -> str:
    return os.path.join(os.path.realpath(path), "")  # noqa: PTH118
