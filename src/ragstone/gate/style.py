"""How the style of answers changed between two runs: what judges react to, whatever an answer says.

LLM judges favour long answers (Zheng et al. 2023, "Judging LLM-as-a-Judge"; Dubois et al. 2024, "Length-Controlled
AlpacaEval"), lists and markup (Zhang et al. 2024, "From Lists to Emojis") and assurance, and mark down hedges (Lee et
al. 2024, "Are LLM-Judges Robust to Expressions of Uncertainty?").
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources

import numpy as np
from numpy.typing import NDArray

from ragstone.formatting import counted, listed, percent
from ragstone.gate.comparability import is_judged
from ragstone.gate.verdict import CHANGES, Action, Check, GateVerdict, Status
from ragstone.judge.offline.lexicon import guess_language, language
from ragstone.judge.offline.normal import normalise
from ragstone.metrics.registry import find_metric
from ragstone.run.scores import RunScores
from ragstone.stats.intervals import mean_interval

Style = Mapping[str, float]
"""``length`` is the logarithm of the number of characters; ``lists``, ``markup``, ``hedges`` and so on are 0 or 1."""

_MIN = {"length": math.log(1.15)}
_MIN_SHARE = 0.1
"""Smaller changes, of the length and of the share of answers that have something, are not spoken of."""
_READ = 20_000
_FARTHEST = math.log(20.0)
_LISTED = re.compile(r"^\s*(?:[-*+•‣・●–]|\(?\d{1,2}[.)、])\s*\S", re.MULTILINE)
_MARKUP = re.compile(r"^#{1,6} |\*\*\S|__\S|```|^\s*\|.*\|\s*$", re.MULTILINE)
_FAVOURED = {
    "length": "long answers",
    "lists": "lists",
    "markup": "markup",
    "hedges": "few hedges",
    "assurance": "assurance",
}


def style_of(text: str) -> Style:
    """The style of the beginning of `text`; without hedges and assurance in a language without lists of them."""
    text = text[:_READ]
    found = {
        "length": math.log(1 + sum(not one.isspace() for one in text)),
        "lists": float(len(_LISTED.findall(text)) > 1),
        "markup": float(_MARKUP.search(text) is not None),
    }
    words = _patterns().get(guess_language(normalise(text)).code, {})
    return found | {name: float(pattern.search(text.lower()) is not None) for name, pattern in words.items()}


@cache
def _patterns() -> dict[str, dict[str, re.Pattern[str]]]:
    """Patterns of hedges, and of assurance, praise and service, by language."""
    data = tomllib.loads(resources.files(__package__ or "").joinpath("style.toml").read_text(encoding="utf-8"))
    return {
        code: {name: re.compile(rf"\b(?:{one})\b" if language(code).spaced else one) for name, one in words.items()}
        for code, words in data.items()
    }


def style_shift(
    pairs: Sequence[tuple[Style, Style]], groups: NDArray[np.int64] | None = None
) -> dict[str, tuple[float, float]]:
    """The means before and now of what changed in the style of `pairs` (now, before), shown and large enough to matter.

    Shown: the 99 % interval of the paired difference, over `groups` if there are any, excludes 0, so that at 95 % no
    part of an unchanged style is named. The mean of a length is the geometric one, in characters.
    """
    found = {}
    for name in _FAVOURED:
        both = [name in now and name in then for now, then in pairs]
        sides = np.array([[one[name] for one in pair] for pair, has in zip(pairs, both, strict=True) if has])
        if len(sides) < 2:
            continue
        farthest = _FARTHEST if name == "length" else 1.0
        interval = mean_interval(
            np.clip(sides[:, 0] - sides[:, 1], -farthest, farthest),
            confidence=0.99,
            bounds=(-farthest, farthest),
            groups=None if groups is None else groups[np.array(both)],
        )
        if (interval.low > 0.0 or interval.high < 0.0) and abs(interval.estimate) >= _MIN.get(name, _MIN_SHARE):
            now, then = sides.mean(axis=0).tolist()
            found[name] = (math.exp(then), math.exp(now)) if name == "length" else (then, now)
    return found


def moved(verdict: GateVerdict, run: RunScores) -> list[Check]:
    """The checks of all samples that saw a change of a metric by which a judge rates answers."""
    return [
        one
        for one in verdict.checks
        if one.kind in CHANGES and one.slice is None and one.metric is not None and one.metric in run.metrics
        if is_judged(one.metric, run.metrics[one.metric].version)
        if (known := find_metric(one.metric)) is None or known.info.blames != "retrieval"
        if one.status is not Status.PASS or (one.interval and not one.interval.low <= 0.0 <= one.interval.high)
    ]


def decides(verdict: GateVerdict, checks: Sequence[Check]) -> bool:
    """Whether the verdict is what it is because of `checks` alone."""
    bad = [one for one in verdict.checks if one.action is Action.BLOCK and one.status is not Status.PASS]
    return bool(bad) and verdict.status is not Status.PASS and all(one in checks for one in bad)


def style_line(shift: Mapping[str, tuple[float, float]], checks: Sequence[Check], answers: int) -> str:
    """What changed in the style of so many `answers`, beside the metrics of `checks`, and what to do about it."""
    said = []
    for name, (then, now) in shift.items():
        if name == "length":
            said.append(f"{percent(round(abs(now / then - 1.0), 2))} {'longer' if now > then else 'shorter'}")
        else:
            said.append(f"{name} in {percent(round(now, 2))} instead of {percent(round(then, 2))}")
    return (
        f"The style changed where {listed(sorted({one.metric or '' for one in checks}))} did, and judges favour "
        f"{listed([_FAVOURED[name] for name in shift])}: check by people with ragstone label --where-sides-differ. "
        f"{counted(answers, 'other answer')}: {'; '.join(said)}."
    )
