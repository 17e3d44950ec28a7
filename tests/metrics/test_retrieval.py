"""Retrieval metrics: equal to the official tool, and honest about samples without ids."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from ctypes import c_float

import pytest
import pytrec_eval

from ragstone.errors import ConfigError
from ragstone.golden.sample import Sample
from ragstone.judge.judgements import Judgements
from ragstone.judge.rubric import Rubric
from ragstone.metrics import ranking
from ragstone.metrics.custom import RubricMetric
from ragstone.metrics.registry import DEFAULT, METRICS, find_metric, metric_title, select_metrics
from ragstone.metrics.score import Failed, NotApplicable, Score, Scored
from ragstone.system.response import Context, Response
from tests.metrics.judged import outcome, score

Measure = Callable[[Sequence[str], Mapping[str, float]], float]


def measures() -> dict[str, Measure]:
    def by_id(measure: Callable[..., float], **more: int) -> Measure:
        return lambda ids, grades: measure(ranking.locate_documents(ids, grades), **more)

    found = {
        "map": by_id(ranking.average_precision),
        "recip_rank": by_id(ranking.reciprocal_rank),
        "ndcg": by_id(ranking.ndcg),
    }
    for k in (1, 5, 10, 30):
        found[f"P_{k}"] = by_id(ranking.precision, k=k)
        found[f"recall_{k}"] = by_id(ranking.recall, k=k)
        found[f"ndcg_cut_{k}"] = by_id(ranking.ndcg, k=k)
        found[f"success_{k}"] = by_id(ranking.hit, k=k)
    return found


def trec_order(scores: Mapping[str, float]) -> list[str]:
    """Document ids as trec_eval ranks a run: by score in single precision descending, ties by id descending."""
    return sorted(scores, key=lambda document: (c_float(scores[document]).value, document), reverse=True)


def test_random_rankings_score_as_in_pytrec_eval() -> None:
    dice = random.Random(5)
    names = set(measures())
    for _ in range(30):
        documents = [f"d{n}" for n in range(dice.randint(2, 40))]
        qrel = {"q": {document: dice.choice([0, 0, 0, 1, 2, 3]) for document in documents if dice.random() < 0.6}}
        run = {"q": {document: dice.choice([0.1, 0.2, 0.5, dice.random()]) for document in documents}}
        if not any(qrel["q"].values()):
            continue
        oracle = pytrec_eval.RelevanceEvaluator(qrel, names).evaluate(run)["q"]
        ranked = trec_order(run["q"])
        for name in names:
            assert measures()[name](ranked, qrel["q"]) == pytest.approx(oracle[name], abs=1e-9), name


@pytest.mark.parametrize(
    ("name", "ids", "relevant", "expected"),
    [
        ("ndcg@7", ["a"], {"a": 1.0}, 1.0),  # any cut-off can be asked for
        ("precision@5", ["a"], {"a": 1.0}, 0.2),
        ("mrr@2", ["x", "a"], {"a": 1.0}, 0.5),
        ("mrr@1", ["x", "a"], {"a": 1.0}, 0.0),
        ("mrr", ["x"], {"a": 1.0}, 0.0),
        ("average_precision", ["a", "x", "b"], {"a": 1.0, "b": 2.0}, (1 + 2 / 3) / 2),
        ("recall@2", ["a", "a", "b"], {"a": 1.0, "b": 1.0}, 1.0),  # chunks of one document count once
        ("hit_rate@3", ["a"], {"a": 0.0, "b": 1.0}, 0.0),  # a grade of zero is not relevant
        ("mrr", [None, "a"], {"a": 1.0}, 0.5),  # a context without an id takes its place
        ("ndcg", [], {"a": 1.0}, 0.0),
        ("hit_rate@3", ["a"], {"a": 0.0}, NotApplicable),
        ("mrr", ["a"], {}, NotApplicable),
        ("mrr", [None, None], {"a": 1.0}, Failed),  # the system gives no ids
    ],
)
def test_measures_by_id(
    name: str, ids: Sequence[str | None], relevant: Mapping[str, float], expected: float | type[Score]
) -> None:
    sample = Sample("a", "Which boat?", relevant_ids=relevant)
    response = Response("a", "This one.", tuple(Context("text", id=one) for one in ids))
    assert outcome(score(name, sample, response)) == expected


@pytest.mark.parametrize("name", ["ndcg@0", "ndcg@1001", "recall", "recal@5"])
def test_an_impossible_cut_off_is_an_unknown_metric(name: str) -> None:
    assert find_metric(name) is None
    with pytest.raises(ConfigError, match="unknown metric"):
        select_metrics([name])


def test_metrics_of_the_project_are_selected_by_name_after_the_listed_ones() -> None:
    own = RubricMetric(Rubric("tone", "Is it polite?", ("rude", "kind")), "rubric 1")
    assert select_metrics(["tone", "mrr"], custom=[own]) == (METRICS["mrr"], own)
    assert select_metrics(["mrr"], custom=[own]) == (METRICS["mrr"],)
    *listed, last = select_metrics([*DEFAULT, "tone"], custom=[own])
    assert last is own
    assert {metric.info.name for metric in listed} == {*DEFAULT, "context_precision_no_reference"}
    titles = [metric_title(name) for name in ("context_recall", "mrr", "tone")]
    assert titles == ["Context recall", "Reciprocal rank", "tone"]


def test_ids_without_texts_are_enough_for_measures_by_id_and_for_no_others() -> None:
    response = Response("a", "An answer.", (Context("", "b.md"), Context("", "a.md")))
    by_id = Sample("a", "A?", reference="So.", relevant_ids={"a.md": 1.0})
    by_text = Sample("a", "A?", reference="So.", reference_contexts=("A passage of text.",))
    for metric in select_metrics(["recall@5", "mrr", "ndcg", "precision@2"]):
        assert isinstance(metric.score(by_id, response, Judgements()), Scored)
        assert metric.score(by_text, response, Judgements()) == NotApplicable(
            "the contexts were returned as ids, without their texts: label the sample with relevant_ids"
        )
    names = ["faithfulness", "hallucination", "context_recall", "context_precision", "context_relevance"]
    for metric in select_metrics([*names, "citation_recall", "context_entity_recall", "contexts_within@100"]):
        if metric.why_not_applicable(by_id) is None:
            found = metric.score(by_id, response, Judgements())
            assert found == NotApplicable("the contexts were returned as ids, without their texts"), metric.info.name
