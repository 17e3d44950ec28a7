"""The offline judge: the six judgements by lexical methods."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, TypeVar

from ragstone.judge.abilities import NO_EMBEDDINGS
from ragstone.judge.judgements import (
    AnswerSimilarity,
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
from ragstone.judge.offline import relevance
from ragstone.judge.offline.abstention import abstains, hedged, refuses
from ragstone.judge.offline.agreement import (
    USE_FEATURES,
    Agreement,
    compare,
    overall,
    use_features,
)
from ragstone.judge.offline.bare import (
    full_statement,
    opening,
    option_letter,
    options,
    read_bare,
    read_statement,
)
from ragstone.judge.offline.claims import bare_answer
from ragstone.judge.offline.lexicon import Language, guess_language
from ragstone.judge.offline.lexicon import language as language_of
from ragstone.judge.offline.model import load_weights
from ragstone.judge.offline.normal import normalise
from ragstone.judge.offline.passage import Passage, Sentence, read_passage
from ragstone.judge.offline.relevance import Question, read_question
from ragstone.judge.offline.statements import MAX_STATEMENTS, split_statements
from ragstone.judge.offline.support import SupportModel
from ragstone.judge.protocol import Call, JudgeIdentity, JudgementFailed
from ragstone.system.response import Context

if TYPE_CHECKING:
    from ragstone.judge.offline.topic import Topic

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

    With `topic`, embeddings contribute to answer relevancy, and `endpoint` is their
    source; everything else uses words only. Methods raise JudgementFailed for text that
    they can't judge, and never wait, except for embeddings, which also raise JudgeError
    when their server can't be used any more.
    """

    concurrency = 8

    def __init__(
        self, *, topic: Topic | None = None, endpoint: str | None = None
    ) -> None:
        weights = load_weights()
        self._topic = topic
        self.identity = JudgeIdentity(
            provider="offline",
            model="embedded",
            version=weights.version,
            endpoint=endpoint,
            embeddings=topic.label if topic else None,
        )
        self._use = weights.model("use", USE_FEATURES)
        self._answering = weights.model("answering", relevance.ANSWER_FEATURES)
        self._relevance = weights.model("relevance", relevance.FEATURES)
        self._support = SupportModel(weights)

    async def close(self) -> None:
        if self._topic is not None:
            await self._topic.close()

    async def statements(
        self, question: str, answer: str, *, call: Call
    ) -> StatementList:
        _bounded(question=question, answer=answer)
        language = _language((answer,))
        full = _full_statement(question, answer)
        if full is not None:
            return StatementList(statements=(Statement("s1", full),), abstains=False)
        sentences = _limited(_split(answer, language.code), "the answer")
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
        return self.supports(contexts, statements)

    def supports(
        self, contexts: Sequence[Context], statements: Sequence[Statement]
    ) -> SupportTable:
        """The verdicts on `statements`. Raises JudgementFailed."""
        passages, language = _passages(contexts)
        ratings = [
            self._support.rate(_sentence(statement.text, language.code), passages)
            for statement in statements
        ]
        supports = [
            self._support.verdict(statement.id, rating)
            for statement, rating in zip(statements, ratings, strict=True)
        ]
        return SupportTable(
            tuple(supports), self._support.whole(ratings) if ratings else None
        )

    async def context_use(
        self,
        question: str,
        reference: str | None,
        answer: str,
        contexts: Sequence[Context],
        *,
        call: Call,
    ) -> ContextUse:
        _bounded(
            question=question,
            **({"reference": reference} if reference else {"answer": answer}),
        )
        passages, language = _passages(contexts)
        goal = _limited(
            _split(reference or answer, language.code),
            "the reference" if reference else "the answer",
        )
        question_read = _question(question, language.code)
        ratings = {
            sentence: self._support.rate(sentence, passages) for sentence in goal
        }
        model = self._use if goal else self._relevance
        if goal:
            rows = use_features(
                goal,
                [rating.match for rating in ratings.values()],
                question_read.sentence.key_set,
            )
        else:
            rows = [
                relevance.features(question_read, passage.sentences)
                for passage in passages
            ]
        chances = [model.probability(row) for row in rows]
        useful = tuple(
            ContextUsefulness(context_id(rank), chance >= model.threshold, chance)
            for rank, chance in enumerate(chances)
        )
        if not reference:
            return ContextUse(contexts=useful, against_reference=False)
        claims = _claims(goal, language)
        if not claims:
            raise JudgementFailed(TOO_LITTLE, not_applicable=True)
        statements = _numbered("r", claims)
        verdicts = [
            self._support.verdict(statement.id, ratings[claim])
            for statement, claim in zip(statements, claims, strict=True)
        ]
        return ContextUse(
            contexts=useful,
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
        sentences = _split(answer, language.code)
        if not sentences:
            return ReverseQuestions(questions=(), similarities=(0.0,))
        nearness = (
            (await self._topic.nearnesses(question, (answer,), call=call))[0]
            if self._topic
            else None
        )
        compared = relevance.Answer(
            question_read,
            sentences,
            language,
            [_read(text, language.code) for text in _texts(contexts)],
            [_read(text, language.code) for text in references],
            nearness,
        )
        return ReverseQuestions((), (compared.relevancy(self._answering),))

    async def answer_similarity(
        self, answer: str, references: Sequence[str], *, call: Call
    ) -> AnswerSimilarity:
        if self._topic is None:
            raise JudgementFailed(NO_EMBEDDINGS, not_applicable=True)
        return AnswerSimilarity(
            await self._topic.cosines(answer, references, call=call)
            if references
            else ()
        )

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
        same = _same_word(question, normalise(reference), normalise(answer))
        if same is not None:
            return _by_word(question, reference, statements, same)
        language = _language((reference,))
        question_keys = _question(question, language.code).sentence.key_set
        full, full_answer = (
            _full_statement(question, reference),
            _full_statement(question, answer),
        )
        if full is not None or full_answer is not None:
            question_keys = frozenset()
        if full is not None:
            expected: tuple[Sentence, ...] = (_sentence(full, language.code),)
            passage = Passage(expected, language)
        else:
            expected = _limited(_split(reference, language.code), "the reference")
            passage = _read(reference, language.code)
        if not any(sentence.keys for sentence in expected):
            raise JudgementFailed(TOO_LITTLE, not_applicable=True)
        answer_passage = _read(bare_answer(answer), language.code)
        if full_answer is not None:
            answer_passage = Passage([_sentence(full_answer, language.code)], language)
        references = _numbered("r", expected)
        from_answer = [
            compare(_sentence(statement.text, language.code), passage, question_keys)
            for statement in statements
        ]
        from_reference = [
            compare(sentence, answer_passage, question_keys) for sentence in expected
        ]
        return ReferenceMatch(
            reference_statements=references,
            answer_supports=_agreements(statements, from_answer, "reference"),
            reference_supports=_agreements(references, from_reference, "answer"),
            answer_share=overall(from_answer),
            reference_share=overall(from_reference),
        )

    async def context_relevance(
        self, question: str, contexts: Sequence[Context], *, call: Call
    ) -> ContextGrades:
        _bounded(question=question)
        passages, language = _passages(contexts)
        question_read = _asked(question, language)
        return ContextGrades(
            tuple(
                self._relevant_sentences(question_read, passage, rank)
                for rank, passage in enumerate(passages)
            )
        )

    def _relevant_sentences(
        self, question: Question, passage: Passage, rank: int
    ) -> SentenceRelevance:
        model = self._relevance
        chance = model.probability(relevance.features(question, passage.sentences))
        chances = [
            model.probability(relevance.features(question, [sentence]))
            for sentence in passage.sentences
        ]
        relevant = sum(
            chance * sentence_chance >= model.threshold for sentence_chance in chances
        )
        return SentenceRelevance(
            context_id(rank),
            relevant,
            len(chances),
            chance,
            sum(chances) / max(1, len(chances)),
        )


def _bounded(**texts: str) -> None:
    """Raise JudgementFailed if one of `texts` is too long to be judged; the reason goes
    into the record."""
    for what, text in texts.items():
        if len(text) > MAX_CHARACTERS:
            raise JudgementFailed(
                _too_long(f"the {what} has", len(text), MAX_CHARACTERS)
            )


def _texts(contexts: Sequence[Context]) -> tuple[str, ...]:
    """The texts of `contexts`. Raises JudgementFailed if they are too long to be
    judged."""
    characters = sum(len(context.text) for context in contexts)
    if characters > MAX_CONTEXT_CHARACTERS:
        raise JudgementFailed(
            _too_long("the contexts have", characters, MAX_CONTEXT_CHARACTERS)
        )
    return tuple(context.text for context in contexts)


def _too_long(what: str, characters: int, most: int) -> str:
    return f"{what} {characters:,} characters; the offline judge takes at most {most:,}, so nothing was judged"


def _agreements(
    statements: Sequence[Statement], agreements: Sequence[Agreement], source: str
) -> tuple[Support, ...]:
    return tuple(
        Support(
            statement.id,
            Verdict.SUPPORTED if agreement.agrees else Verdict.UNSUPPORTED,
            (source,) if agreement.agrees else (),
        )
        for statement, agreement in zip(statements, agreements, strict=True)
    )


def _passages(contexts: Sequence[Context]) -> tuple[list[Passage], Language]:
    """The contexts, read in their language. Raises JudgementFailed if they are too long
    to be judged."""
    texts = _texts(contexts)
    language = _language(texts)
    return [_read(text, language.code) for text in texts], language


def _asked(question: str, language: Language) -> Question:
    """The question. Raises JudgementFailed if it has no content word."""
    question_read = _question(question, language.code)
    if not question_read.sentence.keys:
        raise JudgementFailed(TOO_LITTLE, not_applicable=True)
    return question_read


def _cached(read: Callable[[str, str], Made]) -> Callable[[str, str], Made]:
    """`read(text, language's code)`, which remembers recent texts that aren't long."""
    remembered = lru_cache(maxsize=_CACHED_TEXTS)(read)

    def cached(text: str, code: str) -> Made:
        return (
            remembered(text, code)
            if len(text) <= _MAX_CACHED_CHARACTERS
            else read(text, code)
        )

    return cached


@_cached
def _read(text: str, code: str) -> Passage:
    return read_passage(text, language_of(code))


@_cached
def _sentence(text: str, code: str) -> Sentence:
    return read_statement(text, language_of(code))


@_cached
def _question(text: str, code: str) -> Question:
    return read_question(_sentence(normalise(text), code))


@_cached
def _split(text: str, code: str) -> tuple[Sentence, ...]:
    return tuple(split_statements(normalise(text), language_of(code)))


def _full_statement(question: str, answer: str) -> str | None:
    """What a bare answer says together with its question; None if it isn't bare, or the
    question says nothing."""
    plain = normalise(question)
    language = _language((question,))
    bare = (
        read_bare(normalise(answer), language)
        if len(answer) < _LANGUAGE_SAMPLE
        else None
    )
    if bare is None or not Sentence(plain, language).keys:
        return None
    return full_statement(plain, normalise(answer), bare)


def _same_word(question: str, reference: str, answer: str) -> bool | None:
    """Whether an answer and a reference, one of which is bare, say the same by one
    word; None if words can't tell."""
    language = _language((question,))
    expected, answered = read_bare(reference, language), read_bare(answer, language)
    if expected is None and answered is None:
        return None
    offered = options(normalise(question))
    pairs = (
        (opening(reference), opening(answer)),
        (option_letter(reference, offered), option_letter(answer, offered)),
    )
    return next(
        (first == second for first, second in pairs if None not in (first, second)),
        None,
    )


def _by_word(
    question: str, reference: str, statements: Sequence[Statement], same: bool
) -> ReferenceMatch:
    """The match of a bare answer with a bare reference: 1 or 0 by the word."""
    references = (Statement("r1", f"{question} {reference}"),)
    verdict = Agreement(1.0, float(same), same)
    return ReferenceMatch(
        reference_statements=references,
        answer_supports=_agreements(
            statements, [verdict] * len(statements), "reference"
        ),
        reference_supports=_agreements(references, [verdict], "answer"),
        answer_share=float(same),
        reference_share=float(same),
    )


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
    code = language.code
    return [
        sentence
        for sentence in claims
        if not refuses(sentence.text, code) or hedged(sentence.text, language)
    ] or claims


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
