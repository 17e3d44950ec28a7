"""The offline judge's opinion on the statements that a language model judged: free, listed, and changing no score."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ragstone.formatting import clipped, counted
from ragstone.judge.judgements import StatementList, Support, SupportTable, Verdict
from ragstone.judge.offline import OfflineJudge
from ragstone.judge.offline.reliability import sure
from ragstone.judge.protocol import JudgementFailed
from ragstone.run.directory import RunDirectory
from ragstone.run.record import SampleRecord

MAX_SAMPLES = 2_000
"""Samples of a run that are looked at, the first ones."""

MAX_LISTED = 10


@dataclass(frozen=True, slots=True)
class Doubt:
    """A statement of an answer on which the judge's `verdict` is not what the offline judge is sure of."""

    sample_id: str
    statement: str
    verdict: Verdict


def doubts_of(run: RunDirectory) -> Iterator[Doubt]:
    """The doubts about the first answers of `run`; none if the offline judge judged it. Raises RunDirectoryError."""
    if run.manifest.judge.offline:
        return
    judge = OfflineJudge(one.question for one in itertools.islice(run.scores().samples.values(), MAX_SAMPLES))
    for record in itertools.islice(run.records(), MAX_SAMPLES):
        judged = record.judgements[0] if record.judgements else None
        if judged and isinstance(judged.statements, StatementList) and isinstance(judged.support, SupportTable):
            yield from _doubts(judge, record, judged.statements, judged.support.supports)


def _doubts(
    judge: OfflineJudge, record: SampleRecord, listed: StatementList, supports: Sequence[Support]
) -> Iterator[Doubt]:
    contexts = record.response.contexts
    try:
        opinions = judge.supports(contexts, listed.statements).supports
    except JudgementFailed:
        return
    verdicts = {one.statement_id: one.verdict for one in supports}
    for statement, opinion in zip(listed.statements, opinions, strict=True):
        verdict = verdicts.get(statement.id, opinion.verdict)
        differs = (verdict is Verdict.SUPPORTED) is not (opinion.verdict is Verdict.SUPPORTED)
        if differs and sure(opinion, statement.text, [one.text for one in contexts]):
            yield Doubt(record.sample.id, statement.text, verdict)


def doubt_notes(doubts: Sequence[Doubt]) -> Iterator[str]:
    """How many statements judges differ on, and the first of them."""
    if not doubts:
        return
    samples = counted(len({one.sample_id for one in doubts}), "answer")
    yield (
        f"Judges differ on {counted(len(doubts), 'statement')} of {samples}: look. The offline judge is sure of the "
        "opposite, which changes no score; ragstone label --by disagreement draws these answers more often."
    )
    for one in doubts[:MAX_LISTED]:
        yield f"“{clipped(one.statement, 240)}” ({one.sample_id}) is {one.verdict} for the judge."
