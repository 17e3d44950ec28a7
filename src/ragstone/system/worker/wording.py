"""Words values and errors for messages: in bounded text that UTF-8 can encode, without
anything that looks like a secret.

Part of the worker (see `join.py`): standard library only, Python 3.8 or newer.
"""

from __future__ import annotations

import os
import re
import reprlib
import traceback

SOURCE_NAME = "<ragstone worker>"
"""The name of the worker's file in tracebacks."""

MAX_TRACEBACK_CHARACTERS = 8_000
_MAX_SUMMARY_CHARACTERS = 300
# Secrets are looked for in at most this much text, which bounds the time it takes.
_MAX_MASKED_CHARACTERS = 80_000
_THIS_FILE = globals().get("__file__", "")  # the joined source of the worker has none
# The path with which the files of frames of Ragstone's begin.
_RAGSTONE_FOLDER = (
    os.path.dirname(os.path.dirname(_THIS_FILE)) or SOURCE_NAME  # noqa: PTH120
)
# Characters that are left free for the ellipsis in place of the middle of a text.
_ELLIPSIS_ROOM = 100
_ADDRESS = r" at 0x[0-9A-Fa-f]+"
_CREDENTIAL = (
    r"(?i)(?P<before>\b(?:sk|pk|xox\w|gh\w|github_pat|glpat|hf)[-_]|\b(?:AKIA|AIza|eyJ)(?=\w{12})|\bBearer\s+|"
    r"://[^\s/:@]*:(?=[^\s/@]+@)|(?:api[_-]?key|secret|passw(?:or)?d|access_?token|authorization)"
    r"['\"]?\s*[:=]\s*['\"]?(?:basic\s+|bearer\s+)?)(?P<value>[^\s'\",;}]{8,})"
)


def clean(text: str) -> str:
    """`text` as a plain str that UTF-8 can encode: lone surrogates become U+FFFD."""
    plain = str.__str__(text)
    try:
        plain.encode("utf-8")
    except UnicodeEncodeError:
        return plain.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return plain


def shown(value: object, max_characters: int = 200) -> str:
    """The repr of `value`, cut to `max_characters`, and the name of its type; never
    raises."""
    short = reprlib.Repr()
    short.maxstring = max_characters
    short.maxother = max_characters
    short.maxlevel = 2
    short.maxdict = 8
    short.maxlist = 4
    short.maxtuple = 4
    try:
        text = short.repr(value)
    except Exception:
        text = "an object whose repr() fails"
    # Addresses differ each time, so equal failures would look different.
    text = _mask_secrets(re.sub(_ADDRESS, "", text))
    return f"{clean(shortened(text, max_characters))} ({type(value).__name__})"


def summary(error: BaseException) -> str:
    """``Type: message``, in one line of at most 300 characters."""
    last_line = traceback.format_exception_only(type(error), error)[-1]
    words = _mask_secrets(_without_middle(last_line, _MAX_MASKED_CHARACTERS)).split()
    return shortened(" ".join(words), _MAX_SUMMARY_CHARACTERS)


def formatted(error: BaseException) -> str:
    """The traceback of `error`, from the first frame of the user's code on, in at most
    MAX_TRACEBACK_CHARACTERS."""
    frames = error.__traceback__
    while frames is not None:
        file = frames.tb_frame.f_code.co_filename
        module = frames.tb_frame.f_globals.get("__name__", "")
        is_import_machinery = file.startswith("<frozen importlib") or module.startswith(
            "importlib"
        )
        if not is_import_machinery and not file.startswith(_RAGSTONE_FOLDER):
            break
        frames = frames.tb_next
    text = "".join(traceback.format_exception(type(error), error, frames))
    masked = _mask_secrets(_without_middle(text, _MAX_MASKED_CHARACTERS))
    return _without_middle(masked, MAX_TRACEBACK_CHARACTERS)


def _mask_secrets(text: str) -> str:
    """Mask what looks like a key or a password in `text`."""
    return re.sub(_CREDENTIAL, lambda match: match["before"] + "***", text)


def shortened(text: str, max_characters: int) -> str:
    """`text`, cut to `max_characters` with an ellipsis at its end."""
    if len(text) <= max_characters:
        return text
    return text[: max_characters - 3] + "..."


def _without_middle(text: str, max_characters: int) -> str:
    """`text` without its middle if it has more than `max_characters`, in a form that
    UTF-8 can encode."""
    if len(text) > max_characters:
        beginning = text[: max_characters // 2]
        end = text[_ELLIPSIS_ROOM - max_characters // 2 :]
        text = beginning + "\n...\n" + end
    return clean(text)
