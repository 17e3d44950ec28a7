"""The offline judge: the six judgements by lexical methods."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import TypeVar

from ragstone.judge.judgements import (
    ContextGrades,
    ContextUse,
    ContextUsefulness,
    ReferenceMatch,
    ReverseQuestions,
    SentenceRelevance,
    Statement,
    StatementList,
    Support,
    SupportTable,
    Verdict,
    context_id,
)
from ragstone.judge.normal import normalise
from ragstone.judge.offline import relevance
from ragstone.judge.offline.abstention import abstains, refuses
from ragstone.judge.offline.agreement import (
    USE_FEATURES,
    Agreement,
    compare,
    overall,
    use_features,
)
from ragstone.judge.offline.bare import (
    choice,
    full_statement,
    read_bare,
    read_statement,
)
from ragstone.judge.offline.claims import without_thoughts
from ragstone.judge.offline.lexicon import Language, guess_language
from ragstone.judge.offline.model import judge_version, load_model
from ragstone.judge.offline.passage import Passage, Sentence, read_passage
from ragstone.judge.offline.relevance import Question, read_question
from ragstone.judge.offline.statements import MAX_STATEMENTS, split_statements
from ragstone.judge.offline.support import SupportModel
from ragstone.judge.protocol import Call, JudgeIdentity, JudgementFailed
from ragstone.system.response import Context

Made = TypeVar("Made")

TOO_LITTLE = "too little text for the offline judge"
"""The reason for not judging a text without any content word."""

MAX_CHARACTERS = 200_000
"""Limit for an answer, a reference or a question; longer texts are refused rather than
judged in part."""

MAX_CONTEXT_CHARACTERS = 1_000_000
"""Limit for all contexts of an answer together."""

_LANGUAGE_SAMPLE = 600
_CACHED_TEXTS, _MAX_CACHED_CHARACTERS = 512, 8_000
"""The same texts occur in several judgements of one sample, and the same passages in
many samples. Longer ones are parsed anew each time, so that the caches are bounded.
"""


class OfflineJudge:
    """Judges by words, numbers and names: no key, no network, no model to download, the
    same result every time.

    Methods raise JudgementFailed for text that they can't judge, and never wait.
    """

    concurrency = 8

    def __init__(self) -> None:
        self.identity = JudgeIdentity(
            provider="offline",
            model="embedded",
            version=judge_version(),
        )
        self._use = load_model("use", USE_FEATURES)
        self._answering = load_model("answering", relevance.ANSWER_FEATURES)
        self._relevance = load_model("relevance", relevance.FEATURES)
        self._support = SupportModel()

    async def close(self) -> None:
        pass

    async def statements(
        self, question: str, answer: str, *, call: Call
    ) -> StatementList:
        _bounded(question=question, answer=answer)
        language = _language((answer,))
        bare = _full_statement(question, answer)
        if bare is not None:
            return StatementList(statements=(Statement("s1", bare),), abstains=False)
        sentences = _limited(_split(answer, language), "the answer")
        if abstains(sentences, language):
            return StatementList(statements=(), abstains=True)
        claims = _claims(sentences, language)
        if not claims:
            raise JudgementFailed(TOO_LITTLE, not_applicable=True)
        return StatementList(statements=_numbered("s", claims), abstains=False)

    async def support(
        self,
        contexts: Sequence[Context],
        statements: Sequence[Statement],
        *,
        call: Call,
    ) -> SupportTable:
        said = " ".join(statement.text for statement in statements)
        passages, language = _passages(contexts, said)
        ratings = [
            self._support.rate(_sentence(statement.text, language), passages)
            for statement in statements
        ]
        supports = [
            self._support.verdict(statement.id, rating)
            for statement, rating in zip(statements, ratings, strict=True)
        ]
        all_supported = self._support.whole(ratings) if ratings else None
        return SupportTable(tuple(supports), all_supported)

    async def context_use(
        self,
        question: str,
        reference: str | None,
        answer: str,
        contexts: Sequence[Context],
        *,
        call: Call,
    ) -> ContextUse:
        target = "reference" if reference else "answer"
        text = reference or answer
        _bounded(**{"question": question, target: text})
        passages, language = _passages(contexts)
        goal = _limited(_split(text, language), f"the {target}")
        ratings = [self._support.rate(sentence, passages) for sentence in goal]
        chances = [0.0] * len(passages)
        if goal:
            asked = _question(question, language).sentence.key_set
            rows = use_features(goal, [rating.match for rating in ratings], asked)
            chances = [self._use.probability(row) for row in rows]
        useful = [
            ContextUsefulness(context_id(rank), chance >= self._use.threshold, chance)
            for rank, chance in enumerate(chances)
        ]
        if not reference:
            return ContextUse(contexts=tuple(useful), against_reference=False)
        claims = _claims(goal, language)
        if not claims:
            raise JudgementFailed(TOO_LITTLE, not_applicable=True)
        statements = _numbered("r", claims)
        verdicts = [
            self._support.verdict(statement.id, ratings[goal.index(claim)])
            for statement, claim in zip(statements, claims, strict=True)
        ]
        return ContextUse(
            contexts=tuple(useful),
            against_reference=True,
            reference_statements=statements,
            attributions=tuple(verdicts),
        )

    async def reverse_questions(
        self, question: str, answer: str, *, n: int, call: Call
    ) -> ReverseQuestions:
        return await self.relevancy(question, answer, (), (), call=call)

    async def relevancy(
        self,
        question: str,
        answer: str,
        contexts: Sequence[Context],
        references: Sequence[str],
        *,
        call: Call,
    ) -> ReverseQuestions:
        """Whether the answer is about what was asked and answers it, in place of
        reverse questions."""
        _bounded(
            question=question,
            answer=answer,
            reference=max(references, key=len, default=""),
        )
        language = _language((answer,))
        question_read = _asked(question, language)
        sentences = _split(answer, language)
        relevancy = 0.0
        if any(_same_word(question, reference, answer) for reference in references):
            relevancy = 1.0
        elif sentences:
            compared = relevance.Answer(
                question_read,
                sentences,
                [_read(text, language) for text in _texts(contexts)],
                [_read(text, language) for text in references],
            )
            relevancy = compared.relevancy(self._answering)
        return ReverseQuestions((), (relevancy,))

    async def reference_match(
        self,
        question: str,
        reference: str,
        statements: Sequence[Statement],
        answer: str,
        *,
        call: Call,
    ) -> ReferenceMatch:
        _bounded(question=question, reference=reference, answer=answer)
        is_same = _same_word(question, reference, answer)
        if is_same is not None:
            by_word = Agreement(1.0, float(is_same), is_same)
            whole = [Statement("r1", f"{question} {reference}")]
            from_answer = [by_word] * len(statements)
            return _reference_match(statements, from_answer, whole, [by_word])
        language = _language((reference, answer))
        question_keys = _question(question, language).sentence.key_set
        bare_reference = _full_statement(question, reference)
        bare_answer = _full_statement(question, answer)
        if bare_reference or bare_answer:
            question_keys = frozenset()
        expected, passage = _compared(bare_reference, reference, language)
        _, answered = _compared(bare_answer, answer, language)
        if not any(sentence.keys for sentence in expected):
            raise JudgementFailed(TOO_LITTLE, not_applicable=True)
        from_answer = [
            compare(_sentence(statement.text, language), passage, question_keys)
            for statement in statements
        ]
        from_reference = [
            compare(sentence, answered, question_keys) for sentence in expected
        ]
        references = _numbered("r", expected)
        return _reference_match(statements, from_answer, references, from_reference)

    async def context_relevance(
        self, question: str, contexts: Sequence[Context], *, call: Call
    ) -> ContextGrades:
        _bounded(question=question)
        passages, language = _passages(contexts)
        question_read = _asked(question, language)
        model = self._relevance
        grades = []
        for rank, passage in enumerate(passages):
            chance, *chances = [
                model.probability(relevance.features(question_read, sentences))
                for sentences in (
                    passage.sentences,
                    *([each] for each in passage.sentences),
                )
            ]
            relevant = [chance * each >= model.threshold for each in chances]
            share = sum(chances) / max(1, len(chances))
            grades.append(
                SentenceRelevance(
                    context_id(rank), sum(relevant), len(chances), chance, share
                )
            )
        return ContextGrades(tuple(grades))


def _bounded(**texts: str) -> None:
    """Raise JudgementFailed if one of `texts` is too long to be judged; the reason goes
    into the record."""
    for what, text in texts.items():
        _check_length(f"the {what} has", len(text), MAX_CHARACTERS)


def _texts(contexts: Sequence[Context]) -> tuple[str, ...]:
    """The texts of `contexts`. Raises JudgementFailed if they are too long to be
    judged."""
    characters = sum(len(context.text) for context in contexts)
    _check_length("the contexts have", characters, MAX_CONTEXT_CHARACTERS)
    return tuple(context.text for context in contexts)


def _check_length(what: str, characters: int, most: int) -> None:
    if characters > most:
        raise JudgementFailed(
            f"{what} {characters:,} characters; the offline judge takes at most {most:,}, so nothing was judged"
        )


def _reference_match(
    statements: Sequence[Statement],
    from_answer: Sequence[Agreement],
    references: Sequence[Statement],
    from_reference: Sequence[Agreement],
) -> ReferenceMatch:
    return ReferenceMatch(
        reference_statements=tuple(references),
        answer_supports=_supports(statements, from_answer, "reference"),
        reference_supports=_supports(references, from_reference, "answer"),
        answer_share=overall(from_answer),
        reference_share=overall(from_reference),
    )


def _supports(
    statements: Sequence[Statement], agreements: Sequence[Agreement], source: str
) -> tuple[Support, ...]:
    supports = []
    for statement, agreement in zip(statements, agreements, strict=True):
        sources = (source,) if agreement.agrees else ()
        verdict = Verdict.SUPPORTED if sources else Verdict.UNSUPPORTED
        supports.append(Support(statement.id, verdict, sources))
    return tuple(supports)


def _compared(
    full: str | None, text: str, language: Language
) -> tuple[Sequence[Sentence], Passage]:
    """The statements of an answer or a reference, and its text as a passage; of a bare
    one, the `full` statement."""
    if full is not None:
        statement = _sentence(full, language)
        return [statement], Passage([statement], language)
    statements = _limited(_split(text, language), "the reference or the answer")
    return statements, _read(without_thoughts(text), language)


def _passages(
    contexts: Sequence[Context], beside: str = ""
) -> tuple[list[Passage], Language]:
    """The contexts, read in the language of them and of what is said beside. Raises JudgementFailed if they are too long
    to be judged."""
    texts = _texts(contexts)
    language = _language((beside, *texts))
    return [_read(text, language) for text in texts], language


def _asked(question: str, language: Language) -> Question:
    """The question. Raises JudgementFailed if it has no content word."""
    question_read = _question(question, language)
    if not question_read.sentence.keys:
        raise JudgementFailed(TOO_LITTLE, not_applicable=True)
    return question_read


def _cached(read: Callable[[str, Language], Made]) -> Callable[[str, Language], Made]:
    """`read`, which remembers recent texts that aren't long."""
    remembered = lru_cache(maxsize=_CACHED_TEXTS)(read)

    def cached(text: str, language: Language) -> Made:
        is_long = len(text) > _MAX_CACHED_CHARACTERS
        return read(text, language) if is_long else remembered(text, language)

    return cached


@_cached
def _read(text: str, language: Language) -> Passage:
    return read_passage(text, language)


@_cached
def _sentence(text: str, language: Language) -> Sentence:
    return read_statement(text, language)


@_cached
def _question(text: str, language: Language) -> Question:
    return read_question(_sentence(normalise(text), language))


@_cached
def _split(text: str, language: Language) -> tuple[Sentence, ...]:
    return tuple(split_statements(normalise(text), language))


def _full_statement(question: str, answer: str) -> str | None:
    """What a bare answer says together with its question; None if it isn't bare, or the
    question says nothing."""
    if len(answer) > _LANGUAGE_SAMPLE:
        return None
    language = _language((question,))
    return full_statement(normalise(question), normalise(answer), language)


def _same_word(question: str, reference: str, answer: str) -> bool | None:
    """Whether an answer and a reference, one of which is bare, say the same by one
    word; None if words can't tell."""
    if min(len(reference), len(answer)) > _LANGUAGE_SAMPLE:
        return None
    language = _language((question,))
    texts = [normalise(reference), normalise(answer)]
    if not any(read_bare(text, language) for text in texts):
        return None
    expected, chosen = map(choice, texts)
    return None if None in (expected, chosen) else expected == chosen


@lru_cache(maxsize=64)
def _language(texts: tuple[str, ...]) -> Language:
    text = " ".join(text[:_LANGUAGE_SAMPLE] for text in texts[:5])
    # Normalising doesn't shorten ASCII, and the language is told by the beginning.
    return guess_language(
        normalise(text[: 2 * _LANGUAGE_SAMPLE] if text.isascii() else text)
    )


def _claims(sentences: Sequence[Sentence], language: Language) -> list[Sentence]:
    """Those that claim something; refusals only if there is nothing else."""
    claims = [sentence for sentence in sentences if sentence.keys]
    claiming = [claim for claim in claims if not refuses(claim.text, language.code)]
    return claiming or claims


def _numbered(prefix: str, sentences: Iterable[Sentence]) -> tuple[Statement, ...]:
    return tuple(
        Statement(f"{prefix}{rank}", sentence.text)
        for rank, sentence in enumerate(sentences, start=1)
    )


def _limited(sentences: tuple[Sentence, ...], what: str) -> tuple[Sentence, ...]:
    if len(sentences) > MAX_STATEMENTS:
        raise JudgementFailed(
            f"{what} has {len(sentences)} statements; the offline judge takes at most {MAX_STATEMENTS}"
        )
    return sentences
