"""Replaces personal data in texts by placeholders such as [email]: by rule, so what no
rule knows stays."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable

from ragstone.files import read_table

_RULES = read_table("personal.toml", __package__)
_PATTERN = {
    name: re.compile("".join(parts)) for name, parts in _RULES["patterns"].items()
}
_MIN_WHOLE = 10


def strip(text: str) -> str:
    """`text` with personal data replaced.

    Addresses and IBANs are found by their form, card numbers also by their check digit,
    phone numbers by how they are grouped and by the words before them.
    """
    text = _PATTERN["email"].sub("[email]", text)
    text = _PATTERN["iban"].sub("[iban]", text)
    text = _replaced("card", "[card]", _is_card, text)
    text = _PATTERN["phone_cue"].sub(_after_cue, text)
    text = _replaced("phone", "[phone]", _is_phone, text)
    text = _replaced("ipv4", "[ip]", _is_address, text)
    return _replaced("ipv6", "[ip]", _is_address, text)


def _replaced(
    name: str, placeholder: str, holds: Callable[[re.Match[str]], bool], text: str
) -> str:
    """`text` with a placeholder for the matches of a pattern that `holds`."""

    return _PATTERN[name].sub(
        lambda match: placeholder if holds(match) else match.group(), text
    )


def _after_cue(match: re.Match[str]) -> str:
    """The words before a phone number, which is replaced."""
    length = match.start("number") - match.start()
    words = match.group()[:length]
    return f"{words}[phone]"


def _is_card(match: re.Match[str]) -> bool:
    """Whether a number is one that cards have, and its check digit is right (ISO/IEC
    7812-1, annex B)."""
    number = re.sub(r"\D", "", match.group())
    total = 0
    for place, digit in enumerate(reversed(number)):
        weight = 1 + place % 2
        value = int(digit) * weight
        total += value // 10 + value % 10
    is_checked = total % 10 == 0
    return is_checked and _PATTERN["card_number"].fullmatch(number) is not None


def _is_phone(match: re.Match[str]) -> bool:
    text = match.group()
    if match["plus"]:
        return True
    if _PATTERN["date"].match(text):
        return False
    return not text.isdigit() or len(text) >= _MIN_WHOLE


def _is_address(match: re.Match[str]) -> bool:
    """Whether it is an address, and not a time."""
    text = match.group()
    groups = list(filter(None, text.split(":")))
    if ":" in text and len(groups) < 4:
        return False
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True
