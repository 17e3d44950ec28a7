"""A few pairs that any entailment model must get right, checked before it judges anything."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from statistics import fmean

from ragstone.errors import ConfigError
from ragstone.judge.local.checker import WHERE, Checker, PairRating
from ragstone.judge.local.labels import Meaning
from ragstone.judge.protocol import JudgementFailed

MIN_GAP = 0.2
"""The least gap between the mean support of supported statements and of the others."""


@dataclass(frozen=True, slots=True)
class Pair:
    """`kind` is supported, contradicted or unrelated."""

    kind: str
    text: str
    statement: str


@cache
def pairs() -> dict[str, tuple[Pair, ...]]:
    """The pairs by language; all languages have about the same pairs."""
    document = json.loads(files(__package__).joinpath("selftest.json").read_text(encoding="utf-8"))
    return {code: tuple(Pair(*row) for row in rows) for code, rows in document.items()}


def require_sense(checker: Checker, language: str = "en") -> None:
    """Raise ConfigError, with the model's ratings, if `checker` can't tell the pairs of `language` apart.

    It must rate each supported statement above all others, with at least MIN_GAP between the means. If it has a label
    for contradiction, the mean of that must be highest for contradicted statements.
    """
    each = pairs()[language]
    try:
        ratings = [checker.rate(pair.text, pair.statement) for pair in each]
    except JudgementFailed as failure:
        raise _refused(checker, f"{failure.reason}.") from None
    wrong = _wrong(each, ratings, tells_contradiction=Meaning.CONTRADICTED in checker.labels)
    if wrong is not None:
        raise _refused(checker, wrong)


def _wrong(each: tuple[Pair, ...], ratings: list[PairRating], *, tells_contradiction: bool) -> str | None:
    """What is wrong with the ratings; None if nothing is."""
    rated = list(zip(each, ratings, strict=True))
    good = min((one for one in rated if one[0].kind == "supported"), key=lambda one: one[1].supported)
    bad = max((one for one in rated if one[0].kind != "supported"), key=lambda one: one[1].supported)
    if good[1].supported <= bad[1].supported:
        return (
            f"support of {good[1].supported:.2f} for {_shown(good[0])}, and of {bad[1].supported:.2f} for "
            f"{_shown(bad[0])}."
        )
    means = [
        fmean(rating.supported for pair, rating in rated if (pair.kind == "supported") is wanted)
        for wanted in (True, False)
    ]
    if means[0] - means[1] < MIN_GAP:
        return f"a mean support of {means[0]:.2f} for what is supported, and of {means[1]:.2f} for what is not."
    if not tells_contradiction:
        return None
    kinds = {
        kind: fmean(rating.contradicted for pair, rating in rated if pair.kind == kind)
        for kind in ("contradicted", "unrelated", "supported")
    }
    if kinds["contradicted"] > max(kinds["unrelated"], kinds["supported"]):
        return None
    each_kind = ", ".join(f"{mean:.2f} for what is {kind}" for kind, mean in kinds.items())
    return f"a mean contradiction of {each_kind}."


def _shown(pair: Pair) -> str:
    return f"'{pair.statement}' beside '{pair.text}' ({pair.kind})"


def _refused(checker: Checker, said: str) -> ConfigError:
    labels = ", ".join(checker.labels)
    on = "" if checker.device == "cpu" else f" on {checker.device}"
    return ConfigError(
        f"the model in '{checker.path}' does not tell obvious pairs apart{on}, with its labels taken as {labels}: "
        f"{said}",
        where=WHERE,
        hint="Check the order of judge.local.labels, and judge.local.template, or take a model trained for this.",
    )
