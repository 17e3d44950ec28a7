"""One judging round: the judgements that a set of metrics needs, in dependency
order."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from ragstone.golden.sample import Sample
from ragstone.judge.abilities import (
    NO_EMBEDDINGS,
    Embedding,
    NamesEntities,
    RatesRelevancy,
    WritesOutQuestions,
)
from ragstone.judge.citations import judge_citations
from ragstone.judge.judgements import (
    Grade,
    JudgementFailure,
    JudgementKind,
    Judgements,
    ReferenceMatch,
    StatementList,
    Support,
    Verdict,
)
from ragstone.judge.preference import WithEarlierAnswers
from ragstone.judge.protocol import Call, Judge, JudgementFailed
from ragstone.system.response import Response

Measure = Callable[[Judge, Sample, Response, Call], Awaitable[Grade]]
"""Grades one answer for a custom metric. Raises JudgementFailed."""

REVERSE_QUESTIONS = 3
"""How many reverse questions answer relevancy asks for (n in the RAGAS paper, section
3)."""


async def collect_judgements(
    judge: Judge,
    sample: Sample,
    response: Response,
    needs: frozenset[JudgementKind],
    call: Call,
    *,
    previous: Response | None = None,
    custom: Mapping[str, Measure] | None = None,
) -> Judgements:
    """Ask `judge` for everything in `needs`; a judgement that fails is replaced by a
    JudgementFailure.

    `previous` is the previous response to the same question, if there is one to compare
    this one with. `custom` are the measures of custom metrics, by name. Support and
    matches wait for the statements; the others run concurrently. A judgement that can't
    apply (support without contexts or statements, reference match without a reference)
    stays None. Of several references, the best one counts (`best_match`). Raises
    JudgeError when the judge can't continue.
    """
    own = judge.judge if isinstance(judge, WithEarlierAnswers) else judge
    judged_sample = sample
    history = response.messages_before(sample)
    if history and (needs or custom):
        whole = replace(sample, history=history)
        question = await _outcome(partial(asked_in_full, own, whole, call))
        if isinstance(question, JudgementFailure):
            kinds = map(str, needs - {JudgementKind.CUSTOM})
            return Judgements(
                **dict.fromkeys(kinds, question),  # type: ignore[arg-type]
                custom=dict.fromkeys(custom or (), question),
            )
        judged_sample = replace(sample, question=str(question))
    judging = _Round(own, judged_sample, response, call, previous)
    graded: dict[str, asyncio.Task[object]] = {}
    tasks: dict[str, asyncio.Task[object]] = {}
    try:
        async with asyncio.TaskGroup() as group:
            if needs & NEEDING_STATEMENTS:
                statements = partial(judging.judgement, JudgementKind.STATEMENTS)
                judging.statements = group.create_task(_outcome(statements))
                tasks[JudgementKind.STATEMENTS] = judging.statements
            # In an order that doesn't change from process to process.
            for kind in sorted(needs - _APART):
                judgement = partial(judging.judgement, kind)
                tasks[kind] = group.create_task(_outcome(judgement))
            if JudgementKind.PREFERENCE in needs and isinstance(
                judge, WithEarlierAnswers
            ):
                preference = partial(
                    judge.preference,
                    sample,
                    response,
                    question=judged_sample.question,
                    call=call,
                )
                tasks[JudgementKind.PREFERENCE] = group.create_task(
                    _outcome(preference)
                )
            for name, measure in (custom or {}).items():
                grade = partial(measure, judge, judged_sample, response, call)
                graded[name] = group.create_task(_outcome(grade))
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from None
    judgements: dict[str, object] = {
        str(kind): task.result() for kind, task in tasks.items()
    }
    if judged_sample is not sample:
        judgements["standalone_question"] = judged_sample.question
    judgements["custom"] = {name: task.result() for name, task in graded.items()}
    return Judgements(**judgements)  # type: ignore[arg-type]


_FROM_STATEMENTS = {
    JudgementKind.SUPPORT,
    JudgementKind.REFERENCE_MATCH,
    JudgementKind.PREVIOUS_MATCH,
}
NEEDING_STATEMENTS = {JudgementKind.STATEMENTS, *_FROM_STATEMENTS}
_APART = {
    JudgementKind.STATEMENTS,
    JudgementKind.PREFERENCE,
    JudgementKind.CUSTOM,
}


@dataclass(slots=True)
class _Round:
    judge: Judge
    sample: Sample
    response: Response
    call: Call
    previous: Response | None
    statements: asyncio.Task[object] | None = None

    async def judgement(self, kind: JudgementKind) -> object:
        """The judgement of this kind; None if it can't apply. Support and matches wait
        for the statements."""
        judge, sample, call = self.judge, self.sample, self.call
        question, references = sample.question, sample.references
        answer, response = self.response.answer, self.response
        contexts = () if response.without_texts else response.contexts
        reference = held_most(
            references, [context.text for context in response.contexts]
        )
        statements = StatementList(statements=(), abstains=True)
        if kind in _FROM_STATEMENTS:
            listed = await self.statements if self.statements else None
            if not isinstance(listed, StatementList):
                return None
            statements = listed
        match = partial(self._match, statements)
        match kind:
            case JudgementKind.STATEMENTS:
                if not answer.strip():
                    return statements
                return await judge.statements(question, answer, call=call)
            case JudgementKind.SUPPORT if statements.statements and response.evidence:
                return await judge.support(
                    response.evidence, statements.statements, call=call
                )
            case JudgementKind.REFERENCE_MATCH if sample.reference:
                return await best_match(references, answer, match)
            case JudgementKind.PREVIOUS_MATCH if not statements.abstains:
                before = ""
                if self.previous is not None:
                    before = self.previous.answer
                if before.strip() and before != answer:
                    return await match(before)
            case JudgementKind.CONTEXT_USE if contexts:
                return await judge.context_use(
                    question, reference, answer, contexts, call=call
                )
            case JudgementKind.REVERSE_QUESTIONS if answer.strip():
                if isinstance(judge, RatesRelevancy):
                    return await judge.relevancy(
                        question, answer, contexts, references, call=call
                    )
                return await judge.reverse_questions(
                    question, answer, n=REVERSE_QUESTIONS, call=call
                )
            case JudgementKind.CONTEXT_RELEVANCE if contexts:
                return await judge.context_relevance(question, contexts, call=call)
            case JudgementKind.CITATIONS:
                return await judge_citations(judge, response, call)
            case JudgementKind.ANSWER_SIMILARITY:
                if not isinstance(judge, Embedding):
                    raise JudgementFailed(NO_EMBEDDINGS, not_applicable=True)
                is_comparable = sample.answerable and answer.strip()
                compared = references if is_comparable else ()
                return await judge.answer_similarity(answer, compared, call=call)
            case JudgementKind.ENTITIES if reference is not None:
                if isinstance(judge, NamesEntities):
                    return await judge.entities(reference, call=call)
        return None

    async def _match(self, statements: StatementList, reference: str) -> object:
        match = partial(
            self.judge.reference_match,
            self.sample.question,
            reference,
            statements.statements,
            self.response.answer,
            call=self.call,
        )
        return await _outcome(match)


async def asked_in_full(judge: object, sample: Sample, call: Call) -> str:
    """The question of `sample` as it can be understood alone: written out by a judge
    that can do so.

    Otherwise the earlier question of the user is put before it: coarse, but the topic
    is there. All judgements of the sample are made with that question, so that their
    prompts are those of samples without a history. Raises JudgementFailed.
    """
    if isinstance(judge, WritesOutQuestions):
        return await judge.standalone_question(
            sample.history, sample.question, call=call
        )
    earlier = [turn.text for turn in sample.history if turn.role == "user"]
    return " ".join([*earlier[-1:], sample.question])


async def _outcome(judgement: Callable[[], Awaitable[object]]) -> object:
    try:
        return await judgement()
    except JudgementFailed as failure:
        return JudgementFailure(failure.reason, not_applicable=failure.not_applicable)


MAX_MATCHED = 3
"""How many references an answer is judged against at most."""

_WORD = re.compile(r"\w+")


def nearest_first(references: Sequence[str], answer: str) -> tuple[str, ...]:
    """`references`, that with the highest F1 of words with `answer` first; equal ones
    in their own order."""
    answer_words = _words(answer)

    def distance(reference: str) -> float:
        wanted = _words(reference)
        return (
            -2.0
            * (answer_words & wanted).total()
            / max(1, answer_words.total() + wanted.total())
        )

    return tuple(sorted(references, key=distance))


def held_most(references: Sequence[str], contexts: Sequence[str]) -> str | None:
    """The reference with the largest share of words that occur in `contexts`; of equal
    ones the first."""
    if len(references) < 2:
        return references[0] if references else None
    context_words = {word for context in contexts for word in _words(context)}

    def missing(reference: str) -> float:
        words = _words(reference)
        return sum(n for word, n in words.items() if word not in context_words) / max(
            1, words.total()
        )

    return min(references, key=missing)


async def best_match(
    references: Sequence[str], answer: str, match: Callable[[str], Awaitable[object]]
) -> ReferenceMatch | JudgementFailure | None:
    """The best of what `match` gives for the nearest references; no further ones are
    tried after a full match.

    If one of them could not be judged and none is matched in full, the whole has
    failed: that one may be the best.
    """
    best: ReferenceMatch | None = None
    failures: list[JudgementFailure] = []
    for reference in nearest_first(references, answer)[:MAX_MATCHED]:
        match_result = await match(reference)
        if isinstance(match_result, JudgementFailure):
            failures.append(match_result)
        elif isinstance(match_result, ReferenceMatch):
            if best is None or _agreement(match_result) > _agreement(best):
                best = match_result
            if all(
                support.verdict is Verdict.SUPPORTED
                for support in (
                    *match_result.answer_supports,
                    *match_result.reference_supports,
                )
            ):
                return match_result
    failed = next((failure for failure in failures if not failure.not_applicable), None)
    return failed or best or next(iter(failures), None)


def _words(text: str) -> Counter[str]:
    return Counter(_WORD.findall(text.casefold()))


def _agreement(match: ReferenceMatch) -> float:
    """Harmonic mean of the two shares, as in answer correctness."""
    precision = _share(match.answer_share, match.answer_supports)
    recall = _share(match.reference_share, match.reference_supports)
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


def _share(graded: float | None, supports: Sequence[Support]) -> float:
    if graded is not None:
        return graded
    return sum(support.verdict is Verdict.SUPPORTED for support in supports) / max(
        1, len(supports)
    )
