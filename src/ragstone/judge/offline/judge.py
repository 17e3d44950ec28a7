"""The offline judge: the six judgements by lexical methods."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

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
from ragstone.judge.offline.agreement import USE_FEATURES, Agreement, compare, overall, use_features
from ragstone.judge.offline.bare import full_statement, opening, option_letter, options, read_bare, read_statement
from ragstone.judge.offline.claims import bare_answer
from ragstone.judge.offline.lexicon import Language, guess_language
from ragstone.judge.offline.lexicon import language as language_of
from ragstone.judge.offline.model import load_weights
from ragstone.judge.offline.normal import normalise
from ragstone.judge.offline.passage import Passage, Sentence, TextCache, read_passage, read_sentence
from ragstone.judge.offline.relevance import Question, read_question
from ragstone.judge.offline.statements import MAX_STATEMENTS, split_statements
from ragstone.judge.offline.support import SupportModel
from ragstone.judge.protocol import Call, JudgeIdentity, JudgementFailed
from ragstone.system.response import Context

if TYPE_CHECKING:
    from ragstone.judge.offline.topic import Topic

TOO_LITTLE = "too little text for the offline judge"
"""The reason for not judging a text without any content word."""

MAX_CHARACTERS = 200_000
"""Limit for an answer, a reference or a question; longer texts are refused rather than judged in part."""

MAX_CONTEXT_CHARACTERS = 1_000_000
"""Limit for all contexts of an answer together."""

_MAX_CACHED_CHARACTERS = 400_000
"""Limit for contexts whose sentences and words are cached: about 500 passages of 120 words."""

_LANGUAGE_SAMPLE = 600


class OfflineJudge:
    """Judges by words, numbers and names: no key, no network, no model to download, the same result every time.

    With `topic`, embeddings contribute to answer relevancy, and `endpoint` is their source; everything else uses words
    only. Methods raise JudgementFailed for text that they can't judge, and never wait, except for embeddings, which
    also raise JudgeError when their server can't be used any more.
    """

    concurrency = 8

    def __init__(self, *, topic: Topic | None = None, endpoint: str | None = None) -> None:
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
        # The same texts occur in several judgements of one sample, and the same passages in many samples.
        self._read = TextCache(_read, _MAX_CACHED_CHARACTERS)
        self._questions = TextCache(self._read_question, _MAX_CACHED_CHARACTERS // 40)
        self._split = TextCache(_split, _MAX_CACHED_CHARACTERS // 10)
        self._sentence = TextCache(_sentence, _MAX_CACHED_CHARACTERS // 10)

    async def close(self) -> None:
        if self._topic is not None:
            await self._topic.close()

    async def statements(self, question: str, answer: str, *, call: Call) -> StatementList:
        _bounded(question=question, answer=answer)
        language = _language((answer,))
        full = _full_statement(question, answer)
        if full is not None:
            return StatementList(statements=(Statement("s1", full),), abstains=False)
        found = self._split(answer, language.code)
        for sentence in _limited(found, "the answer"):
            self._sentence.add(sentence.text, language.code, sentence)
        if abstains(found, language):
            return StatementList(statements=(), abstains=True)
        claims = _claims(found, language)
        if not claims:
            raise JudgementFailed(TOO_LITTLE, not_applicable=True)
        return StatementList(statements=_numbered("s", claims), abstains=False)

    async def support(
        self, contexts: Sequence[Context], statements: Sequence[Statement], *, call: Call
    ) -> SupportTable:
        return self.supports(contexts, statements)

    def supports(self, contexts: Sequence[Context], statements: Sequence[Statement]) -> SupportTable:
        """The verdicts on `statements`. Raises JudgementFailed."""
        texts = _texts(contexts)
        language = _language(texts)
        passages = [self._read(text, language.code) for text in texts]
        sources = [context_id(rank) for rank in range(len(contexts))]
        ratings = [
            self._support.rate(self._sentence(statement.text, language.code), passages) for statement in statements
        ]
        supports = tuple(
            self._support.verdict(statement.id, rating, sources)
            for statement, rating in zip(statements, ratings, strict=True)
        )
        return SupportTable(supports, self._support.whole(ratings) if ratings else None)

    async def context_use(
        self, question: str, reference: str | None, answer: str, contexts: Sequence[Context], *, call: Call
    ) -> ContextUse:
        _bounded(question=question, **({"reference": reference} if reference else {"answer": answer}))
        texts = _texts(contexts)
        language = _language(texts)
        passages = [self._read(text, language.code) for text in texts]
        sources = [context_id(rank) for rank in range(len(contexts))]
        goal = reference or answer
        found = _limited(self._split(goal, language.code), "the reference" if reference else "the answer")
        ratings = [self._support.rate(sentence, passages) for sentence in found]
        asked = self._questions(question, language.code)
        if found:
            matches = [rating.match for rating in ratings]
            rows = use_features(found, matches, asked.sentence.key_set)
            use = [self._use.probability(row) for row in rows]
        else:
            use = [self._relevance.probability(relevance.features(asked, one.sentences)) for one in passages]
        threshold = self._use.threshold if found else self._relevance.threshold
        useful = tuple(
            ContextUsefulness(source, chance >= threshold, chance) for source, chance in zip(sources, use, strict=True)
        )
        if not reference:
            return ContextUse(contexts=useful, against_reference=False)
        claims = _claims(found, language)
        if not claims:
            raise JudgementFailed(TOO_LITTLE, not_applicable=True)
        judged = [(one, rating) for one, rating in zip(found, ratings, strict=True) if one in claims]
        statements = _numbered("r", claims)
        return ContextUse(
            contexts=useful,
            against_reference=True,
            reference_statements=statements,
            attributions=tuple(
                self._support.verdict(statement.id, rating, sources)
                for statement, (_, rating) in zip(statements, judged, strict=True)
            ),
        )

    async def reverse_questions(self, question: str, answer: str, *, n: int, call: Call) -> ReverseQuestions:
        return await self.relevancy(question, answer, (), (), call=call)

    async def relevancy(
        self, question: str, answer: str, contexts: Sequence[Context], references: Sequence[str], *, call: Call
    ) -> ReverseQuestions:
        """Whether the answer is about what was asked and answers it, in place of reverse questions."""
        _bounded(question=question, answer=answer, reference=max(references, key=len, default=""))
        language = _language((answer,))
        asked = self._questions(question, language.code)
        if not asked.sentence.keys:
            raise JudgementFailed(TOO_LITTLE, not_applicable=True)
        sentences = self._split(answer, language.code)
        if not sentences:
            return ReverseQuestions(questions=(), similarities=(0.0,))
        nearness = (await self._topic.nearnesses(question, (answer,), call=call))[0] if self._topic else None
        found = relevance.Answer(
            asked,
            sentences,
            language,
            [self._read(text, language.code) for text in _texts(contexts)],
            [self._read(text, language.code) for text in references],
            nearness,
        )
        return ReverseQuestions((), (found.relevancy(self._answering),))

    async def answer_similarity(self, answer: str, references: Sequence[str], *, call: Call) -> AnswerSimilarity:
        if self._topic is None:
            raise JudgementFailed(NO_EMBEDDINGS, not_applicable=True)
        return AnswerSimilarity(await self._topic.cosines(answer, references, call=call) if references else ())

    async def reference_match(
        self, question: str, reference: str, statements: Sequence[Statement], answer: str, *, call: Call
    ) -> ReferenceMatch:
        _bounded(question=question, reference=reference, answer=answer)
        same = _same_word(question, normalise(reference), normalise(answer))
        if same is not None:
            return _by_word(question, reference, statements, same)
        language = _language((reference,))
        asked = self._questions(question, language.code).sentence.key_set
        full, full_answer = _full_statement(question, reference), _full_statement(question, answer)
        if full is not None:
            found: tuple[Sentence, ...] = (_sentence(full, language.code),)
            passage = Passage.of(found[0])
        else:
            found = _limited(self._split(reference, language.code), "the reference")
            passage = self._read(reference, language.code)
        if not any(sentence.keys for sentence in found):
            raise JudgementFailed(TOO_LITTLE, not_applicable=True)
        references = _numbered("r", found)
        own = [self._sentence(statement.text, language.code) for statement in statements]
        said = self._read(bare_answer(answer), language.code)
        if full_answer is not None:
            said = Passage.of(_sentence(full_answer, language.code))
        if full is not None or full_answer is not None:
            asked = frozenset()
        from_answer = [compare(statement, passage, asked) for statement in own]
        from_reference = [compare(statement, said, asked) for statement in found]
        return ReferenceMatch(
            reference_statements=references,
            answer_supports=_agreements(statements, from_answer, "reference"),
            reference_supports=_agreements(references, from_reference, "answer"),
            answer_share=overall(from_answer),
            reference_share=overall(from_reference),
        )

    async def context_relevance(self, question: str, contexts: Sequence[Context], *, call: Call) -> ContextGrades:
        _bounded(question=question)
        texts = _texts(contexts)
        language = _language(texts)
        asked = self._questions(question, language.code)
        if not asked.sentence.keys:
            raise JudgementFailed(TOO_LITTLE, not_applicable=True)
        contexts_found = tuple(
            self._sentence_relevance(asked, self._read(text, language.code), context_id(rank))
            for rank, text in enumerate(texts)
        )
        return ContextGrades(contexts_found)

    def _read_question(self, question: str, code: str) -> Question:
        return read_question(_sentence(normalise(question), code))

    def _sentence_relevance(self, asked: Question, passage: Passage, name: str) -> SentenceRelevance:
        chance = self._relevance.probability(relevance.features(asked, passage.sentences))
        each = [self._relevance.probability(relevance.features(asked, [sentence])) for sentence in passage.sentences]
        relevant = sum(chance * one >= self._relevance.threshold for one in each)
        return SentenceRelevance(name, relevant, len(each), chance, sum(each) / max(1, len(each)))


def _bounded(**texts: str) -> None:
    """Raise JudgementFailed if one of `texts` is too long to be judged; the reason goes into the record."""
    for what, text in texts.items():
        if len(text) > MAX_CHARACTERS:
            raise JudgementFailed(_too_long(f"the {what} has", len(text), MAX_CHARACTERS))


def _texts(contexts: Sequence[Context]) -> tuple[str, ...]:
    """The texts of `contexts`. Raises JudgementFailed if they are too long to be judged."""
    characters = sum(len(context.text) for context in contexts)
    if characters > MAX_CONTEXT_CHARACTERS:
        raise JudgementFailed(_too_long("the contexts have", characters, MAX_CONTEXT_CHARACTERS))
    return tuple(context.text for context in contexts)


def _too_long(what: str, characters: int, most: int) -> str:
    return f"{what} {characters:,} characters; the offline judge takes at most {most:,}, so nothing was judged"


def _agreements(statements: Sequence[Statement], found: Sequence[Agreement], source: str) -> tuple[Support, ...]:
    return tuple(
        Support(
            statement.id,
            Verdict.SUPPORTED if one.agrees else Verdict.UNSUPPORTED,
            (source,) if one.agrees else (),
        )
        for statement, one in zip(statements, found, strict=True)
    )


def _read(text: str, code: str) -> Passage:
    return read_passage(text, language_of(code))


def _sentence(text: str, code: str) -> Sentence:
    return read_statement(text, language_of(code))


def _full_statement(question: str, answer: str) -> str | None:
    """What a bare answer says together with its question; None if it isn't bare, or the question says nothing."""
    plain = normalise(question)
    language = _language((question,))
    bare = read_bare(normalise(answer), language) if len(answer) < _LANGUAGE_SAMPLE else None
    if bare is None or not read_sentence(plain, language).keys:
        return None
    return full_statement(plain, normalise(answer), bare)


def _same_word(question: str, reference: str, answer: str) -> bool | None:
    """Whether an answer and a reference, one of which is bare, say the same by one word; None if words can't tell."""
    language = _language((question,))
    expected, said = read_bare(reference, language), read_bare(answer, language)
    if expected is None and said is None:
        return None
    offered = options(normalise(question))
    pairs = (
        (opening(reference), opening(answer)),
        (option_letter(reference, offered), option_letter(answer, offered)),
    )
    return next((first == second for first, second in pairs if None not in (first, second)), None)


def _by_word(question: str, reference: str, statements: Sequence[Statement], same: bool) -> ReferenceMatch:
    """The match of a bare answer with a bare reference: 1 or 0 by the word."""
    references = (Statement("r1", f"{question} {reference}"),)
    verdict = Agreement(1.0, float(same), same)
    return ReferenceMatch(
        reference_statements=references,
        answer_supports=_agreements(statements, [verdict] * len(statements), "reference"),
        reference_supports=_agreements(references, [verdict], "answer"),
        answer_share=float(same),
        reference_share=float(same),
    )


def _split(text: str, code: str) -> tuple[Sentence, ...]:
    return tuple(split_statements(normalise(text), language_of(code)))


@lru_cache(maxsize=64)
def _language(texts: tuple[str, ...]) -> Language:
    text = " ".join(text[:_LANGUAGE_SAMPLE] for text in texts[:5])
    # Normalising doesn't shorten ASCII, and the language is told by the beginning.
    return guess_language(normalise(text[: 2 * _LANGUAGE_SAMPLE] if text.isascii() else text))


def _claims(sentences: Sequence[Sentence], language: Language) -> list[Sentence]:
    """Those that claim something; refusals only if there is nothing else."""
    said = [one for one in sentences if one.keys]
    code = language.code
    return [one for one in said if not refuses(one.text, code) or hedged(one.text, language)] or said


def _numbered(prefix: str, sentences: Iterable[Sentence]) -> tuple[Statement, ...]:
    return tuple(Statement(f"{prefix}{rank}", sentence.text) for rank, sentence in enumerate(sentences, start=1))


def _limited(found: tuple[Sentence, ...], what: str) -> tuple[Sentence, ...]:
    if len(found) > MAX_STATEMENTS:
        raise JudgementFailed(f"{what} has {len(found)} statements; the offline judge takes at most {MAX_STATEMENTS}")
    return found
