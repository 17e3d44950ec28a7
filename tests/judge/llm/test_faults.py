"""A provider on a bad day: every sample ends scored or named as failed, none is lost, and little is asked twice."""

from __future__ import annotations

import asyncio
import json
import random
from typing import Any

from aiohttp import web

from ragstone.golden.sample import Sample
from ragstone.judge.collect import collect_judgements
from ragstone.judge.llm.scheduler import Clock
from ragstone.judge.protocol import Call
from ragstone.metrics.registry import select_metrics
from ragstone.metrics.score import Failed, Scored
from ragstone.system.response import Context, Response
from tests.judge.conftest import hurried_sleep

METRICS = [metric for metric in select_metrics() if metric.info.name != "context_precision_no_reference"]


class BadDay:
    """5 % 429, 2 % 500, 2 % malformed, 2 % truncated, 1 % hanging, by a seeded draw for each request."""

    def __init__(self, fake: Any, seed: int = 1) -> None:
        self.fake = fake
        self.counts = {"busy": 0, "broken": 0, "malformed": 0, "truncated": 0, "hang": 0, "good": 0}
        self._draw = random.Random(seed)

    def __call__(self, seen: Any) -> Any:
        draw = self._draw.random()
        for name, share in (("busy", 0.05), ("broken", 0.02), ("malformed", 0.02), ("truncated", 0.02), ("hang", 0.01)):
            draw -= share
            if draw < 0:
                self.counts[name] += 1
                return getattr(self, f"_{name}")(seen)
        self.counts["good"] += 1
        return None

    def _busy(self, _seen: Any) -> web.Response:
        body = {"error": {"message": "Rate limit reached", "code": "rate_limit_exceeded"}}
        return web.json_response(body, status=429, headers={"Retry-After": "1"})

    def _broken(self, _seen: Any) -> web.Response:
        return web.json_response({"error": {"message": "server had an error"}}, status=500)

    def _malformed(self, seen: Any) -> str | None:
        return None if seen.path.endswith("/embeddings") else "Sure! Here is it: {verdicts: [yes, 'no"

    def _truncated(self, seen: Any) -> web.Response | None:
        if seen.path.endswith("/embeddings"):
            return None
        text = json.dumps(self.fake.fill(seen.schema, seen.data))
        reply = self.fake.completion(seen, text[: len(text) // 2])
        reply["choices"][0]["finish_reason"] = "length"
        return web.json_response(reply)

    async def _hang(self, _seen: Any) -> web.Response:
        await asyncio.sleep(60)
        return web.Response()


async def judge_samples(judge: Any, n: int) -> list[list[Any]]:
    places = asyncio.Semaphore(judge.concurrency)

    async def one(at: int) -> list[Any]:
        sample = Sample(f"q{at}", f"When did bridge {at} open?", reference=f"Bridge {at} opened in 1931.")
        response = Response(sample.id, f"It opened in {at}.", tuple(Context(f"Context {r} of {at}.") for r in range(5)))
        needs = frozenset().union(*(metric.needs(sample) for metric in METRICS))
        async with places:
            judgements = await collect_judgements(judge, sample, response, needs, Call(sample.id))
        return [metric.score(sample, response, judgements) for metric in METRICS]

    return await asyncio.gather(*(one(at) for at in range(n)))


def test_a_run_on_a_bad_day_scores_or_names_every_sample_and_asks_little_twice(world: Any) -> None:
    """A call that the provider refused with 429 or 500 did no work and cost nothing; all others count."""
    day = world.fake.always = BadDay(world.fake)
    judge = world.judge(timeout_s=3.0, clock=Clock(sleep=hurried_sleep), concurrency=8)
    cells = [cell for row in world.loop.run(judge_samples(judge, 25), timeout_s=600) for cell in row]
    assert all(isinstance(cell, Scored | Failed) for cell in cells)
    failed = [cell for cell in cells if isinstance(cell, Failed)]
    assert all(cell.reason for cell in failed)
    refused, needed = day.counts["busy"] + day.counts["broken"], 5 * 25
    assert len(world.fake.chats) - refused - needed <= 0.10 * needed
    # Both replies of a form bad: 4 % of 4 %, and a few cells for each.
    assert len(failed) <= 2
