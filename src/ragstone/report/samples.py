"""From scores and records to the samples in a report."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from ragstone.evaluation.record import Answer, SampleRecord
from ragstone.evaluation.rewording import lacking_statements, unsupported_statements
from ragstone.evaluation.scores import RunScores, SampleFacts
from ragstone.formatting import alike, counted, most_common
from ragstone.gate.facts import Facts
from ragstone.gate.verdict import GateVerdict, Regression
from ragstone.golden.sample import Sample
from ragstone.judge.judgements import ContextUse, Judgements, StatementList, Verdict
from ragstone.metrics.score import FailedBy, Scored
from ragstone.report import wording
from ragstone.report.parts import (
    Cell,
    ChangePart,
    Differences,
    FailedSamplePart,
    FailurePart,
    Links,
    PlacePart,
    SamplePart,
    SampleRow,
    StatementPart,
)

SAMPLE_ROWS = 2000
"""Maximum number of rows in the view; the worst are kept."""

_BINS = 40


@dataclass(frozen=True, slots=True)
class RunSamples:
    """The samples of a run, and of the baseline if the scores of both can be compared (`compared`).

    `columns` are the metrics of the table of samples. `before` is the baseline even if its scores can't be compared:
    its answers can. `causes` say why a sample is worse, by its id, and `facts` from what.
    """

    current: RunScores
    columns: tuple[str, ...]
    links: Links
    lower_is_better: frozenset[str] = frozenset()
    compared: RunScores | None = None
    before: RunScores | None = None
    causes: Mapping[str, str] = field(default_factory=dict)
    facts: Mapping[str, Facts] = field(default_factory=dict)

    @classmethod
    def of(cls, verdict: GateVerdict, current: RunScores, baseline: RunScores | None, links: Links) -> RunSamples:
        explanation = verdict.explanation
        return cls(
            current,
            tuple(name for name, scores in current.metrics.items() if scores.values or scores.failed),
            links,
            explanation.lower_is_better,
            baseline if verdict.is_compared else None,
            baseline,
            explanation.diagnosis.titles() if explanation.diagnosis is not None else {},
            explanation.facts,
        )

    def rows(self, limit: int | None) -> Iterator[SampleRow]:
        """The rows of the table of samples: what failed or got worst first, then the lowest scores; at most `limit`."""
        for sample_id in sorted(self.current.samples, key=self._badness)[:limit]:
            facts = self.current.samples[sample_id]
            cells = tuple(self._cell(sample_id, metric) for metric in self.columns)
            yield SampleRow(
                id=sample_id,
                question=facts.question,
                tags=facts.tags,
                place=self._place(sample_id),
                cells=cells,
                latency_s=self.current.system.latencies_s.get(sample_id),
                failure=self.current.system.failures.get(sample_id),
                cause=self.causes.get(sample_id),
                changed=self._changed(sample_id, cells),
            )

    def worst(
        self,
        regressions: Sequence[Regression],
        shared: Sequence[str],
        details: Mapping[str, SampleRecord],
        baseline_details: Mapping[str, SampleRecord],
    ) -> tuple[SamplePart, ...]:
        """One entry per sample in `regressions`, in their order.

        Each has all metrics of `shared` in which the sample lost, not only those in the list.
        """
        by_sample: dict[str, list[Regression]] = {}
        for regression in regressions:
            by_sample.setdefault(regression.sample_id, []).append(regression)
        for sample_id, found in by_sample.items():
            named = {regression.metric for regression in found}
            found += self._losses(sample_id, [metric for metric in shared if metric not in named])
        return tuple(
            self._worst(sample_id, found, details.get(sample_id), baseline_details.get(sample_id))
            for sample_id, found in by_sample.items()
        )

    def failures(self) -> tuple[FailurePart, ...]:
        """Failed samples by reasons that are alike, the system's first, then the larger groups first."""
        failures = self.current.system.failures
        found: dict[tuple[FailedBy, str], tuple[dict[str, None], dict[str, str]]] = {}
        for sample_id, reason in failures.items():
            found.setdefault(("system", alike(reason)), ({}, {}))[1][sample_id] = reason
        for metric, scores in self.current.metrics.items():
            for sample_id, failure in scores.failed.items():
                if failure.by == "system" and sample_id in failures:
                    continue
                metrics, samples = found.setdefault((failure.by, alike(failure.reason)), ({}, {}))
                metrics[wording.metric_title(metric)] = None
                samples[sample_id] = failure.reason
        order = sorted(found.items(), key=lambda item: (item[0][0] != "system", -len(item[1][1])))
        return tuple(
            FailurePart(
                by,
                most_common(samples.values()),
                tuple(metrics),
                tuple(FailedSamplePart(one, self._place(one)) for one in samples),
            )
            for (by, _), (metrics, samples) in order
        )

    def differences(self, shared: Collection[str]) -> Iterator[Differences]:
        """The distribution of the paired differences of each metric of `shared` that both runs scored."""
        for metric in self.columns if self.compared is not None else ():
            now, then = self.current.metrics[metric].values, self._then(metric)
            deltas = np.array([now[key] - then[key] for key in now if key in then])
            if metric not in shared or not deltas.size:
                continue
            fell, rose = int((deltas < 0).sum()), int((deltas > 0).sum())
            lower = metric in self.lower_is_better
            counts, edges = np.histogram(deltas[deltas != 0], bins=_BINS, range=(-1.0, 1.0))
            yield Differences(
                metric=metric,
                title=wording.metric_title(metric),
                lower_is_better=lower,
                edges=tuple(float(edge) for edge in edges),
                counts=tuple(int(number) for number in counts),
                worse=rose if lower else fell,
                same=int((deltas == 0).sum()),
                better=fell if lower else rose,
            )

    def _facts(self, sample_id: str) -> SampleFacts:
        return self.current.samples.get(sample_id, SampleFacts())

    def _place(self, sample_id: str) -> PlacePart | None:
        return PlacePart.of(self._facts(sample_id).origin, self.links.origin)

    def _then(self, metric: str) -> Mapping[str, float]:
        """The scores of the baseline, if they can be compared."""
        scores = self.compared.metrics.get(metric) if self.compared is not None else None
        return scores.values if scores is not None else {}

    def _badness(self, sample_id: str) -> tuple[bool, float, float]:
        failed = sample_id in self.current.system.failures
        changes, values = [0.0], [1.0]
        for metric in self.columns:
            scores = self.current.metrics.get(metric)
            value = scores.values.get(sample_id) if scores else None
            if value is None:
                failed = failed or bool(scores and sample_id in scores.failed)
                continue
            sign = -1.0 if metric in self.lower_is_better else 1.0
            values.append(value if sign > 0.0 else 1.0 - value)
            changes.append(sign * (value - self._then(metric).get(sample_id, value)))
        return (not failed, min(changes), min(values))

    def _cell(self, sample_id: str, metric: str) -> Cell:
        scores = self.current.metrics.get(metric)
        if scores is None:
            return Cell(None, None, "absent")
        if sample_id in scores.values:
            value, before = scores.values[sample_id], self._then(metric).get(sample_id)
            if before is None:
                return Cell(value, None, "scored")
            worse = value > before if metric in self.lower_is_better else value < before
            return Cell(value, value - before, "scored", worse=worse)
        if sample_id in scores.failed:
            return Cell(None, None, "failed", scores.failed[sample_id].reason)
        if sample_id in scores.not_applicable:
            return Cell(None, None, "not_applicable", scores.not_applicable[sample_id])
        return Cell(None, None, "absent")

    def _changed(self, sample_id: str, cells: Iterable[Cell]) -> tuple[str, ...]:
        if self.before is None or sample_id not in self.before.samples:
            return ()
        now, then = (run.system.answers.get(sample_id) for run in (self.current, self.before))
        return (*(("answer",) if now != then else ()), *(("scores",) if any(cell.change for cell in cells) else ()))

    def _losses(self, sample_id: str, metrics: Iterable[str]) -> list[Regression]:
        found = []
        for metric in metrics:
            scores, before = self.current.metrics.get(metric), self._then(metric).get(sample_id)
            after = scores.values.get(sample_id) if scores is not None else None
            if after is not None and before is not None and after < before:
                found.append(Regression(sample_id, metric, after, before))
        return sorted(found, key=lambda one: one.current - (one.baseline or 0.0))

    def _worst(
        self, sample_id: str, lost: Sequence[Regression], record: SampleRecord | None, before: SampleRecord | None
    ) -> SamplePart:
        facts = self._facts(sample_id)
        shown = _worst_answer(record, [one.metric for one in lost]) if record is not None else None
        judged = shown.judgements[0] if shown is not None and shown.judgements else Judgements()
        use = judged.context_use if isinstance(judged.context_use, ContextUse) else None
        return SamplePart(
            id=sample_id,
            question=(_asked(record, judged) if record is not None else "") or facts.question,
            place=self._place(sample_id),
            tags=facts.tags,
            changes=tuple(ChangePart(one.metric, one.current, one.baseline, _note(record, one.metric)) for one in lost),
            answer=shown.response.answer if shown is not None else "",
            baseline_answer=before.response.answer if record is not None and before is not None else None,
            reference=("\nor: ".join(record.sample.references) or None) if record is not None else None,
            unsupported=() if shown is None or record is None else _unsupported(shown, record.sample),
            missing=() if shown is None else tuple(lacking_statements(shown)),
            cause=self.causes.get(sample_id),
            facts=self.facts.get(sample_id),
            contexts=len(shown.response.contexts) if shown is not None else 0,
            useful_contexts=None if use is None else sum(context.useful for context in use.contexts),
            detailed=record is not None,
        )


def _asked(record: SampleRecord, judged: Judgements) -> str:
    """The question; after earlier turns, also what it was understood as."""
    sample = record.sample
    if not sample.history:
        return sample.question
    understood = f"; judged as: {judged.standalone_question}" if judged.standalone_question else ""
    return f"{sample.question} (after {counted(len(sample.history), 'earlier message')}{understood})"


def _worst_answer(record: SampleRecord, metrics: Sequence[str]) -> Answer:
    """The answer with the lowest mean score of `metrics`; of equal ones, the first."""

    def mean(answer: Answer) -> float:
        scores = [answer.scores.get(name) for name in metrics]
        values = [score.value for score in scores if isinstance(score, Scored)]
        return sum(values) / len(values) if values else 1.0

    return min(record.answers, key=mean)


def _note(record: SampleRecord | None, metric: str) -> str | None:
    score = record.scores.get(metric) if record is not None else None
    return score.note if isinstance(score, Scored) else None


def _unsupported(answer: Answer, sample: Sample) -> tuple[StatementPart, ...]:
    statements = answer.judgements[0].statements if answer.judgements else None
    if not isinstance(statements, StatementList):
        return ()
    texts = {statement.id: statement.text for statement in statements.statements}
    bad = unsupported_statements(answer, sample)
    bad.sort(key=lambda support: support.verdict is not Verdict.CONTRADICTED)
    return tuple(
        StatementPart(
            texts.get(support.statement_id, support.statement_id),
            "contradicted" if support.verdict is Verdict.CONTRADICTED else "unsupported",
            support.quote,
        )
        for support in bad
    )
