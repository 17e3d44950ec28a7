"""The JSON report: the document, as it is."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import Any

from pydantic import TypeAdapter
from pydantic_core import to_jsonable_python

from ragstone.report.escape import encodable
from ragstone.report.parts import Document

SCHEMA = "schema/report.schema.json"


@cache
def document_adapter() -> TypeAdapter[Document]:
    """Reads and describes documents."""
    return TypeAdapter(Document)


@cache
def schema() -> dict[str, Any]:
    """The JSON Schema of the report, as it ships with the package."""
    schema: dict[str, Any] = json.loads(
        (files(__package__) / SCHEMA).read_text(encoding="utf-8")
    )
    return schema


def render_json(document: Document) -> str:
    """The document as indented JSON, with non-ASCII text escaped so that it can't
    affect a terminal or log.

    Nothing in it is a command to a runner that prints it.
    """
    body = encodable(to_jsonable_python(document))
    text = json.dumps(body, indent=2, ensure_ascii=True, allow_nan=False)
    return text.replace("\x7f", "\\u007f").replace("##[", "#\\u0023[") + "\n"
