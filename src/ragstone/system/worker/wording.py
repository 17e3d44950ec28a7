"""Values and errors in words: bounded, without what looks like a secret, in text that
UTF-8 can hold.

Part of the worker (see `join.py`): standard library only, Python 3.8 or newer.
"""

from __future__ import annotations

import os
import re
import reprlib
import traceback

SOURCE_NAME = "<ragstone worker>"
"""What tracebacks call the file of the worker."""

MAX_TRACEBACK_CHARACTERS = 8_000
_MAX_MASKED_CHARACTERS = 80_000
_OWN_FILE = globals().get("__file__", "")
_OWN_FOLDER = os.path.dirname(os.path.dirname(_OWN_FILE)) or SOURCE_NAME  # noqa: PTH120
_ADDRESS = r" at 0x[0-9A-Fa-f]+"
_KEYLIKE = (
    r"(?i)(?P<before>\b(?:sk|pk|xox\w|gh\w|github_pat|glpat|hf)[-_]|\b(?:AKIA|AIza|eyJ)(?=\w{12})|\bBearer\s+|"
    r"://[^\s/:@]*:(?=[^\s/@]+@)|(?:api[_-]?key|secret|passw(?:or)?d|access_?token|authorization)"
    r"['\"]?\s*[:=]\s*['\"]?(?:basic\s+|bearer\s+)?)(?P<value>[^\s'\",;}]{8,})"
)


def clean(text: str) -> str:
    """`text` as a plain str that UTF-8 can hold: a lone surrogate becomes U+FFFD."""
    plain = str.__str__(text)
    try:
        plain.encode("utf-8")
    except UnicodeEncodeError:
        return plain.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return plain


def shown(value: object, limit: int = 200) -> str:
    """A bounded repr with the type's name; never raises."""
    short = reprlib.Repr()
    short.maxstring = short.maxother = limit
    short.maxlevel = 2
    short.maxdict = 8
    short.maxlist = 4
    short.maxtuple = 4
    try:
        text = short.repr(value)
    except Exception:
        text = "an object whose repr() fails"
    text = _masked(
        re.sub(_ADDRESS, "", text)
    )  # addresses differ each time, so equal failures would look different
    return f"{clean(shortened(text, limit))} ({type(value).__name__})"


def summary(error: BaseException) -> str:
    """``Type: message`` in one line of at most 300 characters."""
    last_line = traceback.format_exception_only(type(error), error)[-1]
    words = _masked(_without_middle(last_line, _MAX_MASKED_CHARACTERS)).split()
    return shortened(" ".join(words), 300)


def formatted(error: BaseException) -> str:
    """The user's traceback, without Ragstone's own leading frames, at most
    MAX_TRACEBACK_CHARACTERS."""
    frames = error.__traceback__
    while frames is not None:
        file = frames.tb_frame.f_code.co_filename
        module = frames.tb_frame.f_globals.get("__name__", "")
        imports = file.startswith("<frozen importlib") or module.startswith("importlib")
        if not (imports or file.startswith(_OWN_FOLDER)):
            break
        frames = frames.tb_next
    text = "".join(traceback.format_exception(type(error), error, frames))
    masked = _masked(_without_middle(text, _MAX_MASKED_CHARACTERS))
    return _without_middle(masked, MAX_TRACEBACK_CHARACTERS)


def _masked(text: str) -> str:
    """`text` without what looks like a key or a password."""
    return re.sub(_KEYLIKE, lambda match: match["before"] + "***", text)


def shortened(text: str, limit: int) -> str:
    """`text`, or its beginning and an ellipsis: at most `limit` characters."""
    if len(text) <= limit:
        return text
    return text[: limit - 3] + "..."


def _without_middle(text: str, limit: int) -> str:
    """`text` as UTF-8 can hold it, without its middle if it is too long."""
    if len(text) > limit:
        beginning = text[: limit // 2]
        end = text[100 - limit // 2 :]
        text = beginning + "\n...\n" + end
    return clean(text)
