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
    Statements,
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
    compare_all,
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
from ragstone.judge.offline.support import Rating, SupportModel
from ragstone.judge.protocol import Call, Contexts, JudgeIdentity, JudgementFailed

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
        contexts: Contexts,
        statements: Statements,
        *,
        call: Call,
    ) -> SupportTable:
        said = " ".join(statement.text for statement in statements)
        passages, language = _passages(contexts, said)
        ratings: list[Rating] = []
        supports: list[Support] = []
        for statement in statements:
            sentence = _sentence(statement.text, language)
            rating = self._support.rate(sentence, passages)
            ratings.append(rating)
            supports.append(self._support.verdict(statement.id, rating))
        all_supported = self._support.whole(ratings) if ratings else None
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
            chances = list(map(self._use.probability, rows))
        useful = []
        for rank, chance in enumerate(chances):
            is_useful = chance >= self._use.threshold
            useful.append(ContextUsefulness(context_id(rank), is_useful, chance))
        if not reference:
            return ContextUse(contexts=tuple(useful), against_reference=False)
        claims = _claims(goal, language)
        if not claims:
            raise JudgementFailed(TOO_LITTLE, not_applicable=True)
        statements = _numbered("r", claims)
        verdicts = []
        for statement, claim in zip(statements, claims, strict=True):
            rating = ratings[goal.index(claim)]
            verdicts.append(self._support.verdict(statement.id, rating))
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
            (),
            (),
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
                _read_all(_texts(contexts), language),
                _read_all(references, language),
            )
            relevancy = compared.relevancy(self._answering)
        return ReverseQuestions((), (relevancy,))

    async def reference_match(
        self,
        question: str,
        reference: str,
        statements: Statements,
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
            return _reference_match(
                statements,
                from_answer,
                whole,
                [by_word],
            )
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
        said = [_sentence(statement.text, language) for statement in statements]
        from_answer = compare_all(said, passage, question_keys)
        from_reference = compare_all(expected, answered, question_keys)
        references = _numbered("r", expected)
        return _reference_match(statements, from_answer, references, from_reference)

    async def context_relevance(
        self, question: str, contexts: Contexts, *, call: Call
    ) -> ContextGrades:
        _bounded(question=question)
        passages, language = _passages(contexts)
        question_read = _asked(question, language)
        grades = []
        for rank, passage in enumerate(passages):
            name = context_id(rank)
            grades.append(self._grade(name, question_read, passage.sentences))
        return ContextGrades(tuple(grades))

    def _grade(
        self, name: str, question: Question, sentences: Sequence[Sentence]
    ) -> SentenceRelevance:
        """How relevant a context with these sentences is to a question."""

        def chance_of(part: Sequence[Sentence]) -> float:
            return self._relevance.probability(relevance.features(question, part))

        chance = chance_of(sentences)
        relevant = 0
        total = 0.0
        for sentence in sentences:
            own_chance = chance_of([sentence])
            total += own_chance
            relevant += chance * own_chance >= self._relevance.threshold
        share = total / max(1, len(sentences))
        return SentenceRelevance(
            context_id=name,
            relevant=relevant,
            total=len(sentences),
            probability=chance,
            share=share,
        )


def _bounded(**texts: str) -> None:
    """Raise JudgementFailed if one of `texts` is too long to be judged; the reason goes
    into the record."""
    for what, text in texts.items():
        _check_length(f"the {what} has", len(text), MAX_CHARACTERS)


def _texts(contexts: Contexts) -> tuple[str, ...]:
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
    statements: Statements,
    from_answer: Sequence[Agreement],
    references: Statements,
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
    statements: Statements, agreements: Sequence[Agreement], source: str
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


def _passages(contexts: Contexts, beside: str = "") -> tuple[list[Passage], Language]:
    """The contexts, read in the language of them and of what is said beside. Raises JudgementFailed if they are too long
    to be judged."""
    texts = _texts(contexts)
    language = _language((beside, *texts))
    return _read_all(texts, language), language


def _read_all(texts: Sequence[str], language: Language) -> list[Passage]:
    return [_read(text, language) for text in texts]


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
    meaningful = [sentence for sentence in sentences if sentence.keys]
    claims = [
        sentence for sentence in meaningful if not refuses(sentence.text, language.code)
    ]
    return claims or meaningful


def _numbered(prefix: str, sentences: Iterable[Sentence]) -> tuple[Statement, ...]:
    statements = []
    for rank, sentence in enumerate(sentences, start=1):
        name = f"{prefix}{rank}"
        statements.append(Statement(name, sentence.text))
    return tuple(statements)


def _limited(sentences: tuple[Sentence, ...], what: str) -> tuple[Sentence, ...]:
    if len(sentences) > MAX_STATEMENTS:
        raise JudgementFailed(
            f"{what} has {len(sentences)} statements; the offline judge takes at most {MAX_STATEMENTS}"
        )
    return sentences
