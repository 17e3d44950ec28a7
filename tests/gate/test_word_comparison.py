"""A loss that only the words of the offline judge show warns; a loss of facts blocks."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pytest
from msgspec.structs import replace

from ragstone.evaluation.rewording import Rewording
from ragstone.evaluation.scores import MetricScores, RunScores
from ragstone.gate.verdict import Check, GateVerdict
from ragstone.gate.word_comparison import is_by_words
from ragstone.report.headline import headline_of
from tests.gate.conftest import ONLY_NAMED, build_run, decide, make_manifest

N = 60


def scores(metric: str, values: list[float], provider: str = "offline", reworded: Collection[int] = ()) -> RunScores:
    run = build_run({metric: values}, manifest=make_manifest(provider=provider))
    samples = {name: replace(facts, reference=f"r{name}") for name, facts in run.samples.items()}
    facts = {f"s{i}": Rewording(grounded=True, states_reference=True) for i in reworded}
    return replace(run, samples=samples, system=replace(run.system, reworded=facts))


def decided(rule: Any, lost: int, reworded: Collection[int], provider: str = "offline", **more: Any) -> GateVerdict:
    """The verdict on a fall from 0.95 to 0.5 of so many of 60 samples."""
    metric = more.get("metric", "faithfulness")
    then = scores(metric, [0.95] * N, provider)
    now = scores(metric, [0.5] * lost + [0.95] * (N - lost), provider, reworded)
    baseline = then if more.get("compared", True) else None
    return decide(now, baseline, metrics={metric: rule}, gate=ONLY_NAMED, system={"max_broken": 1.0})


def of_rule(verdict: GateVerdict) -> Check:
    return next(check for check in verdict.checks if check.name.endswith((".drop", ".floor")))


DROP, FLOOR = {"max_drop": 0.02}, {"min": 0.95}


@pytest.mark.parametrize(
    ("rule", "lost", "reworded", "more", "status", "action"),
    [
        (DROP, 20, range(20), {}, "fail", "warn"),
        (DROP, 20, range(20), {"metric": "answer_correctness"}, "fail", "warn"),
        (DROP, 20, (), {}, "fail", "block"),
        (DROP, 20, range(14), {}, "fail", "block"),  # six did
        (DROP, 20, range(18), {}, "fail", "warn"),  # two alone show nothing
        (DROP, 2, range(2), {}, "pass", "block"),
        (DROP, 20, range(20), {"provider": "openai"}, "fail", "block"),  # a model is believed
        (FLOOR, 20, range(20), {}, "fail", "warn"),
        (FLOOR, 20, range(19), {}, "fail", "block"),
        (FLOOR, 20, range(20), {"compared": False}, "fail", "block"),
    ],
)
def test_what_other_answers_lost_decides(
    rule: Any, lost: int, reworded: Collection[int], more: Any, status: str, action: str
) -> None:
    verdict = decided(rule, lost, reworded, **more)
    check = of_rule(verdict)
    assert (check.status, check.action, check.by_words) == (status, action, action == "warn")
    assert verdict.status == ("fail" if status == "fail" and action == "block" else "pass")
    if check.by_words:
        assert "By word comparison, " in headline_of(verdict, sample_count=N).fact
        assert verdict.explanation.attribution is None


def test_metrics_without_an_answer_in_common_have_no_mean_until_words_are_left_out() -> None:
    now = scores("faithfulness", [0.5] * 20 + [0.95] * (N - 20), reworded=range(20))
    ids = list(now.samples)
    first = MetricScores(
        now["faithfulness"].values, answers={name: (now["faithfulness"].values[name], None) for name in ids}
    )
    second = MetricScores(dict.fromkeys(ids, 0.95), answers=dict.fromkeys(ids, (None, 0.95)))
    now = replace(now, metrics={"faithfulness": first, "answer_correctness": second})
    before = MetricScores(dict.fromkeys(ids, 0.95))
    then = replace(scores("faithfulness", [0.95] * N), metrics=dict.fromkeys(now.metrics, before))
    verdict = decide(now, then, metrics=dict.fromkeys(now.metrics, DROP), gate=ONLY_NAMED, system={"max_broken": 1.0})
    assert [check.name for check in verdict.checks if check.by_words] == ["faithfulness.drop"]


BOTH, GROUNDED, NEITHER = Rewording(True, True), Rewording(True, False), Rewording(False, True)


@pytest.mark.parametrize(
    ("metric", "words", "has_reference", "expected"),
    [
        ("faithfulness", GROUNDED, False, True),
        ("faithfulness", NEITHER, True, False),
        ("faithfulness", None, True, False),
        ("answer_correctness", BOTH, True, True),
        ("answer_correctness", BOTH, False, False),
        ("answer_correctness", GROUNDED, True, False),
        ("context_recall", BOTH, True, False),
    ],
)
def test_whose_losses_other_words_explain(metric: str, words: Any, has_reference: bool, expected: bool) -> None:
    run = scores(metric, [0.5])
    reworded = {} if words is None else {"s0": words}
    samples = run.samples if has_reference else {"s0": replace(run.samples["s0"], reference=None)}
    run = replace(run, samples=samples, system=replace(run.system, reworded=reworded))
    assert is_by_words(metric, "s0", run) is expected
