"""What a judge says of labelled cases, and the measures of its agreement with people."""

from __future__ import annotations

import gzip
import json
import math
from pathlib import Path

import judge_opinions as measures
import numpy as np
import pytest
from labelled_sets import EvalTask, load_items
from scipy import stats

PAGE = "The lighthouse was built in 1871."


def test_measures_are_those_of_scipy_and_by_their_formulas() -> None:
    dice = np.random.default_rng(3)
    a, b = dice.random(40).round(1), dice.random(40).round(1)
    assert measures.pearson(a, b) == pytest.approx(stats.pearsonr(a, b)[0])
    assert measures.spearman(a, b) == pytest.approx(stats.spearmanr(a, b)[0])
    assert math.isnan(measures.pearson(np.ones(5), np.arange(5.0)))
    said, true = np.array([1.0, 1.0, 0.0, 0.0, 1.0]), np.array([1.0, 1.0, 1.0, 0.0, 0.0])
    assert measures.balanced_accuracy(said, true) == pytest.approx((2 / 3 + 1 / 2) / 2)
    assert measures.f1_score(said, true) == pytest.approx(2 * 2 / 6)
    labels = np.array([0.0, 1.0] * 50)
    assert measures.calibration_error(np.full(100, 0.5), labels) == pytest.approx(0.0)
    assert measures.calibration_error(np.ones(100), labels) == pytest.approx(0.5)
    assert measures.brier(np.full(100, 0.5), labels) == pytest.approx(0.25)


def test_published_files_are_known_by_their_fields(tmp_path: Path) -> None:
    rows = {
        "wikieval": {
            "id": "w1", "question": "Q?", "context_v1": PAGE, "context_v2": "More.", "answer": "A.",
            "ungrounded_answer": "B.", "poor_answer": "C.",
        },
        "begin": {
            "id": "b1", "split": "test", "source": "wow", "message": "Hi", "context": PAGE, "answer": "A.",
            "label_faithful": 1,
        },
        "wice": {
            "id": "c1", "split": "test", "claim": "A.", "evidence_sentences": [PAGE], "label_faithful": 0,
        },
        "halueval": {"id": "h1", "question": "Q?", "context": PAGE, "right_answer": "A", "hallucinated_answer": "B"},
        "clapnq": {"id": "n1", "question": "Q?", "title": "T", "context": PAGE, "answerable": 1},
        "ragchecker": {
            "id": "r1", "question": "Q?", "reference": "R.", "response1": "A.", "response2": "B.", "dataset": "d",
            "query_id": "1", "human": {"correctness": [1, 2], "completeness": [0, 0], "overall": [-1, 0]},
        },
    }  # fmt: skip
    tasks = {}
    for name, row in rows.items():
        path = tmp_path / f"{name}.jsonl.gz"
        path.write_bytes(gzip.compress(json.dumps(row).encode()))
        tasks[name] = [item.task for item in load_items(path)]
    assert tasks["wikieval"] == [EvalTask.FAITHFULNESS, EvalTask.ANSWER_RELEVANCY, EvalTask.CONTEXT_RELEVANCE]
    assert tasks["begin"] == tasks["wice"] == tasks["halueval"] == [EvalTask.FAITHFULNESS]
    assert tasks["clapnq"] == [EvalTask.ANSWERABILITY]
    assert tasks["ragchecker"] == [EvalTask.CORRECTNESS, EvalTask.COMPLETENESS, EvalTask.OVERALL]
