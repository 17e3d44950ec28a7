"""A judge that returns prepared judgements: for tests and for rehearsing a policy without a model."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import TypeVar

from pydantic import TypeAdapter, ValidationError

from ragstone.errors import ConfigError, suggestion
from ragstone.files import read_regular
from ragstone.judge.judgements import (
    AnswerSimilarity,
    ContextGrades,
    ContextUse,
    EntityList,
    Grade,
    JudgementFailure,
    Judgements,
    ReferenceMatch,
    ReverseQuestions,
    Statement,
    StatementList,
    SupportTable,
)
from ragstone.judge.protocol import Call, JudgeIdentity, JudgementFailed
from ragstone.judge.rubric import Rubric, RubricTexts
from ragstone.system.response import Context

_T = TypeVar("_T")
_MAX_BYTES = 64 * 1024 * 1024
_SCRIPT: TypeAdapter[dict[str, Judgements | list[Judgements]]] = TypeAdapter(dict[str, Judgements | list[Judgements]])


class ScriptedJudge:
    """Answers from a mapping of sample id to Judgements, or to one Judgements per repeat (the last one is reused).

    A JudgementFailure in the script, a judgement that is None and a sample that is missing from the script all raise
    JudgementFailed. No call costs anything.
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
            sample_id: (given,) if isinstance(given, Judgements) else tuple(given)
            for sample_id, given in judgements.items()
        }
        self._identity = JudgeIdentity(provider="scripted", model=name, version=version)
        self._concurrency = concurrency

    @property
    def identity(self) -> JudgeIdentity:
        return self._identity

    @property
    def concurrency(self) -> int:
        return self._concurrency

    async def statements(self, question: str, answer: str, *, call: Call) -> StatementList:  # noqa: ARG002
        return _given(self._of(call).statements, "statements")

    async def support(
        self,
        contexts: Sequence[Context],  # noqa: ARG002
        statements: Sequence[Statement],  # noqa: ARG002
        *,
        call: Call,
    ) -> SupportTable:
        return _given(self._of(call).support, "support")

    async def context_use(
        self,
        question: str,  # noqa: ARG002
        reference: str | None,  # noqa: ARG002
        answer: str,  # noqa: ARG002
        contexts: Sequence[Context],  # noqa: ARG002
        *,
        call: Call,
    ) -> ContextUse:
        return _given(self._of(call).context_use, "context use")

    async def reverse_questions(self, question: str, answer: str, *, n: int, call: Call) -> ReverseQuestions:  # noqa: ARG002
        return _given(self._of(call).reverse_questions, "reverse questions")

    async def reference_match(
        self,
        question: str,  # noqa: ARG002
        reference: str,  # noqa: ARG002
        statements: Sequence[Statement],  # noqa: ARG002
        answer: str,  # noqa: ARG002
        *,
        call: Call,
    ) -> ReferenceMatch:
        return _given(self._of(call).reference_match, "reference match")

    async def answer_similarity(self, answer: str, references: Sequence[str], *, call: Call) -> AnswerSimilarity:  # noqa: ARG002
        return _given(self._of(call).answer_similarity, "answer similarity")

    async def entities(self, text: str, *, call: Call) -> EntityList:  # noqa: ARG002
        return _given(self._of(call).entities, "entities")

    async def context_relevance(
        self,
        question: str,  # noqa: ARG002
        contexts: Sequence[Context],  # noqa: ARG002
        *,
        call: Call,
    ) -> ContextGrades:
        return _given(self._of(call).context_relevance, "context relevance")

    async def grade(self, rubric: Rubric, shown: RubricTexts, *, call: Call) -> Grade:  # noqa: ARG002
        return _given(self._of(call).custom.get(rubric.name), f"grade for {rubric.name}")

    async def close(self) -> None:
        return None

    def _of(self, call: Call) -> Judgements:
        given = self._judgements.get(call.sample_id)
        if not given:
            raise JudgementFailed(f"the script has no judgements for sample '{call.sample_id}'")
        return given[min(call.repeat, len(given) - 1)]


def read_script(path: Path, *, concurrency: int = 64, within: Path | None = None) -> ScriptedJudge:
    """The judge scripted in `path`: a JSON object of sample id to judgements, in the format that a run records.

    Raises ConfigError with the file and the position in it.
    """
    try:
        text = read_regular(path, within=within, limit=_MAX_BYTES)
    except OSError as error:
        raise ConfigError(f"the script can't be read: {error.strerror}.", where=str(path)) from None
    try:
        script = _SCRIPT.validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"]) or "the whole file"
        raise ConfigError(
            f"{place}: {first['msg']}.",
            where=str(path),
            hint='Write {"sample id": {"statements": …, "support": …}} as samples.jsonl has it.',
        ) from None
    _refuse_unknown(path, text)
    return ScriptedJudge(script, name=path.name, version=hashlib.sha256(text).hexdigest()[:12], concurrency=concurrency)


def _refuse_unknown(path: Path, text: bytes) -> None:
    """Reject unknown fields: a misspelt judgement would never be given."""
    known = {field.name for field in fields(Judgements)}
    for sample_id, given in json.loads(text).items():
        for judgements in given if isinstance(given, list) else [given]:
            for name in judgements:
                if name not in known:
                    raise ConfigError(
                        f"{sample_id}: unknown judgement '{name}'.", where=str(path), hint=suggestion(name, known)
                    )


def _given(judgement: _T | JudgementFailure | None, what: str) -> _T:
    if isinstance(judgement, JudgementFailure):
        raise JudgementFailed(judgement.reason, not_applicable=judgement.not_applicable)
    if judgement is None:
        raise JudgementFailed(f"the script has no {what}")
    return judgement
