"""Repeats judgements of the baseline, always the same ones and without the cache, to detect a change of the judge."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ragstone.errors import JudgeError
from ragstone.judge.judgements import StatementList, SupportTable, Verdict
from ragstone.judge.protocol import Call, Judge, JudgementFailed, Ledger
from ragstone.run.manifest import Canaries
from ragstone.run.record import SampleRecord

CANARIES = 20
"""Default number of repeated judgements."""


@dataclass(frozen=True, slots=True)
class Canary:
    """An earlier judgement of support, and the one statement whose verdict is compared.

    One verdict per judgement: verdicts in one reply are correlated, and counting all of them would overstate the
    evidence.
    """

    record: SampleRecord
    statements: StatementList
    statement_id: str
    verdict: Verdict


def choose_canaries(records: Iterable[SampleRecord], n: int = CANARIES) -> tuple[Canary, ...]:
    """At most `n` of the judgements in `records`, chosen by a hash of their content: the same ones each time."""
    found = [canary for record in records for canary in _canary(record)]
    return tuple(sorted(found, key=lambda canary: _hash(canary.record.sample.id))[:n])


async def ask_again(judge: Judge, canaries: Sequence[Canary]) -> tuple[Canaries, Ledger]:
    """How many verdicts of `judge` differ from those in `canaries`, and the cost.

    Failed judgements are counted as unanswered, and so are all remaining ones if the judge fails as a whole.
    """
    ledger = Ledger()
    gate = asyncio.Semaphore(max(1, judge.concurrency))

    async def ask(canary: Canary) -> Verdict | None:
        contexts = canary.record.response.contexts
        call = Call(canary.record.sample.id, ledger=ledger, fresh=True)
        try:
            async with gate:
                table = await judge.support(contexts, canary.statements.statements, call=call)
        except (JudgementFailed, JudgeError):
            return None
        return next((one.verdict for one in table.supports if one.statement_id == canary.statement_id), None)

    verdicts = await asyncio.gather(*(ask(canary) for canary in canaries))
    pairs = [(canary.verdict, now) for canary, now in zip(canaries, verdicts, strict=True) if now is not None]
    return (
        Canaries(
            asked=len(pairs),
            differing=sum(then is not now for then, now in pairs),
            unanswered=len(canaries) - len(pairs),
            supported_then=sum(then is Verdict.SUPPORTED for then, _ in pairs),
            supported_now=sum(now is Verdict.SUPPORTED for _, now in pairs),
        ),
        ledger,
    )


def _canary(record: SampleRecord) -> Iterable[Canary]:
    first = record.judgements[0] if record.judgements else None
    if first is None or not isinstance(first.statements, StatementList) or not isinstance(first.support, SupportTable):
        return
    if not first.support.supports or not record.response.contexts:
        return
    chosen = min(first.support.supports, key=lambda one: _hash(f"{record.sample.id}\0{one.statement_id}"))
    yield Canary(record, first.statements, chosen.statement_id, chosen.verdict)


def _hash(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
