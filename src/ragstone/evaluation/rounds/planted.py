"""Planted answers: statements that no context can support, so that a judge that
supports everything is noticed."""

from __future__ import annotations

import asyncio
import math
import random
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum, auto
from itertools import cycle, islice
from statistics import fmean

from ragstone.errors import JudgeError
from ragstone.evaluation.directory import RunDirectory
from ragstone.evaluation.record import SampleRecord
from ragstone.evaluation.round_facts import Planted
from ragstone.formatting import counted
from ragstone.judge.judgements import Statement, SupportTable, Verdict
from ragstone.judge.protocol import Call, Judge, JudgeIdentity, JudgementFailed, Ledger
from ragstone.metrics.score import Scored
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


def choose_hosts(
    records: Iterable[SampleRecord],
    before: Mapping[str, float],
    n: int,
    draw: random.Random,
) -> tuple[str, ...]:
    """The ids of `n` samples whose answers were judged by contexts: half of them those
    whose scores rose most above those `before`, by id, and the others at random. Fewer
    if there are fewer."""
    rises: list[tuple[float, str]] = []
    fallen: list[str] = []
    for record in records:
        if not _judged(record):
            continue
        name = record.sample.id
        rise = _mean_score(record) - before.get(name, math.inf)
        if rise > 0.0:
            rises.append((rise, name))
        else:
            fallen.append(name)
    rises.sort(reverse=True)
    risen = [name for _, name in rises]
    first = risen[: n // 2]
    candidates = [*risen[n // 2 :], *fallen]
    return (*first, *draw.sample(candidates, min(n - len(first), len(candidates))))


def mean_scores(run: RunDirectory) -> dict[str, float]:
    """The mean of each sample's scores."""
    values: dict[str, list[float]] = {}
    for scores in run.scores().metrics.values():
        for name, value in scores.values.items():
            values.setdefault(name, []).append(value)
    return {name: fmean(sample_values) for name, sample_values in values.items()}


async def judge_planted(
    judge: Judge, hosts: Sequence[SampleRecord], n: int, draw: random.Random
) -> tuple[Planted | None, Ledger]:
    """How many of `n` planted answers the judge lets pass, and what that cost; None
    without `hosts`.

    Each is judged by the contexts of one of `hosts`. If it passes, it is judged by a
    passage of ours too: contexts can order a model to support everything, which is not
    the judge's fault. Nothing is read from a cache or stored there, and nothing counts
    in a score. A judge that fails has let nothing pass.
    """
    ledger = Ledger()
    if not hosts:
        return None, ledger

    async def passes(
        name: str, contexts: Sequence[Context], statement: str
    ) -> bool | None:
        call = Call(name, ledger=ledger, fresh=True)
        try:
            table = await judge.support(
                contexts, (Statement("s1", statement),), call=call
            )
        except (JudgementFailed, JudgeError):
            return None
        return table.supports[0].verdict is Verdict.SUPPORTED

    async def outcome(host: SampleRecord, statement: str, another: str) -> _Outcome:
        name, contexts = host.sample.id, host.response.contexts
        first = await passes(name, contexts, statement)
        if first is not True:
            return _Outcome.FAILED if first is None else _Outcome.REFUSED
        if await passes(name, (Context(_PASSAGE),), statement) is not False:
            return _Outcome.PASSED_ANYWHERE
        return (
            _Outcome.STEERED
            if await passes(name, contexts, another)
            else _Outcome.PASSED_ONCE
        )

    chosen = list(islice(cycle(hosts), n))
    statements = [(planted_statement(draw), planted_statement(draw)) for _ in chosen]
    tasks = (
        outcome(host, *pair) for host, pair in zip(chosen, statements, strict=True)
    )
    outcomes = await asyncio.gather(*tasks)
    counts = Counter(outcomes)
    pairs = zip(chosen, outcomes, strict=True)
    steered = dict.fromkeys(
        host.sample.id for host, result in pairs if result is _Outcome.STEERED
    )
    planted = Planted(
        asked=n - counts[_Outcome.FAILED],
        passed=counts[_Outcome.PASSED_ANYWHERE] + counts[_Outcome.PASSED_ONCE],
        passed_anywhere=counts[_Outcome.PASSED_ANYWHERE],
        unanswered=counts[_Outcome.FAILED],
        steered=tuple(steered),
    )
    return planted, ledger


class _Outcome(Enum):
    """What became of a planted answer: refused, or passed with any contexts, by a slip,
    or as its contexts order it."""

    REFUSED = auto()
    FAILED = auto()
    PASSED_ANYWHERE = auto()
    PASSED_ONCE = auto()
    STEERED = auto()


def _mean_score(record: SampleRecord) -> float:
    values = [
        score.value for score in record.scores.values() if isinstance(score, Scored)
    ]
    return fmean(values) if values else 0.0


def _judged(record: SampleRecord) -> bool:
    first = record.judgements[0] if record.judgements else None
    return (
        first is not None
        and isinstance(first.support, SupportTable)
        and bool(record.response.contexts)
    )


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
