"""How often a judge prefers the better of two cases: WikiEval's experiment (Es et al. 2023, sections 4 and 5)."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path

import numpy as np

from ragstone._version import __version__
from ragstone.errors import ConfigError
from ragstone.evaluation.directory import CACHE
from ragstone.golden.load import table_rows
from ragstone.golden.rows import Row, SourceFile
from ragstone.golden.sample import GoldenSet, Sample
from ragstone.judge.abilities import DirectJudge, Preference
from ragstone.judge.collect import collect_judgements
from ragstone.judge.factory import build_judge
from ragstone.judge.names import provider_of
from ragstone.judge.protocol import Call, Judge, JudgeIdentity, JudgementFailed, Ledger
from ragstone.metrics.registry import METRICS
from ragstone.metrics.score import NotApplicable, Scored
from ragstone.report.templates import render_text_template
from ragstone.settings.settings import Settings
from ragstone.system.response import Context, Response
from ragstone.tools.judging.measures import Measured, estimate, pairwise_accuracy

_EXPECTED = (
    "Expected rows with question, answer and context_v1, and with ungrounded_answer, poor_answer or context_v2, "
    "as WikiEval and `ragstone generate --pairs` have them."
)
_MAX_REASONS = 5


class Quality(StrEnum):
    """What one case of a pair has more of; each is the name of the metric that measures it."""

    FAITHFULNESS = "faithfulness"
    ANSWER_RELEVANCY = "answer_relevancy"
    CONTEXT_RELEVANCE = "context_relevance"


@dataclass(frozen=True, slots=True)
class Case:
    question: str
    answer: str
    contexts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Pair:
    """Two cases of which people prefer `better`; pairs of one question share their `group`."""

    id: str
    quality: Quality
    better: Case
    worse: Case
    group: str


def read_pairs(path: Path) -> tuple[Pair, ...]:
    """The pairs in a table in WikiEval's layout: up to three from each row.

    The grounded `answer` is paired with `ungrounded_answer` (faithfulness) and `poor_answer` (answer relevancy), and
    the focused `context_v1` with the diluted `context_v2` (context relevance). Raises GoldenSetError with the line.
    """
    source = SourceFile(path, str(path))
    pairs = [
        pair for number, row in enumerate(table_rows(source), start=1) for pair in _pairs_of(source, row, str(number))
    ]
    if not pairs:
        raise source.error("contains no pairs.", hint=_EXPECTED)
    return tuple(pairs)


def _pairs_of(source: SourceFile, row: Row, number: str) -> Iterator[Pair]:
    question, answer, focused = (row.values.get(name) for name in ("question", "answer", "context_v1"))
    if not isinstance(question, str) or not isinstance(answer, str) or not focused:
        raise source.error("a pair needs texts as question and answer, and context_v1.", row.line, hint=_EXPECTED)
    name = str(row.values.get("id") or number)
    better = Case(question, answer, _texts(focused))
    worse = {
        Quality.FAITHFULNESS: _with_answer(better, row.values.get("ungrounded_answer")),
        Quality.ANSWER_RELEVANCY: _with_answer(better, row.values.get("poor_answer")),
        Quality.CONTEXT_RELEVANCE: _with_contexts(better, row.values.get("context_v2")),
    }
    for quality, case in worse.items():
        if case is not None:
            yield Pair(f"{name}/{quality}", quality, better, case, name)


def _with_answer(case: Case, answer: object) -> Case | None:
    return Case(case.question, answer, case.contexts) if isinstance(answer, str) and answer else None


def _with_contexts(case: Case, contexts: object) -> Case | None:
    return Case(case.question, case.answer, _texts(contexts)) if contexts else None


def _texts(value: object) -> tuple[str, ...]:
    return tuple(str(text) for text in value) if isinstance(value, list) else (str(value),)


@dataclass(frozen=True, slots=True)
class NoOpinion:
    """Why a judge prefers neither case: its metric doesn't apply to one of them, or a judgement failed."""

    failed: bool
    reason: str


Margin = float | NoOpinion
"""By how much the judge prefers the better case; negative if it prefers the worse one."""


@dataclass(frozen=True, slots=True)
class QualityResult:
    """Results for one quality. `accuracy` is the share of the scored pairs whose better case is preferred."""

    quality: Quality
    pairs: int
    scored: int
    not_applicable: int
    failed: int
    reasons: tuple[str, ...]
    accuracy: Measured | None


@dataclass(frozen=True, slots=True)
class PairResults:
    """How a judge did on the pairs in a file, by one method."""

    file: str
    judge: JudgeIdentity
    method: str
    results: tuple[QualityResult, ...]
    ledger: Ledger = field(default_factory=Ledger)

    def json(self) -> str:
        document = {
            "ragstone_version": __version__,
            "file": self.file,
            "method": self.method,
            "judge": asdict(self.judge),
            "cost": asdict(self.ledger),
            "results": [asdict(result) for result in self.results],
        }
        return json.dumps(document, ensure_ascii=False, indent=2, allow_nan=False)

    def text(self) -> str:
        return render_text_template("pairs.txt.j2", __package__, found=self)


async def _by_statements(judge: Judge, pair: Pair, ledger: Ledger) -> Margin:
    """By the metric, from statements and what supports them."""
    scores: list[float] = []
    for side, case in (("better", pair.better), ("worse", pair.worse)):
        metric, name = METRICS[pair.quality], f"{pair.id}/{side}"
        sample = Sample(name, case.question)
        response = Response(name, case.answer, tuple(Context(text) for text in case.contexts))
        call = Call(name, ledger=ledger)
        judgements = await collect_judgements(judge, sample, response, metric.needs(sample), call)
        score = metric.score(sample, response, judgements)
        if not isinstance(score, Scored):
            return NoOpinion(not isinstance(score, NotApplicable), score.reason)
        scores.append(score.value)
    return scores[0] - scores[1]


async def _by_score(judge: Judge, pair: Pair, ledger: Ledger) -> Margin:
    """GPT Score: the judge grades each case by itself."""
    direct = _direct(judge, "score")
    grades: list[float] = []
    for case in (pair.better, pair.worse):
        call = Call(pair.id, ledger=ledger)
        try:
            grades.append(await direct.direct_score(pair.quality, case.question, case.answer, case.contexts, call=call))
        except JudgementFailed as failure:
            return NoOpinion(True, failure.reason)
    return grades[0] - grades[1]


async def _by_ranking(judge: Judge, pair: Pair, ledger: Ledger) -> Margin:
    """GPT Ranking: the judge chooses one of the two.

    The better case comes second in half of the pairs, so that a judge that prefers a position gains nothing.
    """
    direct = _direct(judge, "ranking")
    swapped = sum(pair.id.encode("utf-8", "surrogatepass")) % 2 == 1
    cases = (pair.worse, pair.better) if swapped else (pair.better, pair.worse)
    first, second = ((case.answer, case.contexts) for case in cases)
    call = Call(pair.id, ledger=ledger)
    try:
        chosen = await direct.direct_preference(pair.quality, pair.better.question, first, second, call=call)
    except JudgementFailed as failure:
        return NoOpinion(True, failure.reason)
    margin = {Preference.FIRST: 1.0, Preference.SECOND: -1.0, Preference.NEITHER: 0.0}[chosen]
    return -margin if swapped else margin


METHODS: Mapping[str, Callable[[Judge, Pair, Ledger], Awaitable[Margin]]] = {
    "statements": _by_statements,
    "score": _by_score,
    "ranking": _by_ranking,
}
"""Ways to ask a judge: Ragstone's metrics, or the RAGAS paper's baselines GPT Score and GPT Ranking."""


def _direct(judge: Judge, method: str) -> DirectJudge:
    if not isinstance(judge, DirectJudge):
        raise ConfigError(
            f"the judge '{judge.identity.label()}' does not support the method '{method}'.",
            hint="Use --method statements, or an LLM judge.",
        )
    return judge


async def measure_on_pairs(settings: Settings, path: Path, method: str, *, seed: int = 0) -> PairResults:
    """How often the judge in `settings` prefers the better case of each pair in `path`.

    Judgements are cached in the run directory of `settings`, so that a stopped measurement can be resumed. Raises
    GoldenSetError for a file that can't be read, ConfigError for a judge that doesn't support `method`, and JudgeError
    if the judge fails as a whole.
    """
    pairs = read_pairs(path)
    cache = None
    if not provider_of(settings.judge.name).free:
        cache = settings.path(settings.run.out) / CACHE
        cache.parent.mkdir(parents=True, exist_ok=True)
    questions = {pair.group: Sample(pair.group, pair.better.question) for pair in pairs}
    golden = GoldenSet(tuple(questions.values()))
    judge = build_judge(settings.judge, golden_set=golden, cache=cache, environ=os.environ)
    try:
        return await measure(judge, pairs, method, file=path.name, seed=seed)
    finally:
        await judge.close()


async def measure(judge: Judge, pairs: Sequence[Pair], method: str, *, file: str, seed: int = 0) -> PairResults:
    """How often `judge`, which is not closed, prefers the better case of each of `pairs`. Raises as above."""
    ledger = Ledger()
    ask = METHODS[method]
    limit = asyncio.Semaphore(max(1, judge.concurrency))

    async def margin(pair: Pair) -> Margin:
        async with limit:
            return await ask(judge, pair, ledger)

    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(margin(pair)) for pair in pairs]
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from None
    margins = list(zip(pairs, (task.result() for task in tasks), strict=True))
    results = []
    for quality in Quality:
        of_quality = [(pair, margin) for pair, margin in margins if pair.quality is quality]
        if of_quality:
            results.append(_result(quality, of_quality, seed))
    return PairResults(file, judge.identity, method, tuple(results), ledger)


def _result(quality: Quality, margins: Sequence[tuple[Pair, Margin]], seed: int) -> QualityResult:
    scored = [(pair.group, margin) for pair, margin in margins if not isinstance(margin, NoOpinion)]
    lost = [margin for _, margin in margins if isinstance(margin, NoOpinion)]
    failed = sum(margin.failed for margin in lost)
    accuracy = None
    if scored:
        differences = np.array([margin for _, margin in scored])
        groups = [group for group, _ in scored]
        accuracy = estimate(pairwise_accuracy, differences, np.ones(len(scored)), groups, seed=seed)
    return QualityResult(
        quality=quality,
        pairs=len(margins),
        scored=len(scored),
        not_applicable=len(lost) - failed,
        failed=failed,
        reasons=tuple(dict.fromkeys(margin.reason for margin in lost))[:_MAX_REASONS],
        accuracy=accuracy,
    )
