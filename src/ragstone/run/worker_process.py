"""A process that judges and scores answers for the run that started it, on another core.

Started by `workers.py` with an environment of next to nothing. What it is to do comes through stdin: a task, and then
batches of jobs; records go back through stdout, as text that is written to the run as it is. It runs no code of the
user's, and ends when stdin does.
"""

from __future__ import annotations

import asyncio
import contextlib
import copyreg
import gc
import io
import json
import os
import pickle
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from operator import attrgetter
from typing import Any, BinaryIO

from ragstone.errors import RagstoneError
from ragstone.golden.sample import Sample
from ragstone.judge.collect import Measure
from ragstone.judge.factory import Recipe
from ragstone.judge.judgements import Grade, JudgementFailure
from ragstone.judge.protocol import Call, Judge, JudgementFailed, Ledger
from ragstone.metrics.metric import Metric
from ragstone.run.record import RecordLine
from ragstone.run.scoring import judge_sample, sample_state
from ragstone.run.serialise import record_to_line
from ragstone.system.response import Context, Response, TokenUsage

if sys.platform == "linux":
    import fcntl

LENGTH_BYTES = 8
_PIPE_BYTES = 1024 * 1024
Outcome = Grade | JudgementFailure


@dataclass(frozen=True, slots=True)
class Task:
    """What a worker does with every job. `garbage` are the thresholds of the garbage collector, None to leave them."""

    recipe: Recipe
    metrics: tuple[Metric, ...]
    repeats: int
    garbage: tuple[int, int, int] | None = None


@dataclass(frozen=True, slots=True)
class Job:
    """A sample and the responses to it, each text sent once.

    `grades` are those of custom metrics, by response, repeat and metric: none for a response that failed. `ledger` is
    what they have cost.
    """

    sample: Sample
    responses: tuple[Response, ...]
    grades: tuple[tuple[Mapping[str, Outcome], ...], ...]
    ledger: Ledger


@dataclass(frozen=True, slots=True)
class Trouble:
    """Why a worker could not go on. Without a `kind`, it is a bug, and `message` a traceback."""

    kind: str | None
    message: str
    where: str | None = None
    hint: str | None = None


@dataclass(frozen=True, slots=True)
class Reply:
    """The records of a batch, in order; with trouble, only those that were finished before."""

    records: tuple[RecordLine, ...]
    trouble: Trouble | None


def _by_fields(kind: type[Any]) -> Callable[[object], tuple[type[object], tuple[object, ...]]]:
    values = attrgetter(*(one.name for one in fields(kind)))
    return lambda one: (kind, values(one))


_BY_FIELDS: dict[type[Any], Callable[[Any], Any]] = dict(copyreg.dispatch_table)
_BY_FIELDS.update((kind, _by_fields(kind)) for kind in (Job, Response, Context, TokenUsage))
"""Pickles objects as calls with their fields, in less than half the time of a dataclass's own state."""


def encode_request(request: Task | Sequence[Job]) -> bytes:
    body = io.BytesIO()
    pickler = pickle.Pickler(body, pickle.HIGHEST_PROTOCOL)
    pickler.dispatch_table = _BY_FIELDS
    pickler.dump(request)
    return body.getvalue()


def decode_request(body: bytes) -> object:
    """What `encode_request` was given."""
    return pickle.loads(body)  # noqa: S301 - from the process that this one works for


def decode_reply(body: bytes, jobs: Sequence[Job]) -> Reply:
    """What came back for `jobs`. It is read as text and numbers: nothing in it is executed.

    Raises ValueError for a reply that lacks records and does not say why.
    """
    head, _, lines = body.partition(b"\n")
    found = json.loads(head)
    records, start = [], 0
    for job, (size, state, ledger) in zip(jobs, found["records"], strict=False):
        line = lines[start : start + size].decode("utf-8", "surrogatepass")
        start += size
        records.append(RecordLine(job.sample.id, job.responses, state, Ledger(**ledger), line))
    trouble = found["trouble"]
    if trouble is None and len(records) < len(jobs):
        raise ValueError(f"a reply has {len(records)} of {len(jobs)} records")
    return Reply(tuple(records), None if trouble is None else Trouble(**trouble))


def encode_reply(records: Sequence[RecordLine], trouble: Trouble | None) -> bytes:
    """What is sent back: a line of JSON, and the lines of the records."""
    lines = [record.line.encode("utf-8", "surrogatepass") for record in records]
    head = {
        "records": [
            (len(line), record.state, asdict(record.ledger)) for record, line in zip(records, lines, strict=True)
        ],
        "trouble": None if trouble is None else asdict(trouble),
    }
    return json.dumps(head).encode("ascii") + b"\n" + b"".join(lines)


def framed(body: bytes) -> bytes:
    return len(body).to_bytes(LENGTH_BYTES, "big") + body


def main() -> None:
    """Serve the process at the other end of stdin and stdout."""
    requests, replies = _own_pipes()
    task = _read(requests)
    if not isinstance(task, Task):
        return
    if task.garbage is not None:
        gc.set_threshold(*task.garbage)
    try:
        judge = task.recipe.build()
    except RagstoneError as error:
        replies(encode_reply((), trouble_of(error)))
        return
    replies(json.dumps(asdict(judge.identity)).encode("ascii"))
    gc.freeze()
    with asyncio.Runner() as runner:
        while isinstance(jobs := _read(requests), tuple):
            replies(runner.run(judge_jobs(task, judge, jobs)))


def _own_pipes() -> tuple[BinaryIO, Callable[[bytes], None]]:
    """stdin and stdout, for nobody else: what a library prints goes to stderr."""
    requests, out = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb", buffering=0)
    with open(os.devnull, "rb") as nothing:  # noqa: PTH123 - a descriptor is wanted
        os.dup2(nothing.fileno(), 0)
    os.dup2(2, 1)
    if sys.platform == "linux":
        # Room for the records of a batch: this process judges the next one while the other end finds time to read.
        with contextlib.suppress(OSError):
            fcntl.fcntl(out, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)

    def reply(body: bytes) -> None:
        left = memoryview(framed(body))
        while left:
            left = left[out.write(left) :]

    return requests, reply


def _read(requests: BinaryIO) -> object:
    head = requests.read(LENGTH_BYTES)
    body = requests.read(int.from_bytes(head, "big"))
    return decode_request(body) if body else None


async def judge_jobs(task: Task, judge: Judge, jobs: Sequence[Job]) -> bytes:
    """The reply to `jobs`. What goes wrong is part of it."""
    records: list[RecordLine] = []
    try:
        for job in jobs:
            responses = tuple(map(replace, job.responses))  # one that comes twice is two objects, to tell them apart
            record = await judge_sample(
                judge,
                task.metrics,
                job.sample,
                responses,
                repeats=task.repeats,
                custom=_given(job, responses),
                ledger=job.ledger,
            )
            state = sample_state(record.scores, record.responses)
            records.append(RecordLine(job.sample.id, (), state, record.ledger, record_to_line(record)))
    except Exception as error:
        return encode_reply(records, trouble_of(error))
    return encode_reply(records, None)


def _given(job: Job, responses: Sequence[Response]) -> dict[str, Measure]:
    """Measures that return the grades in `job` of the `responses` themselves."""
    places = {id(response): place for place, response in enumerate(responses)}

    def measure(name: str) -> Measure:
        async def given(_judge: Judge, _sample: Sample, response: Response, call: Call) -> Grade:
            outcome = job.grades[places[id(response)]][call.repeat][name]
            if isinstance(outcome, JudgementFailure):
                raise JudgementFailed(outcome.reason, not_applicable=outcome.not_applicable)
            return outcome

        return given

    return {name: measure(name) for rounds in job.grades for grades in rounds for name in grades}


def trouble_of(error: Exception) -> Trouble:
    if isinstance(error, RagstoneError):
        return Trouble(type(error).__name__, error.message, error.where, error.hint)
    return Trouble(None, "".join(traceback.format_exception(error)))
