"""How often a judge prefers what people prefer: the experiment of WikiEval (Es et al.
2023, section 4), with pairs from any table."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from msgspec import Struct, to_builtins
from msgspec.structs import replace

from ragstone._version import __version__
from ragstone.errors import ConfigError, first_in
from ragstone.golden.load import table_rows
from ragstone.golden.rows import SourceFile
from ragstone.golden.sample import Sample
from ragstone.judge.abilities import DirectJudge, Preference
from ragstone.judge.collect import collect_judgements
from ragstone.judge.protocol import Call, Judge, JudgeIdentity, JudgementFailed, Ledger
from ragstone.metrics.registry import METRICS
from ragstone.metrics.score import NotApplicable, Scored
from ragstone.report.templates import render_text_template
from ragstone.system.response import Context, Response
from ragstone.tools.judging.measures import Measurement, estimate, pairwise_accuracy

METHODS = ("statements", "score", "ranking")
"""Ways to ask a judge: by Ragstone's metrics, or by the RAGAS paper's baselines GPT
Score and GPT Ranking."""

METRIC_BY_WORSE_FIELD = {
    "ungrounded_answer": "faithfulness",
    "poor_answer": "answer_relevancy",
    "context_v2": "context_relevance",
}
"""The fields that are worse than `answer` or `context_v1`, and the metric that should
be lower for them."""

FIELDS = ("id", "question", "answer", "context_v1", *METRIC_BY_WORSE_FIELD)
_EXPECTED = (
    "Expected rows with question, answer, context_v1, and ungrounded_answer, poor_answer or context_v2, as WikiEval "
    "and `ragstone generate --pairs` have them. Other columns are named with --column FIELD=COLUMN."
)
_MAX_REASONS = 5
"""The report shows so many reasons why pairs could not be scored, for each metric."""

_MARGIN_BY_PREFERENCE = {
    Preference.FIRST: 1.0,
    Preference.SECOND: -1.0,
    Preference.NEITHER: 0.0,
}


class Case(Struct, frozen=True):
    """A question with an answer and the contexts that were retrieved for it."""

    question: str
    answer: str
    contexts: tuple[str, ...]


class Pair(Struct, frozen=True):
    """Two cases, of which people prefer one."""

    id: str
    metric: str
    """What `better` is better in."""
    better: Case
    worse: Case
    group: str
    """The id of the row, which all its pairs share."""


def read_pairs(path: Path, columns: Mapping[str, str]) -> tuple[Pair, ...]:
    """Read the pairs of a table, up to three from each row.

    `columns` maps fields to the columns that have them under another name. Raises
    ConfigError for an unknown field, and GoldenSetError with the line of a bad row.
    """
    for field in columns:
        if field not in FIELDS:
            field_names = ", ".join(FIELDS)
            raise ConfigError(
                f"a pair has no field '{field}'.", hint=f"Fields: {field_names}."
            )
    source = SourceFile(path, str(path))
    pairs: list[Pair] = []
    for number, row in enumerate(table_rows(source), start=1):
        fields = {field: row.values.get(columns.get(field, field)) for field in FIELDS}
        question = fields["question"]
        answer = fields["answer"]
        contexts = fields["context_v1"]
        if not isinstance(question, str) or not isinstance(answer, str) or not contexts:
            raise source.error(
                "a pair needs texts as question and answer, and context_v1.",
                row.line,
                hint=_EXPECTED,
            )
        better = Case(question, answer, _texts(contexts))
        row_id = str(fields["id"] or number)
        for field, metric in METRIC_BY_WORSE_FIELD.items():
            if not fields[field]:
                continue
            if field == "context_v2":
                worse = replace(better, contexts=_texts(fields[field]))
            else:
                worse = replace(better, answer=str(fields[field]))
            pair_id = f"{row_id}/{metric}"
            pairs.append(Pair(pair_id, metric, better, worse, group=row_id))
    if not pairs:
        raise source.error("contains no pairs.", hint=_EXPECTED)
    return tuple(pairs)


def _texts(value: object) -> tuple[str, ...]:
    """The texts in a cell, which has one text or a list of them."""
    if not isinstance(value, list):
        return (str(value),)
    return tuple(map(str, value))


class MetricResult(Struct, frozen=True):
    """How a judge did on the pairs for one metric. Whole numbers count pairs."""

    metric: str
    pairs: int
    scored: int
    not_applicable: int
    failed: int
    reasons: tuple[str, ...]
    """Why pairs were not scored, each reason once, at most `_MAX_REASONS`."""
    accuracy: Measurement | None
    """The share of the scored pairs whose better case the judge prefers; None if no
    pair was scored."""


class PairResults(Struct, frozen=True):
    """How a judge did on the pairs in a file, by one method."""

    file: str
    judge: JudgeIdentity
    method: str
    cost: Ledger
    results: tuple[MetricResult, ...]

    def document(self) -> dict[str, object]:
        """The results for programs."""
        return {"ragstone_version": __version__, **to_builtins(self)}

    def text(self) -> str:
        """The results for people."""
        return render_text_template("pairs.txt.j2", __package__, measured=self)


async def measure_judge(
    judge: Judge, pairs: Sequence[Pair], method: str, *, file: str
) -> PairResults:
    """Ask `judge` about each of `pairs`, by one of `METHODS`, and count how often it
    prefers the better case. The caller closes the judge.

    `file` is how the results call the table. Raises ConfigError for a judge that
    doesn't support the method, and JudgeError if the judge fails as a whole.
    """
    ledger = Ledger()
    slots = asyncio.Semaphore(max(1, judge.concurrency))

    async def ask(pair: Pair) -> float | JudgementFailed:
        async with slots:
            try:
                call = Call(pair.id, ledger=ledger)
                return await _margin(judge, pair, method, call)
            except JudgementFailed as failure:
                return failure

    try:
        async with asyncio.TaskGroup() as tasks:
            margins = [tasks.create_task(ask(pair)) for pair in pairs]
    except BaseExceptionGroup as errors:
        raise first_in(errors) from None
    results = []
    for metric in METRIC_BY_WORSE_FIELD.values():
        margin_by_pair = {
            pair: margin.result()
            for pair, margin in zip(pairs, margins, strict=True)
            if pair.metric == metric
        }
        if margin_by_pair:
            results.append(_result(metric, margin_by_pair))
    return PairResults(file, judge.identity, method, ledger, tuple(results))


async def _margin(judge: Judge, pair: Pair, method: str, call: Call) -> float:
    """By how much the judge prefers the better case: negative if it prefers the worse
    one. Raises JudgementFailed, and ConfigError for a judge without this method."""
    if method == "statements":
        better_score = await _score(judge, pair, pair.better, call)
        worse_score = await _score(judge, pair, pair.worse, call)
        return better_score - worse_score
    if not isinstance(judge, DirectJudge):
        raise ConfigError(
            f"the judge '{judge.identity.label()}' does not support the method '{method}'.",
            hint="Use --method statements, or an LLM judge.",
        )
    if method == "ranking":
        # GPT Ranking: the judge chooses one of the two. The better case comes second in
        # about half of the pairs, so that a judge that prefers a position gains nothing.
        id_bytes = pair.id.encode("utf-8", "surrogatepass")
        is_swapped = sum(id_bytes) % 2 == 1
        cases = [(case.answer, case.contexts) for case in (pair.better, pair.worse)]
        if is_swapped:
            cases.reverse()
        preference = await judge.direct_preference(
            pair.metric, pair.better.question, *cases, call=call
        )
        margin = _MARGIN_BY_PREFERENCE[preference]
        return -margin if is_swapped else margin
    # GPT Score: the judge grades each of the two.
    grades = []
    for case in (pair.better, pair.worse):
        grade = await judge.direct_score(
            pair.metric, case.question, case.answer, case.contexts, call=call
        )
        grades.append(grade)
    return grades[0] - grades[1]


async def _score(judge: Judge, pair: Pair, case: Case, call: Call) -> float:
    """The score of a case by the metric of its pair. Raises JudgementFailed if there is
    none."""
    metric = METRICS[pair.metric]
    sample = Sample(pair.id, case.question)
    contexts = tuple(map(Context, case.contexts))
    response = Response(pair.id, case.answer, contexts)
    judgements = await collect_judgements(
        judge, sample, response, metric.needs(sample), call
    )
    score = metric.score(sample, response, judgements)
    if isinstance(score, Scored):
        return score.value
    is_not_applicable = isinstance(score, NotApplicable)
    raise JudgementFailed(score.reason, not_applicable=is_not_applicable)


def _result(
    metric: str, margin_by_pair: Mapping[Pair, float | JudgementFailed]
) -> MetricResult:
    """Count the pairs for one metric."""
    scored: dict[Pair, float] = {}
    reasons: list[str] = []
    not_applicable = 0
    for pair, margin in margin_by_pair.items():
        if isinstance(margin, JudgementFailed):
            reasons.append(margin.reason)
            if margin.not_applicable:
                not_applicable += 1
        else:
            scored[pair] = margin
    accuracy = None
    if scored:
        margins = np.array(list(scored.values()))
        # Each margin is of the better case over the worse: people prefer the first.
        preferences = np.ones(len(scored))
        groups = [pair.group for pair in scored]
        accuracy = estimate(pairwise_accuracy, margins, preferences, groups)
    distinct_reasons = tuple(dict.fromkeys(reasons))
    return MetricResult(
        metric=metric,
        pairs=len(margin_by_pair),
        scored=len(scored),
        not_applicable=not_applicable,
        failed=len(reasons) - not_applicable,
        reasons=distinct_reasons[:_MAX_REASONS],
        accuracy=accuracy,
    )
