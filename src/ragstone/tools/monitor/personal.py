"""Replaces personal data in texts by placeholders such as [email]: by rule, so what no rule knows stays."""

from __future__ import annotations

import ipaddress
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from ragstone.formatting import counted
from ragstone.system.worker import at_path

_EMAIL = re.compile(
    r"(?<![\w.+%-])[\w+%][\w.+%'-]{0,63}+(?:[@＠]|\s?[(\[]at[)\]]\s?)(?:[\w-]{1,63}\.){1,8}[^\W\d_]{2,24}",
    re.IGNORECASE,
)
_IBAN = re.compile(r"(?<!\w)[A-Z]{2}\d{2}(?:[ \u00a0-]?[A-Z\d]){11,40}+", re.IGNORECASE)
_DIGIT_RUN = re.compile(r"(?<![\d+])\d(?:[ \u00a0\u2009\u202f.-]?\d){12,}+")
_CARD = re.compile(
    r"4(?:\d{12}|\d{15}|\d{18})|(?:5[1-5]|2[2-7])\d{14}|3[47]\d{13}|3(?:0[0-5]|[689]\d)\d{11}|35\d{14}"
    r"|6(?:011|4[4-9]\d|5\d\d)\d{12}|(?:5[06-9]|6\d)\d{10,17}"
)
_IPV4 = re.compile(r"(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?![\w]|\.\d)")
_IPV6 = re.compile(r"(?<![\w:.])(?:[\da-f]{0,4}:){3,7}[\da-f]{1,4}(?![\w:])", re.IGNORECASE)
_RELEASE = re.compile(
    r"(?:\bv|\bver|versions?|version[en]+|release|firmware|build|driver|update)[\s.:]*$", re.IGNORECASE
)

_GAP = r"[ \u00a0\u2009\u202f./-]"
_PHONE = re.compile(
    rf"(?<![\w+.,])(?<!\d[/-])(?:"
    rf"(?P<plus>\+[1-9](?:{_GAP}?(?:\(\d{{1,5}}\){_GAP}?)?\d){{6,14}})"
    rf"|(?P<zeros>00[1-9](?:{_GAP}?(?:\(\d{{1,5}}\){_GAP}?)?\d){{8,13}})"
    rf"|(?P<american>(?:1[ .-])?(?:\([2-9]\d\d\) ?|[2-9]\d\d[ .-])[2-9]\d\d[ .-]\d{{4}})"
    rf"|(?P<area>(?:\(0[1-9]\d{{1,4}}\)|0[1-9]\d{{1,4}}){_GAP}?(?:/ ?|- ?)?\d(?:[ /-]?\d){{4,9}})"
    rf"|(?P<pairs>0[1-9](?:[ .-]\d\d){{4}})"
    rf"|(?P<short>0[1-9][ -](?:\d{{8}}|\d{{4}}[ -]\d{{4}}))"
    r")(?!\w|[.,]\d|[ \u00a0]?[%€$£])"
)
_PHONE_CUE = re.compile(
    r"(?:\b(?:tel|telefon|telephone|phone|mobile|mobil|handy|cell|fax|whatsapp|téléphone|teléfono)"
    r"(?:[ -]?(?:number|nummer|no|nr))?|\b(?:call|ring|text|reach) (?:me|us) (?:at|on|under)|ruf\w* mich an unter)"
    r"(?: is| ist| lautet)?[\s.:#]{1,3}(?P<number>\d(?:[ /.-]?\d){5,13}+)(?![.,]?\d)",
    re.IGNORECASE,
)
_NO_PHONE = re.compile(
    r"\b(?:order|invoice|ticket|article|item|sku|isbn|ean|gtin|upc|imei|sn|part"
    r"|serial|case|tracking|reference|ref|customer|contract|product|model"
    r"|bestell\w*|auftrags?\w*|rechnungs?\w*|artikel\w*|kunden\w*|vertrags?\w*|commande|facture|pedido|factura)"
    r"(?:[ -]?(?:id|no|nr|number|nummer|numéro|número))?(?: is| ist)?[\s.:#]{0,3}$",
    re.IGNORECASE,
)
_DATE = re.compile(r"\d{1,2}[./-]\d{1,2}[./-](?:19|20)?\d\d|(?:19|20)\d\d[./-]\d{1,2}[./-]\d{1,2}")
_MIN_WHOLE = 10
_CUE_WIDTH = 48
_MIN_PART = 3
_MAX_PARTS = 4

KINDS: Mapping[str, str] = {
    "email": "e-mail address",
    "iban": "IBAN",
    "card": "card number",
    "phone": "phone number",
    "ip": "IP address",
}
"""What a placeholder stands for, in the order in which the rules are used."""


SECRET = "secret of the environment"  # noqa: S105 - a name
"""Counts texts from which a secret of the environment was removed, beside the kinds above."""


@dataclass(frozen=True, slots=True)
class Stripped:
    """A text with placeholders, and how many replacements were made, by the name of the placeholder."""

    text: str
    counts: Counter[str]


def field_values(record: object, fields: Iterable[str]) -> dict[str, list[str]]:
    """The texts and numbers at the dotted paths `fields` of a record, by path."""
    return {path: list(_texts(at_path(record, path))) for path in fields}


def strip(text: str, values: Mapping[str, Iterable[str]] | None = None) -> Stripped:
    """Replace personal data in `text`.

    Addresses are found by their form, IBANs and card numbers also by their check digits, phone numbers by how they are
    grouped and by the words before them. `values` are texts to replace by field: in any case, and each word of a name
    of at most four words, if it is written as there or with a capital. The placeholder is the last part of the field.
    """
    counts: Counter[str] = Counter()

    def put(kind: str) -> str:
        counts[kind] += 1
        return f"[{kind}]"

    text = _EMAIL.sub(lambda _: put("email"), text)
    for path, found in (values or {}).items():
        name = re.sub(r"\W+", "_", path.rpartition(".")[2]).strip("_") or "field"
        pattern = _values_pattern(found)
        if pattern is not None:
            text = pattern.sub(lambda _, name=name: put(name), text)  # type: ignore[misc]
    text = _IBAN.sub(lambda found: _iban(found, put), text)
    text = _DIGIT_RUN.sub(lambda found: _cards(found.group(), put), text)
    text = _PHONE_CUE.sub(lambda found: found.group()[: found.start("number") - found.start()] + put("phone"), text)
    text = _PHONE.sub(lambda found: put("phone") if _is_phone(found) else found.group(), text)
    for pattern in (_IPV4, _IPV6):
        text = pattern.sub(lambda found: put("ip") if _is_address(found) else found.group(), text)
    return Stripped(text, counts)


def replacements(name: str, count: int) -> str:
    """How many were replaced by one placeholder: "2 phone numbers", or "1 value of name" for a field."""
    if name == SECRET:
        return f"{counted(count, 'text')} with a secret of the environment"
    kind = KINDS.get(name)
    if kind is None:
        return f"{counted(count, 'value')} of {name}"
    return f"{count:,} {kind}{'' if count == 1 else 'es' if kind.endswith('s') else 's'}"


def _texts(value: object) -> Iterable[str]:
    if isinstance(value, list | tuple):
        for one in value[:100]:
            yield from _texts(one)
    elif isinstance(value, str | int | float) and not isinstance(value, bool) and len(found := str(value).strip()) > 1:
        yield found[:1000]


def _values_pattern(values: Iterable[str]) -> re.Pattern[str] | None:
    whole: set[str] = set()
    for value in values:
        words = value.split()
        spaced = r"\s+".join(map(re.escape, words))
        whole.add(f"(?i:{spaced})")
        if len(words) <= _MAX_PARTS:
            parts = [part.strip(",.") for part in words]
            for part in parts:
                if len(part) >= _MIN_PART and part.replace("-", "").replace("'", "").isalpha():
                    whole |= {re.escape(part), re.escape(part[0].upper() + part[1:])}
    if not whole:
        return None
    return re.compile(rf"(?<!\w)(?:{'|'.join(sorted(whole, key=lambda one: (-len(one), one)))})(?!\w)")


def _iban(found: re.Match[str], put: Callable[[str], str]) -> str:
    """The text with the IBAN that it begins with replaced; what follows may be words."""
    text = found.group()
    for end in range(len(text), 14, -1):
        if end < len(text) and text[end].isalnum():
            continue
        compact = re.sub(r"[^A-Za-z0-9]", "", text[:end]).upper()
        if (
            15 <= len(compact) <= 34
            and int("".join(str(int(sign, 36)) for sign in compact[4:] + compact[:4])) % 97 == 1
        ):
            return put("iban") + text[end:]
    return text


def _cards(text: str, put: Callable[[str], str]) -> str:
    """A run of digits and separators, with the card numbers in it replaced; other numbers may stand beside them."""
    places = [at for at, sign in enumerate(text) if sign.isdigit()]
    digits = "".join(str(int(text[at])) for at in places)
    kept, done, first = [], 0, 0
    while first + 13 <= len(digits):
        begins = first == 0 or places[first] - places[first - 1] > 1
        for count in range(min(19, len(digits) - first), 12, -1) if begins else ():
            last = first + count - 1
            ends = last + 1 == len(digits) or places[last + 1] - places[last] > 1
            number = digits[first : last + 1]
            if ends and _CARD.fullmatch(number) and _luhn(number):
                kept += [text[done : places[first]], put("card")]
                done, first = places[last] + 1, last
                break
        first += 1
    return "".join(kept) + text[done:]


def _luhn(number: str) -> bool:
    """Whether the check digit is right (ISO/IEC 7812-1, annex B)."""
    doubled = (int(digit) * (1 + place % 2) for place, digit in enumerate(reversed(number)))
    return sum(one // 10 + one % 10 for one in doubled) % 10 == 0


def _is_phone(found: re.Match[str]) -> bool:
    text = found.group()
    if found["plus"]:
        return True
    if _NO_PHONE.search(found.string, max(0, found.start() - _CUE_WIDTH), found.start()) or _DATE.match(text):
        return False
    return not text.isdigit() or len(text) >= _MIN_WHOLE


def _is_address(found: re.Match[str]) -> bool:
    """Whether it is an address, and not a version or a time."""
    text = found.group()
    if _RELEASE.search(found.string, max(0, found.start() - _CUE_WIDTH), found.start()):
        return False
    if ":" in text and sum(bool(part) for part in text.split(":")) < 4:
        return False
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True
