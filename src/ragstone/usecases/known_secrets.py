"""The values that must not appear in anything Ragstone writes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from ragstone.config import Settings

_ALWAYS = (
    "RAGSTONE_JUDGE_API_KEY",
    "RAGSTONE_EMBEDDINGS_API_KEY",
    "OPENAI_API_KEY",
    "ANTHROPIC_API_KEY",
    "GITHUB_TOKEN",
    "GH_TOKEN",
    "INPUT_GITHUB-TOKEN",
    "INPUT_JUDGE-API-KEY",
    "ACTIONS_RUNTIME_TOKEN",
    "ACTIONS_ID_TOKEN_REQUEST_TOKEN",
    # Credentials of Bedrock and Vertex.
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AWS_BEARER_TOKEN_BEDROCK",
)
SECRET_NAME = re.compile(r"KEY|TOKEN|SECRET|PASSW|CREDENTIAL|AUTH|DSN|CONNECTION_STRING", re.IGNORECASE)
MIN_LENGTH = 8
"""Shorter values are not treated as secrets; redacting them would garble texts."""


def known_secrets(environ: Mapping[str, str], settings: Settings) -> tuple[str, ...]:
    """The secrets given to Ragstone: its own keys and tokens, and those passed to the system under test.

    Variables in `system.env` count if their name suggests a secret (KEY, TOKEN, SECRET …).
    """
    return tuple(sorted({value for value in _values(environ, settings) if len(value) >= MIN_LENGTH}, key=len))[::-1]


def _values(environ: Mapping[str, str], settings: Settings) -> Iterator[str]:
    yield from settings.judge.secrets()
    for name in (*_ALWAYS, *(name for name in settings.system.env if SECRET_NAME.search(name))):
        yield environ.get(name, "").strip()
