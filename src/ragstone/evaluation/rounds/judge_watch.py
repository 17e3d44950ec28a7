"""What a run records about its judge besides the identity: which model replied, and the
results of canaries."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterable, Sequence

from msgspec import Struct

from ragstone.errors import JudgeError
from ragstone.evaluation.directory import RunDirectory
from ragstone.evaluation.manifest import Cost
from ragstone.evaluation.record import SampleRecord
from ragstone.evaluation.round_facts import Canaries, Observed
from ragstone.evaluation.rounds.planted import judge_planted
from ragstone.evaluation.rounds.round import add_cost
from ragstone.evaluation.writer import update_rounds
from ragstone.judge.judgements import StatementList, SupportTable, Verdict
from ragstone.judge.protocol import Call, Judge, JudgementFailed, Ledger, Sightings


async def watch_judge(
    run: RunDirectory,
    judge: Judge,
    baseline: RunDirectory | None = None,
    canaries: int = 0,
    planted: int = 0,
) -> RunDirectory:
    """Record the observed judge in `run`, repeat `canaries` judgements of `baseline`,
    and judge `planted` answers.

    Nothing is repeated if the judge differs from the baseline's or can't change, and
    nothing planted if no judgement of the run is new, or it was done before the run was
    resumed. Where judgements of the baseline were reused, what was observed for it also
    applies to this run.
    """
    sightings: Sightings | None = getattr(judge, "sightings", None)
    facts = run.rounds.judge
    if planted and facts.planted is None and run.manifest.cost.calls:
        count, cost = await judge_planted(judge, run, baseline, planted)
        facts = facts.model_copy(update={"planted": count})
        run = update_rounds(add_cost(run, Cost.of(cost)), judge=facts)
    if sightings is None:
        return run
    models = set(sightings.models)
    observed = Observed(
        models=tuple(sorted(models)),
        ways=tuple(sorted(sightings.request_modes)),
    )
    earlier = None if baseline is None else baseline.rounds.judge.observed
    if earlier is not None and run.manifest.cost.cached_calls:
        observed = observed.plus(earlier)
    if observed != Observed():
        facts = facts.model_copy(update={"observed": observed})
    if (
        canaries
        and baseline is not None
        and baseline.manifest.judge == run.manifest.judge
    ):
        sightings.models.clear()
        chosen = choose_canaries(baseline.records(), canaries)
        repeated, ledger = await ask_again(judge, chosen)
        if chosen:
            now = {"models": tuple(sorted(sightings.models))}
            facts = facts.model_copy(
                update={"canaries": repeated.model_copy(update=now)}
            )
        sightings.models |= models
        run = add_cost(run, Cost.of(ledger))
    return update_rounds(run, judge=facts)


CANARIES = 20
"""Default number of repeated judgements."""


class Canary(Struct, frozen=True):
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
    canaries: list[Canary] = []
    for record in records:
        judged, name = record.answers[0].judged, record.sample.id
        statements, table = judged.statements, judged.support
        if (
            isinstance(statements, StatementList)
            and isinstance(table, SupportTable)
            and table.supports
            and record.response.contexts
        ):
            chosen = min(
                table.supports,
                key=lambda support: _hash(f"{name}\0{support.statement_id}"),
            )
            canaries.append(
                Canary(record, statements, chosen.statement_id, chosen.verdict)
            )
    canaries.sort(key=lambda canary: _hash(canary.record.sample.id))
    return tuple(canaries[:n])


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
        verdicts = {support.statement_id: support.verdict for support in table.supports}
        return verdicts.get(canary.statement_id)

    verdicts = await asyncio.gather(*map(ask, canaries))
    pairs = zip(canaries, verdicts, strict=True)
    answered = [(canary.verdict, now) for canary, now in pairs if now is not None]
    return Canaries(
        asked=len(answered),
        differing=sum(then is not now for then, now in answered),
        unanswered=len(canaries) - len(answered),
        supported_then=sum(then is Verdict.SUPPORTED for then, _ in answered),
        supported_now=sum(now is Verdict.SUPPORTED for _, now in answered),
    ), ledger


def _hash(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
