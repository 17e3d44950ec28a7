"""Functions of custom metrics: called in a worker, as a python entrypoint is, or in
Ragstone's process if the Python API was given them as objects."""

from __future__ import annotations

import hashlib
import inspect
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from ragstone.errors import ConfigError, disk_errors
from ragstone.files import read_regular
from ragstone.golden.sample import Sample
from ragstone.settings.settings import SystemSettings
from ragstone.system.in_process import CallableSystem
from ragstone.system.python_worker import check_function
from ragstone.system.response import Response, System
from ragstone.system.worker.metric_functions import Functions

MAX_SOURCE_BYTES = 4 * 1024 * 1024


class FunctionFailed(Exception):  # noqa: N818 - an outcome of one call
    """A metric's function gave no grade; the message says why in one line."""


def _arguments(sample: Sample, response: Response) -> dict[str, Any]:
    """The arguments that a metric's function can take, by the names in
    `metric_functions.ARGUMENTS`."""
    return {
        "question": sample.question,
        "answer": response.answer,
        "contexts": [context.text for context in response.contexts],
        "context_ids": [context.id for context in response.contexts],
        "reference": sample.reference,
        "tags": list(sample.tags),
        "id": sample.id,
    }


class MetricFunctions:
    """Functions of custom metrics that are called through `system`: a worker that was
    built from settings with `functions`, or a system of `local_functions`."""

    def __init__(self, system: System) -> None:
        self._system = system

    async def start(self) -> None:
        """Raises SystemUnderTestError if a function can't be imported or called."""
        await self._system.start()

    async def call(
        self, metric: str, sample: Sample, response: Response
    ) -> float | None:
        """Call the function of `metric`. Returns the grade of the answer in [0, 1];
        None if the metric does not apply to it. Raises FunctionFailed."""
        # The system is asked by a question, as any other; `Functions.answer` reads it.
        request = {"metric": metric, "arguments": _arguments(sample, response)}
        reply = await self._system.ask(Sample(sample.id, json.dumps(request)))
        if reply.failure is not None:
            raise FunctionFailed(f"{reply.failure.kind}: {reply.failure.message}")
        try:
            # The worker has checked the grade, but code of the user's runs in it too,
            # and could have sent this reply.
            return _GRADE.validate_json(reply.answer, strict=True)
        except ValidationError:
            raise FunctionFailed(
                "the function's worker replied with something that is not a grade"
            ) from None

    async def close(self) -> None:
        await self._system.close()


_GRADE: TypeAdapter[float | None] = TypeAdapter(
    Annotated[float, Field(ge=0, le=1)] | None, config=ConfigDict(defer_build=True)
)


def local_functions(
    targets: Mapping[str, Callable[..., object]], timeout_s: float
) -> MetricFunctions:
    """Functions in Ragstone's process, by metric. The thread of a hanging call runs
    on."""
    settings = SystemSettings(concurrency=4, timeout_s=timeout_s)
    system = CallableSystem(
        lambda: Functions(dict(targets)).answer, settings, entrypoint="metrics"
    )
    return MetricFunctions(system)


def source_file(spec: str, directory: Path, *, where: str) -> Path:
    """The path from `directory` to the file that defines the function `spec`. Imports
    nothing.

    Raises ConfigError if no such file is there: a function that is only installed can't
    be used, because a change to it would not be noticed.
    """
    check_function(spec, where=where)
    module = spec.rpartition(":")[0]
    path = Path(*module.split("."))
    files = (path.with_suffix(".py"), path / "__init__.py")
    candidates = [*files, *(Path("src", file) for file in files)]
    if module.endswith(".py"):
        candidates = [Path(module)]
    for candidate in candidates:
        if (directory / candidate).is_file():
            return candidate
    raise ConfigError(
        f"the function's file was not found in {directory}. Looked for {', '.join(map(str, candidates))}.",
        where=where,
        hint="Name a function in a file of the project, so that a change to it is noticed.",
    )


def source_digest(source: bytes) -> str:
    """A digest of the `source` of a function, which is the function's version."""
    return hashlib.sha256(source.replace(b"\r\n", b"\n")).hexdigest()[:12]


def function_file_digest(
    spec: str, directory: Path, *, where: str, within: Path | None = None
) -> str:
    """The version of the function `spec`: a digest of the file that defines it, which
    must be inside `within`, if given. Raises ConfigError."""
    path = directory / source_file(spec, directory, where=where)
    with disk_errors(where, f"{path} can't be read"):
        return source_digest(read_regular(path, within=within, limit=MAX_SOURCE_BYTES))


def function_object_digest(function: Callable[..., object]) -> str:
    """The version of a function of this process: a digest of its source, or of its name
    if it has no source file (in a REPL)."""
    try:
        source = inspect.getsource(function)
    except (OSError, TypeError):
        module = getattr(function, "__module__", "")
        name = getattr(function, "__qualname__", type(function).__qualname__)
        source = f"{module}:{name}"
    return source_digest(source.encode("utf-8", "replace"))
