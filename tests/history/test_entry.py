from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ragstone.evaluation.manifest import AcceptedDrop, BaselineFact, SystemManifest
from ragstone.gate.policy import default_policy, policy_from_mapping
from ragstone.history.entry import judge_key, run_line
from ragstone.judge.protocol import JudgeIdentity
from ragstone.metrics.score import Failed
from ragstone.stats.intervals import mean_interval
from tests.gate.conftest import build_run, make_manifest
from tests.history import seasons

VALUES = [1.0, 0.5, 0.8, 0.9, 1.0, 0.4]
RUN = build_run(
    {"faithfulness": VALUES, "context_recall": [1.0] * 6},
    tags={f"s{index}": ("de",) for index in range(2)},
    failed={"context_recall": {"s5": Failed("judge", "no verdict")}},
    latencies=[1.0, 2.0, 3.0, 4.0, 5.0, 6.0],
)


def test_a_line_holds_what_the_run_came_to() -> None:
    taken = AcceptedDrop(id="abcdefgh", metric="faithfulness", drop=0.03)
    system = SystemManifest(entrypoint="app:answer", commit="c" * 40, version="2026.1")
    manifest = make_manifest().model_copy(
        update={
            "system": system,
            "verdict": "inconclusive",
            "baseline": BaselineFact(eligible=True, reason="it passed", accepted=(taken,)),
        }
    )
    policy = policy_from_mapping({"slices": {"de": {"metrics": {"faithfulness": {"min": 0.1}}}}})
    line = run_line(RUN, manifest, policy, fingerprint="a" * 16, pull_request=12, github_run=99)
    found = mean_interval(np.array(VALUES))
    part = line.metrics["faithfulness"]
    assert part.mean == pytest.approx(found.estimate, abs=1e-5)
    assert part.low <= found.low <= found.high <= part.high
    assert part.n == 6
    assert line.slices["de"]["faithfulness"].n == 2
    assert line.coverage == pytest.approx(5 / 6, abs=1e-4)
    assert (line.latency_p50_s, line.verdict, line.eligible) == (3.5, "inconclusive", True)
    assert (line.system, line.commit) == ("2026.1", "c" * 40)
    assert line.accepted[0].id == "abcdefgh"
    assert (line.pull_request, line.github_run, line.scores) == (12, 99, {})


def test_a_run_without_a_verdict_has_a_line_that_can_be_no_baseline() -> None:
    line = run_line(RUN, make_manifest(), default_policy(), fingerprint="a" * 16)
    assert (line.verdict, line.eligible) == ("none", False)
    assert line.metrics["faithfulness"].n == 6


def test_the_judge_s_key_tells_judges_apart() -> None:
    one = JudgeIdentity(provider="openai", model="m", version="1")
    assert judge_key(one) == judge_key(replace(one))
    others = [
        replace(one, **change)
        for change in ({"model": "n"}, {"version": "2"}, {"embeddings": "e"}, {"parameters": (("temperature", "0"),)})
    ]
    assert len({judge_key(other) for other in (one, *others)}) == 5


def test_of_a_long_text_a_line_has_what_comes_first() -> None:
    drop = AcceptedDrop(id="a" * 600, metric="m" * 600, drop=0.1)
    assert (len(drop.id), len(drop.metric)) == (500, 500)
    whole = seasons.line(0)
    long = type(whole).model_validate(whole.model_dump() | {"judge": "j" * 600, "system": "s" * 600})
    assert (long.judge, long.system) == ("j" * 500, "s" * 500)
