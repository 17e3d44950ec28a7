"""Sends a message to a webhook: Slack, Mattermost, a workflow of Teams, or any service
that takes JSON with a `text`."""

from __future__ import annotations

from contextlib import suppress

import httpx2

from ragstone._version import __version__
from ragstone.errors import ConfigError

NOTIFY = "RAGSTONE_NOTIFY"
"""The environment variable with the address, which is a secret."""

_TIMEOUT_S = 20.0
_LOCAL_HOSTS = ("localhost", "127.0.0.1", "::1")
_WITHOUT_MENTIONS = str.maketrans("<>", "‹›")
"""Replaces angle brackets, in which Slack looks for mentions and links."""


def notify(address: str, text: str, *, link: str | None = None) -> str | None:
    """Post `text` and a `link` to the webhook at `address`. Return a sentence on why
    that failed, without the address; None if it worked.

    Redirects are not followed. Raises ConfigError for an address that is neither https
    nor of this machine.
    """
    url = checked_address(address)
    message = text.translate(_WITHOUT_MENTIONS)
    if link is not None:
        message += f"\n{link}"
    body = {"text": message}
    try:
        # The body of the reply is not read: it may be endless.
        with httpx2.stream(
            "POST",
            url,
            json=body,
            headers={"User-Agent": f"ragstone/{__version__}"},
            timeout=_TIMEOUT_S,
            follow_redirects=False,
            trust_env=False,
        ) as reply:
            if reply.is_success:
                return None
            problem = f"it answered {reply.status_code}"
    except httpx2.HTTPError as error:
        problem = type(error).__name__
    return f"The webhook in {NOTIFY} could not be reached: {problem}."


def checked_address(address: str) -> str:
    """`address`, unless it is neither https nor of this machine: then raise
    ConfigError, which doesn't show it."""
    with suppress(httpx2.InvalidURL):
        url = httpx2.URL(address)
        is_local = url.scheme == "http" and url.host in _LOCAL_HOSTS
        if url.host and (url.scheme == "https" or is_local):
            return address
    raise ConfigError(
        "must be an https address.",
        where=NOTIFY,
        hint="http is allowed only for this machine, such as http://localhost:8080.",
    )
