"""The provider of a promptfoo config, over HTTP or as a program, as the entrypoint."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from ragstone.golden.aliases import FIELDS, normal
from ragstone.golden.promptfoo import as_list
from ragstone.tools.migrate.evaluation import Evaluation

QUESTIONS = (*FIELDS["question"].strong, *FIELDS["question"].weak)
_PATH = re.compile(r"""(?:json|data)((?:\??\.\w+|\[\d+\]|\[["']\w+["']\])+)""")
_ENV = re.compile(r"\{\{\s*env\.(\w+)\s*\}\}")
_SCALAR = re.compile(r"true|false|-?(0|[1-9]\d*)(\.\d+)?")
SLOT = re.compile(r"\{\{[^{}]*\}\}|\{%.*?%\}")
"""What promptfoo fills in for each case."""

_READERS = {"transformResponse": "answer_field", "responseParser": "answer_field", "contextTransform": "contexts_field"}


def read_provider(config: Mapping[str, Any], found: Evaluation) -> str | None:
    """Take the first provider that is a service or a program as the entrypoint.

    Gives the variable that a service is sent as the question, in normal form; None if there is no service.
    """
    sent = None
    for one in as_list(config.get("providers", config.get("targets"))):
        given = one if isinstance(one, Mapping) else {"id": str(one)}
        key, inner = next(iter(given.items()), ("", None))
        if len(given) == 1 and isinstance(inner, Mapping):  # {"http": {config…}}
            given = {"id": key, **inner}
        name, settings = str(given.get("id")), given.get("config")
        settings = settings if isinstance(settings, Mapping) else {}
        address = str(settings.get("url") or name)
        if hosts := _ENV.findall(address):
            address = re.sub(r"^(https?://)?\{\{\s*env\.\w+\s*\}\}", "http://127.0.0.1:8000", address)
            found.left_out.append((f"address in {', '.join(hosts)}", "not known here: set [system] entrypoint"))
        if address.startswith(("http://", "https://")) and found.live is None and not SLOT.search(address):
            sent = _service(address, settings, found)
        elif name.startswith("exec:") and found.live is None:
            found.live = f"command:{name.removeprefix('exec:').strip()} {{question}}"
            found.translated.append((f"provider {name}", found.live))
        else:
            why = "a model or a program, not a service: set [system] entrypoint"
            found.left_out.append((f"provider {name}", why))
    return sent


def _service(address: str, settings: Mapping[str, Any], found: Evaluation) -> str | None:
    """Take a service as the entrypoint, with its request and reply. Gives the variable that is the question."""
    body = settings.get("body")
    if isinstance(body, str):
        body = _json(body) if body.lstrip().startswith("{") else None
    elif any(name.endswith((".yaml", ".yml")) for name in found.files):
        body = _typed(body)
    slots = {path: text for path, text in _texts(body, "") if SLOT.search(text)}
    names = {path: normal(text) for path, text in slots.items() if SLOT.fullmatch(text.strip())}
    places = [path for path, name in names.items() if name in ("prompt", *QUESTIONS)]
    places += [path for path, name in names.items() if len(slots) == 1 and not name.startswith("env_")]
    if not places or str(settings.get("method", "POST")).upper() != "POST":
        found.left_out.append((f"provider {address}", "it takes no POST with the prompt in a JSON body"))
        return None
    http = {"question_field": places[0], "body": _without(body, slots, "")}
    found.live, found.system = address, {"http": http}
    found.translated.append((f"provider {address}", f"the entrypoint; {places[0]} takes the question"))
    edit = "promptfoo fills it in for each case, which is not done here: edit [system.http] "
    found.left_out += [(f"{path} in the body: {slots[path]}", f"{edit}body") for path in slots if path != places[0]]
    headers = settings.get("headers")
    for key, value in headers.items() if isinstance(headers, Mapping) else ():
        text = _ENV.sub(r"${\1}", str(value))
        if SLOT.search(text):
            found.left_out.append((f"header {key}: {value}", f"{edit}headers"))
        elif str(key).lower() != "content-type":
            http.setdefault("headers", {})[str(key)] = text
            found.system.setdefault("env", []).extend(_ENV.findall(str(value)))
    for key, field in _READERS.items():
        written = settings.get(key)
        if isinstance(written, str) and (path := _PATH.fullmatch(written.strip())):
            found.system[field] = ".".join(re.findall(r"\w+", path[1]))
        elif written is not None:
            found.left_out.append((f"{key} of {address}", f"code is not executed: set [system] {field}"))
    return names[places[0]]


def _json(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _typed(body: object) -> object:
    """`body` of a YAML document, whose scalars were read as text, with booleans and numbers."""
    if isinstance(body, Mapping):
        return {str(key): _typed(value) for key, value in body.items()}
    if isinstance(body, list):
        return [_typed(value) for value in body]
    return _json(body) if isinstance(body, str) and _SCALAR.fullmatch(body) else body


def _texts(body: object, path: str) -> Iterator[tuple[str, str]]:
    """The texts in a body, each with its dotted path."""
    items = body.items() if isinstance(body, Mapping) else enumerate(body) if isinstance(body, list) else ()
    for key, value in items:
        if isinstance(value, str):
            yield f"{path}{key}", value
        yield from _texts(value, f"{path}{key}.")


def _without(body: object, left_out: Mapping[str, str], path: str) -> Any:
    """`body` without the texts at some paths; those in a list are empty, so that the others keep their places."""
    if isinstance(body, Mapping):
        kept = {str(key): value for key, value in body.items() if f"{path}{key}" not in left_out}
        return {key: _without(value, left_out, f"{path}{key}.") for key, value in kept.items()}
    if isinstance(body, list):
        places = [f"{path}{at}" for at in range(len(body))]
        pairs = zip(places, body, strict=True)
        return ["" if place in left_out else _without(value, left_out, f"{place}.") for place, value in pairs]
    return body
