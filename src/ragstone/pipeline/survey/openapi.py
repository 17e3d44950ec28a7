"""Entrypoints in an OpenAPI description, in a file or of a service that listens on this machine.

They are the operations that take a question in a JSON body. Ports are only connected to, unless asked for more.
"""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from ragstone.pipeline.survey.proposal import ASKING, QUESTION_NAMES, Proposal
from ragstone.pipeline.survey.shapes import CONTENTS, PARTS
from ragstone.system.request import QUESTION

LOCAL = "http://127.0.0.1:8000"
_PATH = re.compile(r"/[A-Za-z0-9._~!$&'()*+,;=:@%/-]*")
_MAX_REFERENCES = 8


def proposals_in(document: Any, source: str, *, server: str | None = None) -> Iterator[Proposal]:
    """What the description named `source` offers. `server` is its address, if it was read from there."""
    document = _mapping(document)
    if "openapi" not in document and "swagger" not in document:
        return
    base = (server or _server(document)).rstrip("/")
    for path, operations in _mapping(document.get("paths")).items():
        if not isinstance(path, str) or not _PATH.fullmatch(path):
            continue
        for method in ("POST", "GET"):
            operation = _mapping(_mapping(operations).get(method.lower()))
            found = _in_address(operation, method) or (_in_body(operation, document) if method == "POST" else None)
            if found is None:
                continue
            end, known, http, others = found
            needs = f"; it also requires {', '.join(others[:3])}: fill it in under [system.http] body" if others else ""
            rank = (0 if server else 5) + (0 if ASKING.search(path) else 2) + bool(others)
            why = f"{method} {path} takes '{known}', says {source}{needs}"
            yield Proposal(f"{base}{path}{end}", why, rank, question_field=None if end else known, http=http)


_Found = tuple[str, str, dict[str, Any], list[str]]
"""What follows the path, the field of the question, further keys of [system.http], and what else is required."""


def _in_address(operation: Mapping[Any, Any], method: str) -> _Found | None:
    """A question that is a parameter of the query string."""
    listed = operation.get("parameters")
    queried = [one for one in map(_mapping, listed if isinstance(listed, list) else ()) if one.get("in") == "query"]
    known = next((name for name in QUESTION_NAMES if name in [one.get("name") for one in queried]), None)
    others = [str(one.get("name")) for one in queried if one.get("required") and one.get("name") != known]
    if known is None or others:
        return None
    return f"?{known}={QUESTION}", known, {} if method == "POST" else {"method": method}, []


def _in_body(operation: Mapping[Any, Any], document: Mapping[str, Any]) -> _Found | None:
    """A question that is a field of the body: a text, or in the last one of a list of messages."""
    schema = _resolved(_json_schema(operation), document)
    fields = _mapping(schema.get("properties"))
    known = next((name for name in QUESTION_NAMES if name in fields), None)
    body: dict[str, Any] = {}
    http: dict[str, Any] = {}
    if "messages" in fields:
        item = _resolved(_mapping(_resolved(fields["messages"], document)).get("items"), document)
        known, shape = PARTS if "parts" in _mapping(item.get("properties")) else CONTENTS
        http, body = dict(shape), dict(shape["body"])
    if known is None:
        return None
    required = schema.get("required")
    others = []
    for name in required if isinstance(required, list) else ():
        about = _resolved(fields.get(name), document)
        usual = next((about[key] for key in ("default", "const", "example") if key in about), None)
        if name in (known, "id", *body):
            continue
        if isinstance(usual, str | int | float | bool):
            body[str(name)] = usual
        else:
            others.append(str(name))
            body[str(name)] = {"integer": 0, "number": 0, "boolean": False}.get(str(about.get("type")), "")
    return "", known, {**http, **({"body": body} if body else {})}, others


def _server(document: Mapping[str, Any]) -> str:
    """The first server, if it is a plain http address without a placeholder or a password."""
    servers = document.get("servers")
    first = servers[0] if isinstance(servers, list) and servers else None
    url = _mapping(first).get("url")
    if isinstance(url, str) and url.isprintable() and "{" not in url and not re.search(r"\s", url):
        try:
            parts = urlsplit(url)
            plain = parts.hostname and not parts.username and not parts.password and not parts.query
        except ValueError:
            plain = None
        if plain and parts.scheme in ("http", "https"):
            return url
        if url.startswith("/"):
            return LOCAL + url
    return LOCAL


def _json_schema(operation: Mapping[str, Any]) -> object:
    content = _mapping(_mapping(operation.get("requestBody")).get("content"))
    for kind, body in content.items():
        if isinstance(kind, str) and kind.partition(";")[0].strip() == "application/json":
            return _mapping(body).get("schema")
    parameters = operation.get("parameters")
    for parameter in parameters if isinstance(parameters, list) else ():
        if _mapping(parameter).get("in") == "body":  # Swagger 2
            return _mapping(parameter).get("schema")
    return None


def _resolved(schema: object, document: Mapping[str, Any]) -> Mapping[str, Any]:
    """`schema`, its references within the document followed."""
    for _ in range(_MAX_REFERENCES):
        reference = _mapping(schema).get("$ref")
        if not isinstance(reference, str) or not reference.startswith("#/"):
            break
        schema = document
        for part in reference[2:].split("/"):
            schema = _mapping(schema).get(part.replace("~1", "/").replace("~0", "~"))
    return _mapping(schema)


def _mapping(value: Any) -> Mapping[Any, Any]:
    return value if isinstance(value, Mapping) else {}


PORTS = (8000, 8080, 8001, 5000, 3000)
"""Ports that web frameworks use unless told otherwise."""

_HOST = "127.0.0.1"
_CONNECT_S = 0.2
_READ_S = 2.0
_MAX_BYTES = 2_000_000


def listening(ports: Sequence[int] = PORTS) -> tuple[int, ...]:
    """Those of `ports` on which something accepts a connection. Nothing is sent."""
    return tuple(port for port in ports if _accepts(port))


def proposals_on(port: int) -> Iterator[Proposal]:
    """What the service on `port` offers, by its own `/openapi.json`: one GET, no redirects, no proxies, no question."""
    server = f"http://{_HOST}:{port}"
    document = _described(f"{server}/openapi.json")
    if document is not None:
        yield from proposals_in(document, f"{server}/openapi.json", server=server)


def described_at(url: str) -> Proposal | None:
    """What the service at `url` says of it in its own `/openapi.json`, by one GET."""
    parts = urlsplit(url)
    server = f"{parts.scheme}://{parts.netloc}"
    found = proposals_in(_described(f"{server}/openapi.json"), f"{server}/openapi.json", server=server)
    return next((one for one in found if urlsplit(one.entrypoint).path == parts.path), None)


def _accepts(port: int) -> bool:
    try:
        with socket.create_connection((_HOST, port), timeout=_CONNECT_S):
            return True
    except OSError:
        return False


def _described(url: str) -> Any:
    import httpx2

    body = b""
    try:
        with (
            httpx2.Client(timeout=_READ_S, trust_env=False, follow_redirects=False) as client,
            client.stream("GET", url, headers={"Accept-Encoding": "identity"}) as reply,
        ):
            if reply.status_code != 200:
                return None
            for piece in reply.iter_raw():
                body += piece
                if len(body) > _MAX_BYTES:
                    return None
        return json.loads(body)
    except (httpx2.HTTPError, ValueError, RecursionError):
        return None
