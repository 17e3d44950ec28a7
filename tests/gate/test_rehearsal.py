"""The best run that there could be: every metric at its best where it applies."""

from __future__ import annotations

import pytest

from ragstone.gate.rehearsal import perfect_run
from ragstone.golden.sample import GoldenSet, Origin, Sample
from ragstone.metrics.registry import select_metrics
from ragstone.system.response import Response
from tests.gate.conftest import make_manifest

GOLDEN = GoldenSet(
    (
        Sample(id="full", question="How far?", reference="Far.", origin=Origin("golden.jsonl", 1)),
        Sample(id="bare", question="How near?", reference=None, origin=Origin("golden.jsonl", 2)),
    )
)


@pytest.mark.parametrize(("answers", "compared"), [(1, {}), (2, {"full": 1.0, "bare": 1.0})])
def test_a_metric_has_its_best_score_where_it_applies(answers: int, compared: dict[str, float]) -> None:
    metrics = select_metrics(["faithfulness", "token_f1", "answer_stability"])
    answered = make_manifest().model_copy(update={"answers": answers})
    run = perfect_run(GOLDEN, metrics, answered, Response("How far?", "Far."))
    assert run.metrics["faithfulness"].values == {"full": 1.0, "bare": 1.0}
    assert run.metrics["token_f1"].values == {"full": 1.0}
    assert run.metrics["token_f1"].not_applicable.keys() == {"bare"}
    assert run.metrics["answer_stability"].values == compared
    assert run.system.latencies_s == {}
