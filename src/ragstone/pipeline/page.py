"""The HTML page of a verdict, with the samples of both runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from ragstone.gate.verdict import GateVerdict
from ragstone.pipeline.decide import ComparedRun, lookup
from ragstone.report.page import PackedChunk, pack
from ragstone.report.parts import NO_LINKS, Links, SampleRow
from ragstone.report.samples import RunSamples
from ragstone.report.texts import Json, Redact, sample_texts


def page_of(
    current: ComparedRun,
    verdict: GateVerdict,
    baseline: ComparedRun | None,
    redact: Redact,
    links: Links = NO_LINKS,
) -> Iterator[PackedChunk]:
    """Yield all samples, packed for the HTML page of a verdict.

    Records are read one at a time, and only for their texts. The answers of `baseline`
    are shown even if its scores can't be compared.
    """
    baseline_scores = None
    if baseline is not None:
        baseline = baseline.with_ids_of(current)
        baseline_scores = baseline.scores

    def samples() -> Iterator[tuple[SampleRow, Callable[[], Json | None]]]:
        with lookup(current) as record_of, lookup(baseline) as baseline_record_of:

            def texts(sample_id: str) -> Json | None:
                record = record_of(sample_id)
                if record is None:
                    return None
                return sample_texts(record, baseline_record_of(sample_id), redact)

            table = RunSamples(verdict, current.scores, baseline_scores, links)
            for row in table.rows(drafts=current.drafts):
                yield row, partial(texts, row.id)

    return pack(samples(), redact)
