"""The metrics of a run: Ragstone's own and those that the project defines under
[metrics]."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from ragstone.errors import ConfigError, GoldenSetError
from ragstone.evaluation.rounds.context import RunContext
from ragstone.evaluation.rounds.sources import SystemSource
from ragstone.formatting import some
from ragstone.golden.sample import GoldenSet, Sample
from ragstone.judge.collect import Measure
from ragstone.judge.judgements import Grade
from ragstone.judge.protocol import Call, Judge, JudgementFailed
from ragstone.judge.rubric import YES_NO, Rubric, graded_by
from ragstone.metrics.custom import (
    FunctionMetric,
    RubricMetric,
    function_version,
    rubric_version,
)
from ragstone.metrics.metric import Metric
from ragstone.metrics.registry import (
    DEFAULT,
    HEADLINE,
    LABELLED,
    is_known,
    lower_is_better,
    select_metrics,
)
from ragstone.settings.settings import METRICS, CustomMetric
from ragstone.system.functions import (
    FunctionFailed,
    LocalFunctions,
    WorkerFunctions,
    digest_of,
    digest_of_object,
)
from ragstone.system.response import RETRIEVAL, Response


class Measures:
    """How the custom metrics among `metrics` get their grades; start it before, and
    close it after, the run.

    `functions` are those by metric.
    """

    def __init__(
        self,
        metrics: Sequence[Metric],
        functions: Mapping[str, WorkerFunctions | LocalFunctions],
    ) -> None:
        self._each = tuple(dict.fromkeys(functions.values()))
        self.by_name: dict[str, Measure] = {}
        self.functions: list[str] = []
        for metric in metrics:
            name = metric.info.name
            if isinstance(metric, RubricMetric):
                self.by_name[name] = partial(graded_by, metric.rubric)
            elif isinstance(metric, FunctionMetric):
                self.by_name[name] = partial(_by_function, functions[name], name)
                self.functions.append(name)

    async def start(self) -> None:
        """Raises SystemUnderTestError if a function can't be imported or called."""
        for functions in self._each:
            await functions.start()

    async def close(self) -> None:
        await asyncio.gather(*(functions.close() for functions in self._each))


@dataclass(frozen=True, slots=True)
class ProjectMetrics:
    """The metrics of a run: those that were selected, and how those that the project
    defines are graded.

    `custom` are the tables [metrics.NAME], in their order; `selected` are names, None
    for the defaults, and `required` those that the policy names. Functions run where
    `system` runs: in its interpreter and environment, never with the judge's key.
    """

    system: SystemSource
    custom: Mapping[str, CustomMetric] = field(default_factory=dict)
    selected: tuple[str, ...] | None = None
    required: tuple[str, ...] = ()

    def own(self) -> tuple[Metric, ...]:
        """The metrics that the project defines, in their order. Nothing of the project
        is imported for it.

        Raises ConfigError for a name that Ragstone uses, and for a function whose file
        is not there.
        """
        return tuple(
            self._custom_metric(name, definition)
            for name, definition in self.custom.items()
        )

    def _custom_metric(self, name: str, definition: CustomMetric) -> Metric:
        where = f"{METRICS}.{name}"
        if is_known(name):
            raise ConfigError(
                f"'{name}' is a metric of Ragstone's own.",
                where=where,
                hint="Choose another name.",
            )
        if definition.rubric is not None:
            from ragstone.judge.llm.prompts import RUBRIC, load_prompt

            rubric = Rubric(
                name,
                definition.rubric.strip(),
                definition.levels or YES_NO,
                definition.sees,
            )
            return RubricMetric(
                rubric, rubric_version(rubric, load_prompt(RUBRIC).version)
            )
        if definition.function is not None:
            return FunctionMetric(
                name, function_version(digest_of_object(definition.function))
            )
        directory = self.system.root / (self.system.settings.working_directory or "")
        digest = digest_of(
            definition.python or "",
            directory,
            where=f"{where}.python",
            within=self.system.within,
        )
        return FunctionMetric(name, function_version(digest))

    def select(
        self, golden: GoldenSet | None = None, names: Sequence[str] | None = None
    ) -> tuple[Metric, ...]:
        """The metrics that are selected, or those called `names`; the project's own can
        be among them.

        If none are selected: the default metrics, all of the project's own, and what
        the labels of `golden` allow: `RANKING` and `LABELLED`; but no member of a
        family that applies to a few samples, where another one applies to more. If only
        a half of the system is evaluated, those that are of that half. The metrics that
        the policy names, and the `min` and `max` of samples, are added. Raises
        ConfigError, also for a selected metric that can't be scored without the other
        half, and GoldenSetError for a `min` or `max` of no metric.
        """
        own = self.own()
        part = self.system.settings.part
        if names is not None:
            required: list[str] = []
        else:
            required = [*self.required, *_bounded(golden or (), own)]
            names = self.selected
        if names is not None:
            if part is not None:
                _refuse_other_half(part, select_metrics(names, own))
            return _of_part(part, select_metrics([*names, *required], own))
        defaults = [*HEADLINE, *RANKING] if part == RETRIEVAL else [*DEFAULT]
        own_names = [metric.info.name for metric in own]
        labelled = _labelled(golden or ())
        metrics = _of_part(
            part, select_metrics([*own_names, *defaults, *labelled, *required], own)
        )
        if golden is None:
            return metrics
        metrics = tuple(
            metric
            for metric in metrics
            if metric.info.name in required or not _is_rare(metric, metrics, golden)
        )
        if part != RETRIEVAL:
            return metrics
        scored = [
            metric for metric in metrics if metric in own or _applies(metric, golden)
        ]
        return tuple(scored) or metrics

    def measures(self, metrics: Sequence[Metric], context: RunContext) -> Measures:
        """The measures of the custom metrics among `metrics`. Raises ConfigError."""
        local: dict[str, tuple[Callable[..., object], float]] = {}
        by_timeout: dict[float, dict[str, str]] = {}
        for metric in metrics:
            if not isinstance(metric, FunctionMetric):
                continue
            name = metric.info.name
            definition = self.custom[name]
            timeout_s = definition.timeout_s
            if definition.function is not None:
                local[name] = (definition.function, timeout_s)
            else:
                specs = by_timeout.setdefault(timeout_s, {})
                specs[name] = definition.python or ""
        functions: dict[str, WorkerFunctions | LocalFunctions] = {}
        functions |= dict.fromkeys(local, LocalFunctions(local))
        for timeout_s, specs in by_timeout.items():
            worker = self.system.calling(specs, timeout_s=timeout_s).build(context)
            functions |= dict.fromkeys(specs, WorkerFunctions(worker))
        return Measures(metrics, functions)


Chosen = str | Rubric | Callable[..., object]
"""A metric in the Python API: a name, a rubric, or a function, whose name is the
metric's."""


def chosen_metrics(
    metrics: str | Iterable[Chosen] | None,
) -> tuple[str | tuple[str, ...] | None, dict[str, dict[str, object] | CustomMetric]]:
    """The names to select (`run.metrics`), and the definitions of custom metrics (the
    table `metrics`).

    Raises ConfigError for anything else, for two metrics of one name, and for a
    function without a name.
    """
    if metrics is None or isinstance(metrics, str):
        return metrics, {}
    if isinstance(metrics, Rubric) or not isinstance(metrics, Iterable):
        metrics = [metrics]
    names: list[str] = []
    defined: dict[str, dict[str, object] | CustomMetric] = {}
    for metric in metrics:
        if isinstance(metric, str):
            names.append(metric)
            continue
        name, definition = _definition(metric)
        if name in defined:
            raise ConfigError(f"two metrics are called '{name}'.", where="metrics")
        names.append(name)
        defined[name] = definition
    return tuple(names), defined


def _definition(metric: object) -> tuple[str, dict[str, object] | CustomMetric]:
    """The name and the table of a custom metric of the Python API. Raises
    ConfigError."""
    if isinstance(metric, Rubric):
        table: dict[str, object] = {"rubric": metric.text, "sees": metric.sees}
        if metric.levels != YES_NO:
            table["levels"] = metric.levels
        return metric.name, table
    if not callable(metric) or isinstance(metric, type):
        raise ConfigError(
            f"a metric is a name, a Rubric or a function, found {type(metric).__name__}.",
            where="evaluate(metrics=…)",
            hint='For example: metrics=["faithfulness", "context_recall"]',
        )
    name = getattr(metric, "__name__", None)
    if not isinstance(name, str) or not name.isidentifier():
        raise ConfigError(
            f"the function {metric!r} has no name.",
            where="metrics",
            hint="Define it with `def`: the metric is called like the function.",
        )
    return name, CustomMetric.calling(metric)


def _bounded(golden: Iterable[Sample], own: Sequence[Metric]) -> list[str]:
    """The metrics for which samples have a `min` or `max`. Raises GoldenSetError for a
    name or key that can't be."""
    places = {
        (key, name): sample.origin
        for sample in golden
        for key, name, _ in sample.bounds
    }
    for (key, name), where in places.items():
        try:
            select_metrics([name], own)
            _refuse_wrong_bound(key, name)
        except ConfigError as error:
            raise GoldenSetError(
                f"'{key}' of {name}: {error.message}", where=str(where), hint=error.hint
            ) from None
    return [name for _, name in places]


def _refuse_wrong_bound(key: str, name: str) -> None:
    lower = lower_is_better(name)
    if lower is True and key == "min":
        raise ConfigError(f"but less is better for {name}.", hint="Use 'max'.")
    if lower is False and key == "max":
        raise ConfigError(f"but more is better for {name}.", hint="Use 'min'.")


RANKING = ("recall@5", "ndcg@10")
"""Default metrics where samples have relevant ids, or the system only retrieves and
samples are labelled."""

MIN_SAMPLES = 5
"""A metric of fewer samples says nothing that the other one of its family doesn't."""


def _applies(metric: Metric, golden: Iterable[Sample]) -> bool:
    """Whether the metric applies to a sample of `golden`."""
    return any(metric.excuse(sample) is None for sample in golden)


def _labelled(golden: GoldenSet | tuple[()]) -> list[str]:
    """The metrics that are measured by default where samples of `golden` have labels
    for them."""
    labelled = [
        metric.info.name
        for metric in select_metrics(LABELLED)
        if _applies(metric, golden)
    ]
    if any(sample.relevant_ids for sample in golden):
        labelled += RANKING
    return labelled


def _is_rare(metric: Metric, metrics: Iterable[Metric], golden: GoldenSet) -> bool:
    """Whether `metric` applies to a few samples, and one of its family among `metrics`
    to more."""
    family = metric.info.family
    counts: dict[str, int] = {}
    for member in metrics:
        if family is not None and member.info.family == family:
            applies = [sample for sample in golden if member.excuse(sample) is None]
            counts[member.info.name] = len(applies)
    if len(counts) < 2:
        return False
    return 0 < counts[metric.info.name] < min(MIN_SAMPLES, max(counts.values()))


def _is_of(part: str, metric: Metric) -> bool:
    """Whether `metric` can be scored for that half of a system, and says something of
    it."""
    if part == RETRIEVAL:
        return metric.info.answerless
    return metric.info.blames != RETRIEVAL


def _of_part(part: str | None, metrics: tuple[Metric, ...]) -> tuple[Metric, ...]:
    if part is None:
        return metrics
    return tuple(metric for metric in metrics if _is_of(part, metric))


def _refuse_other_half(part: str, metrics: Iterable[Metric]) -> None:
    names = [metric.info.name for metric in metrics if not _is_of(part, metric)]
    if not names:
        return
    why = "can't be measured without an answer"
    if part != RETRIEVAL:
        why = "can't be measured where the golden set gives the contexts"
    raise ConfigError(
        f'{some(names)} {why}: part = "{part}".',
        where="run.metrics",
        hint="Leave it out with --metrics, or evaluate the whole system: without part under [system].",
    )


async def _by_function(
    functions: WorkerFunctions | LocalFunctions,
    name: str,
    _judge: Judge,
    sample: Sample,
    response: Response,
    _call: Call,
) -> Grade:
    try:
        return Grade(await functions.call(name, sample, response))
    except FunctionFailed as failure:
        raise JudgementFailed(str(failure)) from None


def ungraded(metrics: Sequence[Metric], judge: Judge) -> tuple[str, ...]:
    """The rubrics among `metrics` that `judge` can't grade by: it uses no language
    model."""
    if hasattr(judge, "grade"):
        return ()
    return tuple(
        metric.info.name for metric in metrics if isinstance(metric, RubricMetric)
    )
