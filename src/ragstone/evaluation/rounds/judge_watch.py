"""What a run records about its judge besides the identity: which models replied, and how
canaries and planted answers were judged.

A canary is a judgement of the baseline that is repeated, to notice a judge that has
changed. A planted answer is a wrong one that Ragstone makes, to see whether the judge
lets it pass.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterable, Sequence

from msgspec import Struct

from ragstone.errors import JudgeError
from ragstone.evaluation.directory import RunDirectory
from ragstone.evaluation.manifest import Cost
from ragstone.evaluation.record import SampleRecord
from ragstone.evaluation.round_facts import CanaryCounts, Observed
from ragstone.evaluation.rounds.planted import judge_planted
from ragstone.evaluation.rounds.round import add_cost
from ragstone.evaluation.writer import update_rounds
from ragstone.judge.judgements import StatementList, SupportTable, Verdict
from ragstone.judge.protocol import Call, Judge, JudgementFailed, Ledger, ObservedJudge


async def watch_judge(
    run: RunDirectory,
    judge: Judge,
    baseline: RunDirectory | None = None,
    *,
    canary_count: int = 0,
    planted_count: int = 0,
) -> RunDirectory:
    """Record in `run` what was observed of the judge, repeat some judgements of
    `baseline`, and judge planted answers.

    No judgement is repeated if the judge differs from the baseline's or can't change.
    No answer is planted if no judgement of the run is new, or if planted answers were
    judged before the run was resumed. If judgements of the baseline were reused, the models observed
    there are recorded, too.
    """
    # Only a judge that can change has one.
    observed_judge: ObservedJudge | None = getattr(judge, "observed_judge", None)
    facts = run.rounds.judge
    if planted_count and facts.planted is None and run.manifest.cost.calls:
        planted, ledger = await judge_planted(judge, run, baseline, planted_count)
        facts = facts.model_copy(update={"planted": planted})
        run = update_rounds(add_cost(run, Cost.of(ledger)), judge=facts)
    if observed_judge is None:
        return run
    models = set(observed_judge.models)
    observed = Observed(
        models=tuple(sorted(models)),
        ways=tuple(sorted(observed_judge.request_modes)),
    )
    earlier = None if baseline is None else baseline.rounds.judge.observed
    if earlier is not None and run.manifest.cost.cached_calls:
        observed = observed.plus(earlier)
    if observed != Observed():
        facts = facts.model_copy(update={"observed": observed})
    if (
        canary_count
        and baseline is not None
        and baseline.manifest.judge == run.manifest.judge
    ):
        observed_judge.models.clear()  # to see which models judge the canaries
        canaries = choose_canaries(baseline.records(), canary_count)
        counts, ledger = await repeat_judgements(judge, canaries)
        if canaries:
            counts = counts.model_copy(
                update={"models": tuple(sorted(observed_judge.models))}
            )
            facts = facts.model_copy(update={"canaries": counts})
        observed_judge.models |= models
        run = add_cost(run, Cost.of(ledger))
    return update_rounds(run, judge=facts)


DEFAULT_CANARY_COUNT = 20
"""How many judgements a job on GitHub repeats by default."""


class Canary(Struct, frozen=True):
    """A judgement of support to repeat, and the one statement whose verdict is
    compared.

    The verdicts in one reply are correlated: comparing all of them would overstate the
    evidence.
    """

    record: SampleRecord
    statements: StatementList
    statement_id: str
    verdict: Verdict


def choose_canaries(
    records: Iterable[SampleRecord], max_count: int = DEFAULT_CANARY_COUNT
) -> tuple[Canary, ...]:
    """Choose at most `max_count` judgements in `records` by a hash of their ids: the same ones
    each time."""
    canaries: list[Canary] = []
    for record in records:
        # One answer is enough: the answers to a question resemble each other.
        judgements = record.answers[0].judged
        sample_id = record.sample.id
        statements, table = judgements.statements, judgements.support
        if (
            isinstance(statements, StatementList)
            and isinstance(table, SupportTable)
            and table.supports
            and record.response.contexts
        ):
            drawn_support = min(
                table.supports,
                key=lambda support: _hash(f"{sample_id}\0{support.statement_id}"),
            )
            canaries.append(
                Canary(
                    record,
                    statements,
                    drawn_support.statement_id,
                    drawn_support.verdict,
                )
            )
    canaries.sort(key=lambda canary: _hash(canary.record.sample.id))
    return tuple(canaries[:max_count])


async def repeat_judgements(
    judge: Judge, canaries: Sequence[Canary]
) -> tuple[CanaryCounts, Ledger]:
    """Judge `canaries` again. Returns how many verdicts differ, and the cost.

    A failed judgement counts as unanswered, and so do all that remain if the judge
    fails as a whole.
    """
    ledger = Ledger()
    semaphore = asyncio.Semaphore(max(1, judge.concurrency))

    async def ask(canary: Canary) -> Verdict | None:
        contexts = canary.record.response.contexts
        call = Call(canary.record.sample.id, ledger=ledger, fresh=True)
        try:
            async with semaphore:
                table = await judge.support(
                    contexts, canary.statements.statements, call=call
                )
        except (JudgementFailed, JudgeError):
            return None
        verdicts = {support.statement_id: support.verdict for support in table.supports}
        return verdicts.get(canary.statement_id)

    verdicts = await asyncio.gather(*map(ask, canaries))
    verdict_pairs = [
        (canary.verdict, verdict)
        for canary, verdict in zip(canaries, verdicts, strict=True)
        if verdict is not None
    ]
    return CanaryCounts(
        asked=len(verdict_pairs),
        differing=sum(earlier is not current for earlier, current in verdict_pairs),
        unanswered=len(canaries) - len(verdict_pairs),
        supported_then=sum(
            earlier is Verdict.SUPPORTED for earlier, _ in verdict_pairs
        ),
        supported_now=sum(current is Verdict.SUPPORTED for _, current in verdict_pairs),
    ), ledger


def _hash(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
