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

_NOT_SYSTEMS = (Mapping, list, tuple, set, int, float, bytes, type(None))
"""Types that are passed as a system by mistake."""


class GoldenSet(sample.GoldenSet, frozen=True):
    """The samples of one evaluation, with unique ids, in the order of their file.

    It can be used like a list: ``len(golden)``, ``for sample in golden``,
    ``golden[0]``. A slice such as ``golden[:5]`` is a golden set too.
    """


class Report(str):
    """A report as text, to be written to a file. A notebook shows HTML in a frame, and
    renders Markdown."""

    __slots__ = ("form",)

    form: str
    """The format: ``text``, ``md``, ``html``, ``json`` or ``junit``."""

    def __new__(cls, text: str, form: str) -> Report:
        report = super().__new__(cls, text)
        report.form = form
        return report

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
    """The verdict on a run, and its reports. A notebook shows the report."""

    document: Document
    """What the reports show, without secrets."""
    page: Callable[[], Iterable[PackedChunk]] = tuple
    """Makes the samples of the HTML report."""

    @classmethod
    def of(
        cls,
        verdict: GateVerdict,
        document: Document,
        page: Callable[[], Iterable[PackedChunk]] = tuple,
    ) -> Verdict:
        """`verdict` with what its reports show."""
        return cls(**asdict(verdict), document=document, page=page)

    def report(self, form: Format = "text") -> Report:
        """The report as ``text``, ``md``, ``html``, ``json`` or ``junit``. Raises
        ConfigError for another format."""
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
    """A finished evaluation, in a run directory."""

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
        """The path of the run directory."""
        return self.directory.path

    @property
    def scores(self) -> RunScores:
        """The scores on which the gate decides."""
        return self.directory.scores()

    def report(
        self,
        form: Format = "text",
        *,
        baseline: Run | str | Path | None = None,
        policy: Policy | Mapping[str, Any] | str | Path | None = None,
    ) -> Report:
        """The report of this run as ``text``, ``md``, ``html``, ``json`` or ``junit``.

        It shows the verdict that the gate stored. Without a stored verdict, or with a
        `baseline` or a `policy`, it shows the verdict of `compare`.
        """
        if baseline is None and policy is None:
            document = read_report(self.directory)
            if document is not None:
                return Report(render(document, form), form)
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
    """The row of a sample in `Run.to_pandas`."""
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
        value, reason = _value_and_reason(record.scores.get(name))
        row[name] = value
        row[f"{name}_reason"] = reason
    return row


def _value_and_reason(score: Score | None) -> tuple[float | None, str | None]:
    """The value of a score, and why there is none or a remark on it."""
    match score:
        case Scored(value, note):
            return value, note
        case NotApplicable(reason) | Failed(_, reason):
            return None, reason
    return None, None


def load_golden_set(
    data: object, columns: Mapping[str, str] | None = None
) -> GoldenSet:
    """Read a golden set from files or from data in memory.

    `data` is a path or a glob, a list of these, a data frame (pandas or Polars), an
    Arrow table, a data set of Hugging Face, a list of mappings, or a mapping of
    columns. `columns` maps a field (``question``, ``reference`` …) to its column;
    dotted paths are allowed. Raises GoldenSetError with file and line, or with the
    number of the row, counted from 1.
    """
    if columns is not None and not isinstance(columns, Mapping):
        raise ConfigError(
            f"columns must map fields to columns, found {type(columns).__name__}.",
            hint='For example: columns={"question": "input.query"}',
        )
    paths: Any = [data] if isinstance(data, str | Path) else data
    is_paths = isinstance(paths, list | tuple) and bool(paths)
    try:
        if is_paths and all(isinstance(path, str | Path) for path in paths):
            golden = _load(paths, columns=columns)
        else:
            golden = golden_set_from_data(data, columns=columns)
    except (ConfigError, GoldenSetError) as error:
        # The messages are about a config file; here, columns are an argument.
        message, where, hint = (
            (text or "").replace(" in ragstone.toml", "").replace(_TABLE, "columns")
            for text in (error.message, error.where, error.hint)
        )
        raise type(error)(message, where=where or None, hint=hint or None) from None
    return GoldenSet(golden.samples, golden.mappings, golden.is_limited)


MetricArgument = str | Rubric | Callable[..., object]
"""A metric as an argument: a name, a rubric, or a function that has the name of the
metric."""

_TABLE = "[golden.columns]"


def evaluate(
    golden_set: sample.GoldenSet,
    system: str | Callable[..., object],
    judge: str | Judge = "offline",
    metrics: str | Iterable[MetricArgument] | None = None,
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
    evaluated (default: the whole system): ``retrieval`` returns contexts without an
    answer, ``generation`` is given the reference contexts. With `oracle`, the whole
    system is asked again with the reference contexts, to divide what is missing into
    retrieval and generation. The run directory is written to `out`, by default in a new
    temporary folder. Progress is shown on standard error, unless `progress` is False.
    This also works inside a running event loop, as in a notebook. Raises the errors of
    `ragstone run`.
    """
    if out is None:
        out = Path(tempfile.mkdtemp(prefix="ragstone-")) / "ragstone-run"
    run_path = _path(out, "evaluate(out=…)")
    if not isinstance(cast(object, golden_set), sample.GoldenSet):
        hint = "Make one: ragstone.load_golden_set(…), with a path, a data frame, or a list of mappings."
        type_name = type(golden_set).__name__
        raise ConfigError(
            f"evaluate() takes a golden set, found {type_name}.", hint=hint
        )
    if isinstance(cast(object, system), _NOT_SYSTEMS):
        hint = "Pass a function that takes a question, or an entrypoint such as 'python:my_package.rag:answer'."
        type_name = type(system).__name__
        raise ConfigError(f"evaluate() takes a system, found {type_name}.", hint=hint)
    judge_settings: dict[str, object] = {}
    caller_judge = None
    if isinstance(judge, str):
        judge_settings = {"name": judge}
    else:
        caller_judge = check_judge(judge)
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
                "out": str(run_path),
                "metrics": names,
                "repeats": repeats,
                "answers": answers,
                "oracle": oracle,
            },
            "metrics": custom,
        }
    )

    def make_system(system_settings: SystemSettings) -> System:
        if isinstance(system, str) or system_settings.functions:
            return build_system(system_settings, root=Path(), environ=os.environ)
        callable_system = CallableSystem(system, system_settings)
        return wrap_for_part(callable_system, system_settings)

    context = RunContext(
        environ=os.environ,
        progress=progress_for(sys.stderr) if progress else Progress(),
        redact=Redactor(known_secrets(os.environ, settings)),
        system_factory=make_system,
    )
    plan = run_plan(settings, context, golden=golden_set, command=None)
    plan = replace(
        plan, judge=replace(plan.judge, caller_judge=caller_judge), cached=False
    )
    run = Run(_wait_for(evaluate_run(plan, context)))
    run.directory.scores()  # read now, because the directory may be removed later
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
    """Decide on `current`: compare it with the floors of `policy` and with `baseline`.

    Each run is a Run, its scores, a run directory or a score file, or a mapping
    ``{metric: {sample_id: value}}`` with values in [0, 1]. The policy is a file or a
    mapping of the same structure. The verdict's `status` is ``pass``, ``fail``,
    ``inconclusive`` or ``error``; its `checks` say why. Raises ConfigError if the policy
    has no rule for any of the scores.
    """
    rules = _policy_of(policy)
    current_side = _side(current, "current", rules)
    baseline_side = None
    if baseline is not None:
        baseline_side = _side(baseline, "baseline", rules)
    compared = compare_sides(current_side, baseline_side, rules)
    redact = Redactor(known_secrets(os.environ, Settings()))

    def page() -> tuple[PackedChunk, ...]:
        """The samples of an HTML report; none if their records were removed."""
        try:
            return tuple(compared.page(redact))
        except RunDirectoryError:
            return ()

    return Verdict.of(compared.verdict, redact.tree(compared.document), page)


def _path(value: object, where: str) -> Path:
    """The argument `where` as a path. Raises ConfigError."""
    if not isinstance(value, str | Path):
        raise ConfigError(
            f"expected a path, found {type(value).__name__}.", where=where
        )
    return Path(value)


def _settings(tables: Mapping[str, Mapping[str, object]]) -> Settings:
    """The settings of `evaluate`. Raises ConfigError for an invalid argument."""
    try:
        return Settings.model_validate(tables)
    except ValidationError as error:
        place, expectation, value = first_invalid(error.errors())
        raise ConfigError(
            f"{expectation}, found {value!r}.", where=f"evaluate({place[-1]}=…)"
        ) from None


def _wait_for(work: Coroutine[Any, Any, Result]) -> Result:
    """Run `work` to its end, also from a running event loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    cancel_calls: list[Callable[[], object]] = []

    async def cancellable_work() -> Result:
        task: Any = asyncio.current_task()
        loop = asyncio.get_running_loop()
        cancel_calls.append(lambda: loop.call_soon_threadsafe(task.cancel))
        return await work

    # The running loop, as in a notebook, can't wait for more work. So the work gets a
    # loop and a thread of its own. With the context of this thread, a notebook shows
    # its output below the current cell.
    variables = contextvars.copy_context()
    with ThreadPoolExecutor(1) as executor:
        future = executor.submit(variables.run, asyncio.run, cancellable_work())
        try:
            return future.result()
        except KeyboardInterrupt:
            for cancel in cancel_calls:
                cancel()
            raise


def _chosen_metrics(
    metrics: str | Iterable[MetricArgument] | None,
) -> tuple[str | tuple[str, ...] | None, dict[str, dict[str, object] | CustomMetric]]:
    """The names of the metrics (the setting `run.metrics`), and the definitions of
    custom metrics (the table `metrics`).

    Raises ConfigError for what is not a metric, for two metrics of the same name, and
    for a function without a name.
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
                    f"a metric must be a name, a Rubric or a function, found {type(metric).__name__}.",
                    where="evaluate(metrics=…)",
                    hint='For example: metrics=["faithfulness", "context_recall"]',
                )
        if name in defined:
            raise ConfigError(f"two metrics have the name '{name}'.", where="metrics")
        names.append(name)
        defined[name] = definition
    return tuple(names), defined


def _name_of(function: Callable[..., object]) -> str:
    """The name of a function. Raises ConfigError if it has none, like a lambda."""
    name: str = getattr(function, "__name__", "")
    if not name.isidentifier():
        raise ConfigError(
            f"the function {function!r} has no name.",
            where="metrics",
            hint="Define it with `def`. The metric has the name of the function.",
        )
    return name


def _side(source: object, label: str, policy: Policy) -> ComparedRun:
    """One side of a comparison, from the argument `label` of `compare`. Raises
    ConfigError."""
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
        f"{label} must be a run, the path of a run or a score file, or {{metric: {{sample id: value}}}}, "
        f"found {type(source).__name__}.",
        where=f"compare({label}=…)",
    )


def _policy_of(policy: object) -> Policy:
    """The policy in the argument of `compare`. Raises ConfigError."""
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
        f"a policy must be a path or a mapping such as {{'metrics': {{'faithfulness': {{'min': 0.8}}}}}}, "
        f"found {type(policy).__name__}.",
        where="compare(policy=…)",
    )
