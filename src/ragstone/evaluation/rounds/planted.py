"""Planted answers: statements that no context can support, so that a judge that
supports everything is noticed."""

from __future__ import annotations

import asyncio
import math
import random
from collections import Counter
from collections.abc import Sequence
from itertools import cycle, islice
from statistics import fmean
from typing import Literal

from ragstone.errors import JudgeError
from ragstone.evaluation.directory import RunDirectory
from ragstone.evaluation.record import SampleRecord
from ragstone.evaluation.round_facts import Planted
from ragstone.formatting import counted
from ragstone.judge.judgements import Statement, SupportTable, Verdict
from ragstone.judge.protocol import Call, Judge, JudgeIdentity, JudgementFailed, Ledger
from ragstone.system.response import Context

_SYLLABLES = (
    "bra",
    "dor",
    "fel",
    "gru",
    "hal",
    "kem",
    "lov",
    "mir",
    "nost",
    "pel",
    "quin",
    "ruv",
    "sten",
    "tal",
    "vor",
)
_CLAIMS = (
    "The {a} ferry carries {n} passengers to {b} every winter.",
    "{a} and {b} signed the treaty of {c} in 17{y}.",
    "The {a} museum in {b} was rebuilt for {n} crowns in 18{y}.",
    "{a} bought the {b} brewery from {c} in 19{y}.",
    "The bridge of {a} near {b} is {n} feet long.",
)


_PASSAGE = "The shop is open from nine to five. Parcels are sent on the day after they were ordered."
"""A passage of ours: a judge that finds support in it finds support in anything."""


def planted_statement(draw: random.Random) -> str:
    """A statement about people and places that do not exist, and that nobody who wrote
    a context could know."""
    names = {
        name: "".join(draw.choices(_SYLLABLES, k=3)).capitalize() for name in "abc"
    }
    return draw.choice(_CLAIMS).format(
        **names, n=draw.randint(1100, 9900), y=draw.randint(10, 99)
    )


_Outcome = Literal["refused", "failed", "passed anywhere", "passed once", "steered"]
"""What became of a planted answer: refused, or passed with any contexts, by a slip, or
as its contexts order it."""


async def judge_planted(
    judge: Judge, run: RunDirectory, baseline: RunDirectory | None, n: int
) -> tuple[Planted | None, Ledger]:
    """How many of `n` planted answers the judge lets pass, and what that cost; None
    without a sample that was judged by contexts.

    Each is judged by the contexts of such a sample: half of them are those whose scores
    rose most above those of `baseline`, and the others are drawn at random. If it
    passes, it is judged by a passage of ours too: contexts can order a model to support
    everything, which is not the judge's fault. Nothing is read from a cache or stored
    there, and nothing counts in a score. A judge that fails has let nothing pass.
    """
    ledger, draw = Ledger(), random.SystemRandom()
    hosts = run.find(_choose_hosts(run, baseline, n, draw)).values()
    if not hosts:
        return None, ledger

    async def passes(host: SampleRecord, contexts: Sequence[Context]) -> bool | None:
        """Whether a planted answer to `host` passes; None if the judge fails."""
        call = Call(host.sample.id, ledger=ledger, fresh=True)
        statement = Statement("s1", planted_statement(draw))
        try:
            table = await judge.support(contexts, (statement,), call=call)
        except (JudgementFailed, JudgeError):
            return None
        return table.supports[0].verdict is Verdict.SUPPORTED

    async def outcome(host: SampleRecord) -> _Outcome:
        contexts = host.response.contexts
        first = await passes(host, contexts)
        if not first:
            return "failed" if first is None else "refused"
        if await passes(host, (Context(_PASSAGE),)) is not False:
            return "passed anywhere"
        return "steered" if await passes(host, contexts) else "passed once"

    chosen = list(islice(cycle(hosts), n))
    outcomes: list[_Outcome] = await asyncio.gather(*map(outcome, chosen))
    counts = Counter(outcomes)
    steered: dict[str, None] = {}
    for host, result in zip(chosen, outcomes, strict=True):
        if result == "steered":
            steered[host.sample.id] = None
    planted = Planted(
        asked=n - counts["failed"],
        passed=counts["passed anywhere"] + counts["passed once"],
        passed_anywhere=counts["passed anywhere"],
        unanswered=counts["failed"],
        steered=tuple(steered),
    )
    return planted, ledger


def _choose_hosts(
    run: RunDirectory, baseline: RunDirectory | None, n: int, draw: random.Random
) -> tuple[str, ...]:
    """The ids of `n` samples that were judged by contexts, fewer if there are fewer."""
    now = _mean_scores(run)
    before = {} if baseline is None else _mean_scores(baseline)
    rises: dict[str, float] = {}
    for record in run.records():
        name, support = record.sample.id, record.answers[0].judged.support
        if isinstance(support, SupportTable) and record.response.contexts:
            score_before = before.get(name, math.inf)
            rises[name] = now.get(name, 0.0) - score_before
    by_rise = sorted(rises, key=rises.__getitem__, reverse=True)
    first = [name for name in by_rise[: n // 2] if rises[name] > 0.0]
    remaining = by_rise[len(first) :]
    size = min(n - len(first), len(remaining))
    return (*first, *draw.sample(remaining, size))


def _mean_scores(run: RunDirectory) -> dict[str, float]:
    """The mean over all metrics of each sample that has a score."""
    scores: dict[str, list[float]] = {}
    for metric in run.scores().metrics.values():
        for name, value in metric.values.items():
            scores.setdefault(name, []).append(value)
    return {name: fmean(values) for name, values in scores.items()}


def credulous(judge: JudgeIdentity, planted: Planted | None) -> JudgeError | None:
    """The error of a run whose judge let every planted answer pass."""
    if (
        planted is None
        or planted.unanswered
        or not 0 < planted.asked == planted.passed_anywhere
    ):
        return None
    return JudgeError(
        f"{judge.label()} finds support for everything: {lenient(planted)}, although the "
        "contexts say nothing of the kind. Its scores can't be trusted.",
        hint="Use another judge, or check what answers at judge.base_url.",
    )


def lenient(planted: Planted) -> str:
    """How many of the planted answers the judge let pass, as a clause."""
    return f"it let {planted.passed} of {counted(planted.asked, 'planted wrong answer')} pass"
