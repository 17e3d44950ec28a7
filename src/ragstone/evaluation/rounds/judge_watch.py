"""What a run records about its judge besides the identity: which model replied, and the
results of canaries."""

from __future__ import annotations

import asyncio
import hashlib
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ragstone.errors import JudgeError
from ragstone.evaluation.directory import RunDirectory
from ragstone.evaluation.manifest import Cost
from ragstone.evaluation.record import SampleRecord
from ragstone.evaluation.round_facts import Canaries, Observed
from ragstone.evaluation.rounds.planted import choose_hosts, judge_planted, mean_scores
from ragstone.evaluation.rounds.round import add_cost
from ragstone.evaluation.writer import update_rounds
from ragstone.judge.judgements import StatementList, SupportTable, Verdict
from ragstone.judge.protocol import Call, Judge, JudgementFailed, Ledger, Sightings


async def watch_judge(
    run: RunDirectory,
    judge: Judge,
    baseline: RunDirectory | None,
    canaries: int,
    *,
    inherits: bool,
    planted: int = 0,
) -> RunDirectory:
    """Record the observed judge in `run`, repeat `canaries` judgements of `baseline`,
    and judge `planted` answers.

    Nothing is repeated if the judge differs from the baseline's or can't change, and
    nothing planted if no judgement of the run is new, or it was done before the run was
    resumed. `inherits`: judgements of the baseline were reused, so what was observed
    for it also applies to this run.
    """
    sightings: Sightings | None = getattr(judge, "sightings", None)
    if planted and run.rounds.judge.planted is None and run.manifest.cost.calls:
        draw = random.SystemRandom()
        before = {} if baseline is None else mean_scores(baseline)
        hosts = run.find(choose_hosts(run.records(), before, planted, draw))
        count, cost = await judge_planted(judge, tuple(hosts.values()), planted, draw)
        run = update_rounds(
            add_cost(run, Cost.of(cost)),
            judge=run.rounds.judge.model_copy(update={"planted": count}),
        )
    if sightings is None:
        return run
    earlier = (
        baseline.rounds.judge.observed if baseline is not None and inherits else None
    )
    used_earlier = earlier if run.manifest.cost.cached_calls else None
    observed = Observed(
        models=tuple(sightings.models),
        fingerprints=tuple(sightings.fingerprints),
        ways=tuple(sightings.ways),
    ).plus(used_earlier or Observed())
    update: dict[str, object] = {
        "observed": observed if observed != Observed() else None
    }
    if (
        canaries
        and baseline is not None
        and baseline.manifest.judge == run.manifest.judge
    ):
        repeated, ledger = await _ask(judge, sightings, baseline, canaries)
        update |= {"canaries": repeated}
        run = add_cost(run, Cost.of(ledger))
    return update_rounds(run, judge=run.rounds.judge.model_copy(update=update))


async def _ask(
    judge: Judge, sightings: Sightings, baseline: RunDirectory, n: int
) -> tuple[Canaries | None, Ledger]:
    before = set(sightings.models)
    sightings.models.clear()
    chosen = choose_canaries(baseline.records(), n)
    repeated, ledger = await ask_again(judge, chosen)
    models = tuple(sorted(sightings.models))
    sightings.models |= before
    return (
        repeated.model_copy(update={"models": models})
        if repeated.asked or repeated.unanswered
        else None
    ), ledger


CANARIES = 20
"""Default number of repeated judgements."""


@dataclass(frozen=True, slots=True)
class Canary:
    """An earlier judgement of support, and the one statement whose verdict is compared.

    One verdict per judgement: verdicts in one reply are correlated, and counting all of
    them would overstate the evidence.
    """

    record: SampleRecord
    statements: StatementList
    statement_id: str
    verdict: Verdict


def choose_canaries(
    records: Iterable[SampleRecord], n: int = CANARIES
) -> tuple[Canary, ...]:
    """At most `n` of the judgements in `records`, chosen by a hash of their content:
    the same ones each time."""
    canaries = [canary for record in records for canary in _canary(record)]
    return tuple(
        sorted(canaries, key=lambda canary: _hash(canary.record.sample.id))[:n]
    )


async def ask_again(
    judge: Judge, canaries: Sequence[Canary]
) -> tuple[Canaries, Ledger]:
    """How many verdicts of `judge` differ from those in `canaries`, and the cost.

    Failed judgements are counted as unanswered, and so are all remaining ones if the
    judge fails as a whole.
    """
    ledger = Ledger()
    gate = asyncio.Semaphore(max(1, judge.concurrency))

    async def ask(canary: Canary) -> Verdict | None:
        contexts = canary.record.response.contexts
        call = Call(canary.record.sample.id, ledger=ledger, fresh=True)
        try:
            async with gate:
                table = await judge.support(
                    contexts, canary.statements.statements, call=call
                )
        except (JudgementFailed, JudgeError):
            return None
        return next(
            (
                support.verdict
                for support in table.supports
                if support.statement_id == canary.statement_id
            ),
            None,
        )

    verdicts = await asyncio.gather(*(ask(canary) for canary in canaries))
    pairs = [
        (canary.verdict, now)
        for canary, now in zip(canaries, verdicts, strict=True)
        if now is not None
    ]
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
    if (
        first is None
        or not isinstance(first.statements, StatementList)
        or not isinstance(first.support, SupportTable)
    ):
        return
    if not first.support.supports or not record.response.contexts:
        return
    chosen = min(
        first.support.supports,
        key=lambda support: _hash(f"{record.sample.id}\0{support.statement_id}"),
    )
    yield Canary(record, first.statements, chosen.statement_id, chosen.verdict)


def _hash(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
