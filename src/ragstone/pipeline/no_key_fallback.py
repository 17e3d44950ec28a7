"""Fallback for a job without secrets, if the judge needs a key."""

from __future__ import annotations

from msgspec import Struct

from ragstone.evaluation.scores import RunScores, SampleFacts
from ragstone.formatting import counted
from ragstone.gate.policy import Policy
from ragstone.gate.verdict import GateVerdict, Status
from ragstone.golden.sample import GoldenSet
from ragstone.pipeline.decide import exit_code_of
from ragstone.pipeline.gate import GateOutcome
from ragstone.pipeline.run_plan import project_metrics
from ragstone.report.document import document_of
from ragstone.settings.settings import JudgeSettings, Settings

NOT_JUDGED = "Not judged: no key on pull requests from forks."


class Narrowed(Struct, frozen=True):
    """What can be done without a key: `settings` to run with, or an `outcome` if there
    is nothing to run.

    `unproven`: metrics were left out, so that the run can fail but not pass.
    """

    settings: Settings
    notes: tuple[str, ...]
    outcome: GateOutcome | None = None
    unproven: str | None = None


def without_key(settings: Settings, golden: GoldenSet, policy: Policy) -> Narrowed:
    """Use the offline judge if the config allows it, else the metrics that need no
    judge, else none. Pure."""
    judge = JudgeSettings(name="offline", concurrency=settings.judge.concurrency)
    offline = settings.model_copy(update={"judge": judge})
    if settings.gate.without_key == "offline":
        return Narrowed(
            offline,
            (f"{NOT_JUDGED} The offline judge is used instead, as set in the config.",),
        )
    metrics = project_metrics(settings).select(golden)
    free = tuple(
        metric.info.name for metric in metrics if not any(map(metric.needs, golden))
    )
    if free:
        narrowed = offline.having("run.metrics", free).having("run.oracle", False)
        note = f"{NOT_JUDGED} Only metrics that need no judge were scored: {', '.join(free)}."
        unproven = NOT_JUDGED if len(free) < len(metrics) else None
        return Narrowed(narrowed, (note,), unproven=unproven)
    verdict = GateVerdict(
        Status.INCONCLUSIVE,
        f"{NOT_JUDGED} Config, policy and golden set ({counted(len(golden), 'sample')}) are valid.",
        inconclusive_blocks=policy.gate.inconclusive == "fail",
    )
    samples = {sample.id: SampleFacts.of(sample) for sample in golden}
    document = document_of(
        verdict, RunScores(label="not judged", metrics={}, samples=samples)
    )
    code = exit_code_of(verdict, settings.gate.fail_on)
    outcome = GateOutcome(verdict, document, code)
    return Narrowed(settings, (NOT_JUDGED,), outcome)
