"""One judging round: the judgements that a set of metrics needs, in dependency
order."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import MappingProxyType

from msgspec import Struct

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
    Statements,
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
    custom: Mapping[str, Measure] = MappingProxyType({}),
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
            return _all_failed(question, needs, custom)
        judged_sample = replace(sample, question=str(question))
    judging = _Round(
        own,
        judged_sample,
        response,
        call,
        previous,
    )
    outcomes = judging.outcomes
    grades: dict[str, asyncio.Task[object]] = {}
    try:
        async with asyncio.TaskGroup() as group:
            if needs & NEEDING_STATEMENTS:
                judging.start(group, JudgementKind.STATEMENTS)
            # In an order that doesn't change from process to process.
            for kind in sorted(needs - _APART):
                judging.start(group, kind)
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
                preferring = group.create_task(_outcome(preference))
                outcomes[JudgementKind.PREFERENCE] = preferring
            for name, measure in custom.items():
                grade = partial(
                    measure,
                    judge,
                    judged_sample,
                    response,
                    call,
                )
                grades[name] = group.create_task(_outcome(grade))
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from None
    judgements = _results(outcomes)
    judgements["custom"] = _results(grades)
    if judged_sample is not sample:
        judgements["standalone_question"] = judged_sample.question
    return Judgements(**judgements)  # type: ignore[arg-type]


def _all_failed(
    failure: JudgementFailure,
    needs: frozenset[JudgementKind],
    custom: Mapping[str, Measure],
) -> Judgements:
    """Every judgement and grade that was asked for, as this failure."""
    kinds = map(str, needs - {JudgementKind.CUSTOM})
    return Judgements(
        **dict.fromkeys(kinds, failure),  # type: ignore[arg-type]
        custom=dict.fromkeys(custom, failure),
    )


def _results(tasks: Mapping[str, asyncio.Task[object]]) -> dict[str, object]:
    return {str(name): task.result() for name, task in tasks.items()}


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


class _Round(Struct):
    judge: Judge
    sample: Sample
    response: Response
    call: Call
    previous: Response | None
    outcomes: dict[str, asyncio.Task[object]] = {}
    """The judgements that were started, by kind."""

    def start(self, group: asyncio.TaskGroup, kind: JudgementKind) -> None:
        """Make the judgement of this kind in a task of `group`."""
        judgement = partial(self.judgement, kind)
        self.outcomes[kind] = group.create_task(_outcome(judgement))

    async def judgement(self, kind: JudgementKind) -> object:
        """The judgement of this kind; None if it can't apply. Support and matches wait
        for the statements."""
        judge, sample, call = self.judge, self.sample, self.call
        question, references = sample.question, sample.references
        answer, response = self.response.answer, self.response
        contexts = () if response.lacks_texts else response.contexts
        listed = StatementList(statements=(), abstains=True)
        if kind in _FROM_STATEMENTS:
            outcome = await self.outcomes[JudgementKind.STATEMENTS]
            if not isinstance(outcome, StatementList):
                return None
            listed = outcome
        statements = listed.statements
        match kind:
            case JudgementKind.STATEMENTS if answer.strip():
                return await judge.statements(question, answer, call=call)
            case JudgementKind.STATEMENTS:
                return listed
            case JudgementKind.SUPPORT if statements and response.evidence:
                return await judge.support(response.evidence, statements, call=call)
            case JudgementKind.REFERENCE_MATCH if sample.reference:
                match = partial(self._match, statements)
                return await best_match(references, answer, match)
            case JudgementKind.PREVIOUS_MATCH if self.previous and not listed.abstains:
                previous = self.previous.answer
                if previous.strip() and previous != answer:
                    return await self._match(statements, previous)
            case JudgementKind.CONTEXT_USE if contexts:
                return await judge.context_use(
                    question,
                    self._reference(),
                    answer,
                    contexts,
                    call=call,
                )
            case JudgementKind.REVERSE_QUESTIONS if answer.strip():
                if isinstance(judge, RatesRelevancy):
                    return await judge.relevancy(
                        question,
                        answer,
                        contexts,
                        references,
                        call=call,
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
            case JudgementKind.ENTITIES if isinstance(judge, NamesEntities):
                reference = self._reference()
                if reference is not None:
                    return await judge.entities(reference, call=call)
        return None

    async def _match(self, statements: Statements, reference: str) -> object:
        """The answer with these statements, compared with a reference."""
        question, answer = self.sample.question, self.response.answer
        match = partial(self.judge.reference_match, question, reference, statements)
        return await _outcome(partial(match, answer, call=self.call))

    def _reference(self) -> str | None:
        contexts = [context.text for context in self.response.contexts]
        return held_most(self.sample.references, contexts)


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
        shared = (answer_words & wanted).total()
        total = answer_words.total() + wanted.total()
        return -2.0 * shared / max(1, total)

    return tuple(sorted(references, key=distance))


def held_most(references: Sequence[str], contexts: Sequence[str]) -> str | None:
    """The reference with the largest share of words that occur in `contexts`; of equal
    ones the first."""
    if len(references) < 2:
        return next(iter(references), None)
    context_words = _words(" ".join(contexts)).keys()

    def missing(reference: str) -> float:
        words = _words(reference)
        held = sum(words[word] for word in words.keys() & context_words)
        return (words.total() - held) / max(1, words.total())

    return min(references, key=missing)


async def best_match(
    references: Sequence[str], answer: str, compare: Callable[[str], Awaitable[object]]
) -> ReferenceMatch | JudgementFailure | None:
    """The best of what `compare` gives for the nearest references; no further ones are
    tried after a full match.

    If one of them could not be judged and none is matched in full, the whole has
    failed: that one may be the best.
    """
    best: ReferenceMatch | None = None
    inapplicable: JudgementFailure | None = None
    failure: JudgementFailure | None = None
    for reference in nearest_first(references, answer)[:MAX_MATCHED]:
        outcome = await compare(reference)
        match outcome:
            case ReferenceMatch():
                supports = (*outcome.answer_supports, *outcome.reference_supports)
                verdicts = {support.verdict for support in supports}
                if verdicts <= {Verdict.SUPPORTED}:
                    return outcome
                best = max(best or outcome, outcome, key=_agreement)
            case JudgementFailure(not_applicable=True):
                inapplicable = inapplicable or outcome
            case JudgementFailure():
                failure = failure or outcome
    return failure or best or inapplicable


def _words(text: str) -> Counter[str]:
    return Counter(_WORD.findall(text.casefold()))


def _agreement(match: ReferenceMatch) -> float:
    """Harmonic mean of the two shares, as in answer correctness."""
    precision = _share(match.answer_share, match.answer_supports)
    recall = _share(match.reference_share, match.reference_supports)
    if not precision + recall:
        return 0.0
    return 2 * precision * recall / (precision + recall)


def _share(graded: float | None, supports: Sequence[Support]) -> float:
    if graded is not None:
        return graded
    supported = sum(support.verdict is Verdict.SUPPORTED for support in supports)
    return supported / max(1, len(supports))
