"""The random sample of a window as a run: judged as stored answers are, with personal data replaced."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from ragstone.evaluation.directory import RunDirectory
from ragstone.evaluation.rescore import rescore
from ragstone.evaluation.rounds.context import RunContext
from ragstone.evaluation.stored import Interactions
from ragstone.golden.sample import GoldenSet, Sample
from ragstone.pipeline.run_plan import run_plan
from ragstone.settings.settings import Settings
from ragstone.system.response import Response
from ragstone.tools.monitor.personal import strip
from ragstone.tools.monitor.window import Window


async def judge_sample(window: Window, settings: Settings, context: RunContext, out: Path) -> RunDirectory | None:
    """The run in `out` with the scores of the sample of `window`; None if there is no answer that can be judged.

    The metrics are those of `settings`, else those that need no reference. Raises what a run raises.
    """
    if not window.responses:
        return None
    answers = Interactions(f"interactions of {window.period.name}", stored_answers(window))
    plan = run_plan(settings.having("run.out", str(out)), context, golden=GoldenSet(()), command=None)
    rescored = await rescore([answers], replace(plan, answers=1), context)
    return rescored.run


def stored_answers(window: Window) -> Iterator[tuple[Sample, Response]]:
    """The sample of `window`, without personal data that a rule finds."""
    for key, response in window.responses.items():
        sample = Sample(key, strip(window.interactions[key].question or ""))
        contexts = tuple(replace(context, text=strip(context.text)) for context in response.contexts)
        yield sample, replace(response, answer=strip(response.answer), contexts=contexts)
