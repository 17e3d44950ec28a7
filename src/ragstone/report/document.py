"""The JSON report: what `schema/report.schema.json` publishes, and no other facts.

The schema is written by hand, and says of each name what it means. An object of the report has what the attributes of
these names have in the view, or in what the gate found; only where those are called something else, it is said here.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from importlib.resources import files
from typing import Any

from ragstone.report.escape import bounded, encodable
from ragstone.report.parts import ReportView, SamplePart

ELSEWHERE: Mapping[tuple[str, str], Callable[[Any], object]] = {
    ("ReportDocument", "schema_version"): lambda _: 1,
    ("DiagnosisPart", "causes"): lambda diagnosis: diagnosis.counts,
    ("DiagnosisPart", "retrieval_share"): lambda diagnosis: diagnosis.share,
    ("RetrievalPart", "gone"): lambda changes: changes.gone.items(),
    ("GonePart", "id"): lambda gone: gone[0],
    ("GonePart", "left"): lambda gone: gone[1],
}
"""Where the value of a name is: by the title of its object in the schema, and the name."""


@cache
def schema() -> dict[str, Any]:
    """The JSON Schema of the report."""
    text = (files("ragstone.report") / "schema" / "report.schema.json").read_text(encoding="utf-8")
    found: dict[str, Any] = json.loads(text)
    return found


def render_json(view: ReportView) -> str:
    """The report as indented JSON, with non-ASCII text escaped so that it can't affect a terminal or log.

    Nothing in it is a command to a runner that prints it.
    """
    shown = replace(view, worst=tuple(_bounded(sample) for sample in view.worst))
    text = json.dumps(encodable(_filled(schema(), shown)), indent=2, ensure_ascii=True, allow_nan=False)
    return text.replace("\x7f", "\\u007f").replace("##[", "#\\u0023[") + "\n"


def _bounded(sample: SamplePart) -> SamplePart:
    return replace(
        sample,
        question=bounded(sample.question),
        answer=bounded(sample.answer),
        baseline_answer=None if sample.baseline_answer is None else bounded(sample.baseline_answer),
        reference=None if sample.reference is None else bounded(sample.reference),
    )


def _filled(shape: Mapping[str, Any], found: Any) -> Any:
    """What `shape`, a part of the schema, publishes of `found`."""
    if found is None:
        return None
    if "anyOf" in shape:
        shape = shape["anyOf"][0]  # the other is null
    if "$ref" in shape:
        shape = schema()["$defs"][shape["$ref"].rpartition("/")[2]]
    match shape["type"]:
        case "object":
            return {
                name: _filled(inner, _value(shape["title"], name, found)) for name, inner in shape["properties"].items()
            }
        case "array":
            return [_filled(shape["items"], one) for one in found]
        case "number":
            return float(found)
        case "string":
            return str(found)
    return found


def _value(title: str, name: str, found: Any) -> Any:
    elsewhere = ELSEWHERE.get((title, name))
    return getattr(found, name) if elsewhere is None else elsewhere(found)
