"""A judge that returns prepared judgements: for tests and for rehearsing a policy
without a model."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter

from ragstone.errors import disk_errors, parse_errors
from ragstone.files import read_regular
from ragstone.judge.judgements import (
    AnswerSimilarity,
    CitationTable,
    ContextGrades,
    ContextUse,
    EntityList,
    Grade,
    JudgementFailure,
    Judgements,
    ReferenceMatch,
    ReverseQuestions,
    StatementList,
    SupportTable,
)
from ragstone.judge.protocol import Call, JudgeIdentity, JudgementFailed
from ragstone.judge.rubric import Rubric, RubricTexts

_T = TypeVar("_T")
_MAX_BYTES = 64 * 1024 * 1024
_SCRIPT: TypeAdapter[dict[str, Judgements | list[Judgements]]] = TypeAdapter(
    dict[str, Judgements | list[Judgements]]
)


def _given(judgement: _T | JudgementFailure | None, what: str) -> _T:
    match judgement:
        case None:
            raise JudgementFailed(f"the script has no {what}")
        case JudgementFailure(reason, not_applicable):
            raise JudgementFailed(reason, not_applicable=not_applicable)
        case _:
            return judgement


def _scripted(kind: type[_T], name: str) -> Callable[..., Coroutine[Any, Any, _T]]:  # noqa: ARG001 - for the type
    """The method of a judge that gives the judgement called `name`, whatever it is
    asked."""

    async def give(self: ScriptedJudge, *_: object, call: Call, **__: object) -> _T:
        judgement: _T | JudgementFailure | None = getattr(
            self.judgements_for(call), name
        )
        return _given(judgement, name.replace("_", " "))

    return give


class ScriptedJudge:
    """Answers from a mapping of sample id to Judgements, or to one Judgements per
    repeat (the last one is reused).

    A JudgementFailure in the script, a judgement that is None and a sample that is
    missing from the script all raise JudgementFailed. No call costs anything.
    """

    def __init__(
        self,
        judgements: Mapping[str, Judgements | Sequence[Judgements]],
        *,
        name: str = "script",
        version: str = "1",
        concurrency: int = 64,
    ) -> None:
        self._judgements = {
            sample_id: (rounds,) if isinstance(rounds, Judgements) else tuple(rounds)
            for sample_id, rounds in judgements.items()
        }
        self.identity = JudgeIdentity(provider="scripted", model=name, version=version)
        self.concurrency = concurrency

    statements = _scripted(StatementList, "statements")
    support = _scripted(SupportTable, "support")
    context_use = _scripted(ContextUse, "context_use")
    reverse_questions = _scripted(ReverseQuestions, "reverse_questions")
    reference_match = _scripted(ReferenceMatch, "reference_match")
    answer_similarity = _scripted(AnswerSimilarity, "answer_similarity")
    entities = _scripted(EntityList, "entities")
    context_relevance = _scripted(ContextGrades, "context_relevance")
    citations = _scripted(CitationTable, "citations")

    async def grade(self, rubric: Rubric, shown: RubricTexts, *, call: Call) -> Grade:  # noqa: ARG002
        return _given(
            self.judgements_for(call).custom.get(rubric.name),
            f"grade for {rubric.name}",
        )

    async def close(self) -> None:
        return None

    def judgements_for(self, call: Call) -> Judgements:
        """The script's judgements for the sample and the repeat. Raises
        JudgementFailed."""
        rounds = self._judgements.get(call.sample_id)
        if not rounds:
            raise JudgementFailed(
                f"the script has no judgements for sample '{call.sample_id}'"
            )
        return rounds[min(call.repeat, len(rounds) - 1)]


def read_script(
    path: Path, *, concurrency: int = 64, within: Path | None = None
) -> ScriptedJudge:
    """The judge scripted in `path`: a JSON object of sample id to judgements, in the
    format that a run records.

    Raises ConfigError with the file and the position in it.
    """
    hint = (
        'Write {"sample id": {"statements": …, "support": …}} as samples.jsonl has it.'
    )
    with (
        disk_errors(path, "the script can't be read"),
        parse_errors(path, "not a script of judgements", hint=hint),
    ):
        text = read_regular(path, within=within, limit=_MAX_BYTES)
        script = _SCRIPT.validate_json(text)
    return ScriptedJudge(
        script,
        name=path.name,
        version=hashlib.sha256(text).hexdigest()[:12],
        concurrency=concurrency,
    )
