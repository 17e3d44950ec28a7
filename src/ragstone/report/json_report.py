"""The JSON report: the facts of the view that are in `ReportDocument`."""

from __future__ import annotations

import json
from dataclasses import replace

from ragstone.report.document import ReportDocument, SamplePart
from ragstone.report.escape import bounded, encodable
from ragstone.report.parts import ReportView


def render_json(view: ReportView) -> str:
    """The report as indented JSON, with non-ASCII text escaped so that it can't affect a terminal or log.

    Nothing in it is a command to a runner that prints it.
    """
    shown = replace(view, worst=tuple(_bounded(sample) for sample in view.worst))
    body = encodable(ReportDocument.model_validate(shown).model_dump(mode="python"))
    text = json.dumps(body, indent=2, ensure_ascii=True, allow_nan=False)
    return text.replace("\x7f", "\\u007f").replace("##[", "#\\u0023[") + "\n"


def _bounded(sample: SamplePart) -> SamplePart:
    return replace(
        sample,
        question=bounded(sample.question),
        answer=bounded(sample.answer),
        baseline_answer=None if sample.baseline_answer is None else bounded(sample.baseline_answer),
        reference=None if sample.reference is None else bounded(sample.reference),
    )
