"""All metrics by name."""

from __future__ import annotations

from collections.abc import Iterable

from ragstone.errors import ConfigError, suggestion
from ragstone.golden.sample import Label
from ragstone.metrics.alignment import (
    ContextUtilization,
    ContextUtilizationRanked,
    TopContextUsed,
)
from ragstone.metrics.answer_correctness import AnswerCorrectness
from ragstone.metrics.answer_relevancy import AnswerRelevancy
from ragstone.metrics.answer_similarity import AnswerSimilarity, WeightedCorrectness
from ragstone.metrics.assertions import AssertionsMetric
from ragstone.metrics.citations import (
    CitationPrecision,
    CitationRecall,
    CitationValidity,
)
from ragstone.metrics.clarification import Clarification
from ragstone.metrics.completeness import Completeness
from ragstone.metrics.context_precision import (
    ContextPrecision,
    ContextPrecisionNoReference,
)
from ragstone.metrics.context_recall import ContextRecall
from ragstone.metrics.context_relevance import ContextRelevance
from ragstone.metrics.entities import ContextEntityRecall
from ragstone.metrics.faithfulness import Faithfulness
from ragstone.metrics.hallucination import Hallucination
from ragstone.metrics.hops import HOP_PRECISION, HOP_RECALL
from ragstone.metrics.limits import limit_metric, usual_limit_metrics
from ragstone.metrics.metric import Metric
from ragstone.metrics.noise_sensitivity import NoiseSensitivity, WrongStatements
from ragstone.metrics.pairwise import PairwisePreference
from ragstone.metrics.repeated_retrievals import RepeatedRetrievals
from ragstone.metrics.retrieval import retrieval_metric, usual_retrieval_metrics
from ragstone.metrics.squad import LexicalMatch, exact_match, token_f1
from ragstone.metrics.stability import AnswerStability, SelfConsistency, TokenStability
from ragstone.metrics.tool_calls import ToolArguments, ToolErrors, ToolSelection

_LISTED: tuple[Metric, ...] = (
    Faithfulness(),
    Hallucination(),
    AnswerRelevancy(),
    ContextRecall(),
    ContextPrecision(),
    ContextPrecisionNoReference(),
    ContextRelevance(),
    AnswerCorrectness(),
    Completeness(),
    WeightedCorrectness(),
    AnswerSimilarity(),
    NoiseSensitivity(relevant=True),
    NoiseSensitivity(relevant=False),
    WrongStatements(),
    TopContextUsed(),
    ContextUtilization(),
    ContextUtilizationRanked(),
    LexicalMatch("exact_match", "Exact match", exact_match),
    LexicalMatch("token_f1", "Token F1", token_f1),
    ContextEntityRecall(),
    PairwisePreference(),
    CitationRecall(),
    CitationPrecision(),
    CitationValidity(),
    AnswerStability(),
    TokenStability(),
    SelfConsistency(),
    *usual_retrieval_metrics(),
    *usual_limit_metrics(),
    AssertionsMetric(),
    HOP_RECALL,
    HOP_PRECISION,
    RepeatedRetrievals(),
    ToolSelection(),
    ToolArguments(),
    ToolErrors(),
    Clarification(),
)

METRICS: dict[str, Metric] = {metric.info.name: metric for metric in _LISTED}
"""The listed metrics, by name. Metrics with a number in their name exist for other
numbers too: see `find_metric`."""

HEADLINE = (
    "faithfulness",
    "answer_relevancy",
    "context_recall",
    "context_precision",
    "answer_correctness",
)
"""The most important metrics. Answer correctness needs a reference, and one more call
of an LLM judge."""

DEFAULT = (*HEADLINE, "hallucination")
"""The default metrics of a run: the headline metrics, and one that needs no further
call of a judge."""

LABELLED = (
    "assertions",
    "hop_recall",
    "hop_precision",
    "tool_selection",
    "tool_arguments",
    "clarification",
)
"""Metrics that apply only to samples with certain labels. They are default metrics,
too, if they apply to any sample of the golden set."""


def find_metric(name: str) -> Metric | None:
    """The metric called `name`, listed or with another number (``ndcg@15``); None if
    there is none."""
    return METRICS.get(name) or retrieval_metric(name) or limit_metric(name)


def metric_title(name: str) -> str:
    """The title of the metric called `name` (``Context recall``); the name itself if
    there is no such metric."""
    metric = METRICS.get(name)
    if metric is not None:
        return metric.info.title
    return name


def labels_of(name: str) -> frozenset[Label]:
    """The labels of a sample that the scores of the metric called `name` depend on. A
    metric of the project depends on the reference."""
    metric = find_metric(name)
    if metric is None:
        return frozenset({"reference"})
    return metric.labels


def lower_is_better(name: str) -> bool | None:
    """Whether 0 is the best score of the metric, or of the family of metrics, called
    `name`; None if there is none."""
    metric = find_metric(name)
    if metric is not None:
        return metric.info.lower_is_better
    for member in METRICS.values():
        if member.info.family == name:
            return member.info.lower_is_better
    return None


def is_known(name: str) -> bool:
    """Whether Ragstone has a metric, or a family of metrics, called `name`."""
    return lower_is_better(name) is not None


def select_metrics(
    names: Iterable[str] = DEFAULT, custom: Iterable[Metric] = ()
) -> tuple[Metric, ...]:
    """The metrics called `names`: listed ones first, in the order of the registry. The
    name of a family selects all its metrics.

    `custom` are the metrics of the project, which can be named too. Raises ConfigError
    for an unknown name, with a suggestion.
    """
    custom_metrics = {metric.info.name: metric for metric in custom}
    selected = tuple(dict.fromkeys(names))
    families = {metric.info.family for metric in METRICS.values()}
    project_metrics: list[Metric] = []
    for name in selected:
        if name in METRICS or name in families:
            continue
        metric = custom_metrics.get(name) or find_metric(name)
        if metric is None:
            raise ConfigError(
                f"unknown metric '{name}'.",
                hint=suggestion(name, {*METRICS, *custom_metrics}),
            )
        project_metrics.append(metric)
    built_in = [
        metric
        for name, metric in METRICS.items()
        if name in selected or metric.info.family in selected
    ]
    return (*built_in, *project_metrics)


def is_relative(name: str) -> bool:
    """Whether the metric compares a run with its baseline; False for an unknown one."""
    metric = find_metric(name)
    return metric is not None and metric.info.is_relative
