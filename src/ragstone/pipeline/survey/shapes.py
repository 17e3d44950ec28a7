"""Requests that services expect, and the one that a running service answers."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ragstone.errors import RagstoneError
from ragstone.golden.sample import Sample
from ragstone.pipeline.survey.proposal import Proposal
from ragstone.settings.settings import SystemSettings
from ragstone.system.entrypoint import build_system
from ragstone.system.response import Response, SystemFailureKind

Shape = tuple[str, Mapping[str, Any]]
"""The field of the question, and further keys of [system.http]."""

_PART = {"id": "1", "role": "user", "parts": [{"type": "text", "text": ""}]}
CONTENTS: Shape = (
    "messages.-1.content",
    {"history_field": "messages", "body": {"messages": [{"role": "user", "content": ""}]}},
)
PARTS: Shape = ("messages.-1.parts.0.text", {"history_field": "messages", "body": {"messages": [_PART]}})
SHAPES: tuple[Shape, ...] = (
    *((name, {}) for name in ("question", "query")),
    CONTENTS,
    PARTS,
    *((name, {}) for name in ("message", "prompt", "input", "input.question", "input.input", "text", "q")),
)
_PATHS = ("/api/chat", "/chat", "/ask", "/query", "/api/ask", "/api/query", "/v1/chat/completions")
_QUESTION = "What can you tell me?"
_TIMEOUT_S = 30


def usual_paths(ports: Sequence[int]) -> Iterator[Proposal]:
    """Addresses at which a service on one of `ports` may answer."""
    for port in ports:
        yield from (Proposal(f"http://127.0.0.1:{port}{path}", f"a service on port {port}", 8) for path in _PATHS)


def answered_shape(proposal: Proposal, environ: Mapping[str, str]) -> tuple[Proposal | None, str]:
    """`proposal` with the settings that make the service at its address answer one question, and what it answered.

    If none does: None, and why not.
    """
    chat = proposal.entrypoint.endswith("/chat/completions")
    model: Shape = (CONTENTS[0], {**CONTENTS[1], "id_field": "", "body": {"model": "default", **CONTENTS[1]["body"]}})
    own: Shape = (proposal.question_field or "question", proposal.http)
    why = ""
    for field, http in (own, *([model] if chat else []), *(shape for shape in SHAPES if shape != own)):
        found = replace(proposal, question_field=field, http=http)
        response = _asked(found, environ)
        path = re.search(r'.*set answer_field = "([^"]+)"', _why(response))
        if path is not None:
            found = replace(found, settings={**found.settings, "answer_field": path[1]})
            response = _asked(found, environ)
        if isinstance(response, Response) and response.failure is None and response.answer.strip():
            return found, f"it answered '{' '.join(response.answer.split())[:80]}'"
        why = why or _why(response)
        if not isinstance(response, Response) or "{" in proposal.entrypoint or _is_final(response):
            break
    return None, f"it was asked '{_QUESTION}' and gave no answer: {why}"


def _asked(proposal: Proposal, environ: Mapping[str, str]) -> Response | RagstoneError:
    http = {**proposal.http, "question_field": proposal.question_field}
    limits = {"timeout_s": _TIMEOUT_S, "startup_timeout_s": 1, "retries": 0}
    try:
        settings = SystemSettings.model_validate(
            {**limits, **proposal.settings, "entrypoint": proposal.entrypoint, "http": http}
        )
        return asyncio.run(_ask(settings, environ))
    except RagstoneError as error:
        return error


async def _ask(settings: SystemSettings, environ: Mapping[str, str]) -> Response:
    system = build_system(settings, root=Path.cwd(), environ=environ)
    try:
        await system.start()
        return await system.ask(Sample("probe", _QUESTION))
    finally:
        await system.close()


def _why(response: Response | RagstoneError) -> str:
    if isinstance(response, RagstoneError):
        return str(response)
    return "" if response.failure is None else response.failure.message


def _is_final(response: Response) -> bool:
    """Whether another request would fare no better."""
    failure = response.failure
    refused = failure is not None and re.match(r"Answered (401|403|404|405|429) ", failure.message) is not None
    return refused or (failure is not None and failure.kind is SystemFailureKind.TIMEOUT)
