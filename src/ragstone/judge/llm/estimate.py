"""Estimates what judging a golden set will cost, before any call is made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from ragstone.formatting import counted, dollars
from ragstone.golden.sample import GoldenSet, Sample
from ragstone.judge.collect import MAX_MATCHED, NEEDING_STATEMENTS, REVERSE_QUESTIONS
from ragstone.judge.judgements import JudgementKind
from ragstone.judge.llm.prices import Tariff, reasoning_tokens, tariff
from ragstone.judge.llm.provider import Usage
from ragstone.judge.names import provider_of, split_name
from ragstone.judge.rubric import Rubric
from ragstone.settings.settings import JudgeSettings

_ANSWER = 400
_CONTEXTS = 5
_CONTEXT = 800
_STATEMENT = 80
_PER_TOKEN = 4
_MARKS_TOKENS = 60
_GRADE_TOKENS = 60
_ASSUMED_LENGTHS = (
    "answers as long as the references, contexts as the reference contexts "
    f"(else {_ANSWER} characters, and {_CONTEXTS} of {_CONTEXT}); "
)
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
    provider = provider_of(judge_settings.name)
    is_offline = provider.offline
    if provider.free and not (is_offline and judge_settings.embeddings):
        return CostEstimate(0, 0, 0, 0.0)
    from ragstone.judge.llm.account_settings import COMPATIBLE, embeddings_named
    from ragstone.judge.llm.prompts import RUBRIC, STANDALONE

    tally = CallTally(judge_settings)
    named = embeddings_named(judge_settings, provider)
    if is_offline:
        named = COMPATIBLE, str(judge_settings.embeddings).partition(":")[2]
    for sample in golden_set:
        needed = [metric.needs(sample) for metric in metrics]
        needs = frozenset[JudgementKind]().union(*needed)
        texts = _texts(sample, lengths)
        if named and JudgementKind.ANSWER_SIMILARITY in needs and sample.references:
            tally.embed(texts["answer"] + sum(map(len, sample.references)))
        if is_offline:
            continue
        if named and JudgementKind.REVERSE_QUESTIONS in needs:
            tally.embed((1 + REVERSE_QUESTIONS) * texts["question"])
        for metric, kinds in zip(metrics, needed, strict=True):
            rubric = getattr(metric, "rubric", None)
            if isinstance(rubric, Rubric) and kinds:
                characters = len(rubric.text) + sum(map(len, rubric.levels))
                characters += sum(texts[part] for part in rubric.sees)
                tally.add(RUBRIC, characters, _GRADE_TOKENS)
        if sample.history and needs:
            characters = sum(len(turn.text) for turn in sample.history)
            tally.add(STANDALONE, characters + texts["question"], _GRADE_TOKENS)
        # Rubrics are counted apart, and similarity takes embeddings only.
        kinds = needs - {JudgementKind.CUSTOM, JudgementKind.ANSWER_SIMILARITY}
        if not sample.reference:
            kinds -= {JudgementKind.REFERENCE_MATCH}
        if needs & NEEDING_STATEMENTS:
            kinds |= {JudgementKind.STATEMENTS}
        for kind in sorted(kinds):
            _add_judgement(tally, kind, sample, texts)
    assumed = "" if lengths is not None else _ASSUMED_LENGTHS
    return tally.estimate(
        f"{assumed}no cached judgements",
        tariff(*named, judge_settings.prices) if named else None,
        repeats=repeats * answers,
    )


class CallTally:
    """Adds up calls of an LLM judge, and of its embeddings."""

    def __init__(self, settings: JudgeSettings) -> None:
        from ragstone.judge.llm.prompts import layout_of

        provider, model = split_name(settings.name)
        self._reasoning = reasoning_tokens(settings, provider, model)
        self.layout = layout_of(provider, model, settings.prices)
        self._price = tariff(provider, model, settings.prices)
        self._calls = self._read = self._written = self._cached = self._warmed = 0
        self._warm: set[str] = set()
        self._embedding_calls = self._embedded = 0

    def add(
        self,
        prompt: str,
        characters: float,
        received: int,
        *,
        calls: int = 1,
        cached: int = 0,
    ) -> None:
        """Count `calls` with `prompt`, each with so many characters sent and tokens
        received; `cached` of them may have its prefix in the cache."""
        from ragstone.judge.llm.prompts import prefix_tokens

        prefix = prefix_tokens(self.layout.prompts[prompt])
        self._calls += calls
        sent = prefix + round(characters) // _PER_TOKEN + _MARKS_TOKENS
        self._read += calls * sent
        self._written += calls * (received + self._reasoning)
        if cached and prompt in self.layout.cached:
            first = prompt not in self._warm
            self._warm.add(prompt)
            self._warmed += first * prefix
            self._cached += (cached - first) * prefix

    def embed(self, characters: int) -> None:
        """Count a request for embeddings."""
        self._embedding_calls += 1
        self._embedded += characters // _PER_TOKEN

    def estimate(
        self,
        assumptions: str,
        embedding_price: Tariff | None = None,
        *,
        repeats: int = 1,
    ) -> CostEstimate:
        read = self._read - self._cached - self._warmed
        chat = Usage(read, self._cached, self._warmed, self._written)
        embeddings = Usage(self._embedded)
        usd: float | None = 0.0
        for calls, price, usage in (
            (self._calls, self._price, chat),
            (self._embedding_calls, embedding_price, embeddings),
        ):
            if not calls:
                continue
            if usd is None or price is None:
                usd = None
            else:
                usd += repeats * price.cost_usd(usage)
        reasoning = "no reasoning tokens"
        if self._reasoning:
            reasoning = f"{self._reasoning} reasoning tokens a call"
        return CostEstimate(
            repeats * (self._calls + self._embedding_calls),
            repeats * (self._read + self._embedded),
            repeats * self._written,
            usd,
            f"{assumptions}; {reasoning}",
            repeats * self._cached,
        )


def _texts(sample: Sample, lengths: Mapping[str, tuple[int, int]] | None) -> Lengths:
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


def _add_judgement(
    tally: CallTally, kind: JudgementKind, sample: Sample, texts: Lengths
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
        sent,
        round(received),
        calls=calls,
        cached=1,
    )
