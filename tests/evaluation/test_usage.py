from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ragstone.evaluation.directory import RunDirectory
from ragstone.evaluation.manifest import SystemUsage
from ragstone.evaluation.record import Answer, SampleRecord
from ragstone.evaluation.usage import UsageCount
from ragstone.evaluation.writer import RunWriter
from ragstone.metrics.score import Scored
from ragstone.settings.settings import SystemPrice
from ragstone.system.payload import failed
from ragstone.system.response import Response, SystemFailureKind, TokenUsage
from tests.evaluation.builders import manifest, samples

PRICE = SystemPrice(input=1.0, output=10.0)


def response(*tokens: int) -> Response:
    return Response("q", "An answer.", usage=TokenUsage(*tokens) if tokens else None)


def counted(*each: tuple[Response, ...], price: SystemPrice | None = PRICE) -> SystemUsage | None:
    count = UsageCount(price)
    for responses in each:
        count.add(responses)
    return count.summary()


def test_totals_are_over_all_answers_and_means_over_the_first_ones() -> None:
    found = counted((response(100, 10), response(900, 90)), (response(300, 30), response(300, 30)))
    assert found is not None
    assert (found.answers, found.reported, found.input_tokens, found.output_tokens) == (4, 4, 1600, 160)
    assert (found.input_tokens_mean, found.output_tokens_mean, found.tokens_mean) == (200, 20, 220)
    assert found.tokens_p95 == 330
    assert found.cost_usd == pytest.approx((1600 + 1600) / 1e6)
    assert found.cost_mean_usd == pytest.approx(400 / 1e6)


def test_what_is_not_reported_is_not_zero_and_reported_zeros_are() -> None:
    assert counted((response(),)) is None
    some = counted((response(100, 10),), (response(),), (failed("q", SystemFailureKind.RAISED, "no"),))
    zeros, free = counted((response(0, 0),)), counted((response(100, 10),), price=None)
    assert some is not None
    assert zeros is not None
    assert free is not None
    assert (some.answers, some.reported, some.tokens_mean) == (2, 1, 110)
    assert (zeros.tokens_mean, zeros.cost_mean_usd) == (0, 0)
    assert (free.cost_usd, free.cost_mean_usd, free.cost_p95_usd) == (None, None, None)


def test_a_resumed_run_counts_what_it_had_before(tmp_path: Path) -> None:
    golden = samples(3)
    begun = manifest(golden).model_copy(update={"price": PRICE})
    records = [
        SampleRecord(
            sample, (Answer(replace(response(100 * n, 10), sample_id=sample.id)),), {"faithfulness": Scored(1.0)}
        )
        for n, sample in enumerate(golden, start=1)
    ]
    writer = RunWriter.create(tmp_path / "run", begun)
    writer.append(records[0])
    writer.append(records[1])
    writer.stop("killed", wall_s=1.0)
    writer = RunWriter.resume(tmp_path / "run", begun)
    writer.append(records[2])
    run = writer.finish([sample.id for sample in golden], wall_s=1.0)
    stored = RunDirectory.open(tmp_path / "run")
    assert run.manifest.usage == stored.manifest.usage == counted(*(record.responses for record in records))
    assert stored.scores().system.usage == {sample.id: TokenUsage(100 * n, 10) for n, sample in enumerate(golden, 1)}
