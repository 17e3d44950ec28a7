"""The offline judge: judgements by lexical methods."""

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
    Statements,
    Support,
    SupportTable,
    Verdict,
    context_id,
)
from ragstone.judge.normal import normalise
from ragstone.judge.offline import relevance
from ragstone.judge.offline.abstention import abstains, refuses
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
from ragstone.judge.offline.support import Rating, SupportModel
from ragstone.judge.offline.text_agreement import (
    USE_FEATURES,
    Agreement,
    compare_all,
    mean_share,
    use_features,
)
from ragstone.judge.protocol import Call, Contexts, JudgeIdentity, JudgementFailed

Parsed = TypeVar("Parsed")

TOO_LITTLE = "too little text for the offline judge"
"""The reason for not judging a text without content words."""

MAX_CHARACTERS = 200_000
"""Limit for an answer, a reference or a question. Longer texts are not judged at all,
rather than judged in part."""

MAX_CONTEXT_CHARACTERS = 1_000_000
"""Limit for all contexts of an answer together."""

_SAMPLE_CHARACTERS = 600
"""The language of a text is guessed by its beginning. A longer answer is not bare."""
_SAMPLE_TEXTS = 5
"""The language of several texts is guessed by at most this many."""
_CACHED_TEXTS = 512
"""Parsed texts are cached: the same texts occur in several judgements of a sample, and
the same passages in many samples."""
_MAX_CACHED_CHARACTERS = 8_000
"""Longer texts are parsed each time, so that the caches are bounded."""


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
        self._use_model = load_model("use", USE_FEATURES)
        self._relevancy_model = load_model("answering", relevance.ANSWER_FEATURES)
        self._relevance_model = load_model("relevance", relevance.FEATURES)
        self._support_model = SupportModel()

    async def close(self) -> None:
        pass

    async def statements(
        self, question: str, answer: str, *, call: Call
    ) -> StatementList:
        _require_short(question=question, answer=answer)
        language = _language((answer,))
        full = _full_statement(question, answer)
        if full is not None:
            return StatementList(statements=(Statement("s1", full),), abstains=False)
        sentences = _limit(_split(answer, language), "the answer")
        if abstains(sentences, language):
            return StatementList(statements=(), abstains=True)
        claims = _claims(sentences, language)
        if not claims:
            raise JudgementFailed(TOO_LITTLE, not_applicable=True)
        return StatementList(statements=_numbered("s", claims), abstains=False)

    async def support(
        self,
        contexts: Contexts,
        statements: Statements,
        *,
        call: Call,
    ) -> SupportTable:
        text = " ".join(statement.text for statement in statements)
        passages, language = _read_contexts(contexts, text)
        ratings: list[Rating] = []
        supports: list[Support] = []
        for statement in statements:
            sentence = _sentence(statement.text, language)
            rating = self._support_model.rate(sentence, passages)
            ratings.append(rating)
            supports.append(self._support_model.verdict(statement.id, rating))
        all_supported = (
            self._support_model.probability_of_all(ratings) if ratings else None
        )
        return SupportTable(tuple(supports), all_supported)

    async def context_use(
        self,
        question: str,
        reference: str | None,
        answer: str,
        contexts: Contexts,
        *,
        call: Call,
    ) -> ContextUse:
        target_name = "reference" if reference else "answer"
        target_text = reference or answer
        _require_short(**{"question": question, target_name: target_text})
        passages, language = _read_contexts(contexts)
        target = _limit(_split(target_text, language), f"the {target_name}")
        ratings = [self._support_model.rate(sentence, passages) for sentence in target]
        probabilities = [0.0] * len(passages)
        if target:
            question_keys = _question(question, language).sentence.key_set
            matches = [rating.match for rating in ratings]
            rows = use_features(target, matches, question_keys)
            probabilities = list(map(self._use_model.probability, rows))
        useful = []
        for rank, probability in enumerate(probabilities):
            is_useful = probability >= self._use_model.threshold
            useful.append(ContextUsefulness(context_id(rank), is_useful, probability))
        if not reference:
            return ContextUse(contexts=tuple(useful), against_reference=False)
        claims = _claims(target, language)
        if not claims:
            raise JudgementFailed(TOO_LITTLE, not_applicable=True)
        statements = _numbered("r", claims)
        verdicts = []
        for statement, claim in zip(statements, claims, strict=True):
            rating = ratings[target.index(claim)]
            verdicts.append(self._support_model.verdict(statement.id, rating))
        return ContextUse(
            contexts=tuple(useful),
            against_reference=True,
            reference_statements=statements,
            attributions=tuple(verdicts),
        )

    async def reverse_questions(
        self, question: str, answer: str, *, n: int, call: Call
    ) -> ReverseQuestions:
        return await self.relevancy(
            question,
            answer,
            contexts=(),
            references=(),
            call=call,
        )

    async def relevancy(
        self,
        question: str,
        answer: str,
        contexts: Contexts,
        references: Sequence[str],
        *,
        call: Call,
    ) -> ReverseQuestions:
        """How sure it is that the answer addresses the question, in place of the
        similarities of reverse questions."""
        _require_short(
            question=question,
            answer=answer,
            reference=max(references, key=len, default=""),
        )
        language = _language((answer,))
        parsed_question = _require_content(question, language)
        sentences = _split(answer, language)
        relevancy = 0.0
        if any(
            _is_same_choice(question, reference, answer) for reference in references
        ):
            relevancy = 1.0
        elif sentences:
            parsed_answer = relevance.Answer(
                parsed_question,
                sentences,
                contexts=_read_all(_texts(contexts), language),
                references=_read_all(references, language),
            )
            relevancy = parsed_answer.relevancy(self._relevancy_model)
        return ReverseQuestions(questions=(), similarities=(relevancy,))

    async def reference_match(
        self,
        question: str,
        reference: str,
        statements: Statements,
        answer: str,
        *,
        call: Call,
    ) -> ReferenceMatch:
        _require_short(question=question, reference=reference, answer=answer)
        is_same = _is_same_choice(question, reference, answer)
        if is_same is not None:
            agreement = Agreement(weight=1.0, share=float(is_same), agrees=is_same)
            return _reference_match(
                statements,
                [agreement] * len(statements),
                reference_statements=[Statement("r1", f"{question} {reference}")],
                in_answer=[agreement],
            )
        language = _language((reference, answer))
        full_reference = _full_statement(question, reference)
        full_answer = _full_statement(question, answer)
        question_keys = _question(question, language).sentence.key_set
        if full_reference or full_answer:
            # The question is a part of what is compared.
            question_keys = frozenset()
        expected, expected_passage = _parse(full_reference, reference, language)
        _, answer_passage = _parse(full_answer, answer, language)
        if not any(sentence.keys for sentence in expected):
            raise JudgementFailed(TOO_LITTLE, not_applicable=True)
        sentences = [_sentence(statement.text, language) for statement in statements]
        return _reference_match(
            statements,
            compare_all(sentences, expected_passage, question_keys),
            reference_statements=_numbered("r", expected),
            in_answer=compare_all(expected, answer_passage, question_keys),
        )

    async def context_relevance(
        self, question: str, contexts: Contexts, *, call: Call
    ) -> ContextGrades:
        _require_short(question=question)
        passages, language = _read_contexts(contexts)
        parsed_question = _require_content(question, language)
        grades = []
        for rank, passage in enumerate(passages):
            grade = self._grade(context_id(rank), parsed_question, passage.sentences)
            grades.append(grade)
        return ContextGrades(tuple(grades))

    def _grade(
        self, context: str, question: Question, sentences: Sequence[Sentence]
    ) -> SentenceRelevance:
        """How relevant the context with the id `context` and these sentences is to
        `question`."""

        def probability_of(part: Sequence[Sentence]) -> float:
            features = relevance.features(question, part)
            return self._relevance_model.probability(features)

        probability = probability_of(sentences)
        relevant = 0
        total = 0.0
        for sentence in sentences:
            sentence_probability = probability_of([sentence])
            total += sentence_probability
            # A sentence is needed if its context and the sentence itself are relevant.
            is_needed = (
                probability * sentence_probability >= self._relevance_model.threshold
            )
            relevant += is_needed
        return SentenceRelevance(
            context_id=context,
            relevant=relevant,
            total=len(sentences),
            probability=probability,
            share=total / max(1, len(sentences)),
        )


def _require_short(**texts: str) -> None:
    """Raise JudgementFailed, with the name in the reason, if one of `texts` is too long
    to be judged."""
    for name, text in texts.items():
        _check_length(f"the {name} has", len(text), MAX_CHARACTERS)


def _texts(contexts: Contexts) -> tuple[str, ...]:
    """The texts of `contexts`. Raises JudgementFailed if they are too long to be
    judged."""
    characters = sum(len(context.text) for context in contexts)
    _check_length("the contexts have", characters, MAX_CONTEXT_CHARACTERS)
    return tuple(context.text for context in contexts)


def _check_length(subject: str, characters: int, limit: int) -> None:
    if characters > limit:
        raise JudgementFailed(
            f"{subject} {characters:,} characters; the offline judge takes at most {limit:,}, so nothing was judged"
        )


def _reference_match(
    statements: Statements,
    in_reference: Sequence[Agreement],
    *,
    reference_statements: Statements,
    in_answer: Sequence[Agreement],
) -> ReferenceMatch:
    """The match of an answer and its reference: how much of each statement is in the
    other text."""
    return ReferenceMatch(
        reference_statements=tuple(reference_statements),
        answer_supports=_supports(statements, in_reference, "reference"),
        reference_supports=_supports(reference_statements, in_answer, "answer"),
        answer_share=mean_share(in_reference),
        reference_share=mean_share(in_answer),
    )


def _supports(
    statements: Statements, agreements: Sequence[Agreement], source: str
) -> tuple[Support, ...]:
    """The verdicts on `statements` by their agreement with the text `source`."""
    supports = []
    for statement, agreement in zip(statements, agreements, strict=True):
        sources = (source,) if agreement.agrees else ()
        verdict = Verdict.SUPPORTED if sources else Verdict.UNSUPPORTED
        supports.append(Support(statement.id, verdict, sources))
    return tuple(supports)


def _parse(
    full_text: str | None, text: str, language: Language
) -> tuple[Sequence[Sentence], Passage]:
    """The statements of an answer or a reference, and its text as a passage. If the
    text is bare, both are its full statement, `full_text`."""
    if full_text is not None:
        sentence = _sentence(full_text, language)
        return [sentence], Passage([sentence], language)
    statements = _limit(_split(text, language), "the reference or the answer")
    return statements, _read(without_thoughts(text), language)


def _read_contexts(
    contexts: Contexts, other_text: str = ""
) -> tuple[list[Passage], Language]:
    """The contexts as passages, and the language of them and `other_text` together.
    Raises JudgementFailed if the contexts are too long to be judged."""
    texts = _texts(contexts)
    language = _language((other_text, *texts))
    return _read_all(texts, language), language


def _read_all(texts: Sequence[str], language: Language) -> list[Passage]:
    return [_read(text, language) for text in texts]


def _require_content(question: str, language: Language) -> Question:
    """The parsed question. Raises JudgementFailed if it has no content word."""
    parsed = _question(question, language)
    if not parsed.sentence.keys:
        raise JudgementFailed(TOO_LITTLE, not_applicable=True)
    return parsed


def _cached(
    parse: Callable[[str, Language], Parsed],
) -> Callable[[str, Language], Parsed]:
    """Cache what `parse` returns for recent texts, except for long ones."""
    cached_parse = lru_cache(maxsize=_CACHED_TEXTS)(parse)

    def parse_or_look_up(text: str, language: Language) -> Parsed:
        is_long = len(text) > _MAX_CACHED_CHARACTERS
        return parse(text, language) if is_long else cached_parse(text, language)

    return parse_or_look_up


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
    """The statement that a bare answer makes together with its question; None if the
    answer isn't bare, or the question has no content word."""
    if len(answer) > _SAMPLE_CHARACTERS:
        return None
    language = _language((question,))
    return full_statement(normalise(question), normalise(answer), language)


def _is_same_choice(question: str, reference: str, answer: str) -> bool | None:
    """Whether an answer and a reference, one of which is bare, choose the same option,
    or both yes or both no; None if neither is bare, or one of them chooses nothing."""
    if min(len(reference), len(answer)) > _SAMPLE_CHARACTERS:
        return None
    language = _language((question,))
    texts = [normalise(reference), normalise(answer)]
    if not any(read_bare(text, language) for text in texts):
        return None
    expected, answer_choice = map(choice, texts)
    if None in (expected, answer_choice):
        return None
    return expected == answer_choice


@lru_cache(maxsize=64)
def _language(texts: tuple[str, ...]) -> Language:
    """The language of several texts together, by their beginnings."""
    samples = [text[:_SAMPLE_CHARACTERS] for text in texts[:_SAMPLE_TEXTS]]
    sample = " ".join(samples)
    # Normalising doesn't shorten ASCII, of which the beginning is enough.
    if sample.isascii():
        sample = sample[: 2 * _SAMPLE_CHARACTERS]
    return guess_language(normalise(sample))


def _claims(sentences: Sequence[Sentence], language: Language) -> list[Sentence]:
    """The sentences with content words, without refusals if there are others."""
    with_content = [sentence for sentence in sentences if sentence.keys]
    claims = [
        sentence
        for sentence in with_content
        if not refuses(sentence.text, language.code)
    ]
    return claims or with_content


def _numbered(prefix: str, sentences: Iterable[Sentence]) -> tuple[Statement, ...]:
    """The sentences as statements with the ids ``s1``, ``s2`` … for the prefix
    ``s``."""
    statements = []
    for number, sentence in enumerate(sentences, start=1):
        statements.append(Statement(f"{prefix}{number}", sentence.text))
    return tuple(statements)


def _limit(sentences: tuple[Sentence, ...], subject: str) -> tuple[Sentence, ...]:
    """`sentences` as they are. Raises JudgementFailed if there are too many."""
    if len(sentences) > MAX_STATEMENTS:
        raise JudgementFailed(
            f"{subject} has {len(sentences)} statements; the offline judge takes at most {MAX_STATEMENTS}"
        )
    return sentences
