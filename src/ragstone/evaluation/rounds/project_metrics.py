"""The metrics of a run: Ragstone's own and those that the project defines under
[metrics]."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from functools import partial

from msgspec import Struct

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
    """How the custom metrics of a run get their grades; start it before, and close it
    after, the run."""

    by_name: Mapping[str, Measure]
    functions: Mapping[str, MetricFunctions]
    """What calls the function of each metric that has one."""

    async def start(self) -> None:
        """Raises SystemUnderTestError if a function can't be imported or called."""
        for functions in dict.fromkeys(self.functions.values()):
            await functions.start()

    async def close(self) -> None:
        callers = dict.fromkeys(self.functions.values())
        await asyncio.gather(*(functions.close() for functions in callers))


class ProjectMetrics(Struct, frozen=True):
    """The metrics of a run: those that were selected, and how those that the project
    defines are graded.

    `custom` are the tables [metrics.NAME], in their order; `selected` are names, None
    for the defaults, and `required` those that the policy names. Functions run where
    `system` runs: in its interpreter and environment, never with the judge's key.
    """

    system: SystemSource
    custom: Mapping[str, CustomMetric] = {}
    selected: tuple[str, ...] | None = None
    required: tuple[str, ...] = ()

    def own(self) -> tuple[Metric, ...]:
        """The metrics that the project defines, in their order. Nothing of the project
        is imported for it.

        Raises ConfigError for a name that Ragstone uses, and for a function whose file
        is not there.
        """
        metrics: list[Metric] = []
        for name, definition in self.custom.items():
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
                version = rubric_version(rubric, load_prompt(RUBRIC).version)
                metrics.append(RubricMetric(rubric, version))
            else:
                digest = self._digest(definition, where)
                metrics.append(FunctionMetric(name, function_version(digest)))
        return tuple(metrics)

    def _digest(self, definition: CustomMetric, where: str) -> str:
        """That of the function of a metric. Raises ConfigError."""
        if definition.function is not None:
            return function_object_digest(definition.function)
        system = self.system
        folder = system.root / (system.settings.working_directory or "")
        return function_file_digest(
            definition.python or "",
            folder,
            where=f"{where}.python",
            within=system.within,
        )

    def named(self, names: Sequence[str]) -> tuple[Metric, ...]:
        """The metrics called `names`; the project's own can be among them. Raises
        ConfigError, also for a metric that can't be scored without the half of the
        system that is not evaluated."""
        metrics = select_metrics(names, self.own())
        _refuse_other_parts(metrics, self.system.settings.part)
        return metrics

    def select(self, golden: GoldenSet) -> tuple[Metric, ...]:
        """The metrics that are selected for `golden`; the project's own can be among
        them.

        If none are selected: the default metrics, all of the project's own, and what
        the labels of `golden` allow: `RANKING` and `LABELLED`; but no member of a
        family that applies to a few samples, where another one applies to more. If only
        a half of the system is evaluated, those that are of that half. The metrics that
        the policy names, and the `min` and `max` of samples, are added. Raises the
        errors of `named`, and GoldenSetError for a `min` or `max` of no metric.
        """
        own = self.own()
        part = self.system.settings.part
        required = [*self.required, *_bounded(golden, own)]
        if self.selected is not None:
            self.named(self.selected)  # raises for one of the other half
            selected = select_metrics([*self.selected, *required], own)
            return tuple(metric for metric in selected if _is_of(part, metric))
        defaults = [*(metric.info.name for metric in own), *DEFAULT]
        defaults += [name for name in LABELLED if _applicable(REGISTRY[name], golden)]
        if part == RETRIEVAL or any(sample.relevant_ids for sample in golden):
            defaults += RANKING
        # How many samples each metric applies to, and the most of its family.
        counts: dict[Metric, int] = {}
        family_counts: dict[str, int] = {}
        for metric in select_metrics([*defaults, *required], own):
            if _is_of(part, metric):
                count = _applicable(metric, golden)
                counts[metric] = count
                family = _family(metric)
                family_counts[family] = max(family_counts.get(family, 0), count)
        metrics: list[Metric] = []
        for metric, count in counts.items():
            enough = min(MIN_SAMPLES, family_counts[_family(metric)])
            applies_to_few = 0 < count < enough
            if metric.info.name in required or not applies_to_few:
                metrics.append(metric)
        if part != RETRIEVAL:
            return tuple(metrics)
        scored = [metric for metric in metrics if metric in own or counts[metric]]
        return tuple(scored or metrics)

    def measures(self, metrics: Sequence[Metric], context: RunContext) -> Measures:
        """The measures of the custom metrics among `metrics`. Raises ConfigError."""
        by_name: dict[str, Measure] = {}
        functions: dict[str, MetricFunctions] = {}
        specs_by_timeout: dict[float, dict[str, str]] = {}
        for metric in metrics:
            name = metric.info.name
            match metric:
                case RubricMetric():
                    by_name[name] = partial(graded_by, metric.rubric)
                case FunctionMetric():
                    definition = self.custom[name]
                    timeout_s = definition.timeout_s
                    to_call = definition.function
                    if to_call is not None:
                        functions[name] = local_functions({name: to_call}, timeout_s)
                    else:
                        specs = specs_by_timeout.setdefault(timeout_s, {})
                        specs[name] = definition.python or ""
        for timeout_s, specs in specs_by_timeout.items():
            worker = self.system.calling(specs, timeout_s=timeout_s).build(context)
            functions |= dict.fromkeys(specs, MetricFunctions(worker))
        for name, function in functions.items():
            by_name[name] = partial(_by_function, function, name)
        return Measures(by_name, functions)


def _bounded(golden: Iterable[Sample], own: Sequence[Metric]) -> list[str]:
    """The metrics for which samples have a `min` or `max`. Raises GoldenSetError for a
    name or key that can't be."""
    origins = {}
    for sample in golden:
        for key, name, _ in sample.bounds:
            origins[key, name] = sample.origin
    for (key, name), origin in origins.items():
        try:
            select_metrics([name], own)
        except ConfigError as error:
            raise GoldenSetError(
                f"'{key}' of {name}: {error.message}",
                where=str(origin),
                hint=error.hint,
            ) from None
        lower = lower_is_better(name)
        if lower is None:
            continue
        usable_key, better = ("max", "less") if lower else ("min", "more")
        if key != usable_key:
            raise GoldenSetError(
                f"'{key}' of {name}: {better} is better for it.",
                where=str(origin),
                hint=f"Use '{usable_key}'.",
            )
    return [name for _, name in origins]


RANKING = ("recall@5", "ndcg@10")
"""Default metrics where samples have relevant ids, or the system only retrieves and
samples are labelled."""

MIN_SAMPLES = 5
"""A metric of fewer samples says nothing that the other one of its family doesn't."""


def _applicable(metric: Metric, samples: Iterable[Sample]) -> int:
    """How many of `samples` the metric applies to."""
    return sum(metric.why_not_applicable(sample) is None for sample in samples)


def _family(metric: Metric) -> str:
    return metric.info.family or metric.info.name


def _refuse_other_parts(metrics: Iterable[Metric], part: str | None) -> None:
    """Raise ConfigError for metrics that can't be scored for that part of a system."""
    excluded = [metric.info.name for metric in metrics if not _is_of(part, metric)]
    if not excluded:
        return
    raise ConfigError(
        f'{some(excluded)} can\'t be measured with part = "{part}".',
        where="run.metrics",
        hint="Leave it out with --metrics, or evaluate the whole system: without part under [system].",
    )


def _is_of(part: str | None, metric: Metric) -> bool:
    """Whether `metric` can be scored for that part of a system, and says something of
    it."""
    if part == RETRIEVAL:
        return metric.info.needs_no_answer
    return part is None or metric.info.blames != RETRIEVAL


async def _by_function(
    functions: MetricFunctions,
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
