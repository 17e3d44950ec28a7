"""Write the JSON Schemas that ship with the package, from their models: python scripts/schemas.py"""

from __future__ import annotations

import ast
import inspect
import json
import textwrap
import tomllib
from itertools import pairwise
from pathlib import Path
from typing import Any, get_args

import msgspec
from msgspec import Struct

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
    """The schema of the report: its parts, with what is written below their fields as descriptions."""
    _, parts = msgspec.json.schema_components([Document], schema_hook=model_schema, ref_template="#/$defs/{name}")
    for kind in parts_in(Document):
        part = parts[kind.__name__]
        part["description"] = " ".join(part["description"].split())
        for name, text in field_docs(kind).items():
            part["properties"][name]["description"] = text
    document = {"$schema": "https://json-schema.org/draft/2020-12/schema", **parts.pop("Document"), "$defs": parts}
    schema: dict[str, Any] = json.loads(json.dumps(document))  # defaults are tuples
    return schema


def model_schema(kind: Any) -> dict[str, Any]:
    """The schema of a part that is a model of pydantic."""
    schema: dict[str, Any] = kind.model_json_schema(mode="serialization")
    return schema


def parts_in(annotation: Any) -> set[type[Struct]]:
    """The structs that a value of this type can hold."""
    found: set[type[Struct]] = set()
    waiting = [annotation]
    while waiting:
        kind = waiting.pop()
        waiting += get_args(kind)
        if isinstance(kind, type) and issubclass(kind, Struct) and kind not in found:
            found.add(kind)
            waiting += [field.type for field in msgspec.structs.fields(kind)]
    return found


def field_docs(kind: type) -> dict[str, str]:
    """The text below each field of a struct and of those that it extends."""
    texts: dict[str, str] = {}
    for base in reversed(kind.__mro__[: kind.__mro__.index(Struct)]):
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
