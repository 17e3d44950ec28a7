"""Estimates what judging a golden set will cost, before any call is made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from ragstone.formatting import counted, dollars
from ragstone.golden.sample import GoldenSet, Sample
from ragstone.judge.collect import MAX_MATCHED
from ragstone.judge.judgements import JudgementKind
from ragstone.judge.names import provider_of, split_name
from ragstone.judge.rubric import Rubric
from ragstone.settings.settings import JudgeSettings

_ANSWER = 400
_CONTEXTS = 5
_CONTEXT = 800
_STATEMENT = 80
_PER_TOKEN = 4
_MARKS_TOKENS = 60
_REVERSE_QUESTIONS = 3
_GRADE_TOKENS = 60
_PROMPTS = {
    JudgementKind.PREVIOUS_MATCH: "reference_match",
    JudgementKind.PREFERENCE: "direct_preference",
    JudgementKind.CITATIONS: "support",
}
"""Of judgements that are made with another one's prompt."""
_CITED = 2
"""Contexts that a statement is assumed to cite: judged together, each alone, and each
without the other."""


class Needing(Protocol):
    """The part of a metric that its cost depends on."""

    def needs(self, sample: Sample) -> frozenset[JudgementKind]: ...


@dataclass(frozen=True, slots=True)
class CostEstimate:
    """Chat and embeddings calls, tokens and US dollars (None: price unknown, which is
    not 0).

    An upper estimate for a run without cached judgements; `assumptions` lists what was
    assumed.
    """

    calls: int
    input_tokens: int
    output_tokens: int
    usd: float | None
    assumptions: str = ""
    cached_input_tokens: int = 0
    """Input tokens that are expected to be read from the provider's prompt cache."""

    def plus(self, estimate: CostEstimate) -> CostEstimate:
        usd = (
            None
            if self.usd is None or estimate.usd is None
            else self.usd + estimate.usd
        )
        return CostEstimate(
            calls=self.calls + estimate.calls,
            input_tokens=self.input_tokens + estimate.input_tokens,
            output_tokens=self.output_tokens + estimate.output_tokens,
            usd=usd,
            assumptions=self.assumptions or estimate.assumptions,
            cached_input_tokens=self.cached_input_tokens + estimate.cached_input_tokens,
        )

    def sentence(self) -> str:
        if not self.calls:
            return "no paid judge call"
        cost = (
            "price unknown"
            if self.usd is None
            else f"about {dollars(max(self.usd, 0.01))}"
        )
        return f"at most {counted(self.calls, 'judge call')}, {cost}"


Lengths = Mapping[str, int]
"""Characters of the texts that a sample's judgements read, by name, and the numbers of
statements in them."""


def estimate_cost(
    judge_settings: JudgeSettings,
    golden_set: GoldenSet,
    metrics: Sequence[Needing],
    *,
    repeats: int = 1,
    answers: int = 1,
    lengths: Mapping[str, tuple[int, int]] | None = None,
) -> CostEstimate:
    """The cost of judging `answers` answers to each question of `golden_set`, each
    `repeats` times, by `metrics`.

    `lengths` are the characters of answer and contexts by sample id, if they are known.
    Otherwise an answer is assumed to be as long as the reference (400 characters if
    there is none), contexts to be the sample's reference contexts (5 of 800 characters
    if there are none). Raises ConfigError for an unknown judge.
    """
    repeats *= answers
    provider = provider_of(judge_settings.name)
    if provider.free and not provider.offline:
        return CostEstimate(0, 0, 0, 0.0)
    if provider.offline:
        return _offline_cost(judge_settings, golden_set, metrics, repeats=repeats)
    from ragstone.judge.llm.account_settings import embeddings_named
    from ragstone.judge.llm.prices import tariff
    from ragstone.judge.llm.prompts import RUBRIC, STANDALONE

    tally = _Tally(judge_settings)
    embedded = embedding_samples = 0
    for sample in golden_set:
        needs = frozenset[JudgementKind]().union(
            *(metric.needs(sample) for metric in metrics)
        )
        texts = _texts(sample, lengths)
        for metric in metrics:
            rubric = getattr(metric, "rubric", None)
            if isinstance(rubric, Rubric) and metric.needs(sample):
                tally.add(RUBRIC, _rubric_tokens(rubric, texts), _GRADE_TOKENS)
        if sample.history and needs:
            characters = (
                sum(len(turn.text) for turn in sample.history) + texts["question"]
            )
            tally.add(STANDALONE, characters // _PER_TOKEN, _GRADE_TOKENS)
        if JudgementKind.ANSWER_SIMILARITY in needs and sample.references:
            embedding_samples += 1
            embedded += (
                texts["answer"] + sum(map(len, sample.references))
            ) // _PER_TOKEN
        for kind in _asked(needs, sample):
            _add_judgement(tally, kind, sample, texts)
        if JudgementKind.REVERSE_QUESTIONS in needs:
            embedding_samples += 1
            embedded += (1 + _REVERSE_QUESTIONS) * texts["question"] // _PER_TOKEN
    assumed = (
        ""
        if lengths is not None
        else (
            "answers as long as the references, contexts as the reference contexts "
            f"(else {_ANSWER} characters, and {_CONTEXTS} of {_CONTEXT}); "
        )
    )
    cost = tally.estimate(f"{assumed}no cached judgements", repeats=repeats)
    embedding_model = embeddings_named(judge_settings, provider)
    if embedding_model is None or not embedding_samples:
        return cost
    price = tariff(*embedding_model, judge_settings.prices)
    usd = None if price is None else repeats * embedded * price.input / 1e6
    return cost.plus(
        CostEstimate(repeats * -(-embedding_samples // 60), repeats * embedded, 0, usd)
    )


class _Tally:
    """Adds up calls of an LLM judge."""

    def __init__(self, settings: JudgeSettings) -> None:
        from ragstone.judge.llm.prices import reasoning_tokens, tariff
        from ragstone.judge.llm.prompts import layout_of

        provider, model = split_name(settings.name)
        self._reasoning = reasoning_tokens(settings, provider, model)
        self.layout = layout_of(provider, model, settings.prices)
        self._price = tariff(provider, model, settings.prices)
        self._calls = self._read = self._written = self._cached = self._warmed = 0
        self._warm: set[str] = set()

    def add(
        self, prompt: str, sent: int, received: int, *, calls: int = 1, cached: int = 0
    ) -> None:
        """Count `calls` with `prompt`, each with these tokens; `cached` of them may
        have its prefix in the cache."""
        from ragstone.judge.llm.prompts import prefix_tokens

        prefix = prefix_tokens(self.layout.prompts[prompt])
        self._calls += calls
        self._read += calls * (prefix + sent)
        self._written += calls * (received + self._reasoning)
        if cached and prompt in self.layout.cached:
            first = prompt not in self._warm
            self._warm.add(prompt)
            self._warmed += first * prefix
            self._cached += (cached - first) * prefix

    def estimate(self, assumptions: str, *, repeats: int = 1) -> CostEstimate:
        from ragstone.judge.llm.provider import Usage

        usage = Usage(
            self._read - self._cached - self._warmed,
            self._cached,
            self._warmed,
            self._written,
        )
        usd = None if self._price is None else repeats * self._price.cost_usd(usage)
        reasoning = (
            f"{self._reasoning} reasoning tokens a call"
            if self._reasoning
            else "no reasoning tokens"
        )
        calls, read, written = (
            repeats * self._calls,
            repeats * self._read,
            repeats * self._written,
        )
        return CostEstimate(
            calls,
            read,
            written,
            usd,
            f"{assumptions}; {reasoning}",
            repeats * self._cached,
        )


@dataclass(frozen=True, slots=True)
class PlannedCalls:
    """Calls of one task: the name of its prompt, how many, and for each the characters
    sent and tokens received."""

    prompt: str
    calls: int
    characters: float
    output_tokens: int


def estimate_calls(
    judge_settings: JudgeSettings, planned: Sequence[PlannedCalls]
) -> CostEstimate:
    """The cost of calls that are not judgements of samples, by an LLM judge."""
    tally = _Tally(judge_settings)
    for task in planned:
        sent = round(task.characters) // _PER_TOKEN + _MARKS_TOKENS
        tally.add(
            task.prompt, sent, task.output_tokens, calls=task.calls, cached=task.calls
        )
    return tally.estimate("nothing in the cache")


def _texts(
    sample: Sample, lengths: Mapping[str, tuple[int, int]] | None = None
) -> Lengths:
    reference = len(sample.reference or "")
    assumed = (
        reference or _ANSWER,
        sum(map(len, sample.reference_contexts)) or _CONTEXTS * _CONTEXT,
    )
    answer, contexts = assumed if lengths is None else lengths.get(sample.id, assumed)
    return {
        "base": 1,
        "question": len(sample.question),
        "answer": answer,
        "reference": reference,
        "contexts": contexts,
        "answer_statements": max(1, answer // _STATEMENT),
        "reference_statements": max(1, reference // _STATEMENT),
    }


def _asked(needs: frozenset[JudgementKind], sample: Sample) -> list[JudgementKind]:
    """The judgements that will be requested: support and reference match also need the
    statements."""
    # Rubrics are counted apart, and similarity takes embeddings only.
    kinds = set(needs) - {JudgementKind.CUSTOM, JudgementKind.ANSWER_SIMILARITY}
    if kinds & {
        JudgementKind.SUPPORT,
        JudgementKind.REFERENCE_MATCH,
        JudgementKind.PREVIOUS_MATCH,
    }:
        kinds.add(JudgementKind.STATEMENTS)
    if not sample.reference:
        kinds.discard(JudgementKind.REFERENCE_MATCH)
    return sorted(kinds)


def _add_judgement(
    tally: _Tally, kind: JudgementKind, sample: Sample, texts: Lengths
) -> None:
    """Count the calls of one judgement of `sample`."""
    from ragstone.judge.llm.prompts import growth

    name, calls, statements = (
        _PROMPTS.get(kind, str(kind)),
        1,
        texts["answer_statements"],
    )
    if kind is JudgementKind.PREFERENCE:
        calls = 2
    elif kind is JudgementKind.REFERENCE_MATCH:
        calls = min(MAX_MATCHED, len(sample.references))
    elif kind is JudgementKind.PREVIOUS_MATCH:
        texts = {
            **texts,
            "reference": texts["answer"],
            "reference_statements": statements,
        }
    elif kind is JudgementKind.SUPPORT:
        calls = -(-statements // tally.layout.statements)
    elif kind is JudgementKind.CITATIONS:
        calls = statements * (1 + 2 * _CITED)
        cited = texts["contexts"] * _CITED // _CONTEXTS
        texts = {
            **texts,
            "contexts": cited,
            "answer": texts["answer"] // statements,
            "answer_statements": 1,
        }
    elif kind is JudgementKind.CONTEXT_USE and not texts["reference"]:
        name = "context_use_no_reference"
    sent, received = (
        sum(factor * texts[text] for text, factor in part.items())
        for part in growth(name)
    )
    if kind is JudgementKind.SUPPORT:
        received /= calls
    tally.add(
        name,
        round(sent) // _PER_TOKEN + _MARKS_TOKENS,
        round(received),
        calls=calls,
        cached=1,
    )


def _rubric_tokens(rubric: Rubric, texts: Lengths) -> int:
    """Tokens sent for one grade by `rubric`, besides the prompt and its schema."""
    own = len(rubric.text) + sum(map(len, rubric.levels))
    return (
        own + sum(texts[part] for part in rubric.sees)
    ) // _PER_TOKEN + _MARKS_TOKENS


def _offline_cost(
    settings: JudgeSettings,
    golden_set: GoldenSet,
    metrics: Sequence[Needing],
    *,
    repeats: int,
) -> CostEstimate:
    """The offline judge pays only for embeddings, of the answer and what it is compared
    with, if from an endpoint."""
    if settings.embeddings is None:
        return CostEstimate(0, 0, 0, 0.0)
    from ragstone.judge.llm.prices import tariff

    compared = [JudgementKind.REVERSE_QUESTIONS, JudgementKind.ANSWER_SIMILARITY]
    requests = characters = 0
    for sample in golden_set:
        needs = frozenset[JudgementKind]().union(
            *(metric.needs(sample) for metric in metrics)
        )
        texts = _texts(sample)
        for kind in needs.intersection(compared):
            requests += 1
            compared_length = (
                texts["question"]
                if kind is compared[0]
                else sum(map(len, sample.references))
            )
            characters += texts["answer"] + compared_length
    tokens = repeats * characters // _PER_TOKEN
    service, _, model = settings.embeddings.partition(":")
    price = tariff(service, model, settings.prices)
    # Each sample may need its own request: the offline judge works on few samples at
    # once.
    return CostEstimate(
        repeats * requests,
        tokens,
        0,
        None if price is None else tokens * price.input / 1e6,
    )
