"""Retrieval metrics: equal to the official tool, and honest about samples without ids."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from ctypes import c_float
from pathlib import Path

import pytest
import pytrec_eval

from ragstone.errors import ConfigError
from ragstone.golden.sample import Sample
from ragstone.judge.judgements import Judgements
from ragstone.metrics import ranking
from ragstone.metrics.registry import find_metric, select_metrics
from ragstone.metrics.score import Failed, NotApplicable, Score, Scored
from ragstone.system.response import Context, Response
from tests.needs import need_data

TREC = Path(__file__).parents[3] / "shared" / "data" / "retrieval" / "trec_eval"
CUTS = (5, 10, 15, 20, 30, 100, 200, 500, 1000)
Grades = Mapping[str, Mapping[str, float]]


Measure = Callable[[Sequence[str], Mapping[str, float]], float]


def measures() -> dict[str, Measure]:
    def by_id(measure: Callable[..., float], **more: int) -> Measure:
        return lambda ids, grades: measure(ranking.locate_documents(ids, grades), **more)

    found = {
        "map": by_id(ranking.average_precision),
        "recip_rank": by_id(ranking.reciprocal_rank),
        "ndcg": by_id(ranking.ndcg),
    }
    for k in CUTS:
        found[f"P_{k}"] = by_id(ranking.precision, k=k)
        found[f"recall_{k}"] = by_id(ranking.recall, k=k)
        found[f"ndcg_cut_{k}"] = by_id(ranking.ndcg, k=k)
    for k in (1, 5, 10):
        found[f"success_{k}"] = by_id(ranking.hit, k=k)
    return found


def read_qrels(name: str, least: int) -> dict[str, dict[str, float]]:
    """Grades below `least` are kept at 0, as trec_eval's -l does for relevance."""
    qrels: dict[str, dict[str, float]] = {}
    for line in (TREC / name).read_text().splitlines():
        query, _, document, grade = line.split()
        qrels.setdefault(query, {})[document] = float(grade) if int(grade) >= least else 0.0
    return qrels


def read_run(name: str) -> dict[str, dict[str, float]]:
    run: dict[str, dict[str, float]] = {}
    for line in (TREC / name).read_text().splitlines():
        query, _, document, _, score, *_ = line.split()
        run.setdefault(query, {})[document] = float(score)
    return run


def trec_order(scores: Mapping[str, float]) -> list[str]:
    """Document ids as trec_eval ranks a run: by score in single precision descending, ties by id descending."""
    return sorted(scores, key=lambda document: (c_float(scores[document]).value, document), reverse=True)


def read_expected(name: str) -> dict[tuple[str, str], float]:
    rows = [line.split() for line in (TREC / name).read_text().splitlines()]
    return {(row[0], row[1]): float(row[2]) for row in rows if row[0] in measures()}


@pytest.mark.parametrize(
    ("qrels", "least", "expected"),
    [("qrels.test", 1, "out.test.a"), ("qrels.test", 1, "out.test.aq"), ("qrels.rel_level", 2, "out.test.aql")],
)
def test_every_measure_equals_the_official_tool_to_four_decimals(qrels: str, least: int, expected: str) -> None:
    need_data(TREC)
    grades, run = read_qrels(qrels, least), read_run("results.test")
    wanted = read_expected(expected)
    assert len(wanted) >= len(measures())
    ranked = {query: trec_order(scores) for query, scores in run.items() if query in grades}
    for (name, query), value in wanted.items():
        if least > 1 and name.startswith("ndcg"):
            continue  # trec_eval's -l leaves gains alone
        measure = measures()[name]
        queries = sorted(ranked) if query == "all" else [query]
        found = sum(measure(ranked[one], grades[one]) for one in queries) / len(queries)
        assert found == pytest.approx(value, abs=5.1e-5), (name, query)


def test_random_rankings_score_as_in_pytrec_eval() -> None:
    dice = random.Random(5)
    names = {"map", "recip_rank", "ndcg", "P_5", "recall_10", "ndcg_cut_10", "success_5"}
    for _ in range(20):
        documents = [f"d{n}" for n in range(dice.randint(2, 40))]
        qrel = {"q": {document: dice.choice([0, 0, 0, 1, 2, 3]) for document in documents if dice.random() < 0.6}}
        run = {"q": {document: dice.choice([0.1, 0.2, 0.5, dice.random()]) for document in documents}}
        if not any(qrel["q"].values()):
            continue
        oracle = pytrec_eval.RelevanceEvaluator(qrel, names).evaluate(run)["q"]
        ranked = trec_order(run["q"])
        for name in names:
            assert measures()[name](ranked, qrel["q"]) == pytest.approx(oracle[name], abs=1e-9), name


def scored(name: str, ids: Sequence[str | None], relevant: Mapping[str, float]) -> Score:
    (metric,) = select_metrics([name])
    sample = Sample("a", "Which boat?", relevant_ids=relevant)
    response = Response("a", "This one.", tuple(Context("text", id=one) for one in ids))
    return metric.score(sample, response, Judgements())


@pytest.mark.parametrize(
    ("name", "ids", "relevant", "expected"),
    [
        ("ndcg@7", ["a"], {"a": 1.0}, 1.0),  # any cut-off can be asked for
        ("recall@2", ["x", "a", "b"], {"a": 1.0, "b": 1.0}, 0.5),
        ("precision@5", ["a"], {"a": 1.0}, 0.2),
        ("hit_rate@1", ["x", "a"], {"a": 1.0}, 0.0),
        ("mrr@2", ["x", "a"], {"a": 1.0}, 0.5),
        ("mrr@1", ["x", "a"], {"a": 1.0}, 0.0),
        ("average_precision", ["a", "x", "b"], {"a": 1.0, "b": 2.0}, (1 + 2 / 3) / 2),
        ("recall@2", ["a", "a", "b"], {"a": 1.0, "b": 1.0}, 1.0),  # chunks of one document count once
        ("hit_rate@3", ["a"], {"a": 0.0, "b": 1.0}, 0.0),  # a grade of zero is not relevant
        ("mrr", [None, "a"], {"a": 1.0}, 0.5),  # a context without an id takes its place
        ("ndcg", [], {"a": 1.0}, 0.0),
        ("hit_rate@3", ["a"], {"a": 0.0}, None),
        ("mrr", ["a"], {}, None),
    ],
)
def test_measures_by_id(
    name: str, ids: Sequence[str | None], relevant: Mapping[str, float], expected: float | None
) -> None:
    found = scored(name, ids, relevant)
    assert (found.value if isinstance(found, Scored) else None) == expected
    assert isinstance(found, NotApplicable) is (expected is None)


@pytest.mark.parametrize("name", ["ndcg@0", "ndcg@1001", "ndcg@-1", "ndcg@x", "recall", "recal@5"])
def test_an_impossible_cut_off_is_an_unknown_metric(name: str) -> None:
    assert find_metric(name) is None
    with pytest.raises(ConfigError, match="unknown metric"):
        select_metrics([name])


def test_contexts_without_ids_can_not_be_scored() -> None:
    found = scored("mrr", [None, None], {"a": 1.0})
    assert isinstance(found, Failed)
    assert found.by == "system"
    assert "ids" in found.reason


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
        if metric.excuse(by_id) is None:
            found = metric.score(by_id, response, Judgements())
            assert found == NotApplicable("the contexts were returned as ids, without their texts"), metric.info.name
