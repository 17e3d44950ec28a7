"""Functions of custom metrics: called in a worker like a python entrypoint, or in this
process (the Python API)."""

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
    """What a metric's function can ask for, by the names of
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
    """Functions behind `system`: a worker that was built from settings with
    `functions`, or this process."""

    def __init__(self, system: System) -> None:
        self._system = system

    async def start(self) -> None:
        """Raises SystemUnderTestError if a function can't be imported or called."""
        await self._system.start()

    async def call(
        self, metric: str, sample: Sample, response: Response
    ) -> float | None:
        """The grade of one answer in [0, 1], None if the metric does not apply to it.
        Raises FunctionFailed."""
        body = json.dumps({"metric": metric, "arguments": _arguments(sample, response)})
        reply = await self._system.ask(Sample(sample.id, body))
        if reply.failure is not None:
            raise FunctionFailed(f"{reply.failure.kind}: {reply.failure.message}")
        try:
            # Checked in the worker too, but that process is the user's.
            return _GRADE.validate_json(reply.answer, strict=True)
        except ValidationError:
            raise FunctionFailed("the function's worker was tampered with") from None

    async def close(self) -> None:
        await self._system.close()


_GRADE: TypeAdapter[float | None] = TypeAdapter(
    Annotated[float, Field(ge=0, le=1)] | None, config=ConfigDict(defer_build=True)
)


def functions_here(
    targets: Mapping[str, Callable[..., object]], timeout_s: float
) -> MetricFunctions:
    """Functions in this process, by metric. A hanging call keeps its thread."""
    settings = SystemSettings(concurrency=4, timeout_s=timeout_s)
    system = CallableSystem(
        lambda: Functions(dict(targets)).answer, settings, entrypoint="metrics"
    )
    return MetricFunctions(system)


def source_file(spec: str, directory: Path, *, where: str) -> Path:
    """The file of the function `spec`, relative to `directory` if it is below it.
    Imports nothing.

    It must be a file of the project, so that a change to it can be seen. Raises
    ConfigError.
    """
    check_function(spec, where=where)
    module = spec.rpartition(":")[0]
    path = Path(*module.split("."))
    files = (path.with_suffix(".py"), path / "__init__.py")
    places = [*files, *(Path("src", file) for file in files)]
    if module.endswith(".py"):
        places = [Path(module)]
    for place in places:
        if (directory / place).is_file():
            return place
    raise ConfigError(
        f"the function's file was not found: {', '.join(map(str, places))}.",
        where=where,
        hint=f"It must be a file below {directory}, so that a change to it is noticed.",
    )


def source_digest(text: bytes) -> str:
    """The version of a function: a digest of the file that it is in."""
    return hashlib.sha256(text.replace(b"\r\n", b"\n")).hexdigest()[:12]


def digest_of(
    spec: str, directory: Path, *, where: str, within: Path | None = None
) -> str:
    """The digest of the file of the function `spec`. Raises ConfigError."""
    path = directory / source_file(spec, directory, where=where)
    with disk_errors(where, f"{path} can't be read"):
        return source_digest(read_regular(path, within=within, limit=MAX_SOURCE_BYTES))


def digest_of_object(function: Callable[..., object]) -> str:
    """The version of a function of this process: a digest of its source, or of its name
    without one (in a REPL)."""
    try:
        text = inspect.getsource(function)
    except (OSError, TypeError):
        text = f"{getattr(function, '__module__', '')}:{getattr(function, '__qualname__', type(function).__qualname__)}"
    return source_digest(text.encode("utf-8", "replace"))
