"""The random sample of a window as a run: judged as stored answers are, with personal
data replaced."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from ragstone.evaluation.directory import RunDirectory
from ragstone.evaluation.interactions import Interactions
from ragstone.evaluation.rescore import rescore
from ragstone.evaluation.rounds.context import RunContext
from ragstone.golden.sample import ColumnMapping, GoldenSet, Sample
from ragstone.pipeline.run_plan import run_plan
from ragstone.settings.settings import Settings
from ragstone.system import payload
from ragstone.system.response import Response
from ragstone.tools.monitor.personal import strip
from ragstone.tools.monitor.window import Window


async def judge_sample(
    window: Window, size: int, settings: Settings, context: RunContext, out: Path
) -> RunDirectory | None:
    """The run in `out` with the scores of a sample of `window`; None if there is no
    answer that can be judged.

    The metrics are those of `settings`, else those that need no reference. Raises what
    a run raises.
    """
    sample = draw_sample(window, size)
    if not sample:
        return None
    name = f"interactions of {window.period.name}"
    answers = Interactions(
        ColumnMapping(name, "interactions", {}), map(without_personal_data, sample)
    )
    plan = run_plan(
        settings.having("run.out", str(out)),
        context,
        golden=GoldenSet(()),
        command=None,
    )
    return await rescore(answers, plan, context)


def draw_sample(window: Window, size: int) -> list[tuple[Sample, Response]]:
    """At most `size` answers that a judge can score: those with the lowest keys.

    Keys are hashes, so it is a random sample, and the same in each job. An answer whose
    sources are not logged with their texts can't be judged: an id is no evidence.
    """
    sample: list[tuple[Sample, Response]] = []
    for key, interaction in sorted(window.interactions.items()):
        if len(sample) == size:
            break
        sources = interaction.sources
        if not interaction.question or not interaction.answer or sources is None:
            continue
        logged = {"answer": interaction.answer, "contexts": list(sources)}
        response = payload.read(key, logged, interaction.latency)
        texts = [context.text.strip() for context in response.contexts]
        have_texts = all(" " in text for text in texts)
        if response.failure is None and have_texts:
            question = Sample(key, interaction.question)
            sample.append((question, response))
    return sample


def without_personal_data(answer: tuple[Sample, Response]) -> tuple[Sample, Response]:
    """`answer` without personal data that a rule finds."""
    sample, response = answer
    contexts = tuple(
        replace(context, text=strip(context.text)) for context in response.contexts
    )
    public = replace(response, answer=strip(response.answer), contexts=contexts)
    return replace(sample, question=strip(sample.question)), public
