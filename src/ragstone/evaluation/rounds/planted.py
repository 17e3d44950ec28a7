"""Planted answers: statements that no context can support, so that a judge that supports everything is noticed."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable
from itertools import cycle, islice

from ragstone.errors import JudgeError
from ragstone.evaluation.manifest import Manifest, Planted
from ragstone.evaluation.record import SampleRecord
from ragstone.formatting import counted
from ragstone.judge.judgements import Statement, SupportTable, Verdict
from ragstone.judge.protocol import Call, Judge, JudgementFailed, Ledger

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


def planted_statement(key: str) -> str:
    """A statement about people and places that do not exist; another one for each `key`, the same each time."""
    made = random.Random(key)  # noqa: S311 - it needs to be new, not secret
    names = {name: "".join(made.choices(_SYLLABLES, k=3)).capitalize() for name in "abc"}
    return made.choice(_CLAIMS).format(**names, n=made.randint(1100, 9900), y=made.randint(10, 99))


async def judge_planted(judge: Judge, records: Iterable[SampleRecord], n: int) -> tuple[Planted | None, Ledger]:
    """How many of `n` planted answers the judge lets pass, and what that cost; None if the run judged no support.

    Each is judged by the contexts of a sample, whose own answer was judged by them. Nothing is read from a cache or
    stored there, and nothing counts in a score. A judge that fails has let nothing pass.
    """
    ledger, hosts = Ledger(), list(islice(filter(_judged, records), n))
    if not hosts:
        return None, ledger

    async def passes(number: int, host: SampleRecord) -> bool | None:
        statement = Statement("s1", planted_statement(f"{host.sample.id} {number}"))
        call = Call(host.sample.id, ledger=ledger, fresh=True)
        try:
            table = await judge.support(host.response.contexts, (statement,), call=call)
        except (JudgementFailed, JudgeError):
            return None
        return table.supports[0].verdict is Verdict.SUPPORTED

    found = await asyncio.gather(*(passes(*one) for one in enumerate(islice(cycle(hosts), n))))
    answered = [one for one in found if one is not None]
    return Planted(asked=len(answered), passed=sum(answered), unanswered=n - len(answered)), ledger


def _judged(record: SampleRecord) -> bool:
    first = record.judgements[0] if record.judgements else None
    return first is not None and isinstance(first.support, SupportTable) and bool(record.response.contexts)


def credulous(manifest: Manifest | None) -> JudgeError | None:
    """The error of a run whose judge let every planted answer pass."""
    found = None if manifest is None else manifest.planted
    if manifest is None or found is None or found.unanswered or not 0 < found.asked == found.passed:
        return None
    return JudgeError(
        f"{manifest.judge.label()} finds support for everything: {lenient(found)}, although the "
        "contexts say nothing of the kind. Its scores can't be trusted.",
        hint="Use another judge, or check what answers at judge.base_url.",
    )


def lenient(found: Planted) -> str:
    """How many of the planted answers the judge let pass, as a clause."""
    return f"it let {found.passed} of {counted(found.asked, 'planted wrong answer')} pass"
