"""A small run of a help-desk system, and the verdicts it can get."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import pytest
from msgspec.structs import replace

from ragstone.evaluation.manifest import Cost, Counts, GoldenManifest, Invocation, Manifest, SystemManifest
from ragstone.evaluation.record import SampleRecord
from ragstone.evaluation.scores import MetricScores, RunScores, SampleFacts, SystemFacts
from ragstone.gate.findings import Level
from ragstone.gate.verdict import (
    Action,
    Attribution,
    Check,
    CheckKind,
    Comparability,
    GateVerdict,
    Interval,
    Regression,
    Side,
    Status,
)
from ragstone.golden.sample import Origin, Sample
from ragstone.judge.judgements import (
    ContextUse,
    ContextUsefulness,
    Judgements,
    Statement,
    StatementList,
    Support,
    SupportTable,
    Verdict,
)
from ragstone.judge.protocol import JudgeIdentity
from ragstone.metrics.score import Failed, Scored
from ragstone.report.document import document_of
from ragstone.report.parts import NO_LINKS, Document, FindingPart, Links
from ragstone.settings.settings import SystemPrice
from ragstone.system.response import Context, Response, TokenUsage
from tests.evaluation.builders import one_answer
from tests.gate.verdicts import verdict_of
from tests.report.browser import Page, chromium

QUESTIONS = (
    "Which port does the gateway listen on by default?",
    "How long is a session token valid?",
    "Can I restore a deleted workspace?",
    "Who may approve a production deploy?",
    "What does error E-1042 mean?",
    "How do I rotate the signing key?",
)


@dataclass(frozen=True, slots=True)
class Text:
    """The places where foreign text can stand; the defaults are harmless."""

    id: str = "port-default"
    question: str = QUESTIONS[0]
    answer: str = "The gateway listens on port 8080. It also opens port 9090 for metrics."
    statement: str = "The gateway listens on port 8080."
    missing: str = "The gateway listens on port 8443."
    reference: str = "The gateway listens on port 8443 by default."
    file: str = "golden/helpdesk.jsonl"
    tag: str = "network"
    metric: str = "tone"
    reason: str = "the judge refused: content filter"
    system_reason: str = "TimeoutError: no answer after 60 s"
    gate_reason: str = "Faithfulness dropped by 0.09, more than the 0.02 allowed."
    label: str = "ragstone-run"
    entrypoint: str = "python:helpdesk.rag:answer"
    slice: str = "lang:de"
    warning: str = "context_recall was version 1 in the baseline and is 2 now: not compared."
    note: str = "Golden set changed: compared on 48 of 60 samples."


def manifest(text: Text, *, offline: bool = False, usd: float | None = 0.0312) -> Manifest:
    judge = (
        JudgeIdentity(provider="offline", model="lexical", version="1")
        if offline
        else JudgeIdentity(provider="openai", model="gpt-x-mini", version="a1b2")
    )
    return Manifest(
        ragstone_version="0.1.0",
        state="finished",
        created_at="2026-11-21T09:00:00+00:00",
        golden=GoldenManifest(files=(text.file,), content_hash="f" * 64, samples=60),
        judge=judge,
        system=SystemManifest(entrypoint=text.entrypoint, commit="3f2c1e9a7b5d4c6e8f0a1b2c3d4e5f6a7b8c9d0e"),
        metrics={"faithfulness": "1", "context_recall": "1", "answer_relevancy": "1", "context_precision": "1"},
        counts=Counts(scored=58, partly_failed=1, system_failed=1),
        cost=Cost(calls=24, cached_calls=212, input_tokens=81_204, output_tokens=6_112, usd=usd),
        price=SystemPrice(input=0.15, output=0.6),
        wall_s=83.2,
        invocation=Invocation(
            command="gate",
            folder=".",
            flags=(f"--entrypoint={text.entrypoint}", f"--golden={text.file}", "--baseline=main"),
        ),
    )


def sample_id(number: int, text: Text) -> str:
    return text.id if number == 0 else f"q-{number:03d}"


def run_scores(text: Text, *, shift: float = 0.0, offline: bool = False, label: str | None = None) -> RunScores:
    """Sixty samples: every third is lower by `shift`; one failed by the judge, one by the system."""
    ids = [sample_id(number, text) for number in range(60)]
    metrics = {}
    names = ("faithfulness", "answer_relevancy", "context_recall", "context_precision", text.metric)
    for offset, metric in enumerate(names):
        values = {}
        for number, key in enumerate(ids[:58]):
            value = (0.5, 1.0, 0.75, 1.0, 0.9, 0.8)[(number * 7 + offset) % 6]
            moved = shift * (-0.5 if number % 9 == 1 else (1 + number % 5) / 2 if number % 3 == 0 else 0.0)
            values[key] = round(min(1.0, max(0.0, value - moved)), 4)
        metrics[metric] = MetricScores(
            values=values,
            failed={ids[58]: Failed("judge", text.reason), ids[59]: Failed("system", text.system_reason)},
            version="1",
        )
    return RunScores(
        label=label or text.label,
        metrics=metrics,
        samples={
            key: SampleFacts(
                question=text.question if number == 0 else QUESTIONS[number % 6],
                tags=(text.tag, text.slice) if number % 2 == 0 else (),
                origin=Origin(text.file, number + 1),
            )
            for number, key in enumerate(ids)
        },
        system=SystemFacts(
            latencies_s={key: 0.4 + number / 100 for number, key in enumerate(ids)},
            failures={ids[59]: text.system_reason},
            failed_answers={ids[59]: 1},
            usage={key: TokenUsage(1240, 100) for key in ids[:59]},
        ),
        manifest=manifest(text, offline=offline),
    )


def record(text: Text, answer: str | None = None) -> SampleRecord:
    statements = (Statement("s1", text.statement), Statement("s2", "Port 9090 serves metrics."))
    return one_answer(
        sample=Sample(
            id=text.id, question=text.question, reference=text.reference, origin=Origin(text.file, 1), tags=(text.tag,)
        ),
        response=Response(
            text.id, answer=answer or text.answer, contexts=(Context("Metrics are on port 9090."), Context("…"))
        ),
        judgements=(
            Judgements(
                statements=StatementList(statements, abstains=False),
                support=SupportTable((Support("s1", Verdict.CONTRADICTED), Support("s2", Verdict.SUPPORTED, ("c1",)))),
                context_use=ContextUse(
                    contexts=(ContextUsefulness("c1", True), ContextUsefulness("c2", False)),
                    against_reference=True,
                    reference_statements=(Statement("r1", text.missing),),
                    attributions=(Support("r1", Verdict.UNSUPPORTED),),
                ),
            ),
        ),
        scores={"faithfulness": Scored(0.5), "context_recall": Scored(0.0, note="no context holds it")},
    )


def check(
    name: str,
    kind: CheckKind,
    threshold: float,
    estimates: tuple[float, ...],
    *,
    fails: bool = False,
    action: Action = Action.BLOCK,
    reason: str = "It is as good as it has to be.",
    **more: Any,
) -> Check:
    """A check by its estimate and, where there is one, the interval around it."""
    estimate, *ends = estimates
    fields: dict[str, Any] = {"status": Status.FAIL if fails else Status.PASS, "n": 58, **more}
    if ends:
        fields |= {"interval": Interval(ends[0], ends[1], 0.95, "paired bootstrap"), "metric": name.partition(" ")[0]}
    return Check(name=name, kind=kind, action=action, reason=reason, estimate=estimate, threshold=threshold, **fields)


def checks(text: Text, *, status: Status) -> tuple[Check, ...]:
    bad, unclear, error = status is Status.FAIL, status is Status.INCONCLUSIVE, status is Status.ERROR
    floor, warn = CheckKind.FLOOR, Action.WARN
    dropped = text.gate_reason if bad or text != Text() else "Faithfulness is shown not to drop by more than 0.02."
    unsettled: dict[str, Any] = {"status": Status.INCONCLUSIVE, "reason": "Faithfulness may be above or below 0.85."}
    return (
        check(
            "faithfulness floor",
            floor,
            0.85,
            (0.84, 0.79, 0.89) if unclear else (0.91, 0.88, 0.96),
            **(unsettled if unclear else {}),
        ),
        check(
            "faithfulness drop",
            CheckKind.DROP,
            -0.02,
            (-0.09, -0.13, -0.05) if bad else (-0.015, -0.045, 0.015) if unclear else (0.0, -0.01, 0.01),
            status=Status.PASS if error else status,
            reason=dropped,
            current=0.80,
            baseline=0.89,
            n=48,
        ),
        check("answer_relevancy floor", floor, 0.75, (0.84, 0.80, 0.88)),
        check(
            "context_recall floor",
            floor,
            0.80,
            (0.71, 0.65, 0.77) if bad else (0.86, 0.82, 0.90),
            fails=bad,
            reason="Context recall is below 0.80." if bad else "Context recall is at least 0.80.",
        ),
        check("context_precision floor", floor, 0.70, (0.83, 0.77, 0.88), action=warn),
        check(
            f"faithfulness floor {text.slice}",
            floor,
            0.80,
            (0.62, 0.48, 0.75) if bad else (0.9, 0.82, 0.97),
            fails=bad,
            action=warn,
            slice=text.slice,
            n=14,
        ),
        check(
            "coverage",
            CheckKind.COVERAGE,
            0.98 if error else 0.95,
            (58 / 60,),
            status=Status.ERROR if error else Status.PASS,
            reason="Only 58 of 60 samples could be scored (96.7 %); the policy wants 98 %." if error else "Enough.",
            n=60,
        ),
        check("system.latency_p95", CheckKind.LATENCY, 2.0, (0.96,), action=warn, n=59),
    )


REASONS = {
    Status.PASS: "All 8 checks pass.",
    Status.FAIL: "Faithfulness dropped by 0.09 (0.02 allowed), and context recall is below its floor of 0.80.",
    Status.INCONCLUSIVE: "Faithfulness can't be told from its floor: about 140 more samples would settle it.",
    Status.ERROR: "Only 58 of 60 samples could be scored; the policy wants 98 %.",
}


def verdict(text: Text, status: Status, *, first_run: bool = False) -> GateVerdict:
    found = checks(text, status=status)
    if first_run:
        found = tuple(check for check in found if check.kind is not CheckKind.DROP)
    names = ("faithfulness", "answer_relevancy", "context_recall", "context_precision", text.metric)
    return verdict_of(
        status=status,
        reason=REASONS[status] if text == Text() else text.gate_reason,
        checks=found,
        comparability=Comparability(False, ("First run: no baseline to compare with.",), total=60)
        if first_run
        else Comparability(True, (text.note,), paired=48, total=60, metrics=names),
        attribution=Attribution(
            Side.RETRIEVAL, "retrieval fell (context_recall -0.14); generation did not (answer_relevancy 0.00)."
        )
        if status is Status.FAIL
        else None,
        regressions=(
            Regression(text.id, "faithfulness", 0.5, 1.0),
            Regression(text.id, "context_recall", 0.0, 1.0),
            *(Regression(sample_id(number, text), "faithfulness", 0.2, 0.8) for number in (3, 6, 9, 12)),
        )
        if status is Status.FAIL
        else (),
        notes=("context_entity_recall applies to no sample.",),
        sensitivity="This golden set detects a drop of 0.04 in 4 of 5 runs (faithfulness).",
        visible_loss=0.04,
        warnings=(text.warning,),
    )


def link(origin: Origin) -> str:
    return (
        f"https://github.com/acme/helpdesk/blob/3f2c1e9/{quote(origin.file, errors='replace')}?plain=1#L{origin.line}"
    )


LINKS = Links(link, run="https://github.com/acme/helpdesk/actions/runs/77")


def with_samples(report: Document, **changes: Any) -> Document:
    return replace(report, samples=replace(report.samples, **changes))


def with_findings(report: Document, level: Level, *texts: str) -> Document:
    """`report` with these findings instead of its own."""
    return replace(report, findings=tuple(FindingPart("test", level, text) for text in texts))


def helpdesk_report(
    status: Status = Status.FAIL,
    *,
    text: Text = Text(),
    first_run: bool = False,
    offline: bool = False,
    with_links: bool = True,
    details: Mapping[str, SampleRecord] | None = None,
) -> Document:
    current = run_scores(text, shift=0.3 if status is Status.FAIL else 0.0, offline=offline)
    baseline = None if first_run else run_scores(text, offline=offline, label="main@9d8c7b6")
    found = record(text)
    before = record(text, "The gateway listens on port 8443.")
    return document_of(
        verdict(text, status, first_run=first_run),
        current,
        baseline,
        {text.id: found} if details is None else details,
        baseline_records={text.id: before},
        links=LINKS if with_links else NO_LINKS,
    )


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    with chromium() as page:
        page.size(1240, 1000)
        yield page
