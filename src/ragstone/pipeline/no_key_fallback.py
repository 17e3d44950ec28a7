"""The fallback of a job without secrets, if the judge needs a key."""

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
    """What can be done without a key: run with these settings, or end with an
    outcome."""

    settings: Settings
    notes: tuple[str, ...]
    outcome: GateOutcome | None = None
    """The outcome of the gate, if there is nothing to run."""
    unproven: str | None = None
    """Why the run can fail but not pass, if metrics were left out."""


def without_key(settings: Settings, golden: GoldenSet, policy: Policy) -> Narrowed:
    """Use the offline judge if the config allows it, else only the metrics that need no
    judge. If there are none, the outcome is inconclusive. Pure."""
    judge = JudgeSettings(name="offline", concurrency=settings.judge.concurrency)
    offline = settings.model_copy(update={"judge": judge})
    if settings.gate.without_key == "offline":
        return Narrowed(
            offline,
            (f"{NOT_JUDGED} The offline judge is used instead, as set in the config.",),
        )
    metrics = project_metrics(settings).select(golden)
    unjudged = tuple(
        metric.info.name for metric in metrics if not any(map(metric.needs, golden))
    )
    if unjudged:
        narrowed = offline.with_value("run.metrics", unjudged).with_value(
            "run.oracle", False
        )
        note = f"{NOT_JUDGED} Only metrics that need no judge were scored: {', '.join(unjudged)}."
        unproven = NOT_JUDGED if len(unjudged) < len(metrics) else None
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
