"""Judges a random sample of a window: a run of its logged answers, without personal
data."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from ragstone.evaluation.directory import RunDirectory
from ragstone.evaluation.interactions import Interactions
from ragstone.evaluation.rescore import rescore
from ragstone.evaluation.rounds.context import RunContext
from ragstone.golden.document_names import is_document_name
from ragstone.golden.sample import ColumnMapping, GoldenSet, Sample
from ragstone.metrics.limits import word_count
from ragstone.pipeline.run_plan import run_plan
from ragstone.settings.settings import Settings
from ragstone.system import payload
from ragstone.system.response import Response
from ragstone.tools.monitor.personal import mask_personal_data
from ragstone.tools.monitor.window import Window

LoggedAnswer = tuple[Sample, Response]
"""A question, as a sample, and the response that was logged for it."""


async def judge_sample(
    window: Window, size: int, settings: Settings, context: RunContext, out: Path
) -> RunDirectory | None:
    """Judge at most `size` answers of `window`, and write their run to `out`. Returns
    None if no answer can be judged.

    The metrics are those of `settings`, or those that need no reference if the settings
    name none. Raises what a run raises.
    """
    drawn_answers = draw_sample(window, size)
    if not drawn_answers:
        return None
    source = f"interactions of {window.period.name}"
    mapping = ColumnMapping(file=source, format="interactions", columns={})
    answers = Interactions(mapping, map(without_personal_data, drawn_answers))
    plan = run_plan(
        settings.with_value("run.out", str(out)),
        context,
        golden=GoldenSet(()),  # the questions are logged with their answers
        command=None,
    )
    return await rescore(answers, plan, context)


def draw_sample(window: Window, size: int) -> list[LoggedAnswer]:
    """Draw at most `size` of the answers that a judge can score: those with the lowest
    keys.

    Keys are hashes, so the draw is random, and the same each time. An answer whose
    sources are logged without their texts can't be judged.
    """
    drawn_answers: list[LoggedAnswer] = []
    for key, interaction in sorted(window.interactions.items()):
        if len(drawn_answers) == size:
            break
        sources = interaction.sources
        if not interaction.question or not interaction.answer or sources is None:
            continue
        logged = {"answer": interaction.answer, "contexts": list(sources)}
        response = payload.read(key, logged, interaction.latency)
        has_texts = all(_is_passage(context.text) for context in response.contexts)
        if response.failure is None and has_texts:
            question = Sample(key, interaction.question)
            drawn_answers.append((question, response))
    return drawn_answers


def _is_passage(text: str) -> bool:
    """Whether a source is logged with its text. A single word is rather the id of a
    document."""
    return word_count(text) > 1 and not is_document_name(text)


def without_personal_data(answer: LoggedAnswer) -> LoggedAnswer:
    """A question with its response, without the personal data that rules find."""
    sample, response = answer
    contexts = tuple(
        replace(context, text=mask_personal_data(context.text))
        for context in response.contexts
    )
    masked_question = mask_personal_data(sample.question)
    masked_answer = mask_personal_data(response.answer)
    return (
        replace(sample, question=masked_question),
        replace(response, answer=masked_answer, contexts=contexts),
    )
