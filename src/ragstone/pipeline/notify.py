"""Sends a message to one webhook: Slack, Mattermost, a workflow of Teams, or anything
that takes JSON with a `text`."""

from __future__ import annotations

from contextlib import suppress

import httpx2

from ragstone._version import __version__
from ragstone.errors import ConfigError

NOTIFY = "RAGSTONE_NOTIFY"
"""The environment variable with the address, which is a secret."""

_TIMEOUT_S = 20.0
_THIS_MACHINE = ("localhost", "127.0.0.1", "::1")
_NO_MENTIONS = str.maketrans("<>", "‹›")
"""Slack takes what is in pointed brackets for mentions and links."""


def notify(address: str, text: str, *, link: str | None = None) -> str | None:
    """Post `text` and a `link` to the webhook at `address`. Returns why that failed,
    without the address; None if not.

    Redirects are not followed, and the body of a reply is not read. Raises ConfigError
    for an address that is neither https nor of this machine.
    """
    url = checked_address(address)
    safe_text = text.translate(_NO_MENTIONS)
    text = safe_text if link is None else f"{safe_text}\n{link}"
    body = {"text": text}
    try:
        # The body of a reply may be endless, and is not read.
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
    """`address`, if it is https or of this machine. Raises ConfigError without it."""
    with suppress(httpx2.InvalidURL):
        url = httpx2.URL(address)
        is_this_machine = url.scheme == "http" and url.host in _THIS_MACHINE
        if url.host and (url.scheme == "https" or is_this_machine):
            return address
    raise ConfigError(
        "is not an https address.", where=NOTIFY, hint="http is for this machine only."
    )
