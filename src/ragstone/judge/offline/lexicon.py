"""Word lists by language, and language detection."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import Any, cast

_SAMPLE_WORDS = 80
_WORD = re.compile(r"[^\W\d_]+(?:'[^\W\d_]*)?")
_ASCII_WORD = re.compile(r"[a-z]+(?:'[a-z]*)?")
_SCRIPTS = (
    (re.compile(r"[\u3040-\u30ff]"), "ja"),
    (re.compile(r"[\uac00-\ud7af]"), "ko"),
    (re.compile(r"[\u3400-\u9fff]"), "zh"),
    (re.compile(r"[\u0400-\u04ff]"), "ru"),
    (re.compile(r"[\u0600-\u06ff]"), "ar"),
    (re.compile(r"[\u0590-\u05ff]"), "he"),
    (re.compile(r"[\u0900-\u097f]"), "hi"),
    (re.compile(r"[\u0370-\u03ff]"), "el"),
    (re.compile(r"[\u0e00-\u0e7f]"), "th"),
)
_WORD_LISTS = [
    *("function", "negations", "averting", "only", "vague", "hedging", "pronouns", "agents"),
]
_STEMMERS = {
    "ru": "russian",
    "ar": "arabic",
    "hi": "hindi",
    "el": "greek",
    "it": "italian",
    "pt": "portuguese",
    "nl": "dutch",
}
"""Snowball stemmers of languages that have no word lists."""

_TELLTALES = {
    "it": (
        "il lo la i gli le l' un uno una un' di del dello della dei degli delle d' a al allo alla ai "
        "agli alle da dal dallo dalla dai dagli dalle in nel nello nella nei negli nelle con su sul "
        "sullo sulla sui sugli sulle per tra fra e ed o ma se che chi cui quale quali come quando dove "
        "perché è sono era erano fu furono essere stato stata stati state ha hanno aveva avevano avere "
        "può possono poteva deve devono io tu lui lei noi voi loro mi ti si ci vi me te mio mia tuo tua "
        "suo sua suoi sue nostro vostro questo questa questi queste quello quella quelli quelle anche "
        "più molto già tutto tutti tutta tutte cosa sì nell' dell' all' dall' sull' quest' quell' c' s' "
        "m' t' v' com' dov' anch' non no mai nessun nessuno nessuna niente nulla né senza neanche "
        "nemmeno"
    ),
    "pt": (
        "o a os as um uma uns umas de do da dos das d' em no na nos nas por pelo pela pelos pelas para "
        "com sem sobre entre até desde ao aos à às e ou mas se que quem qual quais como quando onde "
        "porque é são era eram foi foram ser sido está estão estava estar tem têm tinha ter há pode "
        "podem podia deve devem eu tu ele ela nós vós eles elas você vocês me te se lhe lhes meu minha "
        "teu tua seu sua seus suas nosso nossa este esta estes estas esse essa esses essas aquele aquela "
        "isto isso também mais muito já todo todos toda todas sim não nunca jamais nenhum nenhuma nada "
        "ninguém nem sem tampouco"
    ),
    "nl": (
        "de het een en of maar want dat die dit deze wat wie waar wanneer hoe waarom in op aan van voor "
        "met door bij uit naar over onder tot om tegen tussen tijdens is zijn was waren wordt worden "
        "werd werden geweest heeft hebben had hadden kan kunnen kon moet moeten mag zal zullen zou ik "
        "jij je u hij zij ze wij we jullie hen hun mij me jou hem haar ons mijn jouw zijn onze er ook "
        "nog al zeer zo dan als ja niet geen nooit niets niemand noch zonder nergens"
    ),
}
"""Function words of languages that have no other word lists, so that they aren't taken for one that has."""

_LETTER = re.compile(r"[^\W\d_]")


@dataclass(frozen=True, eq=False, slots=True)
class Language:
    """The word lists of one language, all in lower case. `stemmer` is the name of a Snowball algorithm.

    `averting` words deny without a negation ("avoid"); before an `only` word a negation negates nothing ("not only",
    "don't forget");
    `hedging` are words that claim nothing ("perhaps",
    "please"); `agents` introduce who did it; `units` maps a unit's forms to its name,
    `numbers` number words to digits, `magnitudes` words to powers of ten, and `directions` a word to an axis and its
    end of it. `half`, `minus` and `clock` are patterns of how numbers are said.
    """

    code: str
    stemmer: str | None = None
    function: frozenset[str] = frozenset()
    negations: frozenset[str] = frozenset()
    averting: frozenset[str] = frozenset()
    only: frozenset[str] = frozenset()
    vague: frozenset[str] = frozenset()
    hedging: frozenset[str] = frozenset()
    pronouns: frozenset[str] = frozenset()
    agents: frozenset[str] = frozenset()
    months: Mapping[str, int] = field(default_factory=dict)
    units: Mapping[str, str] = field(default_factory=dict)
    directions: Mapping[str, tuple[int, bool]] = field(default_factory=dict)
    numbers: Mapping[str, str] = field(default_factory=dict)
    magnitudes: Mapping[str, int] = field(default_factory=dict)
    half: str = ""
    minus: str = ""
    clock: str = ""

    @property
    def has_lists(self) -> bool:
        """Whether there are word lists, so that more than overlap can be seen."""
        return bool(self.negations)

    @property
    def spaced(self) -> bool:
        """Whether words are separated by spaces."""
        return self.code not in ("zh", "ja")

    @property
    def nouns_capitalised(self) -> bool:
        """Whether a capital inside a sentence only means that the word is a noun."""
        return self.code == "de"


def read_data(name: str) -> str:
    """The text of a data file of this package."""
    return resources.files(__package__ or "").joinpath(name).read_text(encoding="utf-8")


def load_data(name: str) -> dict[str, Any]:
    """A JSON file of this package."""
    return cast(dict[str, Any], json.loads(read_data(name)))


@cache
def languages() -> Mapping[str, Language]:
    """All languages with word lists, by ISO 639-1 code."""
    return {code: _language(code, lists) for code, lists in load_data("lexicon.json").items()}


def _language(code: str, lists: Mapping[str, Any]) -> Language:
    words: dict[str, Any] = {name: frozenset(lists[name].split()) for name in _WORD_LISTS}
    return Language(
        code=code,
        stemmer=lists["stemmer"],
        **words,
        months={month: number for number, month in enumerate(lists["months"].split(), start=1)},
        units={form: group.split()[0] for group in lists["units"].split(";") for form in group.split()},
        directions={
            word: (axis, end == 0)
            for axis, pair in enumerate(lists["directions"].split(";"))
            for end, group in enumerate(pair.split("/"))
            for word in group.split()
        },
        numbers=dict(entry.split("=") for entry in lists["numbers"].split()),
        magnitudes=lists["magnitudes"],
        half=lists["half"],
        minus="|".join(lists["minus"].split()),
        clock=lists["clock"],
    )


@cache
def language(code: str) -> Language:
    """The language with this code; without word lists it has at most a stemmer and some function words."""
    function = frozenset(_TELLTALES.get(code, "").split())
    return languages().get(code) or Language(code, stemmer=_STEMMERS.get(code), function=function)


@cache
def _function_words() -> Mapping[str, tuple[str, ...]]:
    owners: dict[str, list[str]] = {}
    for code, lists in languages().items():
        for word in lists.function | lists.negations:
            owners.setdefault(word, []).append(code)
    for code, words in _TELLTALES.items():
        for word in words.split():
            owners.setdefault(word, []).append(code)
    return {word: tuple(codes) for word, codes in owners.items()}


@cache
def _not_english() -> frozenset[str]:
    """The function words of other languages that are not English ones."""
    return frozenset(word for word, codes in _function_words().items() if "en" not in codes)


def guess_language(text: str) -> Language:
    """The language of normalised `text`: by script if that is enough, otherwise by its function words.

    English when neither decides.
    """
    head = text[:600]
    if not head.isascii():
        letters = len(_LETTER.findall(head))
        for script, code in _SCRIPTS:
            if len(script.findall(head)) * 4 > letters:
                return language(code)
    words = (_ASCII_WORD if head.isascii() else _WORD).findall(head.lower())[:_SAMPLE_WORDS]
    if _not_english().isdisjoint(words):  # no language can get more votes than English
        return language("en")
    votes: dict[str, float] = {"en": 0.0}
    for codes in filter(None, map(_function_words().get, words)):
        share = 1.0 / len(codes)
        for code in codes:
            votes[code] = votes.get(code, 0.0) + share
    best = max(votes, key=lambda code: (votes[code], code == "en"))
    return language(best if votes[best] > 1.2 * votes["en"] else "en")
