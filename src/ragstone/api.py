"""The Python API, for notebooks and other tools. The command line is a thin layer over
the same use cases."""

from __future__ import annotations

import asyncio
import contextvars
import html
import os
import sys
import tempfile
from collections.abc import Callable, Coroutine, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast

from msgspec import Struct
from msgspec.structs import asdict, replace
from pydantic import ValidationError

from ragstone.errors import (
    ConfigError,
    GoldenSetError,
    RunDirectoryError,
    first_invalid,
)
from ragstone.evaluation.directory import RunDirectory
from ragstone.evaluation.engine import Progress
from ragstone.evaluation.record import SampleRecord
from ragstone.evaluation.redact import Redactor
from ragstone.evaluation.rounds.context import RunContext
from ragstone.evaluation.score_files import scores_from_mapping
from ragstone.evaluation.scores import RunScores, means
from ragstone.formatting import counted
from ragstone.gate.policy import (
    Policy,
    default_policy,
    load_policy,
    policy_from_mapping,
)
from ragstone.gate.verdict import GateVerdict
from ragstone.golden import sample
from ragstone.golden.load import golden_set_from_data
from ragstone.golden.load import load_golden_set as _load
from ragstone.judge.protocol import Judge, check_judge
from ragstone.judge.rubric import YES_NO, Rubric
from ragstone.metrics.score import Failed, NotApplicable, Score, Scored
from ragstone.pipeline.compare import compare_sides, read_side
from ragstone.pipeline.decide import ComparedRun
from ragstone.pipeline.known_secrets import known_secrets
from ragstone.pipeline.run import evaluate_run
from ragstone.pipeline.run_plan import run_plan
from ragstone.pipeline.stored_report import read_report
from ragstone.progress import progress_for
from ragstone.report.page import PackedChunk
from ragstone.report.parts import Document
from ragstone.report.render import Format, render
from ragstone.settings.settings import CustomMetric, Settings, SystemSettings
from ragstone.system.entrypoint import build_system, wrap_for_part
from ragstone.system.in_process import CallableSystem
from ragstone.system.response import System

if TYPE_CHECKING:
    import pandas

Result = TypeVar("Result")

_NO_SYSTEM = (Mapping, list, tuple, set, int, float, bytes, type(None))


class GoldenSet(sample.GoldenSet, frozen=True):
    """The samples of one evaluation, with unique ids, in the order of their file.

    ``len(golden)``, ``for sample in golden`` and ``golden[0]`` do what they say;
    ``golden[:5]`` is a golden set of five samples.
    """


class Report(str):
    """A report as text, to be written to a file. A notebook shows HTML in a frame, and
    Markdown as such."""

    __slots__ = ("form",)

    def __new__(cls, text: str, form: str) -> Report:
        report = super().__new__(cls, text)
        report.form = form
        return report

    form: str

    def _repr_pretty_(self, printer: Any, _cycle: bool) -> None:
        is_page = self.form == "html"
        short = f"<{self.form} report, {len(self):,} characters>"
        printer.text(short if is_page else str(self))

    def _repr_html_(self) -> str | None:
        """The page in a frame of its own, which can't reach the notebook."""
        if self.form != "html":
            return None
        return (
            f'<iframe srcdoc="{html.escape(self)}" sandbox="allow-scripts" title="Ragstone" '
            'style="width: 100%; height: 40em; border: 1px solid #8888"></iframe>'
        )

    def _repr_markdown_(self) -> str | None:
        return str(self) if self.form == "md" else None


class Verdict(GateVerdict, frozen=True, eq=False, kw_only=True):
    """The verdict of a whole run, and its reports. Shows itself in notebooks.

    `document` is what the reports show, without secrets; `page` makes the samples of
    the HTML report.
    """

    document: Document
    page: Callable[[], Iterable[PackedChunk]] = tuple

    @classmethod
    def of(
        cls,
        verdict: GateVerdict,
        document: Document,
        page: Callable[[], Iterable[PackedChunk]] = tuple,
    ) -> Verdict:
        return cls(**asdict(verdict), document=document, page=page)

    def report(self, form: Format = "text") -> Report:
        """The report as ``text``, ``md``, ``html``, ``json`` or ``junit``. Raises
        ConfigError for anything else."""
        packed_samples = self.page() if form == "html" else ()
        return Report(render(self.document, form, packed_samples=packed_samples), form)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, GateVerdict):
            return NotImplemented
        return all(
            getattr(self, name) == getattr(other, name)
            for name in GateVerdict.__struct_fields__
        )

    __hash__ = None  # type: ignore[assignment]  # like GateVerdict, which holds mappings

    def to_markdown(self) -> str:
        """The report as Markdown, for a comment on GitHub."""
        return self.report("md")

    def _repr_markdown_(self) -> str:
        return self.to_markdown()


class Run(Struct, frozen=True):
    """A finished evaluation. `path` is its run directory, `scores` is the gate's
    input."""

    directory: RunDirectory

    @classmethod
    def open(cls, path: str | Path) -> Run:
        """The run in a directory that `ragstone run`, `ragstone gate` or `evaluate`
        wrote. Raises RunDirectoryError."""
        run = cls(RunDirectory.open(_path(path, "Run.open(path)")))
        run.directory.scores()
        return run

    @property
    def path(self) -> Path:
        return self.directory.path

    @property
    def scores(self) -> RunScores:
        return self.directory.scores()

    def report(
        self,
        form: Format = "text",
        *,
        baseline: Run | str | Path | None = None,
        policy: Policy | Mapping[str, Any] | str | Path | None = None,
    ) -> Report:
        """The report of this run as ``text``, ``md``, ``html``, ``json`` or ``junit``.

        It shows the verdict that the gate recorded; without one, or with `baseline` or
        `policy`, that of `compare`.
        """
        if baseline is None and policy is None:
            recorded = read_report(self.directory)
            if recorded is not None:
                return Report(render(recorded, form), form)
        return compare(self, baseline, policy).report(form)

    def to_pandas(self) -> pandas.DataFrame:
        """One row per sample, with the columns

        - ``id``, ``question``, ``reference``, ``tags``;
        - ``answer``, ``contexts`` (their texts), ``latency_s``, ``trace_id`` (if the system names one with its answer),
          and ``error`` if the system failed;
        - for each metric its score (missing if there is none), and ``<metric>_reason``: why there is none, or a remark
          on the score.

        If the system was asked several times, `answer`, `contexts`, `latency_s` and
        `trace_id` are those of the first answer, and ``answers`` is the list of all of
        them. Raises ConfigError if pandas is not installed.
        """
        try:
            import pandas
        except ImportError:
            raise ConfigError(
                "to_pandas() needs pandas.",
                hint="Install it: pip install 'ragstone[pandas]'",
            ) from None
        metrics = self.directory.manifest.metrics
        rows = [_row(record, metrics) for record in self.directory.records()]
        return pandas.DataFrame(rows)

    def __repr__(self) -> str:
        samples = counted(len(self.scores.samples), "sample")
        failed = len(self.scores.system.failures)
        if failed:
            samples += f", {failed:,} without an answer"
        scores = means(self.scores.metrics)
        return f"{type(self).__name__}({str(self.path)!r}: {samples}, {scores})"


def _row(record: SampleRecord, metrics: Iterable[str]) -> dict[str, object]:
    response = record.response
    row: dict[str, object] = {
        "id": record.sample.id,
        "question": record.sample.question,
        "reference": record.sample.reference,
        "tags": list(record.sample.tags),
        "answer": response.answer,
        "contexts": [context.text for context in response.contexts],
        "latency_s": response.latency_s,
        "trace_id": response.extra.get("trace_id"),
        "error": None if response.failure is None else response.failure.message,
    }
    if len(record.answers) > 1:
        row["answers"] = [answer.answer for answer in record.responses]
    for name in metrics:
        row[name], row[f"{name}_reason"] = _value(record.scores.get(name))
    return row


def _value(score: Score | None) -> tuple[float | None, str | None]:
    match score:
        case Scored(value, note):
            return value, note
        case NotApplicable(reason) | Failed(_, reason):
            return None, reason
    return None, None


def load_golden_set(
    data: object, columns: Mapping[str, str] | None = None
) -> GoldenSet:
    """Read a golden set from a file, a glob, or several; or from data in memory.

    Data is a data frame (pandas or Polars), an Arrow table, a data set of Hugging Face,
    a list of mappings, or a mapping of columns. `columns` maps a field (``question``,
    ``reference`` …) to its column; dotted paths are allowed. Raises GoldenSetError with
    file and line; the rows of data are counted from 1.
    """
    if columns is not None and not isinstance(columns, Mapping):
        raise ConfigError(
            f"columns maps fields to columns, found {type(columns).__name__}.",
            hint=_COLUMNS,
        )
    paths: Any = [data] if isinstance(data, str | Path) else data
    is_paths = isinstance(paths, list | tuple) and bool(paths)
    try:
        if is_paths and all(isinstance(path, str | Path) for path in paths):
            found = _load(paths, columns=columns)
        else:
            found = golden_set_from_data(data, columns=columns)
    except (ConfigError, GoldenSetError) as error:
        message, where, hint = (
            (text or "").replace(" in ragstone.toml", "").replace(_TABLE, "columns")
            for text in (error.message, error.where, error.hint)
        )
        raise type(error)(message, where=where or None, hint=hint or None) from None
    return GoldenSet(found.samples, found.mappings, found.is_limited)


Chosen = str | Rubric | Callable[..., object]
"""A metric in the Python API: a name, a rubric, or a function, whose name is the
metric's."""

_TABLE = "[golden.columns]"
_COLUMNS = 'For example: columns={"question": "input.query"}'


def evaluate(
    golden_set: sample.GoldenSet,
    system: str | Callable[..., object],
    judge: str | Judge = "offline",
    metrics: str | Iterable[Chosen] | None = None,
    *,
    out: str | Path | None = None,
    concurrency: int = 4,
    repeats: int = 1,
    answers: int = 1,
    part: Literal["retrieval", "generation"] | None = None,
    oracle: bool = False,
    progress: bool = True,
) -> Run:
    """Ask `system` every question in `golden_set`, and judge and score the answers.

    `system` is an entrypoint string, or a callable that takes a question. `metrics` are
    names, `Rubric`s and functions that grade an answer. `judge` is a name as in
    ragstone.toml, or a Judge. The system is asked each question `answers` times, and
    each answer is judged `repeats` times. `part` is the half of the system that is
    evaluated (default: the whole): ``retrieval`` returns contexts without an answer,
    ``generation`` is given the reference contexts. With `oracle`, the whole system is
    asked again with these, to divide what is missing into retrieval and generation. The
    run directory is written to `out` (a new temporary folder by default). Standard error
    shows the progress, unless `progress` is False. Also works
    inside a running event loop, as in a notebook. Raises the errors of `ragstone run`.
    """
    if out is None:
        out = Path(tempfile.mkdtemp(prefix="ragstone-")) / "ragstone-run"
    where = _path(out, "evaluate(out=…)")
    if not isinstance(cast(object, golden_set), sample.GoldenSet):
        hint = "Make one: ragstone.load_golden_set(…), with a path, a data frame, or a list of mappings."
        found = type(golden_set).__name__
        raise ConfigError(f"evaluate() takes a golden set, found {found}.", hint=hint)
    if isinstance(cast(object, system), _NO_SYSTEM):
        hint = "Pass a function that takes a question, or an entrypoint such as 'python:my_package.rag:answer'."
        found = type(system).__name__
        raise ConfigError(f"evaluate() takes a system, found {found}.", hint=hint)
    judge_settings, ready_judge = {"name": judge}, None
    if not isinstance(judge, str):
        judge_settings, ready_judge = {}, check_judge(judge)
    names, custom = _chosen_metrics(metrics)
    settings = _settings(
        {
            "system": {
                "entrypoint": system if isinstance(system, str) else None,
                "concurrency": concurrency,
                "part": part,
            },
            "judge": judge_settings,
            "run": {
                "out": str(where),
                "metrics": names,
                "repeats": repeats,
                "answers": answers,
                "oracle": oracle,
            },
            "metrics": custom,
        }
    )

    def tested(asked: SystemSettings) -> System:
        if isinstance(system, str) or asked.functions:
            return build_system(asked, root=Path(), environ=os.environ)
        return wrap_for_part(CallableSystem(system, asked), asked)

    context = RunContext(
        environ=os.environ,
        progress=progress_for(sys.stderr) if progress else Progress(),
        redact=Redactor(known_secrets(os.environ, settings)),
        system_factory=tested,
    )
    plan = run_plan(settings, context, golden=golden_set, command=None)
    plan = replace(
        plan, judge=replace(plan.judge, caller_judge=ready_judge), cached=False
    )
    run = Run(_wait_for(evaluate_run(plan, context)))
    run.directory.scores()  # now, while the directory is there
    return run


def compare(
    current: Run | RunScores | Mapping[str, Mapping[str, float | None]] | str | Path,
    baseline: Run
    | RunScores
    | Mapping[str, Mapping[str, float | None]]
    | str
    | Path
    | None = None,
    policy: Policy | Mapping[str, Any] | str | Path | None = None,
) -> Verdict:
    """Decide: compare `current` with the floors of `policy` and with `baseline`.

    A run is a Run, a run directory or score file, or ``{metric: {sample_id: value}}``
    with values in [0, 1]; the policy is a file or a mapping of the same structure. The
    verdict's `status` is ``pass``, ``fail``, ``inconclusive`` or ``error``; its
    `checks` say why. Raises ConfigError if the policy has no rule for any of the
    scores.
    """
    rules = _policy_of(policy)
    now = _side(current, "current", rules)
    then = None if baseline is None else _side(baseline, "baseline", rules)
    compared = compare_sides(now, then, rules)
    redact = Redactor(known_secrets(os.environ, Settings()))

    def page() -> tuple[PackedChunk, ...]:
        """The samples of an HTML report; none if their records are gone by now."""
        try:
            return tuple(compared.page(redact))
        except RunDirectoryError:
            return ()

    return Verdict.of(compared.verdict, redact.tree(compared.document), page)


def _path(given: object, where: str) -> Path:
    if not isinstance(given, str | Path):
        raise ConfigError(
            f"expected a path, found {type(given).__name__}.", where=where
        )
    return Path(given)


def _settings(tables: Mapping[str, Mapping[str, object]]) -> Settings:
    try:
        return Settings.model_validate(tables)
    except ValidationError as error:
        place, wanted, value = first_invalid(error.errors())
        raise ConfigError(
            f"{wanted}, found {value!r}.", where=f"evaluate({place[-1]}=…)"
        ) from None


def _wait_for(work: Coroutine[Any, Any, Result]) -> Result:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    started: list[Callable[[], object]] = []

    async def stoppable() -> Result:
        task: Any = asyncio.current_task()  # is this
        loop = asyncio.get_running_loop()
        started.append(lambda: loop.call_soon_threadsafe(task.cancel))
        return await work

    # A notebook's loop is already running: use our own in a thread, which displays
    # below the cell that runs.
    surroundings = contextvars.copy_context()
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(surroundings.run, asyncio.run, stoppable())
        try:
            return future.result()
        except KeyboardInterrupt:
            for stop in started:
                stop()
            raise


def _chosen_metrics(
    metrics: str | Iterable[Chosen] | None,
) -> tuple[str | tuple[str, ...] | None, dict[str, dict[str, object] | CustomMetric]]:
    """The names to select (`run.metrics`), and the definitions of custom metrics (the
    table `metrics`).

    Raises ConfigError for anything else, for two metrics of one name, and for a
    function without a name.
    """
    if metrics is None or isinstance(metrics, str):
        return metrics, {}
    is_one = isinstance(metrics, Rubric) or not isinstance(metrics, Iterable)
    entries: Iterable[object] = metrics
    if is_one:
        entries = [metrics]
    names: list[str] = []
    defined: dict[str, dict[str, object] | CustomMetric] = {}
    for metric in entries:
        definition: dict[str, object] | CustomMetric
        match metric:
            case str():
                names.append(metric)
                continue
            case Rubric(name=name):
                definition = {"rubric": metric.text, "sees": metric.sees}
                if metric.levels != YES_NO:
                    definition["levels"] = metric.levels
            case Callable() if not isinstance(metric, type):
                name = _name_of(metric)
                definition = CustomMetric.of_function(metric)
            case _:
                raise ConfigError(
                    f"a metric is a name, a Rubric or a function, found {type(metric).__name__}.",
                    where="evaluate(metrics=…)",
                    hint='For example: metrics=["faithfulness", "context_recall"]',
                )
        if name in defined:
            raise ConfigError(f"two metrics are called '{name}'.", where="metrics")
        names.append(name)
        defined[name] = definition
    return tuple(names), defined


def _name_of(function: Callable[..., object]) -> str:
    """Raises ConfigError for a function without a name."""
    name: str = getattr(function, "__name__", "")
    if not name.isidentifier():
        raise ConfigError(
            f"the function {function!r} has no name.",
            where="metrics",
            hint="Define it with `def`: the metric is called like the function.",
        )
    return name


def _side(source: object, label: str, policy: Policy) -> ComparedRun:
    match source:
        case Run():
            return ComparedRun.of(source.directory)
        case RunScores():
            return ComparedRun(source)
        case Mapping():
            return ComparedRun(scores_from_mapping(source, label=label))
        case str() | Path():
            return read_side(Path(source), policy=policy)
    raise ConfigError(
        f"{label} is a run, the path of a run or a score file, or {{metric: {{sample id: value}}}}, "
        f"found {type(source).__name__}.",
        where=f"compare({label}=…)",
    )


def _policy_of(policy: object) -> Policy:
    match policy:
        case None:
            return default_policy()
        case Policy():
            return policy
        case Mapping():
            return policy_from_mapping(policy)
        case str() | Path():
            return load_policy(policy, known_metrics=None)
    raise ConfigError(
        f"a policy is a path or a mapping such as {{'metrics': {{'faithfulness': {{'min': 0.8}}}}}}, "
        f"found {type(policy).__name__}.",
        where="compare(policy=…)",
    )
