"""Posts messages to a webhook: plain JSON, Slack or Teams; signed, and tried again. Its address is never shown."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import json
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Literal
from urllib.parse import urlsplit

import httpx2

from ragstone._version import __version__
from ragstone.errors import ConfigError

URL = "RAGSTONE_WEBHOOK_URL"
SECRET = "RAGSTONE_WEBHOOK_SECRET"  # noqa: S105 - the name of a variable
ATTEMPTS = 4
Format = Literal["json", "slack", "teams"]

_TIMEOUT_S = 20.0
_MAX_PAUSE_S = 30.0


def webhook_body(form: Format, text: str, facts: Mapping[str, Any]) -> bytes:
    """The body of a message: `facts` with the `text`, or what Slack's or Teams' incoming webhooks take."""
    body: dict[str, Any]
    if form == "slack":
        # Slack's mrkdwn: https://docs.slack.dev/messaging/formatting-message-text/#escaping
        body = {"text": text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")}
    elif form == "teams":
        block = {"type": "TextBlock", "text": text.replace("\n", "\n\n"), "wrap": True}
        card = {"type": "AdaptiveCard", "version": "1.4", "body": [block]}
        kind = "application/vnd.microsoft.card.adaptive"
        body = {"type": "message", "attachments": [{"contentType": kind, "content": card}]}
    else:
        body = {"schema_version": 1, "text": text, **facts}
    return json.dumps(body, ensure_ascii=True, allow_nan=False).encode("ascii")


def signature(secret: str, timestamp: str, body: bytes) -> str:
    """The value of ``X-Ragstone-Signature``: HMAC-SHA256 (hex) of timestamp, a full stop, and the body."""
    return "sha256=" + hmac.new(secret.encode(), timestamp.encode() + b"." + body, hashlib.sha256).hexdigest()


def post(
    environ: Mapping[str, str], body: bytes, *, now: Callable[[], datetime], sleep: Callable[[float], None]
) -> str | None:
    """Post `body` to the webhook in the environment. Returns why it could not be delivered; None if it was.

    Tried 4 times, unless the receiver refuses. Redirects are not followed. Raises ConfigError for an address that is
    neither https nor of this machine.
    """
    address = _checked(environ.get(URL, "").strip())
    headers = {"Content-Type": "application/json", "User-Agent": f"ragstone/{__version__}"}
    headers["X-Ragstone-Delivery"] = hashlib.sha256(body).hexdigest()[:32]
    secret = environ.get(SECRET, "").strip()
    problem = ""
    for attempt in range(ATTEMPTS):
        if secret:
            stamp = str(int(now().timestamp()))
            headers |= {"X-Ragstone-Timestamp": stamp, "X-Ragstone-Signature": signature(secret, stamp, body)}
        pause = min(_MAX_PAUSE_S, 2.0**attempt)
        try:
            with (
                httpx2.Client(timeout=_TIMEOUT_S, follow_redirects=False, trust_env=False) as client,
                client.stream("POST", address, headers=headers, content=body) as reply,
            ):
                status, wait = reply.status_code, reply.headers.get("retry-after", "")
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            problem = type(error).__name__
        else:
            if 200 <= status < 300:
                return None
            problem = f"it answered {status}"
            if status != 429 and status < 500:
                break
            if wait.isascii() and wait.isdigit():
                pause = min(_MAX_PAUSE_S, float(wait[:6]))
        if attempt < ATTEMPTS - 1:
            sleep(pause)
    return f"Webhook delivery failed: {problem}."


def _checked(address: str) -> str:
    try:
        parts = urlsplit(address)
        host = parts.hostname or ""
    except ValueError:
        parts, host = urlsplit(""), ""
    if not host or not (parts.scheme == "https" or (parts.scheme == "http" and _is_local(host))):
        raise ConfigError(f"{URL} is not an https address.", hint="http is for this machine only.")
    return address


def _is_local(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
