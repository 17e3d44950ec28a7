"""Planted answers: the judge is given statements that no context can support, to notice
a judge that supports everything."""

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


_UNRELATED_PASSAGE = "The shop is open from nine to five. Parcels are sent on the day after they were ordered."
"""A judge that finds support for a planted answer in this passage supports anything."""


def planted_statement(draw: random.Random) -> str:
    """A statement about people and places that don't exist, drawn anew each time, so
    that no author of a context can foresee it."""
    names = {
        placeholder: "".join(draw.choices(_SYLLABLES, k=3)).capitalize()
        for placeholder in "abc"
    }
    return draw.choice(_CLAIMS).format(
        **names, n=draw.randint(1100, 9900), y=draw.randint(10, 99)
    )


_Outcome = Literal["refused", "failed", "passed anywhere", "passed once", "steered"]
"""What the judge did with a planted answer: refused it or failed; or passed it with
unrelated contexts too, by a slip, or because its contexts order it to."""


async def judge_planted(
    judge: Judge, run: RunDirectory, baseline: RunDirectory | None, n: int
) -> tuple[Planted | None, Ledger]:
    """Judge `n` planted answers: how many pass, and what that cost. None if no sample
    was judged by contexts.

    Each is judged by the contexts of such a sample, its host: half of the hosts are the
    samples whose scores rose most above those of `baseline`, the others are drawn at
    random. If it passes, it is also judged by an unrelated passage, because contexts
    can order a model to support everything, which is not the judge's fault. Nothing is
    read from a cache or stored there, and nothing counts in a score.
    """
    ledger = Ledger()
    draw = random.SystemRandom()
    hosts = run.find(_choose_hosts(run, baseline, n, draw)).values()
    if not hosts:
        return None, ledger

    async def passes(host: SampleRecord, contexts: Sequence[Context]) -> bool | None:
        """Whether a new planted answer passes with `contexts`; None if the judge
        fails."""
        call = Call(host.sample.id, ledger=ledger, fresh=True)
        statement = Statement("s1", planted_statement(draw))
        try:
            table = await judge.support(contexts, (statement,), call=call)
        except (JudgementFailed, JudgeError):
            return None
        return table.supports[0].verdict is Verdict.SUPPORTED

    async def outcome(host: SampleRecord) -> _Outcome:
        contexts = host.response.contexts
        has_passed = await passes(host, contexts)
        if not has_passed:
            return "failed" if has_passed is None else "refused"
        # A judge that fails here gets no benefit of the doubt.
        if await passes(host, (Context(_UNRELATED_PASSAGE),)) is not False:
            return "passed anywhere"
        return "steered" if await passes(host, contexts) else "passed once"

    drawn_hosts = list(islice(cycle(hosts), n))
    outcomes: list[_Outcome] = await asyncio.gather(*map(outcome, drawn_hosts))
    counts = Counter(outcomes)
    steered = dict.fromkeys(
        host.sample.id
        for host, result in zip(drawn_hosts, outcomes, strict=True)
        if result == "steered"
    )
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
    """The ids of at most `n` samples that were judged by contexts."""
    scores = _mean_scores(run)
    baseline_scores = {} if baseline is None else _mean_scores(baseline)
    rises: dict[str, float] = {}
    for record in run.records():
        sample_id = record.sample.id
        support = record.answers[0].judged.support
        if isinstance(support, SupportTable) and record.response.contexts:
            baseline_score = baseline_scores.get(sample_id, math.inf)
            rises[sample_id] = scores.get(sample_id, 0.0) - baseline_score
    by_rise = sorted(rises, key=rises.__getitem__, reverse=True)
    risen = [sample_id for sample_id in by_rise[: n // 2] if rises[sample_id] > 0.0]
    candidates = by_rise[len(risen) :]
    drawn_count = min(n - len(risen), len(candidates))
    return (*risen, *draw.sample(candidates, drawn_count))


def _mean_scores(run: RunDirectory) -> dict[str, float]:
    """The mean score of each sample over all metrics; samples without a score are left
    out."""
    scores: dict[str, list[float]] = {}
    for metric in run.scores().metrics.values():
        for sample_id, value in metric.values.items():
            scores.setdefault(sample_id, []).append(value)
    return {sample_id: fmean(values) for sample_id, values in scores.items()}


def credulity_error(judge: JudgeIdentity, planted: Planted | None) -> JudgeError | None:
    """The error of a run whose judge let every planted answer pass with unrelated
    contexts, too; None for any other run."""
    if (
        planted is None
        or planted.unanswered
        or not 0 < planted.asked == planted.passed_anywhere
    ):
        return None
    return JudgeError(
        f"{judge.label()} finds support for everything: {lenience_clause(planted)}, although the "
        "contexts say nothing of the kind. Its scores can't be trusted.",
        hint="Use another judge, or check which model answers at judge.base_url.",
    )


def lenience_clause(planted: Planted) -> str:
    """How many of the planted answers the judge let pass, as a clause."""
    return f"it let {planted.passed} of {counted(planted.asked, 'planted wrong answer')} pass"
