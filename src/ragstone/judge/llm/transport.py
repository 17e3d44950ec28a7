"""The HTTP details that both providers share: addresses, time-outs, headers, errors,
and keeping the key secret."""

from __future__ import annotations

import copy
import email.utils
import json
import re
import ssl
import time
from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from pydantic_core import from_json, to_json

from ragstone.errors import ConfigError, JudgeError
from ragstone.judge.llm.account import Account
from ragstone.judge.llm.any_json import dict_or_empty, list_or_empty, text_or_empty
from ragstone.judge.llm.features import FeatureRefused
from ragstone.judge.llm.provider import Broken, Busy, Fault, Rejected
from ragstone.judge.names import suggested_model

if TYPE_CHECKING:
    import httpx2


MAX_REPLY_BYTES = 4 * 1024**2
"""A chat reply: a model's longest output, with each character escaped, plus room for a
server's additions."""
_MAX_EMBEDDINGS_BYTES = 64 * 1024**2
"""Up to 256 vectors."""

_SPAN = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d|$)")
_UNITS = {"": 1.0, "ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_TRY_AGAIN = re.compile(
    r"(?i)\b(?:retry|try again) (?:in|after) ((?:\d{1,9}(?:\.\d{1,9})?(?:ms|[smh]))+|\d{1,9}(?:\.\d{1,9})?)"
)
_RETRY_DELAY = re.compile(r'"retryDelay": "([^"]{1,40})"')
_QUOTA_PER_DAY = re.compile(r'"quotaId": "[^"]*PerDay')
# What errors say, in lower case; a word is enough. Not "billing": the message of an
# ordinary rate limit links to a page of that name.
_OUT_OF_QUOTA = (
    "insufficient_quota",
    "billing_hard_limit",
    "billing hard limit",
    "credit balance",
    "requires more credits",
    "specified api usage limit",
    "insufficient credits",
    "insufficient balance",
)
_BAD_KEY = (
    "api key not valid",
    "api_key_invalid",
    "invalid api key",
    "invalid_api_key",
    "incorrect api key",
)
_NO_JSON = ("json_validate_failed", "failed to generate json")
"""The model's output was not JSON: another try may succeed."""
_TOO_LONG = (
    "context_length_exceeded",
    "maximum context length",
    "prompt is too long",
    "context window",
    "too many tok",
    "exceeds model's maximum context",
    "must be at least 1, got -",
)
_FILTERED = (
    "content_filter",
    "content management policy",
    "responsibleai",
    "input was flagged",
)


CERTIFICATE_VARIABLES = ("SSL_CERT_FILE", "SSL_CERT_DIR")
"""They name the certificates that are trusted in place of the system's."""


@cache
def tls_context() -> ssl.SSLContext:
    """The certificates that a client chooses, read once for all, which takes tens of
    milliseconds. Raises ConfigError."""
    import httpx2

    try:
        return httpx2.create_ssl_context()
    except OSError as error:  # ssl's own errors included
        raise ConfigError(
            f"the certificates can't be read: {error.strerror or error}.",
            where=" or ".join(CERTIFICATE_VARIABLES),
            hint="Name a PEM file that exists, with at least one certificate in it.",
        ) from None


async def bound(reply: httpx2.Response) -> None:
    """A hook that limits the size of a provider's reply."""
    from ragstone.system.bounded_http import bound_reply

    embeds = reply.request.url.path.endswith("/embeddings")
    bound_reply(reply, _MAX_EMBEDDINGS_BYTES if embeds else MAX_REPLY_BYTES)


def parsed(content: bytes) -> dict[str, Any]:
    """A reply's body as a JSON object. Raises Broken for anything else (a proxy's page,
    half a body)."""
    try:
        document = from_json(content, allow_inf_nan=False)
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        raise Broken("the reply is not a JSON object")
    return document


def encoded(body: Mapping[str, object]) -> bytes:
    """`body` as JSON; invalid Unicode (a lone surrogate) becomes a question mark."""
    try:
        # Several times as fast as json.dumps on long texts, and called for every
        # request.
        return to_json(body)
    except ValueError:
        return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode(
            "utf-8", "replace"
        )


def count(value: object) -> int:
    """A token count from a usage field; anything invalid counts as 0."""
    is_count = type(value) is int and 0 <= value < 2**53
    return value if is_count else 0  # type: ignore[return-value]


def status_error(
    account: Account, status: int, headers: Mapping[str, str], body: object
) -> Fault | JudgeError:
    """The exception to raise for an error reply."""
    message, code = _words(body)
    reason = account.scrubbed(f"HTTP {status}: {message}".removesuffix(": "))
    words = f"{code} {message}".lower()
    match status:
        case 400 | 422 if _says(words, _NO_JSON):
            return Broken(reason)
        case 402:
            return _out_of_quota(account, reason)
        case 400 | 403 | 429 if _says(words, _OUT_OF_QUOTA):
            return _out_of_quota(account, reason)
        case 429 if _QUOTA_PER_DAY.search(_as_json(body)):
            return _out_of_quota(account, reason)
        case 400 | 403 | 422 if _says(words, _FILTERED):
            return Rejected("the provider's content filter stopped the request")
        case 401 | 403:
            return refused_key(account, reason)
        case 400 if _says(words, _BAD_KEY):
            return refused_key(account, reason)
        case 404:
            return _unknown_model(account, reason)
        case 429:
            return Busy(reason, _asked_s(headers, body, message))
        case _ if 300 <= status < 400:
            return _redirected(account, headers.get("location", "nowhere"))
        case _ if status in (408, 409, 425) or status >= 500:
            return Broken(reason, _asked_s(headers, body, message))
        case _ if status == 413 or _says(words, _TOO_LONG):
            return Rejected(
                f"the request is longer than the judge's window ({reason}); see judge.context_window"
            )
        case _:
            return Rejected(f"the judge rejected the request ({reason})")


def _out_of_quota(account: Account, reason: str) -> JudgeError:
    return JudgeError(
        f"the {account.service} account is out of quota: {reason}",
        where="judge",
        hint="Add credit or raise the account's limit, then continue with --resume; finished samples are kept.",
    )


def _redirected(account: Account, location: str) -> JudgeError:
    target, _, _ = account.scrubbed(location).partition("?")
    return JudgeError(
        f"the address {account.address.endpoint} redirects to {target}; a key is not sent on.",
        where="judge.base_url",
        hint="Set judge.base_url to the final address.",
    )


def _unknown_model(account: Account, reason: str) -> JudgeError:
    address, suggestion = "judge.embeddings_base_url", None
    if account.setting == "judge.name":
        address = "judge.base_url"
        suggestion = suggested_model(account.model, [account.provider.name])
    hint = f"Check the model's name and {address}, and that the key has access to the model."
    return JudgeError(
        f"{account.service} does not know the model '{account.model}' at this address: {reason}",
        where=account.setting,
        hint=f"{suggestion} {hint}" if suggestion else hint,
    )


def _says(text: str, words: Sequence[str]) -> bool:
    return any(word in text for word in words)


def refused_key(account: Account, reason: str) -> JudgeError:
    """The error for a key, or this job's identity, that the provider does not
    accept."""
    if account.job_identity is not None:
        return JudgeError(
            f"{account.service} refused this job's identity: {account.scrubbed(reason)}",
            where="judge.name",
            hint="Compare the provider's rule with this job: issuer https://token.actions.githubusercontent.com, "
            "audience, repository and ref.",
        )
    return JudgeError(
        f"{account.service} refused the API key: {reason}",
        where="judge",
        hint=f"Check that {account.key_variable} holds a valid key for this endpoint, not revoked, with access to the "
        "model.",
    )


def body_error(
    account: Account, document: Mapping[str, Any]
) -> Fault | JudgeError | None:
    """The exception to raise for an error in a reply of status 200; None if there is
    none.

    Gateways send the 200 before they know how the model behind them will answer.
    """
    error = document.get("error")
    if not error:
        return None
    code = str(dict_or_empty(error).get("code"))
    status = int(code) if re.fullmatch(r"[45]\d\d", code) else 502
    return refusal(account, status, {}, document)


def connection_error(
    account: Account, error: BaseException
) -> Broken | Rejected | JudgeError:
    """The exception for a request without a reply. A time-out only if something did
    time out, whatever the SDK says."""
    # Imported here: a run that finds everything in the cache calls nobody, and starts
    # sooner without the client.
    import aiohttp
    import httpx2

    from ragstone.system.bounded_http import ReplyTooLarge

    causes = [error]
    while causes[-1].__cause__ is not None and len(causes) < 10:
        causes.append(causes[-1].__cause__)
    for cause in causes:
        match cause:
            case JudgeError() | Broken():
                # Raised while getting a token, and wrapped by the SDK.
                return copy.copy(cause)
            case ReplyTooLarge():
                return Rejected(f"the judge's reply holds {cause.reason}")
            case aiohttp.ClientProxyConnectionError():
                return Broken(
                    f"no connection to the proxy {cause.host}:{cause.port} that HTTPS_PROXY or HTTP_PROXY names: "
                    f"{cause.os_error}"
                )
            case aiohttp.ClientResponseError():
                message = account.scrubbed(cause.message)
                return Broken(f"the judge's reply is not HTTP: {message}")
            case httpx2.DecodingError() | aiohttp.ClientPayloadError():
                return Broken(f"the judge's reply broke off: {account.scrubbed(cause)}")
    if any(isinstance(cause, TimeoutError) for cause in causes):
        return Broken(f"no connection or no reply within {account.timeout_s:g} s")
    return Broken(
        f"no connection to {account.address.host}: {account.scrubbed(causes[-1])}"
    )


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """Seconds that the provider asks to wait, from ``retry-after-ms`` or
    ``retry-after`` (seconds or a date)."""
    for name, factor in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        value = headers.get(name, "")
        try:
            seconds = float(value) * factor
        except ValueError:
            try:
                seconds = (
                    email.utils.parsedate_to_datetime(value).timestamp() - time.time()
                )
            except (ValueError, OverflowError):
                continue
        if seconds == seconds:  # not NaN
            return max(0.0, seconds)
    return None


def _asked_s(headers: Mapping[str, str], body: object, message: str) -> float | None:
    """The wait, in seconds, that headers or body ask for: Google's `RetryInfo`, or "try
    again in 1m2.5s" in words."""
    header_s = retry_after_s(headers)
    if header_s is not None:
        return header_s
    for match in (
        *_RETRY_DELAY.finditer(_as_json(body)),
        *_TRY_AGAIN.finditer(message[:4000]),
    ):
        # "6m0s", "20ms" or "12"
        spans = _SPAN.findall(match[1])
        whole = "".join(number + unit for number, unit in spans)
        if whole == match[1]:
            return sum(float(number) * _UNITS[unit] for number, unit in spans)
    return None


def _as_json(body: object) -> str:
    """The beginning of an error's body, as text in which fields can be found at any
    depth."""
    return json.dumps(body, default=str)[:20_000]


def refusal(
    account: Account, status: int, headers: Mapping[str, str], body: object
) -> Fault | JudgeError:
    """As `status_error`, for a request with features: its refusal may be about one of
    them, whatever the status."""
    error = status_error(account, status, headers, body)
    message, code = _words(body)
    complaint = f"{code} {message}".lower()
    if (
        isinstance(error, Busy)
        or status in (401, 402)
        or "got -" in complaint
        or _says(complaint, _NO_JSON)
    ):
        return error
    return FeatureRefused(error, complaint)


def _words(body: object) -> tuple[str, str]:
    """Message, and code with parameter, of an error body in any of the usual shapes."""
    if isinstance(body, list) and body:  # Google
        body = body[0]
    if not isinstance(body, dict):
        return text_or_empty(body), ""
    error = body.get("error", body)
    if not isinstance(error, dict):
        return str(error), ""
    texts = map(error.get, ("message", "detail", "msg"))
    message = next(filter(None, texts), "")
    if not isinstance(message, str):
        message = json.dumps(message, default=str)
    codes = list(map(error.get, ("code", "type", "param", "status")))
    details = map(dict_or_empty, list_or_empty(error.get("details")))
    codes += [detail.get("reason") for detail in details]
    return message, " ".join(map(_word, codes))


def _word(value: object) -> str:
    """An error's code, if it is a word: a number adds nothing to the status."""
    return value if isinstance(value, str) and not value.isdigit() else ""
