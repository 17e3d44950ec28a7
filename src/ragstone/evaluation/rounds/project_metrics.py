"""The metrics of a run: Ragstone's own and those that the project defines under
[metrics]."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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
        wanted = names if names is not None else self.selected
        part = self.system.settings.part
        requested = own if wanted is None else select_metrics(wanted, own)
        if part is not None and (
            strangers := [
                metric.info.name for metric in requested if not _is_of(part, metric)
            ]
        ):
            raise _other_half(part, strangers)
        required = (
            (*self.required, *_bounded(golden or (), own)) if names is None else ()
        )
        chosen = [metric.info.name for metric in requested]
        if wanted is None:
            chosen += [*HEADLINE, *RANKING] if part == RETRIEVAL else DEFAULT
            chosen += self._labelled(golden or ())
        metrics = select_metrics([*chosen, *required], own)
        if part is not None:
            metrics = tuple(metric for metric in metrics if _is_of(part, metric))
        if wanted is None and golden is not None:
            metrics = tuple(
                metric
                for metric in metrics
                if metric.info.name in required or not _is_rare(metric, metrics, golden)
            )
        if (
            wanted is None and part == RETRIEVAL and golden is not None
        ):  # those that the golden set's labels allow
            labelled = [
                metric
                for metric in metrics
                if metric in own
                or any(metric.excuse(sample) is None for sample in golden)
            ]
            metrics = tuple(labelled) or metrics
        return metrics

    def _labelled(self, golden: GoldenSet | tuple[()]) -> list[str]:
        """The metrics that are measured by default where samples of `golden` have
        labels for them."""
        names = [*RANKING] if any(sample.relevant_ids for sample in golden) else []
        labelled = [
            metric.info.name
            for metric in select_metrics(LABELLED)
            if any(metric.excuse(sample) is None for sample in golden)
        ]
        return [*names, *labelled]

    def measures(self, metrics: Sequence[Metric], context: RunContext) -> Measures:
        """The measures of the custom metrics among `metrics`. Raises ConfigError."""
        names = [
            metric.info.name for metric in metrics if isinstance(metric, FunctionMetric)
        ]
        local = {
            name: definition
            for name in names
            if (definition := self.custom[name]).function is not None
        }
        by_metric: dict[str, WorkerFunctions | LocalFunctions] = {}
        if local:
            functions = LocalFunctions(
                {
                    name: (definition.function, definition.timeout_s)
                    for name, definition in local.items()
                    if definition.function
                }
            )
            by_metric |= dict.fromkeys(local, functions)
        by_timeout: dict[float, dict[str, str]] = {}
        for name in names:
            if name not in local:
                definition = self.custom[name]
                by_timeout.setdefault(definition.timeout_s, {})[name] = (
                    definition.python or ""
                )
        for timeout_s, specs in by_timeout.items():
            worker = self.system.calling(specs, timeout_s=timeout_s).build(context)
            by_metric |= dict.fromkeys(specs, WorkerFunctions(worker))
        return Measures(metrics, by_metric)


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
    metric: object = metrics
    several: list[object] = (
        list(metric)
        if isinstance(metric, Iterable) and not isinstance(metric, Rubric)
        else [metric]
    )
    names: list[str] = []
    defined: dict[str, dict[str, object] | CustomMetric] = {}
    for metric in several:
        if isinstance(metric, str):
            names.append(metric)
            continue
        if isinstance(metric, Rubric):
            name: object = metric.name
            levels = {} if metric.levels == YES_NO else {"levels": metric.levels}
            definition: dict[str, object] | CustomMetric = {
                "rubric": metric.text,
                "sees": metric.sees,
                **levels,
            }
        elif callable(metric) and not isinstance(metric, type):
            name, definition = (
                getattr(metric, "__name__", None),
                CustomMetric.calling(metric),
            )
        else:
            raise ConfigError(
                f"a metric is a name, a Rubric or a function, found {type(metric).__name__}.",
                where="evaluate(metrics=…)",
                hint='For example: metrics=["faithfulness", "context_recall"]',
            )
        if not isinstance(name, str) or not name.isidentifier():
            hint = "Define it with `def`: the metric is called like the function."
            raise ConfigError(
                f"the function {metric!r} has no name.", where="metrics", hint=hint
            )
        if name in defined:
            raise ConfigError(f"two metrics are called '{name}'.", where="metrics")
        names.append(name)
        defined[name] = definition
    return tuple(names), defined


def _bounded(golden: Iterable[Sample], own: Sequence[Metric]) -> Iterator[str]:
    """The metrics for which samples have a `min` or `max`. Raises GoldenSetError for a
    name or key that can't be."""
    for (key, name), where in {
        (key, name): sample.origin
        for sample in golden
        for key, name, _ in sample.bounds
    }.items():
        try:
            select_metrics([name], own)
            if lower_is_better(name) not in (None, key == "max"):
                right_key, less = ("min", "more") if key == "max" else ("max", "less")
                raise ConfigError(
                    f"but {less} is better for {name}.", hint=f"Use '{right_key}'."
                )
        except ConfigError as error:
            raise GoldenSetError(
                f"'{key}' of {name}: {error.message}", where=str(where), hint=error.hint
            ) from None
        yield name


RANKING = ("recall@5", "ndcg@10")
"""Default metrics where samples have relevant ids, or the system only retrieves and
samples are labelled."""

MIN_SAMPLES = 5
"""A metric of fewer samples says nothing that the other one of its family doesn't."""


def _is_rare(metric: Metric, metrics: Iterable[Metric], golden: GoldenSet) -> bool:
    """Whether `metric` applies to a few samples, and one of its family among `metrics`
    to more."""
    family = [
        member
        for member in metrics
        if member.info.family == metric.info.family is not None
    ]
    if len(family) < 2:
        return False
    applies = {
        member.info.name: sum(member.excuse(sample) is None for sample in golden)
        for member in family
    }
    return 0 < applies[metric.info.name] < min(MIN_SAMPLES, max(applies.values()))


def _is_of(part: str, metric: Metric) -> bool:
    """Whether `metric` can be scored for that half of a system, and says something of
    it."""
    return (
        metric.info.answerless if part == RETRIEVAL else metric.info.blames != RETRIEVAL
    )


def _other_half(part: str, names: list[str]) -> ConfigError:
    need = "needs" if len(names) == 1 else "need"
    if part == RETRIEVAL:
        why = f'{some(names)} {need} an answer, and with part = "retrieval" the system gives none'
    else:
        measure = "measures" if len(names) == 1 else "measure"
        why = f'{some(names)} {measure} retrieval, and with part = "generation" the golden set gives the contexts'
    return ConfigError(
        f"{why}.",
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
