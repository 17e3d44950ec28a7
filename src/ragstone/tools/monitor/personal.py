"""Replaces personal data in texts by placeholders such as [email]. It is found by
rules: names and other data that no rule describes stay."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable

from ragstone.files import read_table

_RULES = read_table("personal.toml", __package__)
_PATTERNS = {
    name: re.compile("".join(parts)) for name, parts in _RULES["patterns"].items()
}

_MIN_PHONE_DIGITS = 10
"""Fewer digits without a separator may be any number."""


def mask_personal_data(text: str) -> str:
    """`text` with personal data replaced by placeholders.

    Addresses and IBANs are found by their form, card numbers also by their check digit,
    phone numbers by how they are grouped and by the words before them.
    """
    text = _PATTERNS["email"].sub("[email]", text)
    text = _PATTERNS["iban"].sub("[iban]", text)
    text = _mask("card", "[card]", _is_card, text)
    text = _PATTERNS["phone_cue"].sub(_mask_after_cue, text)
    text = _mask("phone", "[phone]", _is_phone, text)
    text = _mask("ipv4", "[ip]", _is_ip_address, text)
    return _mask("ipv6", "[ip]", _is_ip_address, text)


def _mask(
    pattern: str,
    placeholder: str,
    is_personal: Callable[[re.Match[str]], bool],
    text: str,
) -> str:
    """`text` with `placeholder` instead of each match of a pattern that
    `is_personal`."""

    return _PATTERNS[pattern].sub(
        lambda match: placeholder if is_personal(match) else match.group(), text
    )


def _mask_after_cue(match: re.Match[str]) -> str:
    """The words that announce a phone number, and a placeholder instead of it."""
    length = match.start("number") - match.start()
    words = match.group()[:length]
    return f"{words}[phone]"


def _is_card(match: re.Match[str]) -> bool:
    """Whether digits are the number of a card: one that issuers give out, with the
    right check digit (ISO/IEC 7812-1, annex B)."""
    number = re.sub(r"\D", "", match.group())
    total = 0
    for index, digit in enumerate(reversed(number)):
        weight = 1 + index % 2
        value = int(digit) * weight
        total += value // 10 + value % 10
    has_check_digit = total % 10 == 0
    return has_check_digit and _PATTERNS["card_number"].fullmatch(number) is not None


def _is_phone(match: re.Match[str]) -> bool:
    """Whether digits are a phone number rather than a date or another number."""
    text = match.group()
    if match["plus"]:
        return True
    if _PATTERNS["date"].match(text):
        return False
    return not text.isdigit() or len(text) >= _MIN_PHONE_DIGITS


def _is_ip_address(match: re.Match[str]) -> bool:
    """Whether a text is an IP address."""
    text = match.group()
    groups = list(filter(None, text.split(":")))
    if ":" in text and len(groups) < 4:
        return False  # a time such as 12:30:59
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True
