"""All metrics by name."""

from __future__ import annotations

from collections.abc import Iterable

from ragstone.errors import ConfigError, suggestion
from ragstone.metrics.answer_relevancy import AnswerRelevancy
from ragstone.metrics.context_precision import ContextPrecision, ContextPrecisionNoReference
from ragstone.metrics.context_recall import ContextRecall
from ragstone.metrics.faithfulness import Faithfulness
from ragstone.metrics.metric import Metric

METRICS: dict[str, Metric] = {
    metric.info.name: metric
    for metric in (
        Faithfulness(),
        AnswerRelevancy(),
        ContextRecall(),
        ContextPrecision(),
        ContextPrecisionNoReference(),
    )
}

HEADLINE = ("faithfulness", "answer_relevancy", "context_recall", "context_precision")
"""The metrics of a run that names none."""


def select_metrics(names: Iterable[str] | None = None) -> tuple[Metric, ...]:
    """The metrics called `names` (a family's name brings all of the family), in registry order.

    Raises ConfigError for a name that is not known, with a suggestion.
    """
    wanted = tuple(HEADLINE if names is None else names)
    families = {metric.info.family for metric in METRICS.values() if metric.info.family}
    for name in wanted:
        if name not in METRICS and name not in families:
            raise ConfigError(f"unknown metric '{name}'.", mend=suggestion(name, {*METRICS}))
    return tuple(metric for name, metric in METRICS.items() if name in wanted or metric.info.family in wanted)
