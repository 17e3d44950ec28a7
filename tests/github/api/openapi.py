"""The part of GitHub's OpenAPI description that the tests use, and a check of messages against it."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from openapi_schema_validator import OAS30Validator
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT4

DESCRIPTION = Path(__file__).parent / "description" / "api.github.com.json"
HINT = "in the part of GitHub's description that scripts/github_description.py lists"


class Contract:
    """Finds the operation behind a request, and says in which ways a message is not as the description has it."""

    def __init__(self, document: dict[str, Any]) -> None:
        self.document = document
        resource: Resource[Any] = Resource.from_contents(document, default_specification=DRAFT4)
        self._registry: Registry[Any] = Registry().with_resource("urn:github", resource)
        self._paths = sorted(
            ((re.compile(_pattern(path)), path) for path in document["paths"]),
            # Literal segments go before parameters: /issues/comments/{id} before /issues/{number}/comments.
            key=lambda item: (item[1].count("{"), item[1]),
        )

    def example(self, name: str) -> Any:
        """A fresh copy of a published example reply."""
        return json.loads(json.dumps(self.document["components"]["examples"][name]["value"]))

    def template(self, method: str, path: str) -> str | None:
        """The path of the operation behind a request, with its parameters in braces."""
        operation, template, _ = self._operation(method, path)
        return template if operation is not None else None

    def problems_of_request(self, method: str, path: str, query: Mapping[str, str], body: object | None) -> list[str]:
        operation, template, values = self._operation(method, path)
        if operation is None:
            return [f"{method} {path}: no such operation {HINT}"]
        place = f"{method} {template}"
        problems: list[str] = []
        parameters = [self._resolved(parameter) for parameter in operation.get("parameters", [])]
        known = {parameter["name"]: parameter for parameter in parameters if parameter["in"] == "query"}
        for name, value in query.items():
            if name not in known:
                problems.append(f"{place}: unknown query parameter '{name}'")
            else:
                problems += self._against(
                    known[name]["schema"], _typed(known[name]["schema"], value), f"{place}?{name}"
                )
        for parameter in parameters:
            if parameter["in"] == "path" and parameter["name"] in values:
                schema = self._resolved(parameter["schema"])
                problems += self._against(
                    schema, _typed(schema, values[parameter["name"]]), f"{place} {parameter['name']}"
                )
        content = operation.get("requestBody", {}).get("content", {}).get("application/json")
        if content is not None:
            problems += self._against(content["schema"], body, f"{place} body")
        elif body is not None:
            problems.append(f"{place}: takes no body")
        return problems

    def problems_of_reply(self, method: str, path: str, status: int, body: object | None) -> list[str]:
        operation, template, _ = self._operation(method, path)
        if operation is None:
            return [f"{method} {path}: no such operation {HINT}"]
        described = operation["responses"].get(str(status))
        if described is None:
            # Faults that GitHub leaves out of the description; a success has to be in it.
            return [] if status >= 400 else [f"{method} {template}: no reply {status} is described"]
        content = self._resolved(described).get("content", {}).get("application/json")
        if content is None:
            return [] if body is None else [f"{method} {template} {status}: a body where none is described"]
        return self._against(content["schema"], body, f"{method} {template} {status}")

    def _operation(self, method: str, path: str) -> tuple[dict[str, Any] | None, str, dict[str, str]]:
        for pattern, template in self._paths:
            match = pattern.fullmatch(path)
            if match and method.lower() in self.document["paths"][template]:
                return self.document["paths"][template][method.lower()], template, match.groupdict()
        return None, path, {}

    def _resolved(self, node: dict[str, Any]) -> dict[str, Any]:
        while "$ref" in node:
            found: Any = self.document
            for part in node["$ref"].removeprefix("#/").split("/"):
                found = found[part]
            node = found
        return node

    def _against(self, schema: dict[str, Any], value: object, place: str) -> list[str]:
        rooted = {"$ref": f"urn:github{schema['$ref']}"} if "$ref" in schema else _rooted(schema)
        validator = OAS30Validator(rooted, registry=self._registry)
        return [
            f"{place}: {'/'.join(map(str, error.absolute_path))}: {error.message[:200]}"
            for error in validator.iter_errors(value)
        ][:5]


def _rooted(node: Any) -> Any:
    if isinstance(node, dict):
        if "discriminator" in node and "oneOf" in node:
            # Which of them it is, the discriminator says; several may fit by shape.
            node = {"anyOf": node["oneOf"]}
        return {
            key: f"urn:github{value}" if key == "$ref" and isinstance(value, str) else _rooted(value)
            for key, value in node.items()
        }
    return [_rooted(item) for item in node] if isinstance(node, list) else node


def _pattern(path: str) -> str:
    """As GitHub matches it: a path of a file and a name of a branch may have slashes."""
    pattern = re.sub(r"\\\{(path|branch)\\\}", r"(?P<\1>.+)", re.escape(path))
    return re.sub(r"\\\{(\w+)\\\}", r"(?P<\1>[^/]+)", pattern)


def _typed(schema: Mapping[str, Any], value: str) -> object:
    kind = schema.get("type")
    if kind == "integer" and value.isdigit():
        return int(value)
    if kind == "boolean" and value in ("true", "false"):
        return value == "true"
    return value


@functools.cache
def load_contract() -> Contract:
    return Contract(json.loads(DESCRIPTION.read_bytes()))
