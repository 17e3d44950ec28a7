"""Write the JSON Schemas that ship with the package, from their models: python scripts/schemas.py"""

from __future__ import annotations

import ast
import inspect
import json
import textwrap
import tomllib
from dataclasses import fields, is_dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, get_args, get_type_hints

from pydantic import TypeAdapter

from ragstone.gate.policy_table import PolicyTable
from ragstone.report.parts import Document

PACKAGE = Path(__file__).parents[1] / "src" / "ragstone"


def policy_schema() -> dict[str, Any]:
    """The schema of thresholds.toml: its tables, with what policy_keys.toml says of their keys."""
    schema = PolicyTable.model_json_schema()
    texts = tomllib.loads((PACKAGE / "gate" / "policy_keys.toml").read_text(encoding="utf-8"))
    for name, table in {**schema["$defs"], PolicyTable.__name__: schema}.items():
        if "properties" in table:
            table["description"] = " ".join(table["description"].split())
            for key, described in table["properties"].items():
                described["description"] = texts[name][key]
    must_pass = schema["properties"]["must_pass"]
    ids = {"type": "array", "items": {"type": "string", "minLength": 1}}
    schema["properties"]["must_pass"] = {
        "anyOf": [{"$ref": must_pass.pop("$ref")}, ids, {"enum": ["all", "baseline"]}],
        **must_pass,
    }
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": "Ragstone thresholds.toml"}


def report_schema() -> dict[str, Any]:
    """The schema of the report: its dataclasses, with what is written below their fields as descriptions."""
    schema = TypeAdapter(Document).json_schema(mode="serialization")
    described = {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}
    for kind in dataclasses_in(Document):
        part = described if kind is Document else schema["$defs"][kind.__name__]
        for name, text in field_docs(kind).items():
            part["properties"][name]["description"] = text
    return described


def dataclasses_in(annotation: Any) -> set[type]:
    """The dataclasses that a value of this type can hold."""
    found: set[type] = set()
    waiting = [annotation]
    while waiting:
        kind = waiting.pop()
        waiting += get_args(kind)
        if isinstance(kind, type) and is_dataclass(kind) and kind not in found:
            found.add(kind)
            hints = get_type_hints(kind)
            waiting += [hints[field.name] for field in fields(kind)]
    return found


def field_docs(kind: type) -> dict[str, str]:
    """The text below each field of a dataclass and of those that it extends."""
    texts: dict[str, str] = {}
    for base in reversed(kind.__mro__[:-1]):
        (definition,) = ast.parse(textwrap.dedent(inspect.getsource(base))).body
        body = definition.body if isinstance(definition, ast.ClassDef) else []
        for statement, after in pairwise(body):
            if not isinstance(statement, ast.AnnAssign) or not isinstance(statement.target, ast.Name):
                continue
            if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
                texts[statement.target.id] = " ".join(str(after.value.value).split())
    return texts


SCHEMAS = {
    "gate/policy.schema.json": policy_schema,
    "report/schema/report.schema.json": report_schema,
}


if __name__ == "__main__":
    for name, schema in SCHEMAS.items():
        (PACKAGE / name).write_text(json.dumps(schema(), indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
