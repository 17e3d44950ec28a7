"""HTTP as both providers use it: certificates, bodies, and the error that each failure
stands for."""

from __future__ import annotations

import copy
import email.utils
import json
import math
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
from ragstone.judge.llm.provider import Fault, RateLimited, Rejected, TemporaryFault
from ragstone.judge.names import suggested_model

if TYPE_CHECKING:
    import httpx2


MAX_REPLY_BYTES = 4 * 1024**2
"""The limit of a chat reply: a model's longest output, with each character escaped, and
room for what a server adds."""
_MAX_EMBEDDINGS_BYTES = 64 * 1024**2
"""The limit of a reply with embeddings: about 256 vectors."""
_MAX_MESSAGE_CHARACTERS = 4_000
_MAX_ERROR_CHARACTERS = 20_000

_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d|$)")
"""One number and its unit in a duration such as ``1m2.5s``, ``20ms`` or ``12``."""
_UNIT_SECONDS = {"": 1.0, "ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_TRY_AGAIN = re.compile(
    r"(?i)\b(?:retry|try again) (?:in|after) ((?:\d{1,9}(?:\.\d{1,9})?(?:ms|[smh]))+|\d{1,9}(?:\.\d{1,9})?)"
)
"""A wait in the words of a message, such as "Please try again in 1m2.5s"."""
_RETRY_DELAY = re.compile(r'"retryDelay": "([^"]{1,40})"')
"""A wait in Google's `RetryInfo`."""
_QUOTA_PER_DAY = re.compile(r'"quotaId": "[^"]*PerDay')
"""Google's name for a quota that is reset once a day."""
# Parts of error messages, in lower case; one of a group is enough. "billing" is not
# among the first: the message of an ordinary rate limit links to a page of that name.
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
_NOT_JSON = ("json_validate_failed", "failed to generate json")
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
_NEGATIVE_LIMIT = "got -"
"""In the message about an output limit below 1, which a server sets that subtracts the
tokens of a prompt longer than its window."""


CERTIFICATE_VARIABLES = ("SSL_CERT_FILE", "SSL_CERT_DIR")
"""The variables that name the certificates to trust in place of the system's."""


@cache
def tls_context() -> ssl.SSLContext:
    """The TLS settings of all clients, with the certificates that they trust.

    Built only once, because reading the certificates takes tens of milliseconds. Raises
    ConfigError if they can't be read.
    """
    import httpx2

    try:
        return httpx2.create_ssl_context()
    except OSError as error:  # ssl's own errors included
        raise ConfigError(
            f"the certificates can't be read: {error.strerror or error}.",
            where=" or ".join(CERTIFICATE_VARIABLES),
            hint="Set the variable to a PEM file that exists and has at least one certificate.",
        ) from None


async def limit_reply_size(reply: httpx2.Response) -> None:
    """A hook of the HTTP client that limits the size of a provider's reply."""
    from ragstone.system.bounded_http import bound_reply

    max_bytes = MAX_REPLY_BYTES
    if reply.request.url.path.endswith("/embeddings"):
        max_bytes = _MAX_EMBEDDINGS_BYTES
    bound_reply(reply, max_bytes)


def parse_reply(content: bytes) -> dict[str, Any]:
    """A reply's body as a JSON object.

    Raises TemporaryFault for anything else, such as the page of a proxy or half a body.
    """
    try:
        document = from_json(content, allow_inf_nan=False)
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        raise TemporaryFault("the reply is not a JSON object")
    return document


def encode_request(body: Mapping[str, object]) -> bytes:
    """`body` as JSON; invalid Unicode (a lone surrogate) becomes a question mark."""
    try:
        # Several times as fast as json.dumps on long texts, and called for every
        # request.
        return to_json(body)
    except ValueError:
        text = json.dumps(body, ensure_ascii=False, separators=(",", ":"))
        return text.encode("utf-8", "replace")


def token_count(value: object) -> int:
    """The token count in a field of a reply's usage; 0 for anything else."""
    # bool is a subclass of int, so not isinstance. Larger integers are inexact in JSON.
    is_count = type(value) is int and 0 <= value < 2**53
    return value if is_count else 0  # type: ignore[return-value]


def status_error(
    account: Account, status: int, headers: Mapping[str, str], body: object
) -> Fault | JudgeError:
    """The exception to raise for a reply with an error status."""
    message, codes = _message_and_codes(body)
    reason = account.safe_line(f"HTTP {status}: {message}".removesuffix(": "))
    text = f"{codes} {message}".lower()
    match status:
        case 400 | 422 if _contains_any(text, _NOT_JSON):
            return TemporaryFault(reason)
        case 402:
            return _out_of_quota_error(account, reason)
        case 400 | 403 | 429 if _contains_any(text, _OUT_OF_QUOTA):
            return _out_of_quota_error(account, reason)
        case 429 if _QUOTA_PER_DAY.search(_beginning_as_json(body)):
            return _out_of_quota_error(account, reason)
        case 400 | 403 | 422 if _contains_any(text, _FILTERED):
            return Rejected("the provider's content filter stopped the request")
        case 401 | 403:
            return refused_key_error(account, reason)
        case 400 if _contains_any(text, _BAD_KEY):
            return refused_key_error(account, reason)
        case 404:
            return _unknown_model_error(account, reason)
        case 429:
            return RateLimited(reason, _requested_wait_s(headers, body, message))
        case _ if 300 <= status < 400:
            return _redirect_error(
                account, headers.get("location", "an unnamed address")
            )
        # Time-out, conflict and too early: as errors of the server, they may pass.
        case _ if status in (408, 409, 425) or status >= 500:
            return TemporaryFault(reason, _requested_wait_s(headers, body, message))
        case _ if status == 413 or _contains_any(text, _TOO_LONG):
            return Rejected(
                f"the request is longer than the judge's window ({reason}); set judge.context_window to the model's "
                "window"
            )
        case _:
            return Rejected(f"the judge rejected the request ({reason})")


def _out_of_quota_error(account: Account, reason: str) -> JudgeError:
    return JudgeError(
        f"the {account.service} account is out of quota: {reason}",
        where="judge",
        hint="Add credit or raise the account's limit, then continue with --resume; finished samples are kept.",
    )


def _redirect_error(account: Account, location: str) -> JudgeError:
    target, _, _ = account.safe_line(location).partition("?")
    return JudgeError(
        f"the address {account.address.endpoint} redirects to {target}; the key is not sent there.",
        where="judge.base_url",
        hint="Set judge.base_url to the final address.",
    )


def _unknown_model_error(account: Account, reason: str) -> JudgeError:
    address_setting = "judge.embeddings_base_url"
    suggestion = None
    if account.setting == "judge.name":
        address_setting = "judge.base_url"
        suggestion = suggested_model(account.model, [account.provider.name])
    hint = f"Check the model's name and {address_setting}, and that the key has access to the model."
    return JudgeError(
        f"{account.service} does not know the model '{account.model}' at this address: {reason}",
        where=account.setting,
        hint=f"{suggestion} {hint}" if suggestion else hint,
    )


def _contains_any(text: str, parts: Sequence[str]) -> bool:
    return any(part in text for part in parts)


def refused_key_error(account: Account, reason: str) -> JudgeError:
    """The error if the provider does not accept the key, or the identity of this
    job."""
    if account.job_identity is not None:
        return JudgeError(
            f"{account.service} refused this job's identity: {account.safe_line(reason)}",
            where="judge.name",
            hint="Check that the provider's rule allows this job: its issuer is "
            "https://token.actions.githubusercontent.com; compare audience, repository and ref.",
        )
    return JudgeError(
        f"{account.service} refused the API key: {reason}",
        where="judge",
        hint=f"Check that {account.key_variable} has a valid key for this endpoint that is not revoked and has access "
        "to the model.",
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
    return request_error(account, status, headers={}, body=document)


def connection_error(
    account: Account, error: BaseException
) -> TemporaryFault | Rejected | JudgeError:
    """The exception to raise for a request without a reply, by the cause of the SDK's
    `error`.

    It names a time-out only if one is among the causes: the SDKs call other failures
    time-outs, too.
    """
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
            case JudgeError() | TemporaryFault():
                # Raised while getting a token, and wrapped by the SDK.
                return copy.copy(cause)
            case ReplyTooLarge():
                return Rejected(f"the judge's reply has {cause.reason}")
            case aiohttp.ClientProxyConnectionError():
                return TemporaryFault(
                    f"no connection to the proxy {cause.host}:{cause.port} that HTTPS_PROXY or HTTP_PROXY names: "
                    f"{cause.os_error}"
                )
            case aiohttp.ClientResponseError():
                message = account.safe_line(cause.message)
                return TemporaryFault(f"the judge's reply is not HTTP: {message}")
            case httpx2.DecodingError() | aiohttp.ClientPayloadError():
                return TemporaryFault(
                    f"the judge's reply broke off: {account.safe_line(cause)}"
                )
    if any(isinstance(cause, TimeoutError) for cause in causes):
        return TemporaryFault(
            f"no connection or no reply within {account.timeout_s:g} s"
        )
    return TemporaryFault(
        f"no connection to {account.address.host}: {account.safe_line(causes[-1])}"
    )


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """The seconds that ``retry-after-ms`` or ``retry-after`` (seconds or a date) asks
    to wait; None if neither is valid."""
    for name, factor in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        value = headers.get(name, "")
        try:
            seconds = float(value) * factor
        except ValueError:
            try:
                date = email.utils.parsedate_to_datetime(value)
                seconds = date.timestamp() - time.time()
            except (ValueError, OverflowError):
                continue
        if not math.isnan(seconds):
            return max(0.0, seconds)
    return None


def _requested_wait_s(
    headers: Mapping[str, str], body: object, message: str
) -> float | None:
    """The seconds that the headers, else the body or its `message`, ask to wait; None
    if they don't."""
    header_s = retry_after_s(headers)
    if header_s is not None:
        return header_s
    for match in (
        *_RETRY_DELAY.finditer(_beginning_as_json(body)),
        *_TRY_AGAIN.finditer(message[:_MAX_MESSAGE_CHARACTERS]),
    ):
        durations = _DURATION.findall(match[1])
        all_durations = "".join(number + unit for number, unit in durations)
        is_all_parsed = all_durations == match[1]
        if is_all_parsed:
            return sum(
                float(number) * _UNIT_SECONDS[unit] for number, unit in durations
            )
    return None


def _beginning_as_json(body: object) -> str:
    """The beginning of an error's body as text, in which fields can be found at any
    depth."""
    return json.dumps(body, default=str)[:_MAX_ERROR_CHARACTERS]


def request_error(
    account: Account, status: int, headers: Mapping[str, str], body: object
) -> Fault | JudgeError:
    """The exception to raise for an error reply to a request with features: a
    FeatureRefused, with the error of `status_error`, if it may be about one of them,
    whatever the status."""
    error = status_error(account, status, headers, body)
    message, codes = _message_and_codes(body)
    text = f"{codes} {message}".lower()
    if (
        isinstance(error, RateLimited)
        or status in (401, 402)
        or _NEGATIVE_LIMIT in text
        or _contains_any(text, _NOT_JSON)
    ):
        return error
    return FeatureRefused(error, text)


def _message_and_codes(body: object) -> tuple[str, str]:
    """The message of an error's body in any of the usual shapes; and its code, type,
    parameter and reasons in one text."""
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
    return message, " ".join(map(_text_of_code, codes))


def _text_of_code(value: object) -> str:
    """An error's code if it is a word, else empty: a number repeats the status."""
    return value if isinstance(value, str) and not value.isdigit() else ""
