"""The Python API, for notebooks and other tools. The command line is a thin layer over the same use cases."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import ValidationError

from ragstone.config import Settings
from ragstone.errors import ConfigError
from ragstone.gate.policy import Policy, default_policy, load_policy, policy_from_mapping
from ragstone.gate.verdict import GateVerdict
from ragstone.golden.load import load_golden_set as _load
from ragstone.golden.sample import GoldenSet
from ragstone.judge.factory import build_judge
from ragstone.judge.protocol import Judge
from ragstone.run.directory import RunDirectory
from ragstone.run.score_files import scores_from_mapping
from ragstone.run.scores import RunScores
from ragstone.system.build import build_system
from ragstone.system.in_process import CallableSystem
from ragstone.system.response import System
from ragstone.usecases.compare import read_side
from ragstone.usecases.decide import ComparedRun, Terms, decide
from ragstone.usecases.run import RunContext, evaluate_golden_set

if TYPE_CHECKING:
    import pandas

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Run:
    """A finished evaluation. `path` is its run directory, `scores` is the gate's input."""

    directory: RunDirectory

    @property
    def path(self) -> Path:
        return self.directory.path

    @property
    def scores(self) -> RunScores:
        return self.directory.scores()

    def to_pandas(self) -> pandas.DataFrame:
        """One row per sample: id, question, answer, and one column per metric (missing if there is no score).

        If the system was asked several times, `answer` is the first answer and `answers` is the list of all of them.
        Raises ConfigError if pandas is not installed.
        """
        try:
            import pandas
        except ImportError:
            raise ConfigError("to_pandas() needs pandas.", hint="Install it: pip install 'ragstone[pandas]'") from None
        rows = [
            {
                "id": record.sample.id,
                "question": record.sample.question,
                "answer": record.response.answer,
                **({"answers": [one.answer for one in record.responses]} if len(record.answers) > 1 else {}),
                **{name: scores.values.get(record.sample.id) for name, scores in self.scores.metrics.items()},
            }
            for record in self.directory.records()
        ]
        return pandas.DataFrame(rows)


def load_golden_set(path: str | Path | Sequence[str | Path], columns: Mapping[str, str] | None = None) -> GoldenSet:
    """Read a golden set from a file, a glob, or several.

    `columns` maps a field (``question``, ``reference`` …) to its column; dotted paths are allowed.
    Raises GoldenSetError with file and line.
    """
    paths = [path] if isinstance(path, (str, Path)) else list(path)
    return _load(paths, columns=columns)


def evaluate(
    golden_set: GoldenSet,
    system: str | Callable[..., object],
    judge: str | Judge = "offline",
    metrics: str | Iterable[str] | None = None,
    *,
    out: str | Path | None = None,
    concurrency: int = 4,
    repeats: int = 1,
    answers: int = 1,
) -> Run:
    """Ask `system` every question in `golden_set`, and judge and score the answers.

    `system` is an entrypoint string, or a callable that takes a question. `judge` is a name as in ragstone.toml, or a
    Judge. The system is asked each question `answers` times, and each answer is judged `repeats` times. The run
    directory is written to `out` (a new temporary folder by default). Also works inside a running event loop, as in a
    notebook. Raises the errors of `ragstone run`.
    """
    where = Path(out) if out is not None else Path(tempfile.mkdtemp(prefix="ragstone-")) / "ragstone-run"
    given: object = golden_set
    if not isinstance(given, GoldenSet):
        hint = "Read one with ragstone.load_golden_set(path)."
        raise ConfigError(f"evaluate() takes a golden set, found {type(given).__name__}.", hint=hint)
    names = metrics if metrics is None or isinstance(metrics, str) else tuple(metrics)
    settings = _settings(
        {
            "system": {"entrypoint": system if isinstance(system, str) else None, "concurrency": concurrency},
            "judge": {"name": judge} if isinstance(judge, str) else {},
            "run": {"out": str(where), "metrics": names, "repeats": repeats, "answers": answers},
        }
    )
    tested: System = (
        build_system(settings.system, root=Path(), environ=os.environ)
        if isinstance(system, str)
        else CallableSystem(system, concurrency=concurrency)
    )
    run = Run(_wait_for(_evaluate(golden_set, tested, judge, settings)))
    run.directory.scores()  # now, while the directory is there
    return run


def compare(
    current: Run | RunScores | Mapping[str, Mapping[str, float | None]] | str | Path,
    baseline: Run | RunScores | Mapping[str, Mapping[str, float | None]] | str | Path | None = None,
    policy: Policy | Mapping[str, Any] | str | Path | None = None,
) -> GateVerdict:
    """Decide: compare `current` with the floors of `policy` and with `baseline`.

    A run is a Run, a run directory or score file, or ``{metric: {sample_id: value}}`` with values in [0, 1]; the policy
    is a file or a mapping of the same structure. The verdict's `status` is ``pass``, ``fail``, ``inconclusive`` or
    ``error``; its `checks` say why.
    """
    now = _side(current, "current")
    then = None if baseline is None else _side(baseline, "baseline")
    return decide(now, Terms.of(_policy_of(policy), then, now.day, required=then is not None))


def _settings(tables: Mapping[str, Mapping[str, object]]) -> Settings:
    try:
        return Settings.model_validate(tables)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise ConfigError(
            f"{first['msg']}, found {first['input']!r}.", where=f"evaluate({first['loc'][-1]}=…)"
        ) from None


async def _evaluate(golden: GoldenSet, system: System, judge: str | Judge, settings: Settings) -> RunDirectory:
    context = RunContext(environ=os.environ)
    if not isinstance(judge, str):
        return await evaluate_golden_set(golden, system, judge, settings, context)
    built = build_judge(
        settings.judge, golden_set=golden, cache=None, environ=os.environ, tell_secret=context.redact.add
    )
    try:
        return await evaluate_golden_set(golden, system, built, settings, context)
    finally:
        await built.close()


def _wait_for(work: Coroutine[Any, Any, Result]) -> Result:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    with ThreadPoolExecutor(1) as pool:  # a notebook's loop is already running: use our own in a thread
        return pool.submit(asyncio.run, work).result()


def _side(source: Run | RunScores | Mapping[str, Mapping[str, float | None]] | str | Path, label: str) -> ComparedRun:
    if isinstance(source, Run):
        return ComparedRun.of(source.directory)
    if isinstance(source, RunScores):
        return ComparedRun(source)
    if isinstance(source, Mapping):
        return ComparedRun(scores_from_mapping(source, label=label))
    return read_side(Path(source))


def _policy_of(policy: Policy | Mapping[str, Any] | str | Path | None) -> Policy:
    if policy is None:
        return default_policy()
    if isinstance(policy, Policy):
        return policy
    return policy_from_mapping(policy) if isinstance(policy, Mapping) else load_policy(policy, known_metrics=None)
