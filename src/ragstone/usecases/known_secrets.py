"""Which values must not appear in anything that Ragstone writes."""

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
    # What Bedrock and Vertex are asked with.
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AWS_BEARER_TOKEN_BEDROCK",
)
SECRET_NAME = re.compile(r"KEY|TOKEN|SECRET|PASSW|CREDENTIAL|AUTH|DSN|CONNECTION_STRING", re.IGNORECASE)
MIN_LENGTH = 8
"""Shorter values are no secrets; redacting them would tear texts apart."""


def known_secrets(environ: Mapping[str, str], settings: Settings) -> tuple[str, ...]:
    """The secrets that Ragstone was given: keys and tokens of its own, and those passed to the system under test.

    Of the variables in `system.env`, those count whose name says so (KEY, TOKEN, SECRET …).
    """
    return tuple(sorted({value for value in _values(environ, settings) if len(value) >= MIN_LENGTH}, key=len))[::-1]


def _values(environ: Mapping[str, str], settings: Settings) -> Iterator[str]:
    yield from settings.judge.secrets()
    for name in (*_ALWAYS, *(name for name in settings.system.env if SECRET_NAME.search(name))):
        yield environ.get(name, "").strip()
