"""A judge that returns judgements from a script, for tests and for trying a policy
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


def _require(judgement: _T | JudgementFailure | None, description: str) -> _T:
    """`judgement`, if the script has it. Raises JudgementFailed, with the reason of a
    JudgementFailure."""
    match judgement:
        case None:
            raise JudgementFailed(f"the script has no {description}")
        case JudgementFailure(reason, not_applicable):
            raise JudgementFailed(reason, not_applicable=not_applicable)
        case _:
            return judgement


def _scripted_method(
    kind: type[_T],  # noqa: ARG001 - for the type
    name: str,
) -> Callable[..., Coroutine[Any, Any, _T]]:
    """A method of a judge that returns the scripted judgement called `name`, whatever
    it is asked."""

    async def judge(self: ScriptedJudge, *_: object, call: Call, **__: object) -> _T:
        judgement: _T | JudgementFailure | None = getattr(
            self.judgements_for(call), name
        )
        return _require(judgement, name.replace("_", " "))

    return judge


class ScriptedJudge:
    """Returns the judgements of a script.

    The script maps the id of a sample to its judgements, or to a list of them, one for
    each repeat; the last one is used for all further repeats. Everything that the
    script lacks raises JudgementFailed. No call costs anything.
    """

    def __init__(
        self,
        judgements: Mapping[str, Judgements | Sequence[Judgements]],
        *,
        name: str = "script",
        version: str = "1",
        concurrency: int = 64,
    ) -> None:
        self._judgements_by_repeat = {
            sample_id: (script,) if isinstance(script, Judgements) else tuple(script)
            for sample_id, script in judgements.items()
        }
        self.identity = JudgeIdentity(provider="scripted", model=name, version=version)
        self.concurrency = concurrency

    statements = _scripted_method(StatementList, "statements")
    support = _scripted_method(SupportTable, "support")
    context_use = _scripted_method(ContextUse, "context_use")
    reverse_questions = _scripted_method(ReverseQuestions, "reverse_questions")
    reference_match = _scripted_method(ReferenceMatch, "reference_match")
    answer_similarity = _scripted_method(AnswerSimilarity, "answer_similarity")
    entities = _scripted_method(EntityList, "entities")
    context_relevance = _scripted_method(ContextGrades, "context_relevance")
    citations = _scripted_method(CitationTable, "citations")

    async def grade(self, rubric: Rubric, texts: RubricTexts, *, call: Call) -> Grade:  # noqa: ARG002
        return _require(
            self.judgements_for(call).custom.get(rubric.name),
            f"grade for {rubric.name}",
        )

    async def close(self) -> None:
        return None

    def judgements_for(self, call: Call) -> Judgements:
        """The script's judgements for the sample and the repeat of `call`. Raises
        JudgementFailed."""
        by_repeat = self._judgements_by_repeat.get(call.sample_id)
        if not by_repeat:
            raise JudgementFailed(
                f"the script has no judgements for sample '{call.sample_id}'"
            )
        return by_repeat[min(call.repeat, len(by_repeat) - 1)]


def read_script(
    path: Path, *, concurrency: int = 64, within: Path | None = None
) -> ScriptedJudge:
    """The judge with the script in `path`: a JSON object of judgements by the ids of
    samples, in the format of samples.jsonl.

    Raises ConfigError, with the position in the file, if it can't be read.
    """
    hint = 'Write {"sample id": {"statements": …, "support": …}}, with judgements as in samples.jsonl.'
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
