"""The metrics of a run: built-in ones, and custom metrics that the project defines
under [metrics]."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from functools import partial

from msgspec import Struct

from ragstone.errors import ConfigError, GoldenSetError
from ragstone.evaluation.rounds.context import RunContext
from ragstone.evaluation.rounds.sources import SystemSource
from ragstone.formatting import join_first
from ragstone.golden.sample import GoldenSet, Sample
from ragstone.judge.collect import Measure
from ragstone.judge.judgements import Grade
from ragstone.judge.protocol import Call, Judge, JudgementFailed
from ragstone.judge.rubric import YES_NO, Rubric, grade_answer
from ragstone.metrics.custom import (
    FunctionMetric,
    RubricMetric,
    function_version,
    rubric_version,
)
from ragstone.metrics.metric import Metric
from ragstone.metrics.registry import (
    DEFAULT,
    LABELLED,
    is_known,
    lower_is_better,
    select_metrics,
)
from ragstone.metrics.registry import METRICS as REGISTRY
from ragstone.settings.settings import METRICS, CustomMetric
from ragstone.system.functions import (
    FunctionFailed,
    MetricFunctions,
    function_file_digest,
    function_object_digest,
    local_functions,
)
from ragstone.system.response import RETRIEVAL, Response


class Measures(Struct, frozen=True):
    """What grades the answers for the custom metrics of a run. Start it before the run,
    and close it afterwards."""

    by_name: Mapping[str, Measure]
    """The measure of each custom metric."""
    callers: Mapping[str, MetricFunctions]
    """What calls the function of each metric that has one; metrics may share it."""

    async def start(self) -> None:
        """Start the callers. Raises SystemUnderTestError if a function can't be
        imported or called."""
        for caller in dict.fromkeys(self.callers.values()):
            await caller.start()

    async def close(self) -> None:
        callers = dict.fromkeys(self.callers.values())
        await asyncio.gather(*(caller.close() for caller in callers))


class ProjectMetrics(Struct, frozen=True):
    """The metrics of a run, and how custom metrics are graded.

    - `custom`: the tables [metrics.NAME], in their order.
    - `selected`: the names of the selected metrics; None for the default ones.
    - `required`: the names of the metrics that the policy has rules for.

    Functions of custom metrics run where `system` runs: in its interpreter and
    environment, never with the judge's key.
    """

    system: SystemSource
    custom: Mapping[str, CustomMetric] = {}
    selected: tuple[str, ...] | None = None
    required: tuple[str, ...] = ()

    def custom_metrics(self) -> tuple[Metric, ...]:
        """The custom metrics, in their order. Does not import code of the project.

        Raises ConfigError for the name of a built-in metric, and for a function whose
        file does not exist.
        """
        metrics: list[Metric] = []
        for name, definition in self.custom.items():
            where = f"{METRICS}.{name}"
            if is_known(name):
                raise ConfigError(
                    f"'{name}' is the name of a built-in metric.",
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
                version = rubric_version(rubric, load_prompt(RUBRIC).version)
                metrics.append(RubricMetric(rubric, version))
            else:
                digest = self._digest(definition, where)
                metrics.append(FunctionMetric(name, function_version(digest)))
        return tuple(metrics)

    def _digest(self, definition: CustomMetric, where: str) -> str:
        """The digest of a metric's function. Raises ConfigError."""
        if definition.function is not None:
            return function_object_digest(definition.function)
        system = self.system
        folder = system.root / (system.settings.working_directory or "")
        return function_file_digest(
            definition.python or "",
            folder,
            where=f"{where}.python",
            within=system.allowed_folder,
        )

    def named(self, names: Sequence[str]) -> tuple[Metric, ...]:
        """The built-in and custom metrics called `names`. Raises ConfigError, also for
        a metric that needs the half of the system that is not evaluated."""
        metrics = select_metrics(names, self.custom_metrics())
        _refuse_other_parts(metrics, self.system.settings.part)
        return metrics

    def select(self, golden: GoldenSet) -> tuple[Metric, ...]:
        """The metrics to score for `golden`: the selected ones, or else the default ones
        and all custom ones.

        Metrics for labels (`RANKING`, `LABELLED`) are default metrics if `golden` has
        such labels. Of a family of metrics, default ones that apply to few samples are
        left out if another one applies to more. If only half of the system is
        evaluated, only its metrics count. Metrics that the policy, or the `min` or
        `max` of a sample, names are always added. Raises the errors of `named`, and
        GoldenSetError for a `min` or `max` of an unknown metric.
        """
        custom = self.custom_metrics()
        part = self.system.settings.part
        required = [*self.required, *_metrics_with_bounds(golden, custom)]
        if self.selected is not None:
            self.named(self.selected)  # raises for a metric of the other half
            selected = select_metrics([*self.selected, *required], custom)
            return tuple(metric for metric in selected if _is_of(part, metric))
        defaults = [*(metric.info.name for metric in custom), *DEFAULT]
        defaults += [
            name for name in LABELLED if _count_applicable(REGISTRY[name], golden)
        ]
        if part == RETRIEVAL or any(sample.relevant_ids for sample in golden):
            defaults += RANKING
        # How many samples each metric applies to, and the maximum in its family.
        counts: dict[Metric, int] = {}
        family_counts: dict[str, int] = {}
        for metric in select_metrics([*defaults, *required], custom):
            if _is_of(part, metric):
                count = _count_applicable(metric, golden)
                counts[metric] = count
                family = _family(metric)
                family_counts[family] = max(family_counts.get(family, 0), count)
        metrics: list[Metric] = []
        for metric, count in counts.items():
            min_count = min(MIN_SAMPLES, family_counts[_family(metric)])
            applies_to_few = 0 < count < min_count
            if metric.info.name in required or not applies_to_few:
                metrics.append(metric)
        if part != RETRIEVAL:
            return tuple(metrics)
        scored = [metric for metric in metrics if metric in custom or counts[metric]]
        # If none applies, all of them are reported as not applicable.
        return tuple(scored or metrics)

    def measures(self, metrics: Sequence[Metric], context: RunContext) -> Measures:
        """The measures of the custom metrics among `metrics`. Raises ConfigError."""
        by_name: dict[str, Measure] = {}
        callers: dict[str, MetricFunctions] = {}
        specs_by_timeout: dict[float, dict[str, str]] = {}
        for metric in metrics:
            name = metric.info.name
            match metric:
                case RubricMetric():
                    by_name[name] = partial(grade_answer, metric.rubric)
                case FunctionMetric():
                    definition = self.custom[name]
                    timeout_s = definition.timeout_s
                    function = definition.function
                    if function is not None:  # an object, called in this process
                        callers[name] = local_functions({name: function}, timeout_s)
                    else:
                        specs = specs_by_timeout.setdefault(timeout_s, {})
                        specs[name] = definition.python or ""
        for timeout_s, specs in specs_by_timeout.items():
            source = self.system.for_functions(specs, timeout_s=timeout_s)
            caller = MetricFunctions(source.build(context))
            callers |= dict.fromkeys(specs, caller)
        for name, caller in callers.items():
            by_name[name] = partial(_grade_by_function, caller, name)
        return Measures(by_name, callers)


def _metrics_with_bounds(
    golden: Iterable[Sample], custom: Sequence[Metric]
) -> list[str]:
    """The names of the metrics that samples have a `min` or `max` for. Raises
    GoldenSetError for an unknown metric, and for a `max` where more is better, or a
    `min` where less is."""
    origins = {}
    for sample in golden:
        for key, name, _ in sample.bounds:
            origins[key, name] = sample.origin
    for (key, name), origin in origins.items():
        try:
            select_metrics([name], custom)
        except ConfigError as error:
            raise GoldenSetError(
                f"'{key}' of {name}: {error.message}",
                where=str(origin),
                hint=error.hint,
            ) from None
        is_lower_better = lower_is_better(name)
        if is_lower_better is None:
            continue
        usable_key, better = ("max", "less") if is_lower_better else ("min", "more")
        if key != usable_key:
            raise GoldenSetError(
                f"'{key}' of {name}: {better} is better for this metric.",
                where=str(origin),
                hint=f"Use '{usable_key}'.",
            )
    return [name for _, name in origins]


RANKING = ("recall@5", "ndcg@10")
"""Default metrics if samples have relevant ids, or if only retrieval is evaluated."""

MIN_SAMPLES = 5
"""A default metric that applies to fewer samples is left out if another one of its
family applies to more."""


def _count_applicable(metric: Metric, samples: Iterable[Sample]) -> int:
    """How many of `samples` the metric applies to."""
    return sum(metric.why_not_applicable(sample) is None for sample in samples)


def _family(metric: Metric) -> str:
    return metric.info.family or metric.info.name


def _refuse_other_parts(metrics: Iterable[Metric], part: str | None) -> None:
    """Raise ConfigError for metrics that can't be scored if only `part` of the system is
    evaluated."""
    excluded = [metric.info.name for metric in metrics if not _is_of(part, metric)]
    if not excluded:
        return
    raise ConfigError(
        f'{join_first(excluded)} can\'t be measured with part = "{part}".',
        where="run.metrics",
        hint="Select other metrics with --metrics, or remove `part` under [system] to evaluate the whole system.",
    )


def _is_of(part: str | None, metric: Metric) -> bool:
    """Whether `metric` can be scored with `part` alone, and depends on it."""
    if part == RETRIEVAL:
        return metric.info.needs_no_answer
    return part is None or metric.info.blames != RETRIEVAL


async def _grade_by_function(
    caller: MetricFunctions,
    name: str,
    _judge: Judge,
    sample: Sample,
    response: Response,
    _call: Call,
) -> Grade:
    try:
        return Grade(await caller.call(name, sample, response))
    except FunctionFailed as failure:
        raise JudgementFailed(str(failure)) from None
