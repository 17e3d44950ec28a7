"""What a worker of a Dask cluster does for the run that uses it (`dask_workers.py` is the other end).

Dask sends the names of these functions, and their arguments, which are bytes: a task, which a worker gets once, and
batches of jobs. Records go back as text. The scheduler imports this module too, so that it imports nothing else before
it is needed.
"""

from __future__ import annotations

import asyncio
import json
import platform
import threading
import traceback
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from ragstone.judge.protocol import Judge, JudgeIdentity
    from ragstone.run.worker_process import Task

PACKAGES = ("ragstone", "google-re2", "numpy", "pydantic-core", "PyStemmer", "sentencex")
"""Packages that records depend on: the same on every machine, or the records would not be."""

MODEL_PACKAGES = ("onnxruntime", "onnxruntime-gpu", "tokenizers")
"""Packages that records depend on with a local model, too."""

SAME_VERSIONS = "Records depend on these versions: install the same ones everywhere, for example in the same image."

PYTHON = "Python"
_MAX_KEPT = 2
_MAX_TRACEBACK = 20_000


@dataclass(frozen=True, slots=True)
class _Prepared:
    task: Task
    judge: Judge


_kept: dict[str, _Prepared] = {}
_one_at_a_time = threading.Lock()
"""Judging is bound by the processor, and judges are made for one thread."""


def versions(packages: tuple[str, ...]) -> dict[str, str | None]:
    """The versions of Python and of `packages` here; None: not installed."""
    return {PYTHON: ".".join(platform.python_version_tuple()[:2]), **{name: _version(name) for name in packages}}


def differences(theirs: Mapping[str, str | None], ours: Mapping[str, str | None]) -> str:
    """The versions in `theirs` that are not `ours`, in a phrase; empty if there are none."""
    if theirs.get("ragstone") is None and ours.get("ragstone") is not None:
        return "ragstone is missing"
    found = []
    for name, wanted in ours.items():
        if (has := theirs.get(name)) != wanted:
            found.append(f"{name} {has or 'is missing'} (here {wanted or 'none'})")
    return ", ".join(found)


def encode_task(task: Task, identity: JudgeIdentity, packages: tuple[str, ...]) -> bytes:
    """What a worker needs before its first batch. The versions can be read by any version of Ragstone."""
    from ragstone.run.worker_process import encode_request

    head = {"versions": versions(packages), "identity": asdict(identity)}
    return json.dumps(head).encode("ascii") + b"\n" + encode_request(task)


def keep(task: bytes) -> bytes:
    """The task itself. As the result of a function, it is sent from worker to worker, and is not lost with one."""
    return task


def judge(run: str, task: bytes, jobs: bytes) -> bytes:
    """The reply to `jobs`, whatever happens. `task` is built before the first ones of a `run`, and kept."""
    try:
        with _one_at_a_time:
            return _prepare(run, task) or _judge(_kept[run], jobs)
    except Exception as error:  # Dask could not send every one
        trouble = {"kind": None, "message": f"on {_here()}:\n{_traceback(error)}", "where": None, "hint": None}
        return _refusal(trouble)


def forget(run: str) -> None:
    _kept.pop(run, None)


def _judge(prepared: _Prepared, jobs: bytes) -> bytes:
    from ragstone.run.worker_process import Job, decode_request, judge_jobs

    found = cast("tuple[Job, ...]", decode_request(jobs))
    return asyncio.run(judge_jobs(prepared.task, prepared.judge, found))


def _prepare(run: str, task: bytes) -> bytes | None:
    """Build the judge unless it is there; the reply if that is not possible."""
    if run in _kept:
        return None
    head, _, body = task.partition(b"\n")
    given = json.loads(head)
    wanted = given["versions"]
    if differing := differences(versions(tuple(wanted.keys() - {PYTHON})), wanted):
        return _refusal(_error(f"it differs from this process: {differing}.", SAME_VERSIONS))
    from ragstone.errors import RagstoneError
    from ragstone.run.worker_process import Task, decode_request, encode_reply, trouble_of

    found = decode_request(body)
    assert isinstance(found, Task)  # noqa: S101 - for the type checker
    try:
        built = found.recipe.with_threads(_threads()).build()
    except RagstoneError as error:
        trouble = trouble_of(error)
        return encode_reply((), replace(trouble, where=", ".join(filter(None, (_here(), trouble.where)))))
    if json.loads(json.dumps(asdict(built.identity))) != given["identity"]:
        hint = "A local model must be in the same folder on every machine, with the same files."
        return _refusal(_error("it built a different judge than this process.", hint))
    while len(_kept) >= _MAX_KEPT:
        _kept.pop(next(iter(_kept)), None)
    _kept[run] = _Prepared(found, built)
    return None


def _error(message: str, hint: str) -> dict[str, str | None]:
    return {"kind": "JudgeError", "message": message, "where": _here(), "hint": hint}


def _refusal(trouble: dict[str, str | None]) -> bytes:
    """A reply of `worker_process.py`, which may be another version's here."""
    return json.dumps({"records": [], "trouble": trouble}).encode("ascii") + b"\n"


def _traceback(error: Exception) -> str:
    return "".join(traceback.format_exception(error))[-_MAX_TRACEBACK:]


def _here() -> str:
    from distributed import get_worker

    return f"Dask worker {get_worker().address}"


def _threads() -> int:
    from distributed import get_worker

    return int(get_worker().state.nthreads)


def _version(package: str) -> str | None:
    if package == "ragstone":
        from ragstone._version import __version__

        return __version__
    try:
        return version(package)
    except PackageNotFoundError:
        return None
