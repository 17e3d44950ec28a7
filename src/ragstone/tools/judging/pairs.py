"""How often a judge prefers what people prefer: WikiEval's experiment (Es et al. 2023,
section 4), on any table."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from msgspec import Struct, to_builtins
from msgspec.structs import replace

from ragstone._version import __version__
from ragstone.errors import ConfigError
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
from ragstone.tools.judging.measures import Measured, estimate, pairwise_accuracy

METHODS = ("statements", "score", "ranking")
"""Ways to ask a judge: Ragstone's metrics, or the RAGAS paper's baselines GPT Score and
GPT Ranking."""

WORSE = {
    "ungrounded_answer": "faithfulness",
    "poor_answer": "answer_relevancy",
    "context_v2": "context_relevance",
}
"""Columns of what is worse than `answer` or `context_v1`, and the metric that should
see it."""

FIELDS = ("id", "question", "answer", "context_v1", *WORSE)
_EXPECTED = (
    "Expected rows with question, answer, context_v1, and ungrounded_answer, poor_answer or context_v2, as WikiEval "
    "and `ragstone generate --pairs` have them. Other columns are named with --column FIELD=COLUMN."
)
_MAX_REASONS = 5
_MARGINS = {Preference.FIRST: 1.0, Preference.SECOND: -1.0, Preference.NEITHER: 0.0}


class Case(Struct, frozen=True):
    question: str
    answer: str
    contexts: tuple[str, ...]


class Pair(Struct, frozen=True):
    """Two cases of which people prefer `better` in `metric`; pairs of one row share
    their `group`."""

    id: str
    metric: str
    better: Case
    worse: Case
    group: str


def read_pairs(path: Path, columns: Mapping[str, str]) -> tuple[Pair, ...]:
    """The pairs in a table, up to three from each row; `columns` are those of fields
    with another name.

    Raises ConfigError for an unknown field, GoldenSetError with the line of a bad row.
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
        name = str(fields["id"] or number)
        for field, metric in WORSE.items():
            if fields[field]:
                worse = replace(better, answer=str(fields[field]))
                if field == "context_v2":
                    worse = replace(better, contexts=_texts(fields[field]))
                pair_id = f"{name}/{metric}"
                pairs.append(Pair(pair_id, metric, better, worse, name))
    if not pairs:
        raise source.error("contains no pairs.", hint=_EXPECTED)
    return tuple(pairs)


def _texts(value: object) -> tuple[str, ...]:
    if not isinstance(value, list):
        return (str(value),)
    return tuple(map(str, value))


class Result(Struct, frozen=True):
    """Results for one metric. `accuracy` is the share of the scored pairs whose better
    case is preferred."""

    metric: str
    pairs: int
    scored: int
    not_applicable: int
    failed: int
    reasons: tuple[str, ...]
    accuracy: Measured | None


class Results(Struct, frozen=True):
    """How a judge did on the pairs in a file, by one method."""

    file: str
    judge: JudgeIdentity
    method: str
    cost: Ledger
    results: tuple[Result, ...]

    def document(self) -> dict[str, object]:
        return {"ragstone_version": __version__, **to_builtins(self)}

    def text(self) -> str:
        return render_text_template("pairs.txt.j2", __package__, found=self)


async def measure_judge(
    judge: Judge, pairs: Sequence[Pair], method: str, *, file: str
) -> Results:
    """How often `judge`, which is not closed, prefers the better case of each of
    `pairs`, by `method`.

    Raises ConfigError for a judge that doesn't support it, and JudgeError if the judge
    fails as a whole.
    """
    ledger = Ledger()
    limit = asyncio.Semaphore(max(1, judge.concurrency))

    async def ask(pair: Pair) -> float | JudgementFailed:
        async with limit:
            try:
                call = Call(pair.id, ledger=ledger)
                return await _margin(judge, pair, method, call)
            except JudgementFailed as failure:
                return failure

    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(ask(pair)) for pair in pairs]
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from None
    outcomes = [task.result() for task in tasks]
    margins = dict(zip(pairs, outcomes, strict=True))
    results = []
    for metric in WORSE.values():
        of_metric = {
            pair: margin for pair, margin in margins.items() if pair.metric == metric
        }
        if of_metric:
            results.append(_result(metric, of_metric))
    return Results(file, judge.identity, method, ledger, tuple(results))


async def _margin(judge: Judge, pair: Pair, method: str, call: Call) -> float:
    """By how much the judge prefers the better case; negative if it prefers the worse
    one. Raises JudgementFailed."""
    if method == "statements":
        better = await _score(judge, pair, pair.better, call)
        worse = await _score(judge, pair, pair.worse, call)
        return better - worse
    if not isinstance(judge, DirectJudge):
        raise ConfigError(
            f"the judge '{judge.identity.label()}' does not support the method '{method}'.",
            hint="Use --method statements, or an LLM judge.",
        )
    if method == "ranking":
        # GPT Ranking: the judge chooses one of the two. The better case comes second in
        # half of the pairs, so that a judge that prefers a position gains nothing.
        id_bytes = pair.id.encode("utf-8", "surrogatepass")
        swapped = sum(id_bytes) % 2 == 1
        cases = [(case.answer, case.contexts) for case in (pair.better, pair.worse)]
        if swapped:
            cases.reverse()
        chosen = await judge.direct_preference(
            pair.metric, pair.better.question, *cases, call=call
        )
        margin = _MARGINS[chosen]
        return -margin if swapped else margin
    grades = []
    for case in (pair.better, pair.worse):
        grade = await judge.direct_score(
            pair.metric, case.question, case.answer, case.contexts, call=call
        )
        grades.append(grade)
    return grades[0] - grades[1]


async def _score(judge: Judge, pair: Pair, case: Case, call: Call) -> float:
    """By the metric, from statements and what supports them."""
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


def _result(metric: str, margins: Mapping[Pair, float | JudgementFailed]) -> Result:
    scored: dict[Pair, float] = {}
    reasons: list[str] = []
    not_applicable = 0
    for pair, margin in margins.items():
        if isinstance(margin, JudgementFailed):
            reasons.append(margin.reason)
            if margin.not_applicable:
                not_applicable += 1
        else:
            scored[pair] = margin
    accuracy = None
    if scored:
        differences = np.array(list(scored.values()))
        preferences = np.ones(len(scored))
        groups = [pair.group for pair in scored]
        accuracy = estimate(pairwise_accuracy, differences, preferences, groups)
    distinct_reasons = tuple(dict.fromkeys(reasons))
    return Result(
        metric=metric,
        pairs=len(margins),
        scored=len(scored),
        not_applicable=not_applicable,
        failed=len(reasons) - not_applicable,
        reasons=distinct_reasons[:_MAX_REASONS],
        accuracy=accuracy,
    )
